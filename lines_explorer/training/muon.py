"""Muon (Jordan et al., 2024) for the pre-training's matrices, in float32.

The momentum of each matrix is replaced by its nearest half-orthogonal matrix (five Newton–Schulz steps) before it
is subtracted, scaled to the size of an AdamW step as in "Muon is Scalable for LLM Training" (Liu et al., 2025).
``torch.optim.Muon`` does the same in bfloat16, which costs seconds per step on CPUs without bfloat16 units; here
matrices of one shape go through the iteration together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.775, 2.0315)


def orthogonalised(matrices: Tensor, steps: int = 5) -> Tensor:
    """Approximately U·Vᵀ of each matrix U·S·Vᵀ in a batch (b, rows, columns); singular values land in 0.7…1.2."""
    a, b, c = COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + torch.baddbmm(b * gram, gram, gram, alpha=c) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """For 2-D parameters only. ``lr`` and ``weight_decay`` (decoupled) as for AdamW; ``momentum`` is Nesterov's."""

    def __init__(self, params: Iterable[Tensor], lr: float, weight_decay: float = 0.0, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # noqa: D102 (torch's)
        for group in self.param_groups:
            shapes = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes[parameter.shape].append(parameter)
            for shape, parameters in shapes.items():
                self._update(shape, parameters, group)

    def _update(self, shape: torch.Size, parameters: list[Tensor], group: dict) -> None:
        grads = [parameter.grad for parameter in parameters]
        buffers = [self.state[p].setdefault("momentum", torch.zeros_like(p)) for p in parameters]
        torch._foreach_lerp_(buffers, grads, 1 - group["momentum"])
        ahead = torch._foreach_lerp(grads, buffers, group["momentum"])
        size = 0.2 * max(shape) ** 0.5
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(parameters, list(orthogonalised(torch.stack(ahead))), alpha=-group["lr"] * size)
