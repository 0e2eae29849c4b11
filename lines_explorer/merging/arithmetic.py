"""θ = θ₀ + λτ, where τ comes from, its sum and mean over tasks, and the norm ratio that sets α for any merge."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from lines_explorer.errors import ExplorerError
from lines_explorer.merging.checks import Tensors, require_finite, require_same_tensors


def task_vector(base: Tensors, expert: Tensors) -> dict[str, Tensor]:
    """τ = θₜ − θ₀ (Ilharco et al., "Editing Models with Task Arithmetic", ICLR 2023).

    Args:
        base: θ₀, tensor name → tensor of any dtype.
        expert: θₜ, the same names and shapes.

    Returns:
        float32 differences of the floating-point tensors; integer and boolean buffers have no place in it.

    Raises:
        ExplorerError: names or shapes differ, or a value is not finite.
    """
    require_same_tensors(base, expert, "the base", "the expert")
    difference = {}
    for key, weight in base.items():
        if weight.is_floating_point():
            start, end = weight.float(), expert[key].float()
            difference[key] = end - start
            if not torch.isfinite(difference[key]).all():
                require_finite(key, [("the base", start), ("the expert", end), ("the task vector", difference[key])])
    return difference


def apply(
    base: Tensors, task_vector: Tensors, factors: Mapping[str, float], expert: Tensors | None = None
) -> dict[str, Tensor]:
    """θ = θ₀ + λτ, each tensor with its own λ; new tensors, the base is never written.

    Computed in float32 (float64 where the base is), returned in the base's dtypes. End points are exact: factor 0
    gives the base's bits and, where ``expert`` is given, factor 1 the expert's. Integer and boolean buffers are copied
    from the base.

    Args:
        base: θ₀.
        task_vector: τ, one tensor for every floating-point tensor of the base.
        factors: λ for every tensor of τ; further names are allowed.
        expert: θₜ, for a τ that is exactly θₜ − θ₀.

    Raises:
        ExplorerError: names or shapes differ, a factor is missing, or a result is not finite in the base's dtype.
    """
    weights = {key: weight for key, weight in base.items() if weight.is_floating_point()}
    require_same_tensors(weights, task_vector, "the base", "the task vector")
    if expert is not None:
        require_same_tensors(base, expert, "the base", "the expert")
    if missing := sorted(weights.keys() - factors.keys()):
        raise ExplorerError(f"No factor is given for tensor '{missing[0]}' ({len(missing)} such in all).")
    merged = {}
    for key, weight in base.items():
        if key not in weights or factors[key] == 0:
            merged[key] = weight.clone()
        elif factors[key] == 1 and expert is not None:
            merged[key] = expert[key].to(weight.dtype, copy=True)
        else:
            wide = torch.promote_types(weight.dtype, torch.float32)
            merged[key] = torch.add(weight.to(wide), task_vector[key].to(wide), alpha=factors[key]).to(weight.dtype)
        if key in weights:
            require_finite(key, [(f"the merged model (factor {factors[key]:g}, {weight.dtype})", merged[key])])
    return merged


def sum_task_vectors(task_vectors: Sequence[Tensors]) -> dict[str, Tensor]:
    """Σₜ τₜ in float32.

    Raises:
        ExplorerError: no task vector, or their names or shapes differ.
    """
    if not task_vectors:
        raise ExplorerError("There is nothing to merge: give at least one task vector.")
    first = task_vectors[0]
    for number, other in enumerate(task_vectors[1:], start=2):
        require_same_tensors(first, other, "task vector 1", f"task vector {number}")
    total = {key: torch.zeros_like(tensor, dtype=torch.float32) for key, tensor in first.items()}
    for tau in task_vectors:
        for key, tensor in tau.items():
            total[key] += tensor
    return total


def average_task_vectors(task_vectors: Sequence[Tensors]) -> dict[str, Tensor]:
    """(1/T) Σₜ τₜ in float32. Raises as ``sum_task_vectors``."""
    return {key: total / len(task_vectors) for key, total in sum_task_vectors(task_vectors).items()}


def norm_ratio(task_vectors: Sequence[Tensors], merged: Tensors) -> float:
    """The α of multi-task LiNeS: (1/T)·‖Σₜ τₜ‖₁ / ‖τ_MTL‖₁ over whole vectors, so 1/T for a plain sum.

    The norms are accumulated in float64, and their quotient is rounded to six significant digits: a method's last
    digits depend on the number of threads, and results are kept under the α that made them.

    Raises:
        ExplorerError: names or shapes differ, a value is not finite, or the merged task vector is zero.
    """
    total = sum_task_vectors(task_vectors)
    require_same_tensors(total, merged, "the task vectors", "the merged task vector")
    norm = _l1_norm(merged, "the merged task vector")
    if norm == 0:
        raise ExplorerError("The merged task vector is zero, so alpha has no norm ratio; set alpha by hand.")
    quotient = _l1_norm(total, "the sum of the task vectors") / norm
    return float(f"{quotient:.6g}") / len(task_vectors)


def _l1_norm(tensors: Tensors, whose: str) -> float:
    norm = 0.0
    for key, tensor in tensors.items():
        require_finite(key, [(whose, tensor)])
        norm += float(tensor.abs().sum(dtype=torch.float64))
    return norm
