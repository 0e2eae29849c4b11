"""Ready-made suite.yaml files for the public CLIP experts: three models, 8, 14 or 20 tasks, two ways of storing them.

Layout ``tall-masks``: folders of checkpoints and heads as the authors of TALL masks and LiNeS publish them
(``checkpoints/ViT-B-32/CarsVal/nonlinear_finetuned.pt``, ``head_CarsVal.pt``).  Layout ``tanganke``: repositories on
the Hugging Face hub (``tanganke/clip-vit-base-patch32_sun397``), heads from the prompts.  All are made from one table,
``tasks.json``, which names the sources of its class names and templates.  The pictures come from the hub; validation
is held out from train by the reference's rule.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lines_explorer.checkpoints import written_beside
from lines_explorer.errors import ExplorerError
from lines_explorer.suites.hub import download_command
from lines_explorer.suites.task import Data, Hub

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
OFFLINE = (
    "Without a network here: fetch these elsewhere, bring the folder HUB, set LINES_EXPLORER_HUB to where it lies:"
)
Pin = Callable[[Hub | Data], str]


@cache
def table() -> dict[str, dict[str, Any]]:
    """Task → its row in ``tasks.json``: title, domain, data, prompts, templates, and what differs by layout."""
    return json.loads((Path(__file__).parent / "tasks.json").read_text(encoding="utf-8"))["tasks"]


def describe(name: str, pin: Pin | None = None) -> dict[str, Any]:
    """The content of a ready-made suite.yaml; ``pin`` gives each source on the hub the commit to name as its revision.

    Raises ExplorerError, listing the names, for an unknown one.
    """
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
    content = {
        "name": name,
        "title": f"{architecture}, {count} tasks",
        "base": {"architecture": architecture, "activation": "quickgelu", "weights": weights},
        "experts": experts,
        "tasks": tasks,
    }
    commits: dict[str, str] = {}
    for row, place in _sources(content) if pin else ():
        command = download_command(place)
        commits[command] = row["revision"] = commits.get(command) or pin(place)
    return content


def text_of(name: str, pin: Pin | None = None) -> str:
    """A ready-made suite.yaml, headed by what it needs and how to fetch that.  Raises as ``describe``."""
    _, _, layout = _parts(name)
    content = describe(name, pin)
    head = [NEEDS[layout].format(model=content["base"]["architecture"]), OFFLINE]
    head += dict.fromkeys(f"  {download_command(place)}" for _, place in _sources(content))
    comments = "".join(f"# {line}\n" for line in head)
    return comments + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110)


def write(name: str, folder: str | Path, pin: Pin | None = None, replace: bool = False) -> Path:
    """Writes ``folder/suite.yaml`` and returns its path.

    Raises ExplorerError for an unknown name, when another suite.yaml is there (unless ``replace``), or the folder
    cannot be written.
    """
    text = text_of(name, pin)
    file = Path(folder) / "suite.yaml"
    if not replace and file.is_file() and file.read_text(encoding="utf-8") != text:
        raise ExplorerError(f"{file} is there already and is another suite; choose another folder.")
    try:
        with written_beside(file) as beside:
            beside.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise ExplorerError(
            f"{file} cannot be written ({fault.strerror}); choose a folder you may write to."
        ) from fault
    return file


def _sources(content: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Hub | Data]]:
    """Every source on the hub in a suite.yaml's content, and the place it stands for."""
    for row in (content["base"]["weights"], *content["experts"].values()):
        if isinstance(row, dict):
            yield row, Hub(row["hub"], row.get("revision"))
    for task in content["tasks"].values():
        for row in task["splits"].values():
            yield row, Data(hub=row["hub"], revision=row.get("revision"))


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
