"""Rules applied coordinate by coordinate, and exact order statistics, over vectors too long to copy or sort.

Task vectors stay where they are. A rule sees them in pieces: (T, n) for n ≤ ``CHUNK`` neighbouring coordinates of one
tensor. Beyond the task vectors and the result, memory is T times the largest tensor at most.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from lines_explorer.merging.checks import Tensors

CHUNK = 1 << 20
HALF = 1 << 16
SIGN = 0x7FFFFFFF

Rule = Callable[[Tensor], Tensor]
Prune = Callable[[int, str, Tensor], Tensor]


def by_coordinate(task_vectors: Sequence[Tensors], rule: Rule, prune: Prune | None = None) -> dict[str, Tensor]:
    """τ_MTL[i] = rule(τ₁[i] … τ_T[i]), piece by piece, in float32 and in new tensors.

    Args:
        task_vectors: τ₁…τ_T, the same names and shapes.
        rule: (T, n) float32 → (n,), any floating-point dtype.
        prune: (t counted from 0, tensor name, τₜ of that tensor in float32) → what takes its place, the same shape.
    """
    merged = {}
    for key, first in task_vectors[0].items():
        merged[key] = torch.empty(first.shape, dtype=torch.float32, device=first.device)
        whole = [vector[key].float() for vector in task_vectors]
        if prune:
            whole = [prune(t, key, tensor) for t, tensor in enumerate(whole)]
        for target, rows in zip(pieces(merged[key]), stacked(whole), strict=True):
            target.copy_(rule(rows))
    return merged


def pieces(tensor: Tensor) -> tuple[Tensor, ...]:
    """The flat tensor in pieces of at most ``CHUNK`` entries (views where the tensor is contiguous)."""
    return tensor.reshape(-1).split(CHUNK)


def stacked(tensors: Sequence[Tensor]) -> Iterator[Tensor]:
    """T tensors of one shape as (T, n) pieces, float32."""
    for parts in zip(*map(pieces, tensors), strict=True):
        yield torch.stack([part.float() for part in parts])


def total(rows: Tensor) -> Tensor:
    """Σₜ over (T, n), in float64: (n,)."""
    return rows.sum(dim=0, dtype=torch.float64)


def mean(rows: Tensor) -> Tensor:
    """(1/T) Σₜ over (T, n), in float64: (n,)."""
    return rows.mean(dim=0, dtype=torch.float64)


def kth_smallest(chunks: Callable[[], Iterable[Tensor]], rank: int) -> float:
    """The float32 value that would stand at index ``rank`` (from 0) if all chunks were sorted together. Exact.

    Args:
        chunks: gives the vector again at each call, in flat float32 pieces without nan.
        rank: from 0 up to the number of entries, exclusive.
    """
    return kth_smallest_of_each(lambda: ([chunk] for chunk in chunks()), [rank])[0]


def kth_smallest_of_each(chunks: Callable[[], Iterable[Sequence[Tensor]]], ranks: Sequence[int]) -> list[float]:
    """``kth_smallest`` for several vectors that come side by side, each with its own rank; 0 for one without entries.

    A radix select over the bit patterns: the floats' bits, as integers with the negative ones turned round, sort as
    the floats do. One pass counts the upper 16 bits, and a second the lower 16 of those entries that share the upper
    half of the answer. It needs a table of 65,536 counts per vector, and neither a copy nor a sort.
    """
    upper, lower = (torch.zeros(len(ranks), HALF, dtype=torch.int64) for _ in range(2))
    for row in chunks():
        for table, values in zip(upper, row, strict=True):
            table += _counts((_sortable(values) >> 16) + HALF // 2)
    highs, ranks = zip(*map(_bucket, upper, ranks), strict=True)
    for row in chunks():
        for table, values, high in zip(lower, row, highs, strict=True):
            keys = _sortable(values)
            table += _counts(keys[keys >> 16 == high - HALF // 2] & HALF - 1)
    lows, _ = zip(*map(_bucket, lower, ranks), strict=True)
    found = [_as_float((high - HALF // 2) * HALF + low) for high, low in zip(highs, lows, strict=True)]
    return [value if table.any() else 0.0 for value, table in zip(found, upper, strict=True)]


def _sortable(values: Tensor) -> Tensor:
    bits = values.contiguous().view(torch.int32)
    return bits ^ (bits >> 31 & SIGN)


def _as_float(key: int) -> float:
    bits = torch.tensor(key, dtype=torch.int32)
    return float((bits ^ (bits >> 31 & SIGN)).view(torch.float32))


def _counts(halves: Tensor) -> Tensor:
    return torch.bincount(halves, minlength=HALF).cpu()


def _bucket(counts: Tensor, rank: int) -> tuple[int, int]:
    """The bucket that holds the entry of that rank, and the entry's rank within the bucket; the first of none."""
    ends = counts.cumsum(0)
    bucket = int(torch.searchsorted(ends, rank, right=True)) if counts.any() else 0
    return bucket, rank - int(ends[bucket] - counts[bucket])
