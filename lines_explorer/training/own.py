"""A suite from a user's own pictures, on the embedded base and beside the embedded tasks.

``FOLDER/TASK/CLASS/picture.png`` (png, jpg, jpeg, webp, bmp, gif) becomes a task with its own expert; the embedded
tasks and experts stay in the new suite, so that one sees at once what the new expert forgets of them.  An optional
``FOLDER/TASK/task.yaml`` gives ``title``, ``domain``, ``templates`` (each with ``{}``) and ``prompts`` (class → words).
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image, ImageOps, UnidentifiedImageError

from lines_explorer.checkpoints import read_safetensors, sha256, write_safetensors
from lines_explorer.errors import ExplorerError
from lines_explorer.suites import Suite, open_suite
from lines_explorer.training import assemble, build, data, expert
from lines_explorer.training.tasks.common import SIZE, TaskData, grouped_split
from lines_explorer.training.text import TextSpace

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif"}
TEMPLATES = ("a picture of {}.", "an image of {}.", "{}")
CUTS = (0.8, 0.9)
"""Cumulative shares of training and validation pictures; the rest is the test split."""


def read_task(folder: Path, size: int = SIZE) -> TaskData:
    """A task from ``folder``/CLASS/*.png, cut to squares of ``size`` pixels.

    Every picture is in one split by a hash of its bytes, so copies stay together.

    Raises ``ExplorerError``: a name that is no plain word, fewer than two classes, a class with too few pictures for
    three splits, an unreadable picture, or a damaged ``task.yaml``.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", folder.name):
        raise ExplorerError(f"{folder}: a task's folder is named in lower-case letters, digits, - and _ (32 at most).")
    facts = _facts(folder)
    classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
    if len(classes) < 2:
        raise ExplorerError(f"{folder} needs at least two class folders with pictures; it has {len(classes)}.")
    prompts = facts.get("prompts", {})
    task = TaskData(
        name=folder.name,
        title=str(facts.get("title", folder.name.capitalize())),
        domain=str(facts.get("domain", "your own pictures")),
        new_in_test="other pictures",
        classes=classes,
        prompts=[str(prompts.get(name, name.replace("_", " ").replace("-", " "))) for name in classes],
        templates=[str(template) for template in facts.get("templates", TEMPLATES)],
        notices=[],
        size=size,
    )
    for label, name in enumerate(classes):
        for path in sorted(path for path in (folder / name).iterdir() if path.suffix.lower() in SUFFIXES):
            task.add(_picture(path, size), label, grouped_split(sha256(path), *CUTS), f"{name}/{path.name}")
    for split in ("train", "validation", "test"):
        present = {label for label, where in zip(task.labels, task.splits, strict=True) if where == split}
        if missing := [name for label, name in enumerate(classes) if label not in present]:
            raise ExplorerError(
                f"{folder / missing[0]} has too few pictures: none fell into the {split} split; add more."
            )
    return task


def _facts(folder: Path) -> dict[str, Any]:
    path = folder / "task.yaml"
    if not path.is_file():
        return {}
    try:
        facts = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as fault:
        raise ExplorerError(f"{path} is not YAML ({fault}).") from fault
    known = {"title", "domain", "templates", "prompts"}
    if not isinstance(facts, dict) or (extra := sorted(set(facts) - known)):
        named = extra[0] if isinstance(facts, dict) else "a list or text"
        raise ExplorerError(f"{path} holds {named}; it may hold {', '.join(sorted(known))}.")
    if any("{}" not in str(template) for template in facts.get("templates", ())):
        raise ExplorerError(f"{path}: every template needs {{}} where the class goes.")
    return facts


def _picture(path: Path, size: int) -> Image.Image:
    try:
        with Image.open(path) as picture:
            upright = ImageOps.exif_transpose(picture).convert("RGB")
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as fault:
        raise ExplorerError(f"{path} is no readable picture ({fault}); mend or remove it.") from fault
    return ImageOps.fit(upright, (size, size), Image.Resampling.LANCZOS)


def build_own(folder: Path, out: Path, recipe: expert.Recipe) -> None:
    """The embedded suite plus one task and expert per sub-folder of ``folder``, written to ``out``.

    Continues an interrupted build: an expert that is done is kept as long as its pictures, its head, the base and
    the recipe are the same.
    """
    if not folder.is_dir():
        raise ExplorerError(f"{folder} is no folder; give one with TASK/CLASS/pictures in it.")
    embedded = open_suite(build.NAME)
    tasks = [read_task(path, embedded.image_size) for path in sorted(folder.iterdir()) if path.is_dir()]
    if not tasks:
        raise ExplorerError(f"{folder} has no task folders; put pictures into {folder}/TASK/CLASS/.")
    if clash := [task.name for task in tasks if task.name in embedded.tasks]:
        raise ExplorerError(f"{folder / clash[0]}: the embedded suite has a task of that name; rename the folder.")
    if not (out / "suite.yaml").is_file():
        _copy(embedded, out)
    _describe(out, tasks)
    for task in tasks:
        for split in ("validation", "test"):
            data.write_parquet(task, split, out / "tasks" / task.name / f"{split}.parquet")
    _add_text(out, tasks)
    _add_experts(out, tasks, recipe)
    assemble.write_manifest(out)


def _copy(embedded: Suite, out: Path) -> None:
    """The embedded suite without its results and card, as the start of ``out``."""
    if out.exists() and any(out.iterdir()):
        raise ExplorerError(f"{out} exists and is no suite; give an empty or new folder.")
    ignore = shutil.ignore_patterns("results", "CARD.md", "manifest.json", "training_*", "suite.yaml")
    shutil.copytree(embedded.folder, out, dirs_exist_ok=True, ignore=ignore)
    shutil.copy2(embedded.folder / "suite.yaml", out / "suite.yaml")


def _describe(out: Path, tasks: list[TaskData]) -> None:
    description = yaml.safe_load((out / "suite.yaml").read_text(encoding="utf-8"))
    description["name"], description["title"] = out.name, f"{out.name}: your pictures beside the embedded ones"
    for task in tasks:
        description["tasks"][task.name] = assemble.task_row(task)
        description["experts"][task.name] = f"experts/{task.name}.safetensors"
    assemble.write_text(out / "suite.yaml", yaml.safe_dump(description, sort_keys=False, allow_unicode=True, width=110))


def _add_text(out: Path, tasks: list[TaskData]) -> None:
    space = TextSpace(**read_safetensors(out / "text_space.safetensors"))
    vectors = read_safetensors(out / "text.safetensors") | assemble.text_vectors(tasks, space)
    write_safetensors(out / "text.safetensors", vectors, {"encoder": "all-MiniLM-L6-v2, then text_space"})


def _add_experts(out: Path, tasks: list[TaskData], recipe: expert.Recipe) -> None:
    heads = assemble.heads(out, [task.name for task in tasks])
    for task in tasks:
        chosen = np.array(task.splits) == "train"
        pixels, labels = np.stack(task.pixels)[chosen], np.array(task.labels)[chosen]
        made = {"recipe": asdict(recipe), "made_from": made_from(out, heads[task.name], pixels, labels)}
        log = out / "experts" / f"{task.name}.json"
        if log.is_file() and made.items() <= json.loads(log.read_text(encoding="utf-8")).items():
            continue
        visual, start = build.image_tower(out)
        torch.manual_seed(recipe.seed)
        checkpoint = out / f".expert-{task.name}-{made['made_from'][:12]}.checkpoint"
        facts = expert.fine_tune(visual, heads[task.name], pixels, labels, recipe, checkpoint)
        assemble.write_expert(out, task.name, start, visual.state_dict())
        assemble.write_text(log, json.dumps(made | facts, indent=1) + "\n")
        print(task.name, json.dumps(facts), flush=True)


def made_from(out: Path, head: torch.Tensor, pixels: np.ndarray, labels: np.ndarray) -> str:
    """One sha256 of everything an expert is trained from, beside the recipe."""
    parts = (np.ascontiguousarray(head.numpy()), np.ascontiguousarray(pixels), np.ascontiguousarray(labels))
    digest = hashlib.sha256(sha256(out / "base.safetensors").encode())
    for part in parts:
        digest.update(part.data)
    return digest.hexdigest()
