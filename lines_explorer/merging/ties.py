"""Magnitude trimming and TIES: keep the largest entries, agree on a sign, merge those that agree."""

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from lines_explorer.merging.checks import Tensors
from lines_explorer.merging.coordinates import Prune, Rule, by_coordinate, kth_smallest, pieces, total


def trim_task_vectors(task_vectors: Sequence[Tensors], k: float = 20.0, reference: bool = False) -> dict[str, Tensor]:
    """Σₜ trim(τₜ): of each task vector the k % largest magnitudes over the whole vector, the rest zero.

    k = 100 is the plain sum, k = 0 zero. ``reference`` is explained at ``magnitude_floor``.
    """
    return by_coordinate(task_vectors, total, trimmed(task_vectors, k, reference))


def ties_task_vectors(
    task_vectors: Sequence[Tensors], k: float = 20.0, combine: str = "mean", reference: bool = False
) -> dict[str, Tensor]:
    """TIES (Yadav et al., NeurIPS 2023): trim to the k % largest magnitudes, elect signs, merge what agrees.

    γ[i] = sign(Σₜ τ̂ₜ[i]) for the trimmed τ̂ₜ, A[i] = {t : sign(τ̂ₜ[i]) = γ[i] ≠ 0}, and
    τ_MTL[i] = Σ_{t∈A[i]} τ̂ₜ[i], divided by |A[i]| for ``combine`` = "mean".

    Args:
        task_vectors: τ₁…τ_T.
        k: percentage kept, 0 to 100.
        combine: "mean" or "sum" of the entries that agree.
        reference: do as the authors' code does. The percentage counts all tensors (see ``magnitude_floor``), and
            where the trimmed entries cancel exactly, the sign that most coordinates have is elected. Otherwise nothing
            is elected there, and the merged entry is 0.
    """
    prune = trimmed(task_vectors, k, reference)
    undecided = majority_sign(task_vectors, prune) if reference else 0.0
    return by_coordinate(task_vectors, agreement(combine, undecided), prune)


def trimmed(task_vectors: Sequence[Tensors], k: float, reference: bool = False) -> Prune:
    """Sets to zero the entries of τₜ below its ``magnitude_floor``."""
    floors = [magnitude_floor(vector, k, reference) for vector in task_vectors]
    return lambda t, key, tau: torch.where(tau.abs() >= floors[t], tau, 0.0)


def magnitude_floor(task_vector: Tensors, k: float, reference: bool = False) -> float:
    """The smallest magnitude among the k % largest of the whole vector; infinite where none is kept.

    Of n entries, k·n/100 rounded to the nearest are kept, and with the last of them all that equal it: the choice
    among equals would be arbitrary. Tensors that are zero throughout (a frozen tower) are not counted in n.
    ``reference`` counts as the authors' code does: all tensors, and ⌊k·n/100⌋ + 1 entries.
    """
    tensors = [tensor for tensor in task_vector.values() if reference or tensor.any()]
    n = sum(tensor.numel() for tensor in tensors)
    kept = min(n, math.floor(n * k / 100) + 1) if reference else math.floor(n * k / 100 + 0.5)
    if not kept:
        return math.inf
    return kth_smallest(lambda: (piece.float().abs() for tensor in tensors for piece in pieces(tensor)), n - kept)


def agreement(combine: str, undecided: float = 0.0) -> Rule:
    """The sign election of TIES and the mean or sum of the entries that agree; ``undecided`` is the sign of a tie."""
    return partial(_agreement, divide=combine == "mean", undecided=undecided)


def _agreement(rows: Tensor, divide: bool, undecided: float) -> Tensor:
    elected = total(rows).sign()
    elected[elected == 0] = undecided
    agrees = rows.sign() * elected.float() > 0
    merged = total(torch.where(agrees, rows, 0.0))
    return merged / agrees.sum(dim=0).clamp(min=1) if divide else merged


def majority_sign(task_vectors: Sequence[Tensors], prune: Prune) -> float:
    """The sign that most coordinates of the pruned sum have: +1, −1, or 0 when neither leads."""
    signs = by_coordinate(task_vectors, lambda rows: total(rows).sign(), prune)
    return float(sum(tensor.sum(dtype=torch.float64) for tensor in signs.values()).sign())
