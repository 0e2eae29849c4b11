"""Random views of 32×32 pictures, the same for pre-training and fine-tuning."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def normalised(pictures: np.ndarray | Tensor) -> Tensor:
    """uint8 pictures (n, H, W, 3) → float32 (n, 3, H, W) in [−1, 1], as the base expects them (mean 0.5, std 0.5)."""
    return torch.as_tensor(pictures).permute(0, 3, 1, 2).float().div_(127.5).sub_(1)


def random_views(
    x: Tensor, rng: np.random.Generator, degrees: float = 8, scale: float = 0.15, shift: float = 0.1
) -> Tensor:
    """One random rotation, scale and shift per picture (n, 3, H, W).

    ``degrees``: largest turn; ``scale``: largest relative change of size; ``shift``: largest shift, 1 = half a side.
    """
    n = len(x)
    turn = rng.uniform(-degrees, degrees, n) * np.pi / 180
    size = rng.uniform(1 - scale, 1 + scale, n)
    affine = np.stack([np.cos(turn) * size, -np.sin(turn) * size, np.sin(turn) * size, np.cos(turn) * size], 1)
    theta = np.concatenate([affine.reshape(n, 2, 2), rng.uniform(-shift, shift, (n, 2, 1))], 2)
    grid = F.affine_grid(torch.from_numpy(theta).float(), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, padding_mode="border", align_corners=False)


def random_light(x: Tensor, rng: np.random.Generator, strength: float = 0.2, noise: float = 0.04) -> Tensor:
    """Random contrast, brightness and pixel noise per picture (n, 3, H, W) in [−1, 1]."""
    n = len(x)
    gain = torch.from_numpy(rng.uniform(1 - strength, 1 + strength, (n, 1, 1, 1))).float()
    offset = torch.from_numpy(rng.uniform(-strength, strength, (n, 3, 1, 1))).float()
    level = torch.from_numpy(rng.uniform(0, noise, (n, 1, 1, 1))).float()
    grain = torch.from_numpy(rng.standard_normal(x.shape, dtype=np.float32))
    return (x * gain + offset + level * grain).clamp_(-1, 1)
