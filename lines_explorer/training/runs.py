"""Further fine-tuning runs of one task, for soups (Wortsman et al., ICML 2022) and to see what chance does.

All runs start from the suite's base and follow the experts' recipe; they differ in seed and learning rate, or in the
seed alone. Each is stored as a half-precision difference, ``runs/TASK/NUMBER.safetensors``, with a ``NUMBER.json`` of
how it was made, and named under ``runs:`` in suite.yaml. What is done is kept when the program is interrupted and
started again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from lines_explorer.errors import ExplorerError
from lines_explorer.suites import Suite
from lines_explorer.suites.fingerprint import without_key
from lines_explorer.training import assemble, build, data, expert, own

SHARES = (1.0, 2 / 3, 1.5, 0.5, 2.0)
"""Learning rates of the runs, as shares of the expert's own, taken in turn."""
MOST = 100
Pictures = tuple[np.ndarray, np.ndarray]


def recipes(count: int, steps: int = expert.Recipe.steps, one_rate: bool = False) -> list[expert.Recipe]:
    """The recipes of runs 1 … ``count``: seed 1 … ``count``, the rates in turn, or with ``one_rate`` the expert's.

    Raises ``ExplorerError`` for a count outside 1 … 100 or fewer than 1 step.
    """
    if not 1 <= count <= MOST:
        raise ExplorerError(f"--count is {count}: give a number of runs from 1 to {MOST}.")
    if steps < 1:
        raise ExplorerError(f"--steps is {steps}: give at least 1.")
    usual = expert.Recipe(steps=steps)
    rates = [float(f"{usual.rate * share:.4g}") for share in (SHARES[:1] if one_rate else SHARES)]
    return [replace(usual, seed=seed, rate=rates[(seed - 1) % len(rates)]) for seed in range(1, count + 1)]


def add_runs(
    folder: Path, task: str, count: int, steps: int = expert.Recipe.steps, pictures: Path | None = None,
    one_rate: bool = False,
) -> None:  # fmt: skip
    """Train what of ``count`` runs of ``task`` is missing, and name them in the suite in ``folder``.

    ``one_rate``: they differ from the expert in the seed alone.  ``pictures``: the task's folder of pictures by class,
    for a task of one's own (see ``own.py``).

    Raises ``ExplorerError``: no suite, a task without an expert, or whose training pictures are not known.
    """
    planned = recipes(count, steps, one_rate)
    if not (folder / "suite.yaml").is_file():
        raise ExplorerError(f"{folder} has no suite.yaml; give the folder of a suite with --out.")
    suite = Suite(folder)
    if task not in suite.experts:
        raise ExplorerError(f"Suite {suite.name} has no expert for {task}; it has {', '.join(suite.experts)}.")
    train_runs(folder, task, planned, *training_pictures(suite, task, pictures))


def training_pictures(suite: Suite, task: str, pictures: Path | None) -> tuple[Pictures, Pictures]:
    """(training pictures, validation pictures), each uint8 (n, side, side, 3) with labels (n,)."""
    if pictures is not None:
        found = own.read_task(pictures, suite.image_size)
    elif task in data.TASKS:
        found = data.task(task)
    else:
        raise ExplorerError(f"The training pictures of {task} are not known; name their folder with --pictures.")
    if tuple(found.classes) != suite.tasks[task].classes:
        raise ExplorerError(f"The pictures' classes are not those of task {task} in suite {suite.name}.")
    chosen = [np.asarray(found.splits) == split for split in ("train", "validation")]
    pixels, labels = np.stack(list(found.pixels)), np.asarray(found.labels)
    return (pixels[chosen[0]], labels[chosen[0]]), (pixels[chosen[1]], labels[chosen[1]])


def train_runs(
    folder: Path, task: str, planned: Sequence[expert.Recipe], training: Pictures, validation: Pictures
) -> None:
    """One run per recipe; after each the suite is whole again. A run made in the same way is not made again."""
    head = assemble.heads(folder, [task])[task]
    made_from = own.made_from(folder, head, *training)
    for number, recipe in enumerate(planned, start=1):
        made = {"recipe": asdict(recipe), "made_from": made_from}
        log = folder / "runs" / task / f"{number}.json"
        weights = log.with_suffix(".safetensors")
        if not (weights.is_file() and log.is_file() and made.items() <= json.loads(log.read_text("utf-8")).items()):
            log.unlink(missing_ok=True)
            visual, start = build.image_tower(folder)
            torch.manual_seed(recipe.seed)
            checkpoint = folder / f".run-{task}-{number}-{made_from[:12]}.checkpoint"
            facts: dict[str, Any] = expert.fine_tune(visual, head, *training, recipe, checkpoint)
            assemble.write_difference(folder, str(weights.relative_to(folder)), start, visual.state_dict())
            facts["relative_norm"] = expert.relative_norm(start, visual.state_dict())
            facts["float32_accuracy"] = {"validation": expert.accuracy(visual, head, *validation)}
            assemble.write_text(log, json.dumps(made | facts, indent=1) + "\n")
            print(f"{task}/{number}", json.dumps(facts), flush=True)
        _name_runs(folder, task, planned[:number])


def _name_runs(folder: Path, task: str, done: Sequence[expert.Recipe]) -> None:
    """suite.yaml with these runs of the task, everything else in it to the letter as it was; then the manifest."""
    file = folder / "suite.yaml"
    runs = yaml.safe_load(file.read_text(encoding="utf-8")).get("runs", {})
    runs[task] = [
        {"file": f"runs/{task}/{number}.safetensors", "seed": recipe.seed, "rate": recipe.rate}
        | {"steps": recipe.steps, "batch": recipe.batch, "decay": recipe.decay}
        for number, recipe in enumerate(done, start=1)
    ]
    rest = without_key(file, "runs").decode("utf-8").rstrip("\n")
    assemble.write_text(file, f"{rest}\n" + yaml.safe_dump({"runs": runs}, sort_keys=False, allow_unicode=True))
    assemble.write_manifest(folder)
