"""Merging by angles between task vectors: model stock and SLERP, tensor by tensor."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from lines_explorer.errors import ExplorerError
from lines_explorer.merging.checks import Tensors
from lines_explorer.merging.coordinates import stacked

NEARLY_PARALLEL = 1e-4  # radians


def stock_task_vectors(task_vectors: Sequence[Tensors]) -> dict[str, Tensor]:
    """Model stock (Jang et al., ECCV 2024): per tensor t·mean(τ), t = T·cos θ / (1 + (T − 1)·cos θ).

    cos θ is the mean cosine over the pairs of experts, at least 0: experts that point apart have the base as their
    centre. Equal experts keep t = 1. A zero tensor has cosine 0 with any other. T ≥ 2.
    """
    merged = {}
    for key, first in task_vectors[0].items():
        tensors = [vector[key] for vector in task_vectors]
        number = len(tensors)
        cosine = float(_cosines(tensors).triu(1).sum()) / (number * (number - 1) / 2)
        cosine = min(max(cosine, 0.0), 1.0)
        ratio = number * cosine / (1 + (number - 1) * cosine)
        merged[key] = _weighted(tensors, [ratio / number] * number).view(first.shape)
    return merged


def slerp_task_vectors(task_vectors: Sequence[Tensors], t: float = 0.5) -> dict[str, Tensor]:
    """SLERP (Shoemake, SIGGRAPH 1985; on task vectors Ramé et al., WARP, 2024) of two experts, tensor by tensor.

    sin((1 − t)Ω)/sin Ω · τ₁ + sin(tΩ)/sin Ω · τ₂, Ω the angle between the two tensors' τ. Where there is no arc (less
    than 10⁻⁴ rad, a zero tensor, a single number) it is the straight line (1 − t)·τ₁ + t·τ₂, the limit of the former.

    Args:
        task_vectors: τ₁ and τ₂.
        t: from 0 (the first expert) to 1 (the second; a recipe keeps its tasks in alphabetical order).

    Raises:
        ExplorerError: a tensor of the two is antiparallel, so that every arc is as good as another.
    """
    merged = {}
    for key, first in task_vectors[0].items():
        tensors = [vector[key] for vector in task_vectors]
        angle = math.acos(min(max(float(_cosines(tensors)[0, 1]), -1.0), 1.0))
        straight = first.numel() == 1 or not all(tensor.any() for tensor in tensors)
        if not straight and math.pi - angle < NEARLY_PARALLEL:
            raise ExplorerError(
                f"The two experts are opposite in tensor '{key}', so there is no shortest arc: use sum."
            )
        if straight or angle < NEARLY_PARALLEL:
            weights = [1 - t, t]
        else:
            weights = [math.sin((1 - t) * angle) / math.sin(angle), math.sin(t * angle) / math.sin(angle)]
        merged[key] = _weighted(tensors, weights).view(first.shape)
    return merged


def _cosines(tensors: Sequence[Tensor]) -> Tensor:
    """The cosines between T tensors, (T, T) float64; 0 where one of the two is zero."""
    gram = sum((rows := piece.double()) @ rows.T for piece in stacked(tensors))
    norms = gram.diagonal().sqrt()
    lengths = torch.outer(norms, norms)
    return torch.where(lengths > 0, gram / lengths, 0.0)


def _weighted(tensors: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """Σₜ wₜ·τₜ of one tensor, flat, added in float64 and given in float32."""
    factors = torch.tensor(weights, dtype=torch.float64, device=tensors[0].device)
    return torch.cat([(factors @ rows.double()).float() for rows in stacked(tensors)])
