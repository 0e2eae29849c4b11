"""Results that ship with a suite: counts, and right or wrong image by image."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from runs_suite import write_runs_suite
from tiny import TASKS, write_manifest

from lines_explorer.checkpoints import metadata, read_safetensors, write_safetensors
from lines_explorer.engine import Engine, Store, write_results
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import lines
from lines_explorer.suites import Suite, open_suite

EDIT = Recipe("tiny", (tuple(TASKS)[0],), schedule=lines(0.3, 0.7))


def test_shipped_results_are_used(engine: Engine, suite: Suite, tmp_path: Path) -> None:
    evaluations = [engine.evaluate(EDIT), engine.zero_shot()]
    assert write_results(tmp_path / "validation.json", suite.hash, "validation", evaluations) == 6
    other = Engine(suite, "cpu", Store(":memory:"))
    other.store.seed(tmp_path / "validation.json", suite.hash)
    assert other.peek(EDIT).scores == evaluations[0].scores
    assert other.stored_answers(EDIT) == {}


def test_shipped_results_may_tell_image_by_image(engine: Engine, suite: Suite, tmp_path: Path) -> None:
    path = tmp_path / "validation.json"
    evaluations = [engine.evaluate(EDIT), engine.zero_shot()]
    write_results(path, suite.hash, "validation", evaluations, engine.stored_answers)
    other = Engine(suite, "cpu", Store(":memory:"))
    other.store.seed(path, suite.hash)
    known, ours = other.stored_answers(EDIT), engine.stored_answers(EDIT)
    assert known.keys() == ours.keys() == evaluations[0].scores.keys()
    assert all((known[task] == ours[task]).all() for task in ours)
    for damage in ("AA==", base64.b64encode(bytes(1000)).decode()):
        content = json.loads(path.read_text())
        content["rows"][0]["bits"] = damage
        path.write_text(json.dumps(content))
        with pytest.raises(ExplorerError, match="is damaged"):
            Store(":memory:").seed(path, suite.hash)


def test_results_of_runs_are_found_while_the_runs_are_the_same(tiny_suite_folder: Path, tmp_path: Path) -> None:
    folder = write_runs_suite(tiny_suite_folder, tmp_path / "tiny", {"shapes": 2})
    suite, path, recipe = open_suite(folder), folder / "results" / "validation.json", Recipe("tiny", ("shapes/1",))
    engine = Engine(suite, "cpu", Store(":memory:"))
    evaluations = [engine.evaluate(recipe), engine.evaluate(EDIT)]
    path.parent.mkdir(exist_ok=True)

    write_results(path, suite.hash, "validation", evaluations, engine.stored_answers, hash_of=suite.hash_of)
    assert Engine(suite, "cpu", Store(":memory:")).peek(recipe).scores == evaluations[0].scores

    run = folder / "runs" / "shapes" / "1.safetensors"
    write_safetensors(run, {key: 0.5 * delta for key, delta in read_safetensors(run).items()}, metadata(run))
    write_manifest(folder)
    other = Engine(open_suite(folder), "cpu", Store(":memory:"))
    assert other.peek(recipe) is None and other.peek(EDIT).scores == evaluations[1].scores
