"""Experts: the base fine-tuned on one task, its text head frozen; one recipe for all tasks."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lines_explorer.training.augment import normalised, random_light, random_views


@dataclass(frozen=True)
class Recipe:
    """The fine-tuning recipe: AdamW on every weight of the image tower, linear warm-up, cosine to zero, clip 1.0."""

    steps: int = 600
    batch: int = 128
    rate: float = 4.5e-4
    warmup: int = 20
    decay: float = 0.1
    clip: float = 1.0
    seed: int = 0

    def rate_at(self, step: int) -> float:
        """Learning rate of a step in [0, steps)."""
        return self.rate * min(1, (step + 1) / self.warmup) * 0.5 * (1 + math.cos(math.pi * step / self.steps))


def fine_tune(
    visual: nn.Module, head: Tensor, pixels: np.ndarray, labels: np.ndarray, recipe: Recipe, checkpoint: Path
) -> dict[str, float]:
    """Fine-tune an image tower in place; returns the last mean loss, the seconds and the images seen.

    ``head``: (classes, D), already times exp(logit_scale), frozen.  ``pixels``: uint8 (n, 32, 32, 3); ``labels``:
    (n,).  An interrupted run continues from ``checkpoint``, which is removed when the run is complete.  Raises
    ``FloatingPointError`` when the loss stops being finite.
    """
    groups = [
        {"params": [p for p in visual.parameters() if p.ndim >= 2], "weight_decay": recipe.decay},
        {"params": [p for p in visual.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=recipe.rate, fused=True)
    first = _restore(checkpoint, visual, optimizer, recipe)
    targets = torch.from_numpy(np.asarray(labels)).long()
    visual.train()
    started, losses = time.time(), []
    for step in range(first, recipe.steps):
        rng = np.random.default_rng((recipe.seed, step))
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate_at(step)
        rows = rng.choice(len(targets), min(recipe.batch, len(targets)), replace=False)
        x = random_light(random_views(normalised(pixels[rows]), rng), rng)
        loss = F.cross_entropy(F.normalize(visual(x), dim=-1) @ head.T, targets[rows])
        if not torch.isfinite(loss):
            raise FloatingPointError(f"loss is {loss.item()} at step {step}: lower the learning rate")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(visual.parameters(), recipe.clip)
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % 100 == 0 and step + 1 < recipe.steps:
            _save(checkpoint, visual, optimizer, recipe, step + 1)
    visual.eval()
    checkpoint.unlink(missing_ok=True)
    seen = recipe.steps * recipe.batch
    return {"loss": float(np.mean(losses[-50:])), "seconds": time.time() - started, "images": seen}


def _save(path: Path, visual: nn.Module, optimizer: torch.optim.Optimizer, recipe: Recipe, step: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    state = {"visual": visual.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "recipe": asdict(recipe)}
    torch.save(state, partial)
    os.replace(partial, path)


def _restore(path: Path, visual: nn.Module, optimizer: torch.optim.Optimizer, recipe: Recipe) -> int:
    """The step to go on from; a checkpoint of another recipe is ignored."""
    if not path.is_file():
        return 0
    state = torch.load(path, weights_only=True)
    if state["recipe"] != asdict(recipe):
        return 0
    visual.load_state_dict(state["visual"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


@torch.inference_mode()
def accuracy(visual: nn.Module, head: Tensor, pixels: np.ndarray, labels: np.ndarray, batch: int = 512) -> float:
    """Share of pictures (n, 32, 32, 3) uint8 whose largest logit is their label's, in float32."""
    visual.eval()
    right = 0
    for first in range(0, len(labels), batch):
        features = F.normalize(visual(normalised(pixels[first : first + batch])), dim=-1)
        right += int(((features @ head.T).argmax(1) == torch.from_numpy(labels[first : first + batch])).sum())
    return right / max(1, len(labels))


def relative_norm(base: Mapping[str, Tensor], expert: Mapping[str, Tensor]) -> float:
    """‖θₜ − θ₀‖₂ / ‖θ₀‖₂ over all float tensors."""
    moved = sum(float((expert[key] - base[key]).double().square().sum()) for key in base)
    return math.sqrt(moved / sum(float(tensor.double().square().sum()) for tensor in base.values()))
