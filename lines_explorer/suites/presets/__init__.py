"""Ready-made suite.yaml files for the public CLIP experts: three models, 8, 14 or 20 tasks, two ways of storing them.

Layout ``tall-masks``: folders of checkpoints and heads as the authors of TALL masks and LiNeS publish them
(``checkpoints/ViT-B-32/CarsVal/nonlinear_finetuned.pt``, ``head_CarsVal.pt``).  Layout ``tanganke``: repositories on
the Hugging Face hub (``tanganke/clip-vit-base-patch32_sun397``), heads from the prompts.  All are made from one table,
``tasks.json``, which names the sources of its class names and templates.  The pictures come from the hub; validation
is held out from train by the reference's rule.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lines_explorer.checkpoints import written_beside
from lines_explorer.errors import ExplorerError

MODELS = {
    "vit-b-32": ("ViT-B-32", "clip-vit-base-patch32"),
    "vit-b-16": ("ViT-B-16", "clip-vit-base-patch16"),
    "vit-l-14": ("ViT-L-14", "clip-vit-large-patch14"),
}
COUNTS = (8, 14, 20)  # the first tasks of the table, as both papers take them
LAYOUTS = ("tall-masks", "tanganke")
NAMES = tuple(f"{model}-{count}-{layout}" for model in MODELS for count in COUNTS for layout in LAYOUTS)
NEEDS = {
    "tall-masks": "Put the downloaded folder beside this file as checkpoints/{model} (some spell it VIT-B-16: rename).",
    "tanganke": "Weights and pictures come from the Hugging Face hub; nothing else is needed.",
}


@cache
def table() -> dict[str, dict[str, Any]]:
    """Task → its row in ``tasks.json``: title, domain, data, prompts, templates, and what differs by layout."""
    return json.loads((Path(__file__).parent / "tasks.json").read_text(encoding="utf-8"))["tasks"]


def describe(name: str) -> dict[str, Any]:
    """The content of a ready-made suite.yaml.  Raises ExplorerError, listing the names, for an unknown one."""
    model, count, layout = _parts(name)
    architecture, repository = MODELS[model]
    rows = dict(list(table().items())[:count])
    folder = f"checkpoints/{architecture}"
    if layout == "tall-masks":
        weights: Any = f"{folder}/MNISTVal/nonlinear_zeroshot.pt"
        experts: dict[str, Any] = {task: f"{folder}/{task}Val/nonlinear_finetuned.pt" for task in rows}
    else:
        weights = {"hub": f"openai/{repository}"}
        experts = {task: {"hub": f"tanganke/{repository}_{row['tanganke']}"} for task, row in rows.items()}
    tasks = {}
    for task, row in rows.items():
        if layout == "tall-masks":
            row = row | row.get("tall_masks", {}) | {"head": f"{folder}/head_{task}Val.pt"}
        tasks[task] = _task(row)
    return {
        "name": name,
        "title": f"{architecture}, {count} tasks",
        "base": {"architecture": architecture, "activation": "quickgelu", "weights": weights},
        "experts": experts,
        "tasks": tasks,
    }


def write(name: str, folder: str | Path) -> Path:
    """Writes ``folder/suite.yaml`` and returns its path.

    Raises ExplorerError for an unknown name, when another suite.yaml is there, or the folder cannot be written.
    """
    _, _, layout = _parts(name)
    content = describe(name)
    needs = NEEDS[layout].format(model=content["base"]["architecture"])
    text = f"# {needs}\n" + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110)
    file = Path(folder) / "suite.yaml"
    if file.is_file() and file.read_text(encoding="utf-8") != text:
        raise ExplorerError(f"{file} is there already and is another suite; choose another folder.")
    try:
        with written_beside(file) as beside:
            beside.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise ExplorerError(
            f"{file} cannot be written ({fault.strerror}); choose a folder you may write to."
        ) from fault
    return file


def _task(row: dict[str, Any]) -> dict[str, Any]:
    data = {key: value for key, value in row["data"].items() if key not in ("train", "test")}
    splits = {split: data | {"split": row["data"].get(split, split)} for split in ("train", "test")}
    kept = {key: row[key] for key in ("title", "domain", "head", "prompts", "templates") if key in row}
    return kept | {"new_in_test": "the data set's own test split", "splits": splits}


def _parts(name: str) -> tuple[str, int, str]:
    for model in MODELS:
        for count in COUNTS:
            for layout in LAYOUTS:
                if name == f"{model}-{count}-{layout}":
                    return model, count, layout
    raise ExplorerError(f"There is no ready-made suite {name}; there are {', '.join(NAMES)}.")
