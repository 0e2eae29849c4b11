"""AdaMerging's coefficients in a suite: found for a set of experts in any order, and no change to other results."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from runs_suite import write_runs_suite
from tiny import write_manifest

from lines_explorer.engine import Engine, Store
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant, lines
from lines_explorer.suites import Suite
from lines_explorer.suites.coefficients import read_coefficients
from lines_explorer.suites.needs import learned_file, only_sets, unmet
from lines_explorer.suites.task import read_description

ALL = ("colours", "places", "shapes")
ONE = constant(1)


@pytest.fixture
def folder(adaptive_suite_folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(adaptive_suite_folder, tmp_path / "tiny")
    return tmp_path / "tiny"


def changed(folder: Path, change: Callable[[dict[str, Any]], None], name: str = "all", listed: bool = True) -> Path:
    file = folder / f"coefficients/{name}.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    change(content)
    file.write_text(json.dumps(content), encoding="utf-8")
    if listed:
        write_manifest(folder)
    return folder


def test_other_results_stay_valid(folder: Path, tiny_suite_folder: Path) -> None:
    plain, after = Suite(tiny_suite_folder), Suite(folder)
    assert (folder / "suite.yaml").read_bytes() != (tiny_suite_folder / "suite.yaml").read_bytes()
    assert (
        after.hash == plain.hash == after.hash_for(ALL) == after.hash_for(ALL, "sum") == after.hash_for(ALL, "fisher")
    )
    own = after.hash_for(ALL, "adamerging")
    assert own == after.hash_for(ALL[::-1], "adamerging") != after.hash
    assert after.hash_for(("places", "shapes"), "adamerging") not in (own, after.hash)
    assert after.hash_for(("colours", "shapes"), "adamerging") == after.hash, "nothing was learned for these"


def test_its_own_results_do_not_survive_other_coefficients(folder: Path) -> None:
    store = Store(":memory:")
    merged, summed = (Recipe("tiny", ALL, method, schedule=ONE) for method in ("adamerging", "sum"))
    engine = Engine(Suite(folder), "cpu", store)
    for recipe in (merged, summed):
        engine.evaluate(recipe, ["shapes"])
    again = Engine(Suite(folder), "cpu", store)
    assert again.peek(merged, ["shapes"]) and again.peek(summed, ["shapes"])
    changed(folder, lambda content: content["coefficients"][0].__setitem__(0, 0.9))
    after = Engine(Suite(folder), "cpu", store)
    assert after.peek(merged, ["shapes"]) is None and after.peek(summed, ["shapes"])
    pair = Recipe("tiny", ("places", "shapes"), "adamerging", schedule=ONE)
    assert Suite(folder).hash_for(pair.tasks, "adamerging") == engine.suite.hash_for(pair.tasks, "adamerging")
    with pytest.raises(ExplorerError, match="changed while it was open"):
        engine.evaluate(Recipe("tiny", ALL, "sum", schedule=constant(0.5)), ["shapes"])


def test_the_merge_has_the_stored_coefficients(folder: Path) -> None:
    suite = Suite(folder)
    engine = Engine(suite, "cpu", Store(":memory:"))
    stored = json.loads((folder / "coefficients/all.json").read_text(encoding="utf-8"))
    rows = dict(zip(stored["tasks"], stored["coefficients"], strict=True))
    engine.backend.load(Recipe("tiny", ALL, "adamerging", schedule=lines(0.5, 1)))
    state, base = engine.backend.state_dict(), suite.base()
    for key, place, factor in [
        ("visual.class_embedding", 0, 0.5),
        ("visual.transformer.resblocks.0.mlp.c_fc.weight", 1, 0.5),
        ("visual.transformer.resblocks.2.mlp.c_fc.weight", 3, 1.5),
        ("visual.proj", 4, 0.5),
    ]:
        added = sum(rows[task][place] * suite.task_vector(task)[key] for task in ALL)
        assert torch.allclose(state[key], base[key] + factor * added, atol=1e-6)


def test_any_order_of_the_experts_will_do(folder: Path) -> None:
    suite = Suite(folder)
    first, turned = read_coefficients(suite, ALL), read_coefficients(suite, ALL[::-1])
    assert first == turned[::-1]
    assert Recipe("tiny", ALL[::-1], "adamerging").hash() == Recipe("tiny", ALL, "adamerging").hash()
    changed(folder, lambda content: [content[key].reverse() for key in ("tasks", "coefficients")])
    assert read_coefficients(Suite(folder), ALL) == first


def test_the_sets_are_told(folder: Path, tiny_suite_folder: Path) -> None:
    suite = Suite(folder)
    assert only_sets(suite, "adamerging") == [["shapes", "colours", "places"], ["shapes", "places"]]
    assert only_sets(suite, "sum") is None and only_sets(Suite(tiny_suite_folder), "adamerging") == []
    assert learned_file(suite, "sum", ALL) is None
    engine = Engine(suite, "cpu", Store(":memory:"))
    assert "adamerging" not in engine.refused
    with pytest.raises(
        ExplorerError, match="exactly these experts: colours, shapes; run .* --tasks colours,shapes --out"
    ):
        engine.peek(Recipe("tiny", ("colours", "shapes"), "adamerging", schedule=ONE))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(base_sha256="0" * 64), "was learned from another base than the suite's; run `python"),
        (lambda c: c["experts_sha256"].update(places="0" * 64), "from another expert places than the suite's"),
        (lambda c: c["experts_sha256"].pop("places"), "from another expert places than the suite's"),
        (lambda c: c.update(tasks=["shapes", "colours", "cats"]), "is of shapes, colours, cats, but suite.yaml says"),
        (lambda c: c["coefficients"][1].pop(), "has 4 coefficients of colours, not 5"),
        (lambda c: c["coefficients"].pop(), "is damaged .2 rows do not fit 3 tasks."),
        (lambda c: c["coefficients"][0].__setitem__(0, float("nan")), "a coefficient is no finite number"),
        (lambda c: c["coefficients"][0].__setitem__(0, "0.3"), "a coefficient is no finite number"),
        (lambda c: c.pop("tasks"), "is damaged .'tasks'."),
        (lambda c: c.update(coefficients=None), "is damaged"),
    ],
)
def test_foreign_and_damaged_coefficients_are_refused(folder: Path, change: Any, message: str) -> None:
    changed(folder, change)
    with pytest.raises(ExplorerError, match=message):
        read_coefficients(Suite(folder), ALL)


def test_a_file_that_is_lost_or_not_the_manifests_is_refused(folder: Path) -> None:
    changed(folder, lambda content: content.update(more=1), listed=False)
    assert Suite(folder).verify() != []
    with pytest.raises(ExplorerError, match="its sha256 is not the manifest's"):
        read_coefficients(Suite(folder), ALL)
    (folder / "coefficients/all.json").write_bytes(b"\xff{")
    (folder / "manifest.json").unlink()
    with pytest.raises(ExplorerError, match="all.json is damaged"):
        read_coefficients(Suite(folder), ALL)
    (folder / "coefficients/all.json").unlink()
    with pytest.raises(ExplorerError, match="all.json is missing; run"):
        read_coefficients(Suite(folder), ALL)


def test_runs_are_not_learned_for(tiny_suite_folder: Path, tmp_path: Path) -> None:
    suite = Suite(write_runs_suite(tiny_suite_folder, tmp_path / "tiny", {"shapes": 2}))
    assert unmet(suite, "adamerging", ("places", "shapes/1")) == (
        "AdaMerging learns for experts, not for further runs: merge shapes instead of shapes/1."
    )


ROW = {"tasks": ["shapes", "places"], "file": "coefficients/x.json"}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({"x": {**ROW, "tasks": ["shapes", "cats"]}}, "coefficients.x.tasks names cats, which has no expert"),
        (
            {"x": {**ROW, "tasks": ["shapes", "shapes"]}},
            "coefficients.x.tasks is shapes, shapes; name each expert once",
        ),
        ({"x": ROW, "y": {**ROW, "tasks": ["places", "shapes"]}}, "for which there are other coefficients already"),
        ({"x": {**ROW, "file": "../x.json"}}, "lies outside the suite's folder"),
        ({"x": {"file": "x.json"}}, "coefficients.x.tasks is missing"),
        ({"x": {**ROW, "fiel": "x"}}, "did you mean file?"),
        ([ROW], "coefficients must be"),
    ],
)
def test_bad_entries_are_named(folder: Path, rows: object, says: str) -> None:
    content = yaml.safe_load((folder / "suite.yaml").read_text("utf-8")) | {"coefficients": rows}
    (folder / "suite.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(ExplorerError) as told:
        read_description(folder)
    assert says in str(told.value)
