"""Pre-training of the embedded suite's base: a small open_clip image tower that has seen every domain unlabelled.

Three losses, summed over the groups of a batch (``corpus.py``):

* *teacher*: a linear read-out of the feature must find its own picture's EfficientNet-lite0 vector among those of
  the group's other pictures in the batch (cross entropy, plus twice the cosine distance);
* *caption*: the unit feature must find its own caption's frozen MiniLM vector among all glyph captions, the
  batch's captions and random icon captions (cross entropy; near-synonyms of the right caption do not count);
* *names*: over the 1,000 ImageNet class names it must follow the teacher's probabilities.

No task label is used.  Checkpoints carry everything that is needed to go on, and what a step draws depends on the
seed and the step alone, so an interrupted run continues exactly.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lines_explorer.training.augment import normalised, random_light, random_views, restyled
from lines_explorer.training.corpus import NAMELESS, TEACHER, Corpus, Group
from lines_explorer.training.muon import Muon

ARCHITECTURE = "lines-vit-s8-32"

CONFIG = {
    "embed_dim": 256,
    "vision_cfg": {"image_size": 32, "layers": 12, "width": 128, "head_width": 32, "patch_size": 8, "mlp_ratio": 4.0},
    "text_cfg": {"context_length": 1, "vocab_size": 1, "width": 32, "heads": 1, "layers": 1},
    "preprocess_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]},
}
"""The open_clip configuration. Its text tower is the smallest there is and unused: text vectors are frozen."""


@dataclass(frozen=True)
class Plan:
    """How long and how to pre-train.

    ``cycles``: steps of each cosine of the learning rate, one after the other (warm restarts).  ``icons``,
    ``glyphs``: pictures of a batch from the captioned groups, the rest is halved between two domains drawn at random;
    ``negatives``: random captions each picture is held against; ``synonym``: cosine from which another caption counts
    as the same; ``muon``: Muon for the blocks' matrices, else AdamW for everything.
    """

    cycles: tuple[int, ...] = (3600, 5400)
    batch: int = 256
    icons: int = 104
    glyphs: int = 32
    rate: float = 1.5e-3
    warmup: int = 200
    decay: float = 0.05
    negatives: int = 2048
    synonym: float = 0.9
    names_weight: float = 0.3
    muon: bool = True
    seed: int = 0

    @property
    def steps(self) -> int:
        """Steps of all cycles."""
        return sum(self.cycles)

    def rate_at(self, step: int) -> float:
        """Learning rate of a step: in each cycle a linear warm-up under a cosine to zero."""
        for cycle in self.cycles:
            if step < cycle:
                return self.rate * min(1, (step + 1) / self.warmup) * 0.5 * (1 + math.cos(math.pi * step / cycle))
            step -= cycle
        raise ValueError(f"step {step} after the last of the cycles {self.cycles}")


class Student(nn.Module):
    """The image tower, one linear read-out of the teacher per group, and the scale of the logits."""

    def __init__(self, groups: list[str]) -> None:
        super().__init__()
        from open_clip.transformer import VisionTransformer

        vision = CONFIG["vision_cfg"]
        self.visual = VisionTransformer(
            image_size=vision["image_size"],
            patch_size=vision["patch_size"],
            width=vision["width"],
            layers=vision["layers"],
            heads=vision["width"] // vision["head_width"],
            mlp_ratio=vision["mlp_ratio"],
            output_dim=CONFIG["embed_dim"],
        )
        self.readouts = nn.ModuleDict({name: nn.Linear(CONFIG["embed_dim"], TEACHER) for name in groups})
        self.logit_scale = nn.Parameter(torch.tensor(math.log(20.0)))

    def scale(self) -> Tensor:
        """exp(logit_scale), at most 60."""
        return self.logit_scale.exp().clamp(max=60)


def teacher_loss(features: Tensor, target: Tensor, readout: nn.Module) -> Tensor:
    """In-batch match of read-outs (n, T) to unit teacher vectors (n, T), plus twice their cosine distance."""
    guess = F.normalize(readout(features), dim=-1)
    match = F.cross_entropy(12 * guess @ target.T, torch.arange(len(target)))
    return match + 2 * (1 - (guess * target).sum(-1).mean())


def caption_loss(unit: Tensor, own: Tensor, candidates: Tensor, scale: Tensor, synonym: float) -> Tensor:
    """Cross entropy of unit features (n, D) against their own caption (n, D) among candidates (m, D)."""
    right = scale * (unit * own).sum(-1, keepdim=True)
    others = scale * unit @ candidates.T
    others = others.masked_fill(own @ candidates.T > synonym, float("-inf"))
    return (torch.logsumexp(torch.cat([right, others], 1), 1) - right.squeeze(1)).mean()


def names_loss(unit: Tensor, logits: Tensor, names: Tensor, scale: Tensor) -> Tensor:
    """Cross entropy from the teacher's ImageNet probabilities (n, 1000) to the feature's over the names (1000, D)."""
    return -(logits.float().softmax(1) * (scale * unit @ names.T).log_softmax(1)).sum(1).mean()


def optimizers(student: Student, plan: Plan) -> list[torch.optim.Optimizer]:
    """Muon for the blocks' matrices; AdamW for the rest, without decay for vectors."""
    named = list(student.named_parameters())
    blocks = [p for name, p in named if p.ndim == 2 and ".resblocks." in name]
    matrices = [p for name, p in named if p.ndim >= 2 and ".resblocks." not in name]
    vectors = [p for _, p in named if p.ndim < 2]
    rest = [{"params": matrices, "weight_decay": plan.decay}, {"params": vectors, "weight_decay": 0.0}]
    if not plan.muon:
        rest[0]["params"] = matrices + blocks
        return [torch.optim.AdamW(rest, lr=plan.rate, betas=(0.9, 0.98), fused=True)]
    adamw = torch.optim.AdamW(rest, lr=plan.rate, betas=(0.9, 0.98), fused=True)
    return [adamw, Muon(blocks, lr=plan.rate, weight_decay=plan.decay)]


class Pretraining:
    """The state of one run: student, optimiser, step; ``run`` goes on until the plan's last step."""

    def __init__(self, corpus: Corpus, plan: Plan, folder: Path) -> None:
        self.corpus, self.plan, self.folder = corpus, plan, folder
        self.domains = [name for name in corpus.groups if name not in ("icons", "glyphs")]
        torch.manual_seed(plan.seed)
        self.student = Student(list(corpus.groups))
        self.optimizers = optimizers(self.student, plan)
        self.step = 0

    def draw(self, rng: np.random.Generator) -> list[tuple[Group, np.ndarray]]:
        """The groups of this step's batch and which of their pictures."""
        plan = self.plan
        rest = (plan.batch - plan.icons - plan.glyphs) // 2
        first, second = rng.choice(self.domains, 2, replace=False)
        sizes = [("icons", plan.icons), ("glyphs", plan.glyphs), (str(first), rest), (str(second), rest)]
        groups = [(self.corpus.groups[name], size) for name, size in sizes]
        return [(group, rng.choice(len(group.pixels), size, replace=False)) for group, size in groups]

    def losses(self, rng: np.random.Generator) -> dict[str, Tensor]:
        """The step's losses by name; a captioned group's ``caption`` loss counts by its share of the batch."""
        plan, corpus = self.plan, self.corpus
        parts = self.draw(rng)
        shown = [group.pixels[rows] for group, rows in parts]
        shown[0] = restyled(shown[0], rng)
        pictures = normalised(np.concatenate(shown))
        features = self.student.visual(random_light(random_views(pictures, rng), rng))
        text = corpus.captions[rng.integers(2)]
        pool = text[np.concatenate([corpus.glyph_rows, rng.integers(0, len(text), plan.negatives)])]
        losses: dict[str, Tensor] = defaultdict(lambda: torch.zeros(()))
        for (group, rows), part in zip(parts, features.split([len(rows) for _, rows in parts]), strict=True):
            share = len(rows) / plan.batch
            unit, scale = F.normalize(part, dim=-1), self.student.scale()
            losses["teacher"] += share * teacher_loss(part, group.teacher[rows], self.student.readouts[group.name])
            if group.captions is not None:
                own = text[group.captions[rows]]
                losses["caption"] += share * caption_loss(unit, own, pool, scale, plan.synonym)
            if group.name not in NAMELESS:
                losses["names"] += share * names_loss(unit, group.logits[rows], corpus.names, scale)
        return losses

    def run(self, report: int = 100, save: int = 500) -> Path:
        """Train to the end from wherever the folder's checkpoint stands; returns the checkpoint's path."""
        self.restore()
        self.student.train()
        sums, started, first = defaultdict(float), time.time(), self.step
        while self.step < self.plan.steps:
            rng = np.random.default_rng((self.plan.seed, self.step))
            for group in (group for optimizer in self.optimizers for group in optimizer.param_groups):
                group["lr"] = self.plan.rate_at(self.step)
            losses = self.losses(rng)
            total = losses["teacher"] + losses["caption"] + self.plan.names_weight * losses["names"]
            self.student.zero_grad(set_to_none=True)
            total.backward()
            torch.nn.utils.clip_grad_norm_(self.student.parameters(), 1.0)
            for optimizer in self.optimizers:
                optimizer.step()
            self.step += 1
            for name, value in losses.items():
                sums[name] += value.item()
            if self.step % report == 0:
                speed = (self.step - first) * self.plan.batch / (time.time() - started)
                self.log(
                    {"step": self.step, **{k: round(v / report, 4) for k, v in sums.items()}, "images/s": round(speed)}
                )
                sums.clear()
            if self.step % save == 0 or self.step == self.plan.steps:
                self.save()
        return self.folder / "checkpoint.pt"

    def log(self, row: dict[str, float]) -> None:
        """Append a row to ``log.jsonl`` and show it."""
        print(json.dumps(row), flush=True)
        with open(self.folder / "log.jsonl", "a") as stream:
            stream.write(json.dumps(row) + "\n")

    def save(self) -> None:
        """Write the checkpoint beside the old one and put it in its place."""
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.folder / "checkpoint.partial"
        state = {"student": self.student.state_dict(), "optimizers": [o.state_dict() for o in self.optimizers]}
        torch.save({**state, "step": self.step, "plan": asdict(self.plan)}, partial)
        os.replace(partial, self.folder / "checkpoint.pt")

    def restore(self) -> None:
        """Continue from the folder's checkpoint if there is one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "checkpoint.pt"
        if path.is_file():
            state = torch.load(path, weights_only=True)
            self.student.load_state_dict(state["student"])
            for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(saved)
            self.step = state["step"]
