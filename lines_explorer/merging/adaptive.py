"""AdaMerging, layer-wise (Yang et al., ICLR 2024): a coefficient per task and depth, and the entropy it minimises.

Pure functions; `build-suite adamerging` learns the coefficients on validation pictures, without their labels.  So the
accuracy on those pictures is no estimate of anything; the test split is untouched.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from lines_explorer.errors import ExplorerError
from lines_explorer.merging.arithmetic import sum_task_vectors
from lines_explorer.merging.checks import Tensors, require_finite, require_same_tensors

COEFFICIENTS = "layer-wise coefficients"


def adamerging_task_vectors(
    task_vectors: Sequence[Tensors], coefficients: Sequence[Mapping[str, Tensor]]
) -> dict[str, Tensor]:
    """AdaMerging: Σₜ λₜ⁽ˡ⁾ τₜ⁽ˡ⁾ with coefficients that were learned for exactly these experts.

    Args:
        task_vectors: τ₁…τ_T, the same names and shapes.
        coefficients: of each expert, tensor name → λₜ⁽ˡ⁾ () of the tensor's depth l; the authors' lie in 0 … 1.

    Raises:
        ExplorerError: no task vector or differing ones; a coefficient lacking, not a single number, or not finite.
    """
    merged = {key: torch.zeros_like(tensor) for key, tensor in sum_task_vectors(task_vectors).items()}
    if len(coefficients) != len(task_vectors):
        raise ExplorerError(
            f"AdaMerging needs the {COEFFICIENTS} of each of {len(task_vectors)} experts, but {len(coefficients)} are "
            "given; learn them in a suite with `build-suite adamerging`."
        )
    for number, (vector, weights) in enumerate(zip(task_vectors, coefficients, strict=True), start=1):
        for key, total in merged.items():
            if key not in weights or weights[key].numel() != 1:
                raise ExplorerError(f"Expert {number} has no single coefficient for tensor '{key}'; learn it first.")
            require_finite(key, [(f"the coefficient of expert {number}", weights[key])])
            total.add_(vector[key].float(), alpha=float(weights[key]))
    return merged


def layerwise_sum(
    task_vectors: Sequence[Tensors], coefficients: Tensor, position: Mapping[str, int]
) -> dict[str, Tensor]:
    """Σₜ λₜ⁽ˡ⁾ τₜ⁽ˡ⁾, differentiable in λ: a coefficient for every task and depth.

    Args:
        task_vectors: τ₁…τ_T, the same names and shapes.
        coefficients: λ (T, L + 2), float32; AdaMerging starts at 0.3. Columns are positions.
        position: tensor name → 0 before the blocks, 1…L in block l, L + 1 after the blocks (``Layout.position``).

    Raises:
        ExplorerError: task vectors that differ, a tensor without position, or coefficients of another shape.
    """
    for number, vector in enumerate(task_vectors[1:], start=2):
        require_same_tensors(task_vectors[0], vector, "task vector 1", f"task vector {number}")
    if missing := [key for key in task_vectors[0] if key not in position]:
        raise ExplorerError(f"Tensor '{missing[0]}' has no position in the model ({len(missing)} such in all).")
    columns = 1 + max(position[key] for key in task_vectors[0])
    if coefficients.dim() != 2 or len(coefficients) != len(task_vectors) or coefficients.shape[1] < columns:
        wanted = f"({len(task_vectors)}, at least {columns})"
        raise ExplorerError(f"The coefficients have shape {tuple(coefficients.shape)}; they must have {wanted}.")
    return {
        key: sum(
            weight * vector[key] for weight, vector in zip(coefficients[:, position[key]], task_vectors, strict=True)
        )
        for key in task_vectors[0]
    }


def mean_entropy(logits: Tensor) -> Tensor:
    """−(1/n) Σᵢ Σ_c p_c(xᵢ) log p_c(xᵢ) of logits (n, classes), in nats: what AdaMerging minimises, unlabelled."""
    log_p = torch.log_softmax(logits, dim=-1)
    return -(log_p.exp() * log_p).sum(dim=-1).mean()
