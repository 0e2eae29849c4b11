"""Further runs of a task in a suite: read, checked as experts are, and no change to what was stored before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from runs_suite import write_runs_suite
from tiny import write_manifest

from lines_explorer.checkpoints import metadata, read_safetensors, write_safetensors
from lines_explorer.engine import Engine, Store
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe, task_of
from lines_explorer.schedule import constant
from lines_explorer.suites import Suite
from lines_explorer.suites.fingerprint import without_key
from lines_explorer.suites.task import read_description


@pytest.fixture
def folder(tiny_suite_folder: Path, tmp_path: Path) -> Path:
    return write_runs_suite(tiny_suite_folder, tmp_path / "tiny", {"shapes": 3, "places": 2})


def rewritten(folder: Path, runs: object) -> Path:
    content = yaml.safe_load((folder / "suite.yaml").read_text("utf-8")) | {"runs": runs}
    (folder / "suite.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return folder


def test_runs_are_opened_as_experts_are(folder: Path) -> None:
    suite = Suite(folder)
    assert suite.verify() == []
    assert [run.name for run in suite.runs["shapes"]] == ["shapes/1", "shapes/2"]
    assert suite.runs["shapes"][1].facts == {"seed": 2, "rate": 0.002, "steps": 20}
    assert list(suite.experts) == ["shapes", "colours", "places"]
    assert list(suite.fine_tuned) == [*suite.experts, "shapes/1", "shapes/2", "places/1"]
    stored = read_safetensors(folder / "runs/shapes/2.safetensors")
    assert suite.task_vector("shapes/2")["visual.proj"].equal(stored["visual.proj"].float())
    assert task_of("shapes/2") == task_of("shapes") == "shapes"
    assert Recipe("tiny", ("shapes/2", "shapes", "places/1")).targets == ("places", "shapes")


def test_what_was_stored_stays_valid(folder: Path, tiny_suite_folder: Path) -> None:
    before, after = Suite(tiny_suite_folder), Suite(folder)
    assert after.hash == before.hash == after.hash_for(["shapes"]) and after.hash_for(["shapes/1"]) != after.hash
    assert after.hash_for(["shapes", "shapes/2"]) != after.hash_for(["shapes/1"])


def test_runs_scaled_to_nothing_are_the_base(folder: Path) -> None:
    suite = Suite(folder)
    nothing = Recipe("tiny", ("shapes", "shapes/1"), "average", schedule=constant(0))
    assert suite.hash_of(nothing) == suite.hash_of(Recipe.base("tiny")) == suite.hash
    engine = Engine(suite, "cpu", Store(":memory:"))
    engine.evaluate(Recipe.base("tiny"), ["shapes"])
    assert engine.peek(nothing, ["shapes"]) is not None
    assert suite.hash_of(replace(nothing, schedule=constant(0.5))) == suite.hash_for(["shapes/1"])


def test_another_run_has_other_results(folder: Path) -> None:
    store, soup = Store(":memory:"), Recipe("tiny", ("shapes", "shapes/1"), "average", schedule=constant(1))
    engine = Engine(Suite(folder), "cpu", store)
    engine.evaluate(soup, ["shapes"])
    file = folder / "runs/shapes/1.safetensors"
    swapped = {key: -value for key, value in read_safetensors(file).items()}
    write_safetensors(file, swapped, metadata(file))
    (folder / "manifest.json").unlink()
    assert Engine(Suite(folder), "cpu", store).peek(soup, ["shapes"]) is None
    with pytest.raises(ExplorerError, match="changed while it was open"):
        engine.evaluate(Recipe("tiny", ("shapes/1",)), ["shapes"])


def test_a_changed_run_is_found(folder: Path) -> None:
    file = folder / "runs/shapes/1.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert Suite(folder).verify() == ["runs/shapes/1.safetensors has another sha256 than the manifest's."]
    with pytest.raises(ExplorerError, match="1.safetensors"):
        Suite(folder).task_vector("shapes/1")


def test_a_run_of_another_base_is_refused(folder: Path) -> None:
    file = folder / "runs/shapes/1.safetensors"
    write_safetensors(file, read_safetensors(file), metadata(file) | {"base_sha256": "0" * 64})
    write_manifest(folder)
    with pytest.raises(ExplorerError, match="made for another base"):
        Suite(folder).task_vector("shapes/1")


ROW = {"file": "runs/shapes/1.safetensors", "seed": 1, "rate": 0.001}


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        ({"nothing": [ROW]}, "runs of nothing, which has no expert"),
        ({"shapes": []}, "non-empty list"),
        ({"shapes": ROW}, "non-empty list"),
        ({"shapes": [ROW, ROW]}, "which another run has already"),
        ({"shapes": [{**ROW, "seed": 0.5}]}, "runs.shapes.0.seed must be a whole number of at least 0"),
        ({"shapes": [{**ROW, "rate": 0}]}, "runs.shapes.0.rate must be a number"),
        ({"shapes": [{**ROW, "rate": float("nan")}]}, "runs.shapes.0.rate must be a number"),
        ({"shapes": [{**ROW, "rate": "1e-4"}]}, "1.0e-4 in YAML"),
        ({"shapes": [{**ROW, "steps": True}]}, "runs.shapes.0.steps must be a whole number of at least 1"),
        ({"shapes": [{**ROW, "sed": 3}]}, "did you mean seed?"),
        ({"shapes": [{**ROW, "file": "../1.safetensors"}]}, "lies outside the suite's folder"),
        ({"shapes": [{"file": "x"}]}, "is missing"),
    ],
)
def test_bad_runs_are_named(folder: Path, runs: object, says: str) -> None:
    with pytest.raises(ExplorerError) as told:
        read_description(rewritten(folder, runs))
    assert says in str(told.value)


def test_without_key(tmp_path: Path) -> None:
    file = tmp_path / "suite.yaml"
    block = "runs:\n  a:\n  - {b: 1}\n\n# more\n  c: []\n"
    file.write_text(f"x: 1\n{block}y:\n  runs: 3\n", encoding="utf-8")
    assert without_key(file, "runs") == b"x: 1\ny:\n  runs: 3\n"
    file.write_text("x: 1\nrunsx: 2\n", encoding="utf-8")
    assert without_key(file, "runs") == file.read_bytes()
