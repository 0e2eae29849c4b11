"""TALL masks and consensus (Wang et al., "Localizing Task Information for Improved Model Merging", ICML 2024)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from lines_explorer.errors import ExplorerError
from lines_explorer.merging.arithmetic import sum_task_vectors
from lines_explorer.merging.checks import Tensors, require_same_tensors
from lines_explorer.merging.coordinates import by_coordinate
from lines_explorer.merging.ties import ties_task_vectors


def tall_mask(task_vector: Tensors, merged: Tensors, threshold: float) -> dict[str, Tensor]:
    """mₜ = |τₜ| > λ·|τ_MTL − τₜ| as boolean tensors: where the merged vector still serves task t.

    Args:
        task_vector: τₜ.
        merged: τ_MTL, the same names and shapes.
        threshold: λ ≥ 0, chosen per task on validation among 0.2, 0.3 … 0.6.

    Raises:
        ExplorerError: names or shapes differ.
    """
    require_same_tensors(task_vector, merged, "the task vector", "the merged task vector")
    return {key: _uses(tau.double(), merged[key].double(), threshold) for key, tau in task_vector.items()}


def masked(merged: Tensors, mask: Tensors) -> dict[str, Tensor]:
    """mₜ ⊙ τ_MTL: what is added to θ₀ to evaluate task t by its TALL mask.

    Raises:
        ExplorerError: names or shapes differ.
    """
    if {key: tensor.shape for key, tensor in merged.items()} != {key: tensor.shape for key, tensor in mask.items()}:
        raise ExplorerError("The TALL mask and the merged task vector have other tensors; make the mask from it.")
    return {key: torch.where(mask[key], tensor, 0.0) for key, tensor in merged.items()}


def consensus_task_vectors(
    task_vectors: Sequence[Tensors], agree: int = 2, threshold: float = 0.4, merged: str = "sum", k: float = 20.0
) -> dict[str, Tensor]:
    """Consensus merging: τ_MTL where at least ``agree`` tasks' TALL masks use it, zero elsewhere.

    τ_MTL[i]·1{Σₜ mₜ[i] ≥ agree}, with mₜ = |τₜ| > λ·|τ_MTL − τₜ|. Where no coordinate is used by as many, the result
    is zero, which is the base.

    Args:
        task_vectors: τ₁…τ_T.
        agree: at least so many masks, 1 … T; 1 removes only what no task uses.
        threshold: λ, the same for every task. The paper chooses it per task on validation.
        merged: τ_MTL is the "sum", or the sum by "ties" (trimmed to k %).
        k: percentage that TIES keeps.

    Raises:
        ExplorerError: fewer than ``agree`` experts.
    """
    if agree > len(task_vectors):
        raise ExplorerError(
            f"Consensus keeps what {agree} experts use, but {len(task_vectors)} would be merged; "
            f"choose at least {agree} experts or a smaller agree."
        )
    whole = ties_task_vectors(task_vectors, k, "sum") if merged == "ties" else sum_task_vectors(task_vectors)

    def rule(rows: Tensor) -> Tensor:
        taus, tau = rows[:-1].double(), rows[-1].double()
        return torch.where(_uses(taus, tau, threshold).sum(dim=0) >= agree, tau, 0.0)

    return by_coordinate([*task_vectors, whole], rule)


def _uses(tau: Tensor, merged: Tensor, threshold: float) -> Tensor:
    return tau.abs() > threshold * (merged - tau).abs()
