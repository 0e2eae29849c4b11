"""``build-suite adamerging``: what layer-wise AdaMerging (Yang et al., ICLR 2024) learns for one set of experts.

θ(λ) = θ₀ + Σₜ λₜ⁽ˡ⁾ τₜ⁽ˡ⁾ for depth l = 0 (before the blocks), 1 … L, L + 1 (after them).  From λ = 0.3 everywhere,
Adam (rate 1e-3, no decay) lessens Σₜ Hₜ, where Hₜ is the mean entropy of θ(λ)'s predictions on a fresh draw of task t's
validation pictures, whose labels are never read.  As in the authors' code, λ is clamped to 0 … 1 where it is used, and
there are 500 steps.  Theirs differs in this: a coefficient for every tensor, not for every depth; the *test* pictures
as the unlabelled ones; two draws of 16 pictures a step, not one.

What is learned has seen the validation pictures: validation accuracy of the merge is no fair estimate, test is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import yaml
from torch import Tensor

from lines_explorer.errors import ExplorerError
from lines_explorer.layers import layout_of
from lines_explorer.merging.adaptive import layerwise_sum, mean_entropy
from lines_explorer.suites import Suite
from lines_explorer.suites.fingerprint import without_key
from lines_explorer.suites.suite import VISUAL
from lines_explorer.training import assemble

FOLDER, KEY = "coefficients", "coefficients"
VALIDATION = "validation"
DECIMALS = 6
Report = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How coefficients are learned: Adam's steps and rate, pictures of each task a step, λ at the start, the seed."""

    steps: int = 500
    rate: float = 1e-3
    batch: int = 16
    start: float = 0.3
    seed: int = 0
    save_every: int = 25


class Learner:
    """The merged model as a function of its coefficients, on the validation pictures of the merged tasks."""

    def __init__(self, suite: Suite, tasks: Sequence[str], plan: Plan) -> None:
        self.tasks, self.plan = tuple(tasks), plan
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.visual = suite.build_model().visual.eval().requires_grad_(False).to(self.device)
        base = suite.visual_base()
        layout = layout_of(base)
        self.position, self.columns = layout.position, layout.depth + 2
        self.vectors = [self._placed(suite.task_vector(task)) for task in tasks]
        self.base = self._placed({key: base[key] for key in self.vectors[0]})
        self.heads = [suite.head(task).to(self.device) for task in tasks]
        self.images = [suite.images(task, VALIDATION)[0] for task in tasks]
        mean, std = (torch.tensor(x, device=self.device).view(1, 3, 1, 1) * 255 for x in suite.normalisation())
        self.mean, self.std = mean, std

    def weights(self, coefficients: Tensor) -> dict[str, Tensor]:
        """θ(λ) of the image tower for λ (T, L + 2), names without ``visual.``; differentiable in λ."""
        added = layerwise_sum(self.vectors, coefficients, self.position)
        return {key.removeprefix(VISUAL): self.base[key] + tensor for key, tensor in added.items()}

    def features(self, weights: Mapping[str, Tensor], images: Tensor) -> Tensor:
        """Unit features (b, D) of uint8 images (b, 3, H, W)."""
        pixels = (images.to(self.device).float() - self.mean) / self.std
        return F.normalize(torch.func.functional_call(self.visual, dict(weights), (pixels,)), dim=-1)

    def rows(self, number: int, step: int) -> np.ndarray:
        """The rows of the ``number``-th task's pictures that a step sees: the same beside whatever other tasks."""
        count = len(self.images[number])
        rng = np.random.default_rng((self.plan.seed, step, zlib.crc32(self.tasks[number].encode())))
        return rng.choice(count, min(self.plan.batch, count), replace=False)

    def loss(self, coefficients: Tensor, step: int) -> Tensor:
        """Σₜ of the mean entropy, in nats, of the predictions on the step's pictures of task t."""
        batches = [images[self.rows(number, step)] for number, images in enumerate(self.images)]
        features = self.features(self.weights(coefficients), torch.cat(batches))
        parts = features.split([len(batch) for batch in batches])
        return sum(mean_entropy(part @ head.T) for part, head in zip(parts, self.heads, strict=True))

    @torch.no_grad()
    def entropies(self, coefficients: Tensor, batch: int = 256) -> dict[str, float]:
        """Mean entropy in nats of the predictions on all validation pictures of each task, and their ``mean``."""
        weights, found = self.weights(coefficients.to(self.device)), {}
        for task, images, head in zip(self.tasks, self.images, self.heads, strict=True):
            features = torch.cat([self.features(weights, part) for part in images.split(batch)])
            found[task] = float(mean_entropy(features @ head.T))
        return found | {"mean": float(np.mean(list(found.values())))}

    def learn(self, checkpoint: Path, made: Mapping[str, Any], report: Report) -> tuple[Tensor, list[list[float]]]:
        """(λ (T, L + 2) in 0 … 1, rows of [step, mean entropy over tasks and the steps since the last row]).

        An interrupted run that was ``made`` in the same way continues from ``checkpoint``, to the same end.
        """
        plan = self.plan
        raw = torch.full((len(self.tasks), self.columns), plan.start, device=self.device, requires_grad=True)
        optimizer = torch.optim.Adam([raw], lr=plan.rate)
        first, log = _restore(checkpoint, made, raw, optimizer)
        losses: list[float] = []
        for step in range(first, plan.steps):
            loss = self.loss(raw.clamp(0, 1), step)
            if not torch.isfinite(loss):
                raise ExplorerError(f"The entropy is not finite at step {step}: score the experts with `evaluate`.")
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.item() / len(self.tasks))
            if (step + 1) % plan.save_every == 0 or step + 1 == plan.steps:
                log.append([step + 1, round(float(np.mean(losses)), 4)])
                report(f"step {step + 1} of {plan.steps}: entropy {log[-1][1]:.4f}")
                losses = []
                _save(checkpoint, made, raw, optimizer, step + 1, log)
        return raw.detach().clamp(0, 1).cpu(), log

    def _placed(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {key: tensor.to(self.device) for key, tensor in tensors.items()}


def _save(
    path: Path, made: Mapping[str, Any], raw: Tensor, optimizer: torch.optim.Optimizer, step: int, log: list
) -> None:
    partial = path.with_name(path.name + ".partial")
    state = {"made": dict(made), "raw": raw.detach(), "optimizer": optimizer.state_dict(), "step": step, "log": log}
    torch.save(state, partial)
    os.replace(partial, path)


def _restore(
    path: Path, made: Mapping[str, Any], raw: Tensor, optimizer: torch.optim.Optimizer
) -> tuple[int, list[list[float]]]:
    """The step to go on from, and the log; what was made in another way is left aside."""
    if path.is_file():
        state = torch.load(path, weights_only=True, map_location=raw.device)
        if state["made"] == dict(made):
            raw.data.copy_(state["raw"])
            optimizer.load_state_dict(state["optimizer"])
            return state["step"], state["log"]
    return 0, []


def build_adamerging(
    folder: Path, tasks: Sequence[str] | None = None, plan: Plan | None = None, report: Report = print
) -> bool:
    """Learn the coefficients of these experts (default: all) of the suite in ``folder``; False where they were there.

    Writes ``coefficients/NAME.json`` and names it in suite.yaml and in the manifest, if there is one.

    Raises:
        ExplorerError: no suite, an unknown expert, fewer than two, fewer than 1 step, or a task without validation
            pictures.
    """
    plan = plan or Plan()
    if plan.steps < 1:
        raise ExplorerError(f"--steps is {plan.steps}: give a whole number above 0.")
    if not (folder / "suite.yaml").is_file():
        raise ExplorerError(f"{folder} has no suite.yaml; give the folder of a suite with --out.")
    suite = Suite(folder)
    chosen = _chosen(suite, tasks)
    path = suite.coefficients.get(frozenset(chosen)) or suite.folder / FOLDER / f"{_name(suite, chosen)}.json"
    learner = Learner(suite, chosen, plan)
    made = _made(suite, learner)
    if path.is_file() and made.items() <= _content(path).items():
        _finish(suite, chosen, path)
        return False
    checkpoint = suite.folder / f".adamerging-{path.stem}.checkpoint"
    before = learner.entropies(torch.full((len(chosen), learner.columns), plan.start))
    report(f"{', '.join(chosen)}: entropy {before['mean']:.4f} on all validation pictures at λ = {plan.start:g}")
    learned, log = learner.learn(checkpoint, made, report)
    rounded = [[round(value, DECIMALS) for value in row] for row in learned.tolist()]
    after = learner.entropies(torch.tensor(rounded))
    report(f"entropy {after['mean']:.4f} on all validation pictures with the learned coefficients")
    facts = made | {"images_seen": _seen(learner), "entropy": {"start": before, "end": after}, "log": log}
    assemble.write_text(path, _written(facts | {KEY: rounded}))
    checkpoint.unlink(missing_ok=True)
    _finish(suite, chosen, path)
    return True


def _chosen(suite: Suite, tasks: Sequence[str] | None) -> list[str]:
    """The experts to merge, in the suite's order, all checked."""
    wanted = list(suite.experts) if tasks is None else list(tasks)
    if unknown := [task for task in wanted if task not in suite.experts]:
        raise ExplorerError(f"Suite {suite.name} has no expert {unknown[0]}; it has {', '.join(suite.experts)}.")
    if len(set(wanted)) < 2:
        raise ExplorerError(f"AdaMerging merges at least 2 experts, not {len(set(wanted))}: name more with --tasks.")
    if without := [task for task in wanted if not suite.size(task, VALIDATION)]:
        raise ExplorerError(f"Task {without[0]} has no validation pictures to learn on; give it a split `validation`.")
    return [task for task in suite.experts if task in wanted]


def _name(suite: Suite, tasks: Sequence[str]) -> str:
    """A file name for a set of experts that has none yet."""
    taken = {path.stem for path in suite.coefficients.values()}
    joined = "-".join(tasks)
    if len(tasks) == len(suite.experts) and "all" not in taken:
        return "all"
    if re.fullmatch(r"[a-z0-9_-]{1,60}", joined) and joined not in taken:
        return joined
    return f"{len(tasks)}-tasks-{hashlib.sha256(json.dumps(sorted(tasks)).encode()).hexdigest()[:8]}"


def _made(suite: Suite, learner: Learner) -> dict[str, Any]:
    """All that the outcome follows from."""
    recipe = asdict(learner.plan)
    del recipe["save_every"]
    digests = {
        task: hashlib.sha256(images.numpy().tobytes() + head.cpu().numpy().tobytes()).hexdigest()
        for task, images, head in zip(learner.tasks, learner.images, learner.heads, strict=True)
    }
    return {
        "tasks": list(learner.tasks),
        "recipe": recipe,
        "base_sha256": suite.base_sha256,
        "experts_sha256": {task: suite.expert_sha256(task) for task in learner.tasks},
        "pictures_and_head_sha256": digests,
    }


def _seen(learner: Learner) -> dict[str, dict[str, int]]:
    """Of each task: its validation pictures, how many different ones the steps drew, and how many draws there were."""
    found = {}
    for number, task in enumerate(learner.tasks):
        drawn = np.concatenate([learner.rows(number, step) for step in range(learner.plan.steps)])
        found[task] = {"of": len(learner.images[number]), "different": len(np.unique(drawn)), "draws": len(drawn)}
    return found


def _written(facts: Mapping[str, Any]) -> str:
    """JSON with a line for each row of numbers."""
    text = json.dumps(facts, indent=1, ensure_ascii=False)
    return (
        re.sub(
            r"\[[^][{}\"]*\]", lambda found: re.sub(r"\s+", " ", found[0]).replace("[ ", "[").replace(" ]", "]"), text
        )
        + "\n"
    )


def _content(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


def _finish(suite: Suite, tasks: Sequence[str], path: Path) -> None:
    """Name the file in suite.yaml, all else in it to the letter as it was; then the manifest, if there is one."""
    file = suite.folder / "suite.yaml"
    rows = yaml.safe_load(file.read_text(encoding="utf-8")).get(KEY, {})
    if frozenset(tasks) not in suite.coefficients:
        rows[path.stem] = {"tasks": list(tasks), "file": os.path.relpath(path, suite.folder)}
        rest = without_key(file, KEY).decode("utf-8")
        block = yaml.safe_dump({KEY: rows}, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)
        assemble.write_text(file, rest + ("" if rest.endswith("\n") else "\n") + block)
    if (suite.folder / assemble.MANIFEST).is_file():
        assemble.write_manifest(suite.folder)
