"""Merging what is left after dropping entries: at random (DARE), by random rank (DELLA), or at both ends (breadcrumbs).

Random numbers come from generators of their own, one for each (seed, task, tensor): an expert loses the same entries
whoever it is merged with, in whatever order, on whatever device.
"""

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from lines_explorer.errors import ExplorerError
from lines_explorer.merging.checks import Tensors
from lines_explorer.merging.coordinates import Prune, by_coordinate, kth_smallest, pieces, total
from lines_explorer.merging.ties import agreement


def dare_task_vectors(
    task_vectors: Sequence[Tensors], p: float = 0.5, seed: int = 0, tasks: Sequence[str] | None = None
) -> dict[str, Tensor]:
    """DARE (Yu et al., ICML 2024) on the sum: Σₜ mₜ ⊙ τₜ / (1 − p), mₜ[i] ~ Bernoulli(1 − p).

    Args:
        task_vectors: τ₁…τ_T.
        p: share dropped, 0 ≤ p < 1. p = 0 is the sum; p → 1 has no limit.
        seed: of the random numbers, which also depend on the task's and the tensor's name.
        tasks: the experts' names; their numbers 1…T where none are given.
    """
    return by_coordinate(task_vectors, total, dropped(p, seed, _names(task_vectors, tasks)))


def dare_ties_task_vectors(
    task_vectors: Sequence[Tensors], p: float = 0.5, seed: int = 0, tasks: Sequence[str] | None = None
) -> dict[str, Tensor]:
    """DARE, then TIES' sign election and the mean of the entries that agree (not trimmed). Arguments as for the sum."""
    return by_coordinate(task_vectors, agreement("mean"), dropped(p, seed, _names(task_vectors, tasks)))


def della_task_vectors(
    task_vectors: Sequence[Tensors],
    p: float = 0.5,
    epsilon: float = 0.2,
    seed: int = 0,
    tasks: Sequence[str] | None = None,
) -> dict[str, Tensor]:
    """DELLA (Deep et al., 2024): drop small entries more often than large ones, elect signs, mean of what agrees.

    In a row of n entries (the weights of one output; a whole vector), the entry of rank r by falling magnitude,
    r = 0 … n − 1, is dropped with probability pᵣ = (p − ε/2) + ε·r/n, and otherwise divided by 1 − pᵣ. Equal
    magnitudes are ranked in their order. Then signs are elected and entries averaged as in TIES.

    Args:
        task_vectors: τ₁…τ_T.
        p: mean probability of a drop.
        epsilon: ε, by how much the probability differs between the largest and the smallest; 0 is DARE with TIES.
        seed: of the random numbers, which also depend on the task's and the tensor's name.
        tasks: the experts' names; their numbers 1…T where none are given.

    Raises:
        ExplorerError: p ± ε/2 leaves the range from 0 to 1.
    """
    if p < epsilon / 2 or p + epsilon / 2 > 1:
        raise ExplorerError(f"DELLA's p ± epsilon/2 must lie between 0 and 1; choose epsilon at most {_widest(p):g}.")
    names = _names(task_vectors, tasks)

    def prune(t: int, key: str, tau: Tensor) -> Tensor:
        rows = tau.flatten(1) if tau.dim() > 1 else tau.reshape(1, -1)
        drop = p - epsilon / 2 + epsilon * _falling_ranks(rows.abs()) / rows.shape[1]
        kept = uniform(rows.shape, seed, names[t], key).to(tau.device) >= drop
        return torch.where(kept, rows / (1 - drop), 0.0).view(tau.shape)

    return by_coordinate(task_vectors, agreement("mean"), prune)


def breadcrumbs_task_vectors(
    task_vectors: Sequence[Tensors], smallest: float = 85.0, largest: float = 0.7
) -> dict[str, Tensor]:
    """Model breadcrumbs (Davari and Belilovsky, ECCV 2024): Σₜ mₜ ⊙ τₜ, the masks dropping both tails per tensor.

    Of a tensor's n entries the ⌊β·n⌋ of smallest and the ⌊γ·n⌋ of largest magnitude are set to zero. Entries that
    equal the last one kept at either end are kept. A tensor of which nothing is left is zero.

    Args:
        task_vectors: τ₁…τ_T.
        smallest: β in percent, the small entries dropped.
        largest: γ in percent, the outliers dropped.

    Raises:
        ExplorerError: the two together are more than 100 %.
    """
    if smallest + largest > 100:
        raise ExplorerError(
            f"Breadcrumbs would drop {smallest:g} % of the smallest and {largest:g} % of the largest entries; "
            "choose shares that together are at most 100 %."
        )

    def prune(t: int, key: str, tau: Tensor) -> Tensor:
        n, size = tau.numel(), tau.abs()
        below, above = math.floor(n * smallest / 100), math.floor(n * largest / 100)
        if below + above >= n:
            return torch.zeros_like(tau)
        low, high = (kth_smallest(lambda: pieces(size), rank) for rank in (below, n - 1 - above))
        return torch.where((size >= low) & (size <= high), tau, 0.0)

    return by_coordinate(task_vectors, total, prune)


def dropped(p: float, seed: int, names: Sequence[str]) -> Prune:
    """DARE's drop and rescale: zero with probability p, otherwise τ / (1 − p)."""
    if not 0 <= p < 1:
        raise ExplorerError(f"A drop rate of {p:g} leaves nothing to rescale by 1/(1 − p); choose p from 0 to below 1.")

    def prune(t: int, key: str, tau: Tensor) -> Tensor:
        kept = uniform(tau.shape, seed, names[t], key).to(tau.device) >= p
        return torch.where(kept, tau / (1 - p), 0.0)

    return prune


def uniform(shape: Sequence[int], seed: int, task: str, key: str) -> Tensor:
    """Random numbers in [0, 1) that depend on the three names of their seed alone; drawn on the CPU."""
    digest = hashlib.sha256(f"{seed}\0{task}\0{key}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8]) >> 1)
    return torch.rand(tuple(shape), generator=generator)


def _falling_ranks(size: Tensor) -> Tensor:
    """(rows, n) → the rank of each entry within its row, 0 for the largest, as float32."""
    order = size.argsort(dim=1, descending=True, stable=True)
    ranks = torch.arange(size.shape[1], dtype=torch.float32, device=size.device).expand_as(order)
    return torch.empty_like(size).scatter_(1, order, ranks)


def _widest(p: float) -> float:
    return 2 * min(p, 1 - p)


def _names(task_vectors: Sequence[Tensors], tasks: Sequence[str] | None) -> Sequence[str]:
    return tasks or [str(number) for number in range(1, len(task_vectors) + 1)]
