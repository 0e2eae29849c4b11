"""PCB-Merging: parameters compete within their task and between tasks."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lines_explorer.merging.checks import Tensors
from lines_explorer.merging.coordinates import by_coordinate, kth_smallest_of_each, stacked

OUTLIERS = 1e-4
LEAST = 1e-12

Transform = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class _Range:
    """Bounds per task, (T, 1)."""

    low: Tensor
    high: Tensor

    def clamp(self, rows: Tensor) -> Tensor:
        return torch.minimum(torch.maximum(rows, self.low), self.high)

    def unit(self, rows: Tensor) -> Tensor:
        """Clamped and mapped to 0 … 1; 0 where the range is a single value."""
        width = self.high - self.low
        return torch.where(width > 0, (self.clamp(rows) - self.low) / width, 0.0)


def pcb_task_vectors(task_vectors: Sequence[Tensors], r: float = 10.0, reference: bool = False) -> dict[str, Tensor]:
    """PCB-Merging (Du et al., "Parameter Competition Balancing", NeurIPS 2024), as in the authors' code.

    The magnitudes of each task, cut at their 0.01 % and 99.99 % points, are mapped to 0 … 1: |τ|ₜ. With
    intra = exp(T·|τ|ₜ²) and inter = tanh(τₜ ⊙ Σₛ τₛ), the score of an entry is intra ⊙ inter. Of each task, scores
    below the r % largest count 0 and the largest 1, linearly between: wₜ. τ_MTL = Σₜ wₜ ⊙ τₜ / Σₜ wₜ with the cut τₜ,
    and 0 where all wₜ are 0.

    Args:
        task_vectors: τ₁…τ_T.
        r: percentage of entries that compete, per task; r = 0 leaves none and is zero.
        reference: count all tensors, as the authors do, instead of those that are not zero throughout in that task.
    """
    live = [{key: reference or bool(tensor.any()) for key, tensor in vector.items()} for vector in task_vectors]
    counts = [sum(tensor.numel() for key, tensor in v.items() if live[t][key]) for t, v in enumerate(task_vectors)]
    device = next(iter(task_vectors[0].values())).device

    def column(transform: Transform, ranks: Sequence[int]) -> Tensor:
        """For each task the value of that rank among its transformed entries, (T, 1); 0 where it has none."""
        found = kth_smallest_of_each(lambda: _rows(task_vectors, live, transform), ranks)
        return torch.tensor(found, device=device)[:, None]

    magnitude = _Range(
        column(torch.abs, [int(n * OUTLIERS) for n in counts]),
        column(torch.abs, [max(0, int(n * (1 - OUTLIERS) - 1)) for n in counts]),
    )

    def score(rows: Tensor) -> Tensor:
        intra = torch.exp(len(rows) * magnitude.unit(rows.abs()) ** 2)
        return intra * torch.tanh(rows * rows.sum(dim=0))

    lowest = [max(0, min(n - 1, math.floor(n * (1 - r / 100) + 1e-9))) for n in counts]
    competing = _Range(column(score, lowest), column(score, [n - 1 for n in counts]))

    def rule(rows: Tensor) -> Tensor:
        weights = competing.unit(score(rows)).double()
        cut = rows.sign() * magnitude.clamp(rows.abs())
        return (weights * cut).sum(dim=0) / weights.sum(dim=0).clamp(min=LEAST)

    return by_coordinate(task_vectors, rule)


def _rows(task_vectors: Sequence[Tensors], live: Sequence[dict[str, bool]], transform: Transform) -> Iterator[list]:
    """The transformed pieces as T rows, each empty where its task does not count the tensor."""
    for key in task_vectors[0]:
        for rows in stacked([vector[key] for vector in task_vectors]):
            yield [row if live[t][key] else row[:0] for t, row in enumerate(transform(rows))]
