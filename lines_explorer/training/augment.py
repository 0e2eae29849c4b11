"""Random views of 32×32 pictures, the same for pre-training and fine-tuning."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from scipy import ndimage
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


def drawn_parts(pictures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ground colour (n, 1, 1, 3) and coverage (n, H, W, 1) in [0, 1] of pictures (n, H, W, 3) uint8 on a flat ground.

    The ground is the median colour of the outermost pixels; what differs from it by a quarter of the range is drawn.
    """
    x = pictures.astype(np.float32)
    border = np.concatenate([x[:, 0], x[:, -1], x[:, :, 0], x[:, :, -1]], 1)
    ground = np.median(border, 1)[:, None, None]
    return ground, (np.abs(x - ground).max(-1, keepdims=True) / 64).clip(0, 1)


def restyled(pictures: np.ndarray, rng: np.random.Generator, shapes: float = 0.15, grounds: float = 0.2) -> np.ndarray:
    """Drawings (n, H, W, 3) uint8, a share of them in another style: what a thing is does not hang on how it is drawn.

    ``shapes``: share reduced to filled silhouettes, three of four white on black, the others black on white.
    ``grounds``: share put on another ground, dark under light drawings and light under dark ones; half of these in
    greys.
    """
    styled, draw = pictures.copy(), rng.random(len(pictures))
    ground, covered = drawn_parts(pictures)
    for index in np.flatnonzero(draw < shapes):
        filled = ndimage.binary_fill_holes(covered[index, ..., 0] > 0.5)[..., None]
        styled[index] = np.where(filled, *((255, 0) if rng.random() < 0.75 else (0, 255)))
    for index in np.flatnonzero((draw >= shapes) & (draw < shapes + grounds)):
        light = (pictures[index] * covered[index]).sum() > 100 * 3 * covered[index].sum()
        other = rng.uniform(0, 120, 3) if light else rng.uniform(180, 255, 3)
        other = other if rng.random() < 0.5 else np.full(3, 0 if light else 255)
        picture = pictures[index] + (1 - covered[index]) * (other - ground[index])
        picture = picture if rng.random() < 0.5 else picture.mean(-1, keepdims=True).repeat(3, -1)
        styled[index] = picture.clip(0, 255).astype(np.uint8)
    return styled
