"""τ_MTL = g(τ₁ … τ_T): the merge methods, one row each, and the norm ratio that sets α for any of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lines_explorer.errors import ExplorerError
from lines_explorer.merging.checks import Tensors, require_finite, require_same_tensors

TENTHS = tuple(tenth / 10 for tenth in range(1, 11))


@dataclass(frozen=True)
class Method:
    """One way to merge task vectors.

    Attributes:
        name: key in ``METHODS`` and in recipes.
        title: what the user is shown.
        summary: one sentence.
        source: where it was published.
        merge: the task vectors τ₁…τ_T (T ≥ 1, same names and shapes) → τ_MTL in float32, new tensors.
        grid: the numbers the protocol tries, as β with LiNeS and as a constant λ without.
        coefficient: what a constant λ multiplies.
    """

    name: str
    title: str
    summary: str
    source: str
    merge: Callable[[Sequence[Tensors]], dict[str, Tensor]]
    grid: tuple[float, ...]
    coefficient: str


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

    The norms are accumulated in float64.

    Raises:
        ExplorerError: names or shapes differ, a value is not finite, or the merged task vector is zero.
    """
    total = sum_task_vectors(task_vectors)
    require_same_tensors(total, merged, "the task vectors", "the merged task vector")
    norm = _l1_norm(merged, "the merged task vector")
    if norm == 0:
        raise ExplorerError("The merged task vector is zero, so alpha has no norm ratio; set alpha by hand.")
    return _l1_norm(total, "the sum of the task vectors") / norm / len(task_vectors)


def _l1_norm(tensors: Tensors, whose: str) -> float:
    norm = 0.0
    for key, tensor in tensors.items():
        require_finite(key, [(whose, tensor)])
        norm += float(tensor.abs().sum(dtype=torch.float64))
    return norm


_ROWS = (
    Method(
        name="sum",
        title="Task arithmetic (sum)",
        summary="Adds the task vectors.",
        source="Ilharco et al., Editing Models with Task Arithmetic, ICLR 2023, arXiv 2212.04089",
        merge=sum_task_vectors,
        grid=TENTHS,
        coefficient="the sum of the task vectors",
    ),
    Method(
        name="average",
        title="Average",
        summary="Takes the mean of the task vectors; factor 1 is the average of the experts' weights.",
        source="Wortsman et al., Model soups, ICML 2022, arXiv 2203.05482",
        merge=average_task_vectors,
        grid=TENTHS,
        coefficient="the mean of the task vectors",
    ),
)
METHODS: dict[str, Method] = {method.name: method for method in _ROWS}
