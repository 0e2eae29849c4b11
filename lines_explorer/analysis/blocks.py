"""Task vectors block by block: how large they are, whether tasks pull in the same direction, which blocks matter.

Tensors come as numpy arrays by name, and ``position`` says where each sits: 0 before the blocks, 1…L in block l,
L + 1 after the blocks.  Results have L + 2 rows in that order.  Sums are taken in double precision, tensor by tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lines_explorer.analysis.paired import PairedDifference, paired_difference
from lines_explorer.errors import ExplorerError

Arrays = Mapping[str, np.ndarray]
CHUNK = 1 << 20  # coordinates of every task looked at together


def block_norms(task_vector: Arrays, position: Mapping[str, int], depth: int) -> np.ndarray:
    """‖τ⁽ˡ⁾‖₂ for every position, float64 (L + 2,); 0 where there are no tensors.

    Raises:
        ExplorerError: a tensor without a position between 0 and ``depth`` + 1.
    """
    return np.sqrt(_grams([task_vector], position, depth)[:, 0, 0])


def block_cosines(task_vectors: Sequence[Arrays], position: Mapping[str, int], depth: int) -> np.ndarray:
    """cos(τₛ⁽ˡ⁾, τₜ⁽ˡ⁾) for every position and two of T tasks, float64 (L + 2, T, T); nan beside a zero vector.

    Raises:
        ExplorerError: no task, different tensors, or a tensor without a position between 0 and ``depth`` + 1.
    """
    grams = _grams(task_vectors, position, depth)
    norms = np.sqrt(np.einsum("ltt->lt", grams))
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = grams / (norms[:, :, None] * norms[:, None, :])
    return np.clip(cosines, -1.0, 1.0)


def block_sign_conflicts(task_vectors: Sequence[Arrays], position: Mapping[str, int], depth: int) -> np.ndarray:
    """The share of coordinates on which two tasks' signs oppose, float64 (L + 2, T, T).

    Counted are the coordinates that neither task leaves unchanged; nan where there are none.

    Raises:
        ExplorerError: no task, different tensors, or a tensor without a position between 0 and ``depth`` + 1.
    """
    tasks = len(task_vectors)
    opposed, counted = np.zeros((2, depth + 2, tasks, tasks))
    for place, chunk in _chunks(task_vectors, position, depth, np.float32):  # exact: no more than 2²⁰ ones are summed
        signs = np.sign(chunk)
        moved = np.abs(signs) @ np.abs(signs).T
        counted[place] += moved
        opposed[place] += (moved - signs @ signs.T) / 2
    with np.errstate(invalid="ignore"):
        return opposed / counted


@dataclass(frozen=True)
class Knockout:
    """One block of a task vector scaled by s, from 1 down to 0, while all other tensors keep factor 1.

    Attributes:
        scales: s, falling, the first of them 1.
        differences: accuracy at each s minus that at s = 1, on the same images.
        lowest: the smallest s that costs nothing measurable, neither there nor at any larger s.
    """

    scales: tuple[float, ...]
    differences: tuple[PairedDifference, ...]
    lowest: float


def knockout(rows: Sequence[tuple[float, np.ndarray]]) -> Knockout:
    """How far a block can be scaled to 0 before accuracy drops: by more than the noise of the images (95 %, paired).

    Args:
        rows: (s, bool (n,): which images are answered rightly), s falling from 1.

    Raises:
        ExplorerError: no row, scales that do not fall from 1, or different numbers of images.
    """
    scales = tuple(scale for scale, _ in rows)
    if not scales or scales[0] != 1 or any(a <= b for a, b in zip(scales, scales[1:], strict=False)):
        raise ExplorerError(f"The scales of a block must fall from 1, each once, not {list(scales)}.")
    differences = tuple(paired_difference(rows[0][1], right) for _, right in rows)
    harmless = [difference.value >= 0 or difference.within_noise for difference in differences]
    count = harmless.index(False) if False in harmless else len(scales)
    return Knockout(scales, differences, scales[count - 1])


def _grams(task_vectors: Sequence[Arrays], position: Mapping[str, int], depth: int) -> np.ndarray:
    """Σ τₛ·τₜ over each position's coordinates, (L + 2, T, T)."""
    grams = np.zeros((depth + 2, len(task_vectors), len(task_vectors)))
    for place, chunk in _chunks(task_vectors, position, depth):
        grams[place] += chunk @ chunk.T
    return grams


def _chunks(
    task_vectors: Sequence[Arrays], position: Mapping[str, int], depth: int, dtype: type = np.float64
) -> Iterator[tuple[int, np.ndarray]]:
    """(position, (T, c)): the coordinates of every tensor, all tasks side by side."""
    if not task_vectors:
        raise ExplorerError("Choose at least one task: there is no task vector to look at.")
    shapes = [{name: np.shape(tensor) for name, tensor in vector.items()} for vector in task_vectors]
    if different := [name for shape in shapes for name in shape.keys() | shapes[0].keys()
                     if shape.get(name) != shapes[0].get(name)]:  # fmt: skip
        raise ExplorerError(f"The task vectors differ in tensor {min(different)}; they must have the same shapes.")
    for name in shapes[0]:
        place = position.get(name, -1)
        if not 0 <= place <= depth + 1:
            raise ExplorerError(f"Tensor {name} has no position between 0 and {depth + 1} among the blocks.")
        flat = [np.asarray(vector[name]).reshape(-1) for vector in task_vectors]
        for start in range(0, len(flat[0]), CHUNK):
            yield place, np.stack([row[start : start + CHUNK] for row in flat]).astype(dtype, copy=False)
