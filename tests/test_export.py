"""commands/export.py: what is written scores image by image what the engine scored, and appears whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
import yaml
from PIL import Image
from transformers import CLIPImageProcessor, CLIPVisionModelWithProjection

from lines_explorer.checkpoints import metadata, read_safetensors, sha256
from lines_explorer.commands import export, folder
from lines_explorer.commands.mergekit import mergekit_config
from lines_explorer.engine import Engine
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant, free, lines
from lines_explorer.suites import Suite, open_suite

ALL = ("colours", "places", "shapes")
FREE = free([0.9, 0.1, 0.6], 0.4)
RECIPE = Recipe("tiny", ALL, "sum", schedule=lines(0.2, 0.7), rule="depth")
RECIPES = {
    "lines, depth rule": RECIPE,
    "average, free": Recipe("tiny", ("colours", "shapes"), "average", schedule=FREE),
    "one expert": Recipe("tiny", ("shapes",)),
    "base": Recipe("tiny", ("shapes",), schedule=constant(0)),
}
FILES = {
    "open_clip": {export.WEIGHTS, export.CONFIG, export.HEADS, export.CARD, export.MERGEKIT},
    "hf": {export.HF_WEIGHTS, export.HF_CONFIG, export.HF_PREPROCESSOR, export.HEADS, export.CARD, export.MERGEKIT},
}


@pytest.fixture(scope="module")
def engine(tiny_suite_folder: Path) -> Engine:
    return Engine(open_suite(tiny_suite_folder), device="cpu")


@pytest.fixture
def written(engine: Engine, tmp_path: Path) -> Callable[..., Path]:
    """Write a recipe in a format → the folder."""

    def write(recipe: Recipe = RECIPE, file_format: str = "hf", out: str = "out", force: bool = False) -> Path:
        export.merge(engine, recipe, tmp_path / out, force, file_format)
        return tmp_path / out

    return write


def pictures(suite: Suite, task: str) -> list[Image.Image]:
    return [Image.fromarray(picture.permute(1, 2, 0).numpy()) for picture in suite.images(task, "validation")[0]]


def features_of_open_clip(model_folder: Path, images: list[Image.Image]) -> torch.Tensor:
    model, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{model_folder}")
    with torch.no_grad():
        return model.eval().encode_image(torch.stack([preprocess(image) for image in images]), normalize=True)


def features_of_transformers(model_folder: Path, images: list[Image.Image]) -> torch.Tensor:
    model = CLIPVisionModelWithProjection.from_pretrained(model_folder).eval()
    processor = CLIPImageProcessor.from_pretrained(model_folder)
    with torch.no_grad():
        features = model(**processor(images, return_tensors="pt")).image_embeds
    return features / features.norm(dim=-1, keepdim=True)


REOPEN = {"open_clip": features_of_open_clip, "hf": features_of_transformers}


def listing(place: Path) -> set[str]:
    return {path.relative_to(place).as_posix() for path in place.rglob("*")}


@pytest.mark.parametrize("file_format", export.FORMATS)
@pytest.mark.parametrize("case", RECIPES)
def test_what_is_written_predicts_what_was_scored(
    case: str, file_format: str, engine: Engine, written: Callable[..., Path]
) -> None:
    out = written(RECIPES[case], file_format)
    assert listing(out) == FILES[file_format]
    heads = read_safetensors(out / export.HEADS)
    for task in ALL:
        images, labels = engine.suite.images(task, "validation")
        with engine.lock:
            engine.backend.load(RECIPES[case])
            expected = engine.backend.features(images)
        found = REOPEN[file_format](out, pictures(engine.suite, task))
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
        predicted = (found @ heads[task].T).argmax(1).numpy()
        shown = (expected @ engine.suite.head(task).T).argmax(1).numpy()
        assert np.array_equal(predicted, shown), "the same class for every picture"
        right = predicted == labels.numpy()
        assert int(right.sum()) == engine.evaluate(RECIPES[case], [task]).scores[task].correct
        assert np.array_equal(right, engine.stored_answers(RECIPES[case], [task])[task])


def test_both_formats_hold_the_same_numbers(engine: Engine, written: Callable[..., Path]) -> None:
    from lines_explorer.checkpoints.huggingface import to_open_clip

    ours = read_safetensors(written(RECIPE, "open_clip", "a") / export.WEIGHTS)
    theirs = to_open_clip(read_safetensors(written(RECIPE, "hf", "b") / export.HF_WEIGHTS))
    assert theirs.keys() == engine.suite.visual_base().keys()
    assert not torch.equal(ours["visual.proj"], engine.suite.base()["visual.proj"]), "the projection is merged too"
    assert all(torch.equal(ours[key], value) for key, value in theirs.items())
    text = [key for key in ours if key not in theirs and key != "logit_scale"]
    assert text and not any(ours[key].any() for key in text)


def test_recipe_and_sources_are_in_metadata_and_card(engine: Engine, written: Callable[..., Path]) -> None:
    engine.evaluate(RECIPE)
    out = written()
    facts = json.loads(metadata(out / export.HF_WEIGHTS)["lines_explorer"])
    assert Recipe.from_dict(facts["recipe"]) == RECIPE and facts["recipe_hash"] == RECIPE.hash()
    assert facts["base_sha256"] == sha256(engine.suite.folder / "base.safetensors")
    assert facts["experts_sha256"] == {task: sha256(engine.suite.experts[task]) for task in ALL}
    assert facts["quick_gelu"] is False and metadata(out / export.HF_WEIGHTS)["format"] == "pt"
    classes = json.loads(metadata(out / export.HEADS)["lines_explorer"])["classes"]
    assert classes["shapes"] == list(engine.suite.tasks["shapes"].classes)
    card = (out / export.CARD).read_text(encoding="utf-8")
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["library_name"] == "transformers" and "model-merging" in front["tags"]
    stated = json.loads(card.split("```json\n")[1].split("```")[0])
    assert stated == {key: value for key, value in facts.items() if key != "content"}
    assert "| block 1 | 0.2 |" in card and "| block 3 | 0.9 |" in card and "| after block 3 | 0.9 |" in card
    score = engine.evaluate(RECIPE).scores["shapes"].accuracy
    assert f"| shapes | {100 * score.value:.1f} | " in card and f"| {score.n} |" in card


def test_a_card_without_scores_has_none(tiny_suite_folder: Path, tmp_path: Path) -> None:
    fresh = Engine(open_suite(tiny_suite_folder), device="cpu")
    export.merge(fresh, Recipe("tiny", ALL, schedule=constant(0.123)), tmp_path / "out", file_format="open_clip")
    card = (tmp_path / "out" / export.CARD).read_text(encoding="utf-8")
    assert "## Accuracy" not in card and "its tensors are zeros" in card and "open_clip.create_model" in card


def test_equal_recipes_give_equal_bytes(written: Callable[..., Path]) -> None:
    first, second = written(out="first"), written(out="second")
    for name in FILES["hf"]:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


@pytest.mark.parametrize("case", [case for case in RECIPES if case != "base"])
def test_mergekit_computes_the_same(case: str, written: Callable[..., Path]) -> None:
    """Against the rule that mergekit states: θ₀ + Σ wₜτₜ, and of the filters the first that occurs in the name."""
    recipe = RECIPES[case]
    config = yaml.safe_load((written(recipe) / export.MERGEKIT).read_text(encoding="utf-8"))
    assert config["merge_method"] == "task_arithmetic" and config["parameters"] == {"normalize": False, "lambda": 1.0}
    merged = read_safetensors(written(recipe, force=True) / export.HF_WEIGHTS)
    base = read_safetensors(written(RECIPES["base"], out=config["base_model"]) / export.HF_WEIGHTS)
    total = {key: tensor.clone() for key, tensor in base.items()}
    for row in config["models"]:
        expert = read_safetensors(
            written(Recipe("tiny", (Path(row["model"]).name,)), out=row["model"]) / export.HF_WEIGHTS
        )
        for key in total:
            total[key] += weight_of(row["parameters"]["weight"], key) * (expert[key] - base[key])
    for key, tensor in merged.items():
        torch.testing.assert_close(total[key], tensor, rtol=1e-5, atol=1e-6)


def weight_of(setting: Any, tensor: str) -> float:
    if isinstance(setting, float | int):
        return setting
    return next(row["value"] for row in setting if "filter" not in row or row["filter"] in tensor)


def test_mergekit_tells_block_3_from_block_13() -> None:
    keys = [f"vision_model.encoder.layers.{block}.mlp.fc1.bias" for block in range(14)]
    recipe = Recipe("tiny", ("shapes",), schedule=lines(0, 1))
    weight = mergekit_config(recipe, keys)["models"][0]["parameters"]["weight"]
    assert [weight_of(weight, key) for key in keys] == pytest.approx([block / 13 for block in range(14)])


def test_what_mergekit_cannot_express_is_said(engine: Engine, written: Callable[..., Path]) -> None:
    with pytest.raises(ExplorerError, match="TIES"):
        mergekit_config(Recipe("tiny", ALL, "ties"), ["vision_model.encoder.layers.0.mlp.fc1.bias"])
    out = written(Recipe("tiny", ALL, "ties", schedule=lines(0.2, 0.3)))
    assert listing(out) == FILES["hf"] - {export.MERGEKIT}
    assert "mergekit cannot express this recipe: TIES" in (out / export.CARD).read_text(encoding="utf-8")


def test_an_unknown_format_is_refused(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(ExplorerError, match="'gguf': choose from open_clip, hf"):
        export.merge(engine, RECIPE, tmp_path / "out", file_format="gguf")
    assert listing(tmp_path) == set()


def test_a_model_is_replaced_only_by_force_and_then_whole(written: Callable[..., Path], tmp_path: Path) -> None:
    out = written(RECIPE, "open_clip")
    (out / "notes.txt").write_text("mine")
    with pytest.raises(ExplorerError, match="already holds .*--force"):
        written(RECIPE, "hf")
    written(RECIPE, "hf", force=True)
    assert listing(out) == FILES["hf"] | {"notes.txt"} and listing(tmp_path) == {
        "out", *(f"out/{name}" for name in FILES["hf"]), "out/notes.txt",
    }  # fmt: skip
    written(Recipe("tiny", ALL, "ties", schedule=lines(0.2, 0.3)), "hf", force=True)
    assert export.MERGEKIT not in listing(out)


FAULTS = {
    "full disk": (OSError(errno.ENOSPC, "No space left on device"), ExplorerError, "No space left on device"),
    "interrupted": (KeyboardInterrupt(), KeyboardInterrupt, None),
    "fault": (RuntimeError("broken"), RuntimeError, "broken"),
}


@pytest.mark.parametrize("step", ["write_text", "write_safetensors", "weights", "os.fsync"])
@pytest.mark.parametrize("case", FAULTS)
def test_a_failed_write_leaves_nothing(
    case: str, step: str, written: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault, expected, message = FAULTS[case]
    old = written(RECIPES["one expert"], out="deep/old")
    before = {name: (old / name).read_bytes() for name in listing(old)}
    break_down(monkeypatch, step, fault)
    for force, out in ((False, "deeper/still/new"), (True, "deep/old")):
        with pytest.raises(expected, match=message) as caught:
            written(out=out, force=force)
        if expected is ExplorerError:
            assert f"{tmp_path / out} cannot be written" in str(caught.value)
        assert listing(tmp_path) == {"deep", "deep/old", *(f"deep/old/{name}" for name in before)}
    assert {name: (old / name).read_bytes() for name in listing(old)} == before


def break_down(monkeypatch: pytest.MonkeyPatch, step: str, fault: BaseException) -> None:
    """Let one step of writing fail half-way: a part of the file is there already."""
    if step == "os.fsync":
        monkeypatch.setattr("os.fsync", failing(lambda _: True, fault, os.fsync))
    elif step == "weights":
        wanted = failing(lambda path, *_: path.name == export.HF_WEIGHTS, fault, export.write_safetensors)
        monkeypatch.setattr(export, "write_safetensors", wanted)
    else:
        monkeypatch.setattr(export, step, failing(lambda *_: True, fault, getattr(export, step)))


def failing(when: Callable[..., bool], fault: BaseException, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        if not when(*arguments):
            return real(*arguments)
        if isinstance(arguments[0], Path):
            arguments[0].write_bytes(b"half")
        raise fault

    return call


KILLED = """
import os, signal, sys
from pathlib import Path
from lines_explorer.commands.folder import folder_beside

real, step = getattr(os, sys.argv[2]), 0

def dying(*arguments):
    global step
    step += 1
    if step == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments)

with folder_beside(Path(sys.argv[1]), "model.safetensors", ["model.safetensors", "config.json"]) as beside:
    for name in ("config.json", "model.safetensors"):
        (beside / name).write_text("new")
    setattr(os, sys.argv[2], dying)
"""


@pytest.mark.parametrize(
    ("call", "step", "kept"), [("fsync", 1, True), ("rename", 1, True), ("replace", 1, False), ("replace", 2, False)]
)
def test_a_killed_process_leaves_a_whole_model_or_none(call: str, step: int, kept: bool, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with folder.folder_beside(out, "model.safetensors") as beside:
        for name in ("config.json", "model.safetensors"):
            (beside / name).write_text("old")
    for place in (out, tmp_path / "fresh"):
        command = [sys.executable, "-c", KILLED, str(place), call, str(step)]
        ended = subprocess.run(command, cwd=Path(__file__).parents[1], check=False).returncode
        assert ended == -signal.SIGKILL or (place != out and call == "replace")
    if kept:
        assert {path.read_text() for path in out.iterdir()} == {"old"} and not (tmp_path / "fresh").exists()
    else:
        assert not (out / "model.safetensors").exists()
        assert {path.read_text() for path in (tmp_path / "fresh").iterdir()} == {"new"}
    with folder.folder_beside(out, "model.safetensors"), folder.folder_beside(tmp_path / "fresh", "model.safetensors"):
        assert len([path for path in tmp_path.iterdir() if path.name.startswith(".")]) == 2
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_running_export_keeps_its_folder(tmp_path: Path) -> None:
    with folder.folder_beside(tmp_path / "out", "weights") as first:
        with folder.folder_beside(tmp_path / "out", "weights") as second:
            (second / "weights").write_text("second")
        (first / "weights").write_text("first")
    assert (tmp_path / "out" / "weights").read_text() == "first" and listing(tmp_path) == {"out", "out/weights"}


def test_an_empty_folder_and_a_linked_one_are_filled(written: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert listing(written()) == FILES["hf"]
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    written(out="link")
    assert listing(tmp_path / "real") == FILES["hf"] and (tmp_path / "link").is_symlink()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("file_format", export.FORMATS)
def test_quickgelu_is_exported_and_opened_as_such(
    file_format: str, tiny_suite_folder: Path, tmp_path: Path, fresh_cache: Path
) -> None:
    import shutil

    quick = shutil.copytree(tiny_suite_folder, tmp_path / "suite")
    (quick / "manifest.json").unlink()
    description = json.loads((quick / "model.json").read_text())
    (quick / "model.json").write_text(json.dumps({**description, "quick_gelu": True}))
    text = (quick / "suite.yaml").read_text().replace("lines-vit-tiny-test", "lines-vit-tiny-test-quick")
    (quick / "suite.yaml").write_text(text)
    engine = Engine(open_suite(quick), device="cpu")
    export.merge(engine, RECIPE, tmp_path / "out", file_format=file_format)
    images, _ = engine.suite.images("shapes", "validation")
    with engine.lock:
        engine.backend.load(RECIPE)
        expected = engine.backend.features(images)
    found = REOPEN[file_format](tmp_path / "out", pictures(engine.suite, "shapes"))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    name = export.WEIGHTS if file_format == "open_clip" else export.HF_WEIGHTS
    assert json.loads(metadata(tmp_path / "out" / name)["lines_explorer"])["quick_gelu"] is True
