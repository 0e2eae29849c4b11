"""`build-suite runs`: further runs of a task in a suite that stays whole, whatever happens meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from lines_explorer.engine import Engine, Store
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant
from lines_explorer.suites import Suite
from lines_explorer.training import build, expert, runs


@pytest.fixture
def folder(tiny_suite_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_suite_folder, tmp_path / "tiny"))


def pictures(suite: Suite) -> runs.Pictures:
    """The task's own pictures as training wants them: (n, side, side, 3)."""
    images, labels = suite.images("shapes", "validation")
    return np.ascontiguousarray(images.permute(0, 2, 3, 1).numpy()), labels.numpy()


def test_recipes_differ_in_seed_and_rate() -> None:
    planned = runs.recipes(7, steps=9)
    assert [recipe.seed for recipe in planned] == [1, 2, 3, 4, 5, 6, 7]
    usual = expert.Recipe.rate
    assert [recipe.rate / usual for recipe in planned[:5]] == pytest.approx([1, 2 / 3, 3 / 2, 1 / 2, 2], rel=1e-3)
    assert planned[5].rate == planned[0].rate and {recipe.steps for recipe in planned} == {9}
    alike = runs.recipes(3, one_rate=True)
    assert [recipe.seed for recipe in alike] == [1, 2, 3] and {recipe.rate for recipe in alike} == {usual}


def test_runs_join_the_suite_and_nothing_else_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Suite(folder)
    text, digest, training = (folder / "suite.yaml").read_text(), before.hash, pictures(before)
    planned = runs.recipes(3, steps=4)
    trained, fine_tune = [], expert.fine_tune

    def interrupted(*arguments):
        if len(trained) == 2:
            raise KeyboardInterrupt
        trained.append(arguments[4].seed)
        return fine_tune(*arguments)

    monkeypatch.setattr(expert, "fine_tune", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runs.train_runs(folder, "shapes", planned, training, training)
    assert Suite(folder).verify() == []
    assert [run.name for run in Suite(folder).runs["shapes"]] == ["shapes/1", "shapes/2"]

    monkeypatch.setattr(expert, "fine_tune", lambda *a: (trained.append(a[4].seed), fine_tune(*a))[1])
    runs.train_runs(folder, "shapes", planned, training, training)
    assert trained == [1, 2, 3], "what was done is not done again"
    suite = Suite(folder)
    assert suite.verify() == []
    assert (folder / "suite.yaml").read_text().startswith(text) and suite.hash == digest
    assert [run.facts["rate"] for run in suite.runs["shapes"]] == [recipe.rate for recipe in planned]
    vectors = [suite.task_vector(name)["visual.proj"] for name in ("shapes/1", "shapes/2", "shapes/3")]
    assert all(vector.abs().sum() > 0 for vector in vectors) and not vectors[0].equal(vectors[1])
    engine = Engine(suite, "cpu", Store(":memory:"))
    soup = Recipe("tiny", ("shapes", "shapes/1", "shapes/3"), "average", schedule=constant(1))
    assert engine.evaluate(soup, ["shapes"]).complete


def test_another_recipe_makes_another_run(folder: Path) -> None:
    training = pictures(Suite(folder))
    runs.train_runs(folder, "shapes", runs.recipes(1, steps=2), training, training)
    first = Suite(folder).expert_sha256("shapes/1")
    runs.train_runs(folder, "shapes", runs.recipes(1, steps=3), training, training)
    assert Suite(folder).expert_sha256("shapes/1") != first
    assert [run.facts["steps"] for run in Suite(folder).runs["shapes"]] == [3]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--task", "nothing"], "has no expert for nothing"),
        (["--task", "shapes"], "name their folder with --pictures"),
        (["--task", "shapes", "--count", "0"], "--count is 0"),
        (["--task", "shapes", "--steps", "0"], "--steps is 0"),
    ],
)
def test_bad_input_is_one_sentence(folder: Path, capsys, words: list[str], says: str) -> None:
    assert build.main(["runs", "--out", str(folder), *words]) == 2
    assert says in capsys.readouterr().err
    assert build.main(["runs", "--out", str(folder / "nowhere"), *words]) == 2


def test_a_run_without_weights_is_refused(folder: Path) -> None:
    training = pictures(Suite(folder))
    runs.train_runs(folder, "shapes", runs.recipes(1, steps=1), training, training)
    (folder / "runs/shapes/1.safetensors").unlink()
    with pytest.raises(ExplorerError, match="shapes/1|1.safetensors"):
        Suite(folder).task_vector("shapes/1")
