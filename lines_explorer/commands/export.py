"""``merge``: the model that was scored, written as a folder open_clip opens by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lines_explorer.checkpoints import Tensors, sha256, write_safetensors
from lines_explorer.checkpoints.files import written_beside
from lines_explorer.commands.options import choose
from lines_explorer.commands.report import Report
from lines_explorer.errors import ExplorerError

if TYPE_CHECKING:
    import torch

    from lines_explorer.engine import Engine
    from lines_explorer.recipe import Recipe
    from lines_explorer.suites import Suite

WEIGHTS = "open_clip_model.safetensors"
CONFIG = "open_clip_config.json"
HEADS = "heads.safetensors"


def check_format(name: str) -> None:
    """Refuse a format that cannot be written."""
    if name == "hf":
        raise ExplorerError("--format hf is not available yet: write the model with --format open_clip.")
    choose("format", name, ["open_clip"])


def check_folder(folder: Path, force: bool) -> None:
    """Refuse a place that is not a folder, or that holds a model already (unless ``force``)."""
    if folder.exists() and not folder.is_dir():
        raise ExplorerError(f"--out {folder} is a file: name a folder.")
    taken = [name for name in (WEIGHTS, CONFIG, HEADS) if (folder / name).exists()]
    if taken and not force:
        raise ExplorerError(f"{folder} already holds {', '.join(taken)}: add --force to replace what is there.")


def complete_state(model: Tensors, merged: Tensors) -> dict[str, torch.Tensor]:
    """Every tensor of the open_clip model: the merged ones, and zeros for those the suite does not have.

    These are its text tower (the suite's text vectors are stored): zeros say so, where random numbers would
    look trained and give every export another sha256.
    """
    return {key: merged[key] if key in merged else tensor.new_zeros(tensor.shape) for key, tensor in model.items()}


def open_clip_config(suite: Suite, model: torch.nn.Module) -> dict[str, Any]:
    """What ``open_clip.create_model("local-dir:FOLDER")`` reads beside the weights."""
    import open_clip
    from open_clip.model import get_model_preprocess_cfg

    return {
        "model_cfg": open_clip.get_model_config(suite.architecture),
        "preprocess_cfg": get_model_preprocess_cfg(model),
    }


def provenance(suite: Suite, recipe: Recipe) -> dict[str, Any]:
    """Where a written file comes from: the recipe, and the sha256 of every file that went into it."""
    return {
        "recipe": recipe.as_dict(),
        "recipe_hash": recipe.hash(),
        "suite_sha256": suite.hash,
        "base_sha256": suite.base_sha256,
        "experts_sha256": {task: sha256(suite.experts[task]) for task in recipe.tasks},
    }


def header(content: str, **facts: Any) -> dict[str, str]:
    """Safetensors metadata under one key, ``lines_explorer``: several keys are written in random order."""
    return {"lines_explorer": json.dumps({"content": content, **facts}, sort_keys=True, ensure_ascii=False)}


def write_json(file: Path, content: dict[str, Any]) -> None:
    """Write ``content`` beside ``file``, then rename; an ``ExplorerError`` when the folder cannot be written."""
    try:
        with written_beside(file) as beside:
            beside.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    except OSError as fault:
        raise ExplorerError(
            f"{file} cannot be written ({fault.strerror}); choose a folder you may write to."
        ) from fault


def merge(engine: Engine, recipe: Recipe, out: Path, force: bool = False) -> Report:
    """Write the merged model into the folder ``out``; the answer names file, sha256 and recipe.

    Three files, each written beside and renamed: the weights with all tensors of the open_clip model, the
    configuration that lets open_clip open the folder, and the frozen heads, (classes, D) for each task.
    Raises ``ExplorerError`` when ``out`` holds a model already or cannot be written.
    """
    check_folder(out, force)
    suite = engine.suite
    model = suite.build_model()
    with engine.lock:
        engine.backend.load(recipe)
        merged = engine.backend.state_dict()
    state = complete_state(model.state_dict(), merged)
    source = provenance(suite, recipe)
    classes = {name: task.classes for name, task in suite.tasks.items()}
    write_json(out / CONFIG, open_clip_config(suite, model))
    heads = {name: suite.head(name) for name in suite.tasks}
    write_safetensors(out / HEADS, heads, header("heads", classes=classes, **source))
    digest = write_safetensors(out / WEIGHTS, state, header("weights", **source))
    text = f"{out / WEIGHTS}\nsha256 {digest}\nopen it with open_clip.create_model('local-dir:{out}')"
    return Report({"file": str(out / WEIGHTS), "sha256": digest, "recipe": recipe.as_dict()}, text)
