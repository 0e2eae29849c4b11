"""``merge``: the model that was scored, written as a folder that open_clip or transformers opens by itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lines_explorer.checkpoints import Tensors, sha256, write_safetensors
from lines_explorer.checkpoints.huggingface import ImageTower, preprocessor_config, to_hugging_face
from lines_explorer.commands.card import model_card
from lines_explorer.commands.folder import folder_beside, told_in_a_sentence
from lines_explorer.commands.mergekit import mergekit_yaml
from lines_explorer.commands.options import choose
from lines_explorer.commands.report import Report
from lines_explorer.errors import ExplorerError
from lines_explorer.suites.needs import learned_file

if TYPE_CHECKING:
    import torch

    from lines_explorer.engine import Engine
    from lines_explorer.recipe import Recipe
    from lines_explorer.suites import Suite

FORMATS = ("open_clip", "hf")
WEIGHTS, CONFIG = "open_clip_model.safetensors", "open_clip_config.json"
HF_WEIGHTS, HF_CONFIG, HF_PREPROCESSOR = "model.safetensors", "config.json", "preprocessor_config.json"
HEADS, CARD, MERGEKIT = "heads.safetensors", "README.md", "mergekit.yaml"
MODEL_FILES = (WEIGHTS, HF_WEIGHTS, CONFIG, HF_CONFIG, HF_PREPROCESSOR, HEADS, MERGEKIT)
HINT = {
    "open_clip": "open it with open_clip.create_model('local-dir:{out}')",
    "hf": "open it with transformers.CLIPVisionModelWithProjection.from_pretrained('{out}')",
}


@dataclass(frozen=True)
class Model:
    """What one format writes: the weights under their file name, and configs by theirs."""

    weights: str
    tensors: Tensors
    configs: Mapping[str, Mapping[str, Any]]


def check_format(name: str) -> None:
    """Refuse a format that cannot be written."""
    choose("format", name, FORMATS)


def check_folder(folder: Path, force: bool) -> None:
    """Refuse a place that is not a folder, or that holds a model already (unless ``force``)."""
    if folder.exists() and not folder.is_dir():
        raise ExplorerError(f"--out {folder} is a file: name a folder.")
    taken = [name for name in (*MODEL_FILES, CARD) if (folder / name).exists()]
    if taken and not force:
        raise ExplorerError(f"{folder} already holds {', '.join(taken)}: add --force to replace what is there.")


def merge(engine: Engine, recipe: Recipe, out: Path, force: bool = False, file_format: str = "open_clip") -> Report:
    """Write the merged model into the folder ``out``; the answer names file, sha256 and recipe.

    The folder holds the weights, the configs that let open_clip or transformers open it, the frozen heads (classes, D)
    of all tasks, a model card with recipe and sources, and a mergekit.yaml where mergekit can express the recipe. It
    is written beside and renamed: after a full disk or an interrupt ``out`` is as it was.

    Raises ``ExplorerError`` when ``out`` holds a model already or cannot be written, or when the model has no form in
    ``file_format``.
    """
    check_format(file_format)
    check_folder(out, force)
    suite = engine.suite
    with engine.lock:
        engine.backend.load(recipe)
        merged = engine.backend.state_dict()
        depth = engine.backend.layout.depth
    built = open_clip_model(suite, merged) if file_format == "open_clip" else hugging_face_model(suite, merged)
    source = provenance(suite, recipe)
    script, remark = mergekit_file(suite, recipe, merged)
    before, after = recipe.schedule.outer_factors(depth, recipe.rule)
    factors = (before, *recipe.schedule.block_factors(depth), after) if recipe.tasks else (0.0,) * (depth + 2)
    card = model_card(suite, recipe, source, factors, file_format, remark, engine.peek(recipe))
    classes = {name: task.classes for name, task in suite.tasks.items()}
    heads = {name: suite.head(name) for name in suite.tasks}
    with told_in_a_sentence(out), folder_beside(out, last=built.weights, replaces=MODEL_FILES) as beside:
        for name, content in built.configs.items():
            write_text(beside / name, json.dumps(content, indent=2) + "\n")
        write_text(beside / CARD, card)
        if script is not None:
            write_text(beside / MERGEKIT, script)
        write_safetensors(beside / HEADS, heads, header("heads", classes=classes, **source))
        digest = write_safetensors(beside / built.weights, built.tensors, header("weights", **source))
    file = out / built.weights
    text = f"{file}\nsha256 {digest}\n{HINT[file_format].format(out=out)}"
    return Report({"file": str(file), "sha256": digest, "recipe": recipe.as_dict(), "format": file_format}, text)


def open_clip_model(suite: Suite, merged: Tensors) -> Model:
    """For open_clip: every tensor of its model, and open_clip_config.json."""
    from open_clip.model import get_model_preprocess_cfg

    model = suite.build_model()
    config = {"model_cfg": dict(suite.model_architecture.config), "preprocess_cfg": get_model_preprocess_cfg(model)}
    return Model(WEIGHTS, complete_state(model.state_dict(), merged), {CONFIG: config})


def hugging_face_model(suite: Suite, merged: Tensors) -> Model:
    """For transformers: a CLIPVisionModelWithProjection, its config.json and preprocessor_config.json.

    Raises ExplorerError when the tower is none that transformers' CLIP can express.
    """
    tower = ImageTower.from_open_clip(suite.model_architecture.config)
    tower.check(merged)
    preprocessor = preprocessor_config(tower.image_size, suite.model_architecture.preprocess)
    return Model(HF_WEIGHTS, to_hugging_face(merged), {HF_CONFIG: tower.hugging_face(), HF_PREPROCESSOR: preprocessor})


def complete_state(model: Tensors, merged: Tensors) -> dict[str, torch.Tensor]:
    """Every tensor of the open_clip model: the merged ones, and zeros for those the suite does not have.

    These are its text tower (the suite's heads are stored): zeros say so, where random numbers would look trained and
    give every export another sha256.
    """
    return {key: merged[key] if key in merged else tensor.new_zeros(tensor.shape) for key, tensor in model.items()}


def mergekit_file(suite: Suite, recipe: Recipe, merged: Tensors) -> tuple[str | None, str]:
    """(mergekit.yaml or None, a sentence for the card)."""
    try:
        ImageTower.from_open_clip(suite.model_architecture.config)
        script = mergekit_yaml(recipe, to_hugging_face(merged))
    except ExplorerError as why:
        return None, f"mergekit cannot express this recipe: {why}"
    return script, f"`{MERGEKIT}` is the same recipe for mergekit; its head says how to write its inputs."


def provenance(suite: Suite, recipe: Recipe) -> dict[str, Any]:
    """Where a written file comes from: the recipe, and the sha256 of every file that went into it."""
    learned = learned_file(suite, recipe.method, recipe.tasks)
    return {
        "recipe": recipe.as_dict(),
        "recipe_hash": recipe.hash(),
        "suite_sha256": suite.hash,
        "base_sha256": suite.base_sha256,
        "experts_sha256": {task: suite.expert_sha256(task) for task in recipe.tasks},
        **({"coefficients_sha256": sha256(learned)} if learned else {}),
        "quick_gelu": bool(suite.model_architecture.config.get("quick_gelu", False)),
    }


def header(content: str, **facts: Any) -> dict[str, str]:
    """Safetensors metadata: the facts under ``lines_explorer``, and the ``format`` that transformers asks for."""
    own = json.dumps({"content": content, **facts}, sort_keys=True, ensure_ascii=False)
    return {"format": "pt", "lines_explorer": own}


def write_text(file: Path, text: str) -> None:
    """Write ``text`` as UTF-8 with plain line ends. Raises OSError."""
    with file.open("w", encoding="utf-8", newline="\n") as written:
        written.write(text)
