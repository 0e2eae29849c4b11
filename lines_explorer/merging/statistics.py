"""Merging weighed by statistics of each expert's training images: Fisher and RegMean.

Pure functions of the task vectors and the statistics, which have to be measured beforehand.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from lines_explorer.errors import ExplorerError
from lines_explorer.merging.arithmetic import sum_task_vectors
from lines_explorer.merging.checks import Tensors, require_finite
from lines_explorer.merging.coordinates import stacked

FISHER = "diagonal Fisher information"
GRAM = "Gram matrix of the inputs"


def fisher_task_vectors(task_vectors: Sequence[Tensors], fishers: Sequence[Tensors]) -> dict[str, Tensor]:
    """Fisher merging (Matena and Raffel, NeurIPS 2022): Σₜ Fₜ ⊙ τₜ / Σₜ Fₜ.

    Equal to the merge of the weights themselves, as the experts share θ₀. Where all Fₜ are 0 it is the mean, the limit
    of equal weights.

    Args:
        task_vectors: τ₁…τ_T, the same names and shapes.
        fishers: Fₜ ≥ 0, the diagonal of each expert's Fisher information: the mean over images of the squared gradient
            of the log-likelihood, one tensor for every tensor of τₜ, of the same shape.

    Raises:
        ExplorerError: no task vector or differing ones; a statistic lacking, of another shape, negative or not finite.
    """
    merged = sum_task_vectors(task_vectors)
    _require(fishers, len(task_vectors), FISHER, {key: tuple(tensor.shape) for key, tensor in merged.items()})
    for number, fisher in enumerate(fishers, start=1):
        if negative := [key for key in merged if (fisher[key] < 0).any()]:
            raise ExplorerError(f"The {FISHER} of expert {number} has negative entries for tensor '{negative[0]}'.")
    for key, total in merged.items():
        taus, weights = (stacked([one[key] for one in many]) for many in (task_vectors, fishers))
        merged[key] = torch.cat([_weighed(*both) for both in zip(taus, weights, strict=True)]).view(total.shape)
    return merged


def _weighed(rows: Tensor, fisher: Tensor) -> Tensor:
    fisher = torch.where(fisher.sum(dim=0) > 0, fisher, 1.0).double()
    return ((fisher * rows).sum(dim=0) / fisher.sum(dim=0)).float()


def regmean_task_vectors(
    task_vectors: Sequence[Tensors], grams: Sequence[Mapping[str, Tensor]], scale: float = 0.9
) -> dict[str, Tensor]:
    """RegMean (Jin et al., ICLR 2023): of each linear layer the weights that best predict every expert's outputs.

    W = (Σₜ Gₜ)⁻¹ Σₜ Gₜ Wₜ with Gₜ = XₜᵀXₜ, whose off-diagonal entries are multiplied by ``scale``; here for weights
    (outputs, inputs), W being the transpose, and for τ instead of W, which is the same. Directions of the inputs that
    occur in no task, on which the equation is silent, take the mean, and so do all other tensors.

    Args:
        task_vectors: τ₁…τ_T, the same names and shapes.
        grams: Gₜ of each expert: name of a linear layer's weight (m, n) → (n, n). The same layers for every expert.
        scale: 0 to 1.

    Raises:
        ExplorerError: no task vector or differing ones; a statistic lacking, of another shape or not finite.
    """
    total = sum_task_vectors(task_vectors)
    merged = {key: tensor / len(task_vectors) for key, tensor in total.items()}
    if not any(grams):
        raise ExplorerError(f"RegMean needs the {GRAM} of every expert's linear layers; measure it first.")
    layers = sorted({key for gram in grams for key in gram})
    if foreign := [key for key in layers if key not in merged or merged[key].dim() != 2]:
        raise ExplorerError(f"There is a {GRAM} for '{foreign[0]}', which is no matrix of the task vectors.")
    _require(grams, len(task_vectors), GRAM, {key: (merged[key].shape[1],) * 2 for key in layers})
    for key in layers:
        mean = merged[key]
        inputs = [_shrunk(gram[key].double(), scale) for gram in grams]
        moved = sum((vector[key] - mean).double() @ gram for vector, gram in zip(task_vectors, inputs, strict=True))
        merged[key] = (mean + moved @ torch.linalg.pinv(sum(inputs), hermitian=True)).float()
    return merged


def _shrunk(gram: Tensor, scale: float) -> Tensor:
    return scale * gram + (1 - scale) * torch.diag(gram.diagonal())


def _require(statistics: Sequence[Tensors], experts: int, what: str, shapes: Mapping[str, Sequence[int]]) -> None:
    """Refuse statistics that are lacking for an expert or tensor of ``shapes``, of another shape, or not finite."""
    if len(statistics) != experts:
        raise ExplorerError(
            f"This merge needs the {what} of each of {experts} experts, but {len(statistics)} are given; "
            "measure it on training images first."
        )
    for number, statistic in enumerate(statistics, start=1):
        for key, shape in shapes.items():
            if key not in statistic:
                raise ExplorerError(f"Expert {number} has no {what} for tensor '{key}'; measure it first.")
            if (found := tuple(statistic[key].shape)) != tuple(shape):
                raise ExplorerError(f"The {what} of expert {number} is {found}, not {shape}, for tensor '{key}'.")
            require_finite(key, [(f"the {what} of expert {number}", statistic[key])])
