"""The tiny suite with several fine-tuning runs: tasks that share their pictures, each with an expert of its own."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
import yaml
from tiny import write_manifest

from lines_explorer.checkpoints import metadata, read_safetensors, write_safetensors


def write_runs_suite(tiny: Path, folder: Path, runs: Mapping[str, int]) -> Path:
    """Copies the tiny suite and adds the runs ``TASK-2`` … ``TASK-n`` of the tasks in ``runs``."""
    shutil.copytree(tiny, folder)
    content = yaml.safe_load((folder / "suite.yaml").read_text(encoding="utf-8"))
    text = read_safetensors(folder / "text.safetensors")
    for task, count in runs.items():
        for number in range(2, count + 1):
            name = f"{task}-{number}"
            content["tasks"][name] = copy.deepcopy(content["tasks"][task])
            content["tasks"][name].pop("shifts", None)
            content["experts"][name] = f"experts/{name}.safetensors"
            text[name] = text[task].clone()
            _write_run(folder, task, name, number)
    write_safetensors(folder / "text.safetensors", text)
    (folder / "suite.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    write_manifest(folder)
    return folder


def _write_run(folder: Path, task: str, name: str, seed: int) -> None:
    """An expert near the task's own: its task vector with noise."""
    file = folder / f"experts/{task}.safetensors"
    generator = torch.Generator().manual_seed(seed)
    near = {
        key: (delta.float() + 0.5 * delta.float().std() * torch.randn(delta.shape, generator=generator)).half()
        for key, delta in read_safetensors(file).items()
    }
    write_safetensors(folder / f"experts/{name}.safetensors", near, metadata(file))
