"""``build-suite statistics``: what Fisher merging and RegMean need, measured once per expert on training pictures.

Of each expert, on at most ``Plan.pictures`` training pictures of its task drawn with a seed:

* the diagonal Fisher information, the mean over pictures of (∂ log p(y | x) / ∂θₜ)², where y is drawn from the expert's
  own p(y | x) = softmax(feature · headᵀ) (Matena and Raffel, NeurIPS 2022);
* of every linear layer in the blocks the Gram matrix XᵀX / n of its n inputs, one for each token of each picture (Jin
  et al., ICLR 2023; divided by n, so that a task with fewer pictures counts as much).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lines_explorer.checkpoints import metadata
from lines_explorer.engine.forward import Tower
from lines_explorer.errors import ExplorerError
from lines_explorer.suites import Suite
from lines_explorer.suites.images import decode
from lines_explorer.suites.sources import HeldOut, Labels, Source, open_source
from lines_explorer.suites.statistics import write_statistics
from lines_explorer.suites.suite import VISUAL
from lines_explorer.training import assemble

FOLDER = "statistics"
BLOCK = "transformer.resblocks.{}."


@dataclass(frozen=True)
class Plan:
    """How many pictures of each task are looked at, and the seed that draws them and the labels."""

    pictures: int = 1024
    seed: int = 0
    batch: int = 128


@dataclass(frozen=True)
class Rows:
    """Some rows of a source, ascending."""

    whole: Source
    rows: Sequence[int]

    def digest(self) -> str:
        """Not kept anywhere: these pictures are decoded once and forgotten."""
        raise NotImplementedError

    def names(self) -> tuple[str, ...]:
        """As the whole source's."""
        return self.whole.names()

    def labels(self) -> Labels:
        """Class numbers or names of the rows."""
        labels = self.whole.labels()
        return [labels[row] for row in self.rows]

    def pictures(self, rows: Sequence[int]) -> Iterator[tuple[str, bytes | None]]:
        """(name, encoded bytes) of the given ones of the rows."""
        return self.whole.pictures([self.rows[row] for row in rows])


def measure(suite: Suite, task: str, images: Tensor, plan: Plan) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(Fisher information by tensor name, Gram matrices by name of the linear layer's weight), float32.

    ``images``: uint8 (n, 3, H, W), training pictures of the task.

    Raises:
        ExplorerError: no picture, or a tower whose linear layers are not known.
    """
    if not len(images):
        raise ExplorerError(f"There is no training picture of {task} to measure its expert on.")
    model = suite.build_model()
    expert = suite.expert(task)
    model.visual.load_state_dict({key.removeprefix(VISUAL): tensor for key, tensor in expert.items()}, strict=False)
    mean, std = (torch.tensor(x).view(1, 3, 1, 1) * 255 for x in suite.normalisation())
    pixels = (images.float() - mean) / std
    return fisher(model.visual, suite.head(task), pixels, plan.seed), grams(model, pixels, plan.batch)


def fisher(visual: nn.Module, head: Tensor, pixels: Tensor, seed: int) -> dict[str, Tensor]:
    """The diagonal Fisher information of an image tower with a frozen head (classes, D), on pixels (n, 3, H, W).

    One label per picture is drawn from p(y | x); the mean over n of the squared gradients is unbiased.
    """
    parameters = {VISUAL + name: tensor.requires_grad_(True) for name, tensor in visual.named_parameters()}
    sums = {name: torch.zeros_like(tensor) for name, tensor in parameters.items()}
    generator = torch.Generator().manual_seed(seed)
    for row in range(len(pixels)):
        log_p = (F.normalize(visual(pixels[row : row + 1]), dim=-1) @ head.T).log_softmax(dim=-1)[0]
        label = torch.multinomial(log_p.detach().exp(), 1, generator=generator)
        gradients = torch.autograd.grad(log_p[label].sum(), list(parameters.values()), allow_unused=True)
        for total, gradient in zip(sums.values(), gradients, strict=True):
            if gradient is not None:
                total.addcmul_(gradient, gradient)
    return {name: total / len(pixels) for name, total in sums.items()}


@torch.inference_mode()
def grams(model: nn.Module, pixels: Tensor, batch: int = 128) -> dict[str, Tensor]:
    """XᵀX / n of the inputs of each linear layer in the blocks: ``in_proj``, ``out_proj``, ``c_fc`` and ``c_proj``.

    Raises:
        ExplorerError: the tower is not open_clip's ``VisionTransformer``, whose blocks these are.
    """
    tower = Tower(model)
    if not tower.steps:
        raise ExplorerError("Gram matrices are measured on open_clip's vision transformers alone; this tower is none.")
    sums: dict[str, Tensor] = {}
    inputs = 0
    for part in pixels.split(batch):
        x = tower.embed(part).activations
        inputs += x.shape[0] * x.shape[1]
        for number, block in enumerate(model.visual.transformer.resblocks):
            for name, found in linear_inputs(block, x).items():
                rows = found.reshape(-1, found.shape[-1]).double()
                key = VISUAL + BLOCK.format(number) + name
                sums[key] = sums.get(key, 0) + rows.T @ rows
            x = block(x)
    return {key: (total / inputs).float() for key, total in sums.items()}


def linear_inputs(block: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Weight name → inputs (b, tokens, n) of a block's four linear layers for its input x (b, tokens, width)."""
    attention, width = block.attn, x.shape[-1]
    normed = block.ln_1(x)
    parts = F.linear(normed, attention.in_proj_weight, attention.in_proj_bias).split(width, dim=-1)
    q, k, v = (part.unflatten(-1, (attention.num_heads, -1)).transpose(1, 2) for part in parts)
    mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    middle = block.ln_2(x + block.ls_1(attention.out_proj(mixed)))
    return {
        "attn.in_proj_weight": normed,
        "attn.out_proj.weight": mixed,
        "mlp.c_fc.weight": middle,
        "mlp.c_proj.weight": block.mlp.gelu(block.mlp.c_fc(middle)),
    }


def training_pictures(suite: Suite, task: str, plan: Plan) -> Tensor:
    """At most ``plan.pictures`` training pictures uint8 (n, 3, H, W) of a task, drawn with the plan's seed.

    From the ``train`` split that suite.yaml names, without what is held out of it for validation, or else from the
    embedded task of the same name and classes.

    Raises:
        ExplorerError: neither is there.
    """
    row, rng = suite.tasks[task], np.random.default_rng(plan.seed)
    if row.train is not None:
        whole = open_source(row.train)
        held = set(HeldOut(whole).rows) if getattr(row.splits.get("validation"), "held_out", False) else set()
        rows = [number for number in range(len(whole.labels())) if number not in held]
        chosen = sorted(rng.permutation(rows)[: plan.pictures].tolist())
        return torch.from_numpy(decode(Rows(whole, chosen), row, suite.image_size)[0])
    from lines_explorer.training import data

    embedded = data.task(task) if task in data.TASKS else None
    if embedded is None or tuple(embedded.classes) != row.classes or embedded.size != suite.image_size:
        raise ExplorerError(
            f"suite.yaml names no training pictures of {task}: give its task a split `train`, or make the suite with "
            "`build-suite own`, which measures as it trains."
        )
    return chosen_pictures(data.split_of(embedded, "train")[0], plan)


def chosen_pictures(pixels: np.ndarray, plan: Plan) -> Tensor:
    """At most ``plan.pictures`` of uint8 (n, H, W, 3), drawn with the plan's seed, as uint8 (n, 3, H, W)."""
    rows = np.sort(np.random.default_rng(plan.seed).permutation(len(pixels))[: plan.pictures])
    return torch.from_numpy(np.ascontiguousarray(np.asarray(pixels)[rows])).permute(0, 3, 1, 2).contiguous()


def build_statistics(folder: Path, tasks: Sequence[str] | None = None, plan: Plan | None = None) -> None:
    """Measure the experts of the suite in ``folder`` that were not measured as they are now, and name the files in
    suite.yaml and in the manifest, if there is one.

    Raises:
        ExplorerError: an unknown task, or what ``training_pictures`` and ``measure`` refuse.
    """
    plan = plan or Plan()
    if plan.pictures < 1:
        raise ExplorerError(f"--pictures is {plan.pictures}: give a whole number above 0.")
    suite = Suite(folder)
    wanted = list(suite.experts) if tasks is None else list(tasks)
    if unknown := [task for task in wanted if task not in suite.experts]:
        raise ExplorerError(f"Suite {suite.name} has no expert {unknown[0]}; it has {', '.join(suite.experts)}.")
    for task in wanted:
        write_task(suite, task, lambda task=task: training_pictures(suite, task, plan), plan)
    finish(folder)


def write_task(suite: Suite, task: str, pictures: Callable[[], Tensor], plan: Plan) -> bool:
    """Measure one expert on ``pictures()`` and write its file; False where it was there, made in the same way."""
    facts = {"base_sha256": suite.base_sha256, "expert_sha256": suite.expert_sha256(task)}
    facts |= {name: str(value) for name, value in asdict(plan).items()}
    path = suite.folder / FOLDER / f"{task}.safetensors"
    if path.is_file() and facts.items() <= metadata(path).items():
        return False
    images = pictures()
    write_statistics(path, *measure(suite, task, images, plan), facts | {"measured_on": str(len(images))})
    print(f"{task}: {len(images)} training pictures, {path.stat().st_size / 1e6:.2f} MB", flush=True)
    return True


def finish(folder: Path) -> None:
    """Name the statistics that are there in suite.yaml (its other lines stay as they are) and in the manifest."""
    suite = Suite(folder)
    found = {task: path for task in suite.experts if (path := folder / FOLDER / f"{task}.safetensors").is_file()}
    found = {task: path.resolve() for task, path in {**suite.statistics, **found}.items()}
    lines = "".join(f"  {task}: {os.path.relpath(path, folder.resolve())}\n" for task, path in found.items())
    file = folder / "suite.yaml"
    kept = re.sub(r"^statistics:.*\n(?:[ \t].*\n|\n)*", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if found:
        assemble.write_text(file, f"{kept.rstrip()}\nstatistics:\n{lines}")
    if (folder / assemble.MANIFEST).is_file():
        assemble.write_manifest(folder)
    if set(Suite(folder).statistics) != set(found):
        raise ExplorerError(f"{file} could not be completed; write `statistics:` with a line per task into it.")
