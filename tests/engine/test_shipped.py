"""Results that ship with a suite: counts, and right or wrong image by image."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from tiny import TASKS

from lines_explorer.engine import Engine, Store, write_results
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import lines
from lines_explorer.suites import Suite

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
