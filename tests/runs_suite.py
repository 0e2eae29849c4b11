"""The tiny suite with several fine-tuning runs of some tasks."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

import torch
import yaml
from tiny import write_manifest

from lines_explorer.checkpoints import metadata, read_safetensors, write_safetensors


def write_runs_suite(tiny: Path, folder: Path, runs: Mapping[str, int], one_rate: Collection[str] = ()) -> Path:
    """Copies the tiny suite and adds runs ``TASK/1`` …: with its expert, a task of ``runs`` then has so many.

    Their rates differ, but for the tasks ``one_rate``.
    """
    shutil.copytree(tiny, folder)
    rows: dict[str, list[dict[str, object]]] = {}
    for task, count in runs.items():
        for number in range(1, count):
            file = f"runs/{task}/{number}.safetensors"
            _write_run(folder / f"experts/{task}.safetensors", folder / file, number + 1)
            rate = 0.001 * (1 if task in one_rate else number)
            rows.setdefault(task, []).append({"file": file, "seed": number, "rate": rate, "steps": 20})
    with (folder / "suite.yaml").open("a", encoding="utf-8") as file:
        file.write(yaml.safe_dump({"runs": rows}, sort_keys=False))
    write_manifest(folder)
    return folder


def _write_run(expert: Path, run: Path, seed: int) -> None:
    """A run near the task's own expert: its task vector with noise."""
    generator = torch.Generator().manual_seed(seed)
    near = {
        key: (delta.float() + 0.5 * delta.float().std() * torch.randn(delta.shape, generator=generator)).half()
        for key, delta in read_safetensors(expert).items()
    }
    run.parent.mkdir(parents=True, exist_ok=True)
    write_safetensors(run, near, metadata(expert))
