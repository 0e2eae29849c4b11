"""Puts a trained suite together on disk: data, model, text vectors, experts, description, manifest.

Every function writes its own files beside and renames them, so a folder is never half made; ``manifest`` comes
last and lists everything with its hash.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from lines_explorer.checkpoints import read_safetensors, sha256, write_safetensors
from lines_explorer.training import data
from lines_explorer.training.tasks.common import TaskData
from lines_explorer.training.text import TextSpace, sentence_vectors

MANIFEST = "manifest.json"


def write_text(path: Path, text: str) -> None:
    """Write a text file beside its place, then rename it into it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def write_data(folder: Path, tasks: Sequence[TaskData]) -> None:
    """The validation, test and shifted sets as parquet, and the training pictures' fingerprints."""
    prints = {}
    for task in tasks:
        for split in ("validation", "test", *task.shifts):
            data.write_parquet(task, split, folder / "tasks" / task.name / f"{split}.parquet")
        prints[task.name] = data.fingerprints(task, "train")
    write_text(folder / "training_fingerprints.json", json.dumps(prints, indent=1) + "\n")


def write_base(folder: Path, config: Mapping[str, Any], visual: Mapping[str, Tensor], logit_scale: float) -> str:
    """``model.json`` and ``base.safetensors`` (``visual.*`` and ``logit_scale``, float32); returns its sha256."""
    write_text(folder / "model.json", json.dumps(config, indent=1) + "\n")
    tensors = {f"visual.{key}": tensor.float().contiguous() for key, tensor in visual.items()}
    tensors["logit_scale"] = torch.tensor(float(logit_scale))
    return write_safetensors(folder / "base.safetensors", tensors, {"content": "weights"})


def write_text_vectors(folder: Path, tasks: Sequence[TaskData], space: TextSpace) -> None:
    """``text.safetensors``: unit text vectors (classes, templates, D) per task; and the text space itself."""
    write_safetensors(
        folder / "text.safetensors", text_vectors(tasks, space), {"encoder": "all-MiniLM-L6-v2, then text_space"}
    )
    space_tensors = {"mean": space.mean.contiguous(), "matrix": space.matrix.contiguous()}
    write_safetensors(folder / "text_space.safetensors", space_tensors, {"map": "unit((sentence - mean) @ matrix)"})


def text_vectors(tasks: Sequence[TaskData], space: TextSpace) -> dict[str, Tensor]:
    """Unit text vectors (classes, templates, D) of every task's prompts in its templates."""
    vectors = {}
    for task in tasks:
        sentences = [template.format(prompt) for prompt in task.prompts for template in task.templates]
        unit = space(sentence_vectors(sentences))
        vectors[task.name] = unit.view(len(task.prompts), len(task.templates), -1).contiguous()
    return vectors


def write_expert(folder: Path, task: str, base: Mapping[str, Tensor], expert: Mapping[str, Tensor]) -> Path:
    """``experts/TASK.safetensors``: the expert minus the base in half precision. Keys without ``visual.``."""
    return write_difference(folder, f"experts/{task}.safetensors", base, expert)


def write_difference(folder: Path, file: str, base: Mapping[str, Tensor], expert: Mapping[str, Tensor]) -> Path:
    """``file`` below ``folder``: fine-tuned weights minus the base in half precision. Keys without ``visual.``."""
    delta = {f"visual.{key}": (expert[key] - base[key]).half().contiguous() for key in base}
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    write_safetensors(path, delta, {"content": "delta", "base_sha256": sha256(folder / "base.safetensors")})
    return path


def heads(folder: Path, tasks: Sequence[str]) -> dict[str, Tensor]:
    """Frozen heads (classes, D) of tasks, as ``suites.Suite.head`` builds them."""
    text = read_safetensors(folder / "text.safetensors")
    scale = read_safetensors(folder / "base.safetensors")["logit_scale"].exp()
    return {task: scale * torch.nn.functional.normalize(text[task].mean(1), dim=-1) for task in tasks}


def write_description(folder: Path, name: str, title: str, architecture: str, tasks: Sequence[TaskData]) -> None:
    """``suite.yaml``: what the suite is and where its files lie."""
    description = {
        "name": name,
        "title": title,
        "base": {"architecture": architecture, "config": "model.json", "weights": "base.safetensors"},
        "experts": {task.name: f"experts/{task.name}.safetensors" for task in tasks},
        "text": "text.safetensors",
        "tasks": {task.name: task_row(task) for task in tasks},
    }
    write_text(folder / "suite.yaml", yaml.safe_dump(description, sort_keys=False, allow_unicode=True, width=110))


def task_row(task: TaskData) -> dict[str, Any]:
    """A task's entry in ``suite.yaml``."""
    row: dict[str, Any] = {
        "title": task.title,
        "domain": task.domain,
        "new_in_test": task.new_in_test,
        "classes": list(task.classes),
        "prompts": list(task.prompts),
        "templates": list(task.templates),
        "splits": {split: f"tasks/{task.name}/{split}.parquet" for split in ("validation", "test")},
    }
    if task.shifts:
        row["shifts"] = {
            shift: {"title": title, "file": f"tasks/{task.name}/{shift}.parquet"}
            for shift, title in task.shifts.items()
        }
    return row


def write_manifest(folder: Path) -> None:
    """``manifest.json``: bytes and sha256 of every other file of the suite, but for hidden ones (checkpoints)."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    files = sorted(path for path in found if path.name != MANIFEST)
    rows = {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in files
    }
    write_text(folder / MANIFEST, json.dumps({"files": rows}, indent=1) + "\n")
