"""`build-suite adamerging`: the entropy falls, labels are not read, and an interrupted run ends as a whole one."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny import TASKS, write_manifest

from lines_explorer.engine import Backend
from lines_explorer.errors import ExplorerError
from lines_explorer.merging.adaptive import mean_entropy
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant
from lines_explorer.suites import Suite
from lines_explorer.training import adamerging, build
from lines_explorer.training.adamerging import Learner, Plan, build_adamerging

ALL = tuple(TASKS)
QUICK = Plan(steps=12, rate=0.02, save_every=4)


@pytest.fixture
def folder(tiny_suite_folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(tiny_suite_folder, tmp_path / "tiny")
    return tmp_path / "tiny"


def silent(line: str) -> None:
    """Says nothing."""


def learned(folder: Path, name: str = "all") -> dict:
    return json.loads((folder / f"coefficients/{name}.json").read_text(encoding="utf-8"))


def test_the_entropy_falls_and_is_that_of_the_merged_model(adaptive_suite_folder: Path) -> None:
    found, suite = learned(adaptive_suite_folder), Suite(adaptive_suite_folder)
    before, after = found["entropy"]["start"], found["entropy"]["end"]
    assert after["mean"] < before["mean"] - 0.02
    assert after["mean"] == pytest.approx(sum(after[task] for task in ALL) / 3)
    backend = Backend(suite, "cpu")
    for recipe, entropies in [
        (Recipe("tiny", ALL, "sum", schedule=constant(0.3)), before),
        (Recipe("tiny", ALL, "adamerging", schedule=constant(1)), after),
    ]:
        backend.load(recipe)
        for task in ALL:
            logits = backend.features(suite.images(task, "validation")[0]) @ suite.head(task).T
            assert float(mean_entropy(logits)) == pytest.approx(entropies[task], abs=1e-4)


def test_the_file_says_how_it_was_made(adaptive_suite_folder: Path) -> None:
    found, suite = learned(adaptive_suite_folder), Suite(adaptive_suite_folder)
    rows = found["coefficients"]
    assert found["tasks"] == list(ALL) and [len(row) for row in rows] == [5] * 3
    assert all(0 <= value <= 1 for row in rows for value in row)
    assert len({value for row in rows for value in row}) > 8
    assert found["recipe"] == {"steps": 40, "rate": 0.02, "batch": 16, "start": 0.3, "seed": 0}
    assert found["base_sha256"] == suite.base_sha256
    assert found["experts_sha256"] == {task: suite.expert_sha256(task) for task in ALL}
    assert found["images_seen"]["shapes"] == {"of": 40, "different": 40, "draws": 640}
    assert [step for step, _ in found["log"]] == [25, 40]
    assert suite.verify() == [] and not list(adaptive_suite_folder.glob(".adamerging*"))


def test_the_gradient_is_right(tiny_suite_folder: Path) -> None:
    """Against a central difference of the loss, of one coefficient of each task."""
    learner = Learner(Suite(tiny_suite_folder), ALL, QUICK)
    at = torch.full((3, learner.columns), 0.3, requires_grad=True)
    (slope,) = torch.autograd.grad(learner.loss(at, 0), at)
    for task, depth in ((0, 0), (1, 2), (2, 4)):
        step = torch.zeros_like(at)
        step[task, depth] = 0.01
        with torch.no_grad():
            rise = (learner.loss(at + step, 0) - learner.loss(at - step, 0)) / 0.02
        assert float(rise) == pytest.approx(float(slope[task, depth]), rel=0.05, abs=0.02)


def test_labels_are_not_read_and_what_is_drawn_is_the_tasks_own(tiny_suite_folder: Path) -> None:
    learner = Learner(Suite(tiny_suite_folder), ALL, QUICK)
    pair = Learner(Suite(tiny_suite_folder), ("shapes", "places"), QUICK)
    assert (learner.rows(2, 3) == pair.rows(1, 3)).all() and (learner.rows(2, 3) != learner.rows(2, 4)).any()
    assert len(set(learner.rows(0, 0).tolist())) == 16
    assert all(images.dtype == torch.uint8 for images in learner.images)
    assert not [name for name in vars(learner) if "label" in name]


def test_an_interrupted_run_ends_as_a_whole_one(folder: Path, tiny_suite_folder: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole" / "tiny"
    shutil.copytree(tiny_suite_folder, whole)
    assert build_adamerging(whole, None, QUICK, silent)

    def interrupt(line: str) -> None:
        if line.startswith("step 8 "):
            raise KeyboardInterrupt

    before = (folder / "suite.yaml").read_bytes()
    with pytest.raises(KeyboardInterrupt):
        build_adamerging(folder, None, QUICK, interrupt)
    assert (folder / "suite.yaml").read_bytes() == before and not (folder / "coefficients").exists()
    said: list[str] = []
    assert build_adamerging(folder, None, QUICK, said.append)
    assert [line.split(":")[0] for line in said if line.startswith("step")] == ["step 8 of 12", "step 12 of 12"]
    assert (folder / "coefficients/all.json").read_bytes() == (whole / "coefficients/all.json").read_bytes()
    assert Suite(folder).verify() == []


def test_a_checkpoint_of_another_recipe_is_left_aside(folder: Path) -> None:
    def interrupt(line: str) -> None:
        if line.startswith("step 4 of 12"):
            raise KeyboardInterrupt

    slow = replace(QUICK, save_every=2)
    with pytest.raises(KeyboardInterrupt):
        build_adamerging(folder, None, slow, interrupt)
    said: list[str] = []
    build_adamerging(folder, None, replace(slow, seed=1), said.append)
    assert said[1].startswith("step 2 of 12")


def test_what_is_done_is_not_done_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert build_adamerging(folder, ["shapes", "places"], QUICK, silent)
    file = folder / "coefficients/shapes-places.json"
    before = file.read_bytes()
    monkeypatch.setattr(adamerging.Learner, "learn", None)
    assert not build_adamerging(folder, ["places", "shapes"], QUICK, silent)
    (folder / "suite.yaml").write_bytes((folder / "suite.yaml").read_bytes().split(b"coefficients:")[0])
    assert not build_adamerging(folder, ["places", "shapes"], QUICK, silent)
    assert file.read_bytes() == before and list(Suite(folder).coefficients) == [frozenset({"shapes", "places"})]
    assert Suite(folder).verify() == []


@pytest.mark.parametrize("lost", ["base", "expert", "pictures", "recipe"])
def test_what_was_made_otherwise_is_made_again(folder: Path, lost: str) -> None:
    build_adamerging(folder, ["shapes", "places"], QUICK, silent)
    before, plan = learned(folder, "shapes-places"), QUICK
    if lost == "recipe":
        plan = replace(QUICK, steps=13)
    else:
        key = {"base": "base_sha256", "expert": "experts_sha256", "pictures": "pictures_and_head_sha256"}[lost]
        other = before | {key: "0" * 64 if lost == "base" else before[key] | {"shapes": "0" * 64}}
        (folder / "coefficients/shapes-places.json").write_text(json.dumps(other), encoding="utf-8")
        write_manifest(folder)
    assert build_adamerging(folder, ["shapes", "places"], plan, silent)
    after = learned(folder, "shapes-places")
    assert after["recipe"]["steps"] == plan.steps and (lost == "recipe" or after == before)
    assert Suite(folder).verify() == []


def test_another_expert_makes_all_another_set(folder: Path) -> None:
    """A file of an earlier, smaller `all` is not overwritten."""
    text = (folder / "suite.yaml").read_text(encoding="utf-8")
    (folder / "suite.yaml").write_text(text.replace("  colours: experts/colours.safetensors\n", ""), encoding="utf-8")
    build_adamerging(folder, None, QUICK, silent)
    added = (folder / "suite.yaml").read_text(encoding="utf-8")
    (folder / "suite.yaml").write_text(
        added.replace("experts:\n", "experts:\n  colours: experts/colours.safetensors\n"), encoding="utf-8"
    )
    build_adamerging(folder, None, QUICK, silent)
    sets = {tuple(sorted(tasks)): path.name for tasks, path in Suite(folder).coefficients.items()}
    assert sets == {("places", "shapes"): "all.json", ("colours", "places", "shapes"): "colours-shapes-places.json"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--tasks", "cats,shapes"), "has no expert cats; it has shapes, colours, places"),
        (("--tasks", "shapes"), "AdaMerging merges at least 2 experts, not 1: name more with --tasks."),
        (("--tasks", "shapes,shapes"), "at least 2 experts, not 1"),
        (("--steps", "0"), "--steps is 0: give a whole number above 0."),
    ],
)
def test_bad_input_gets_one_sentence(folder: Path, capsys, words: tuple[str, ...], message: str) -> None:
    assert build.main(["adamerging", "--out", str(folder), *words]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
    assert build.main(["adamerging", "--out", str(folder / "tasks")]) == 2
    assert "has no suite.yaml" in capsys.readouterr().err


def test_a_task_without_validation_pictures_is_refused(folder: Path) -> None:
    text = (folder / "suite.yaml").read_text(encoding="utf-8")
    text = text.replace("      validation: tasks/shapes/validation.parquet\n", "")
    (folder / "suite.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ExplorerError, match="shapes has no validation pictures to learn on"):
        build_adamerging(folder, None, QUICK, silent)


def test_the_command_learns_and_prints(folder: Path, capsys) -> None:
    assert build.main(["adamerging", "--tasks", "all", "--steps", "3", "--out", str(folder)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("shapes, colours, places: entropy ") and said[0].endswith("at λ = 0.3")
    assert said[1].startswith("step 3 of 3: entropy ") and "with the learned coefficients" in said[2]
    assert learned(folder)["recipe"]["rate"] == 1e-3
