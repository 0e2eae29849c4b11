"""The command line on the paper's other settings: shifted sets, subtracting a task, soups of runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs_suite import write_runs_suite

from lines_explorer import cli
from lines_explorer.commands.curves import line
from lines_explorer.engine import Engine, Store
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import Schedule, constant, lines
from lines_explorer.suites import open_suite
from lines_explorer.sweep.settings import greedy_soup

Ask = Callable[..., dict[str, Any]]
RUNS = ("shapes", "shapes/1", "shapes/2")


@pytest.fixture(scope="module")
def folder(tiny_suite_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_runs_suite(tiny_suite_folder, tmp_path_factory.mktemp("cli") / "tiny", {"shapes": 3})


@pytest.fixture(scope="module")
def engine(folder: Path) -> Engine:
    return Engine(open_suite(folder), "cpu", Store(":memory:"))


@pytest.fixture
def ask(folder: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    def call(verb: str, *arguments: object) -> dict[str, Any]:
        words = [verb, "--suite", str(folder), *map(str, arguments), "--json"]
        assert cli.main(words) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return call


def right(engine: Engine, recipe: Recipe, split: str = "validation") -> int:
    return engine.evaluate(recipe, ["shapes"], split).scores["shapes"].correct


def test_suites_lists_runs(ask: Ask) -> None:
    rows = {row["name"]: row["runs"] for row in ask("suites")["suites"][0]["tasks"]}
    assert rows["shapes"][1] == {"name": "shapes/2", "seed": 2, "rate": 0.002, "steps": 20} and rows["places"] == []


def test_a_task_is_subtracted(ask: Ask, engine: Engine) -> None:
    told = ask("evaluate", "--tasks", "shapes", "--scale", "-0.5")
    assert told["recipe"]["schedule"] == {"kind": "constant", "alpha": -0.5, "beta": 0.0}
    assert told["tasks"]["shapes"]["correct"] == right(engine, Recipe("tiny", ("shapes",), schedule=constant(-0.5)))
    told = ask("evaluate", "--tasks", "shapes", "--alpha", "-0.3", "--beta", "-0.2")
    assert told["tasks"]["shapes"]["correct"] == right(engine, Recipe("tiny", ("shapes",), schedule=lines(-0.3, -0.2)))


def test_shifted_sets_beside_the_split(ask: Ask, engine: Engine) -> None:
    told = ask("evaluate", "--tasks", "shapes", "--scale", "0.5", "--shifts")
    noisy = told["shifts"]["shapes"]["noisy"]
    assert noisy["correct"] == right(engine, Recipe("tiny", ("shapes",), schedule=constant(0.5)), "noisy")
    expert = right(engine, Recipe("tiny", ("shapes",)), "noisy")
    assert noisy["normalized"] == pytest.approx(noisy["correct"] / expert) and noisy["reference"] == "expert"
    assert told["shifted"] == {key: noisy[key] for key in ("accuracy", "low", "high", "n", "normalized")} | {"tasks": 1}
    assert "shifts" not in ask("evaluate", "--tasks", "shapes", "--scale", "0.5")


def test_curve_on_a_shifted_set_and_beside_it(ask: Ask) -> None:
    on = ask("curve", "--target", "shapes", "--split", "noisy", "--points", 3)
    beside = ask("curve", "--target", "shapes", "--shifts", "--points", 3)
    assert on["split"] == "noisy" and all(point["control"] is None for point in on["points"])
    for there, here in zip(on["points"], beside["points"], strict=True):
        assert there["target"]["accuracy"] == here["shifts"]["shapes"]["noisy"]["accuracy"]
    assert beside["points"][0]["target"]["normalized"] == beside["points"][0]["shifted"]["normalized"] == 1


def test_curve_of_a_setting(ask: Ask) -> None:
    told = ask("curve", "--target", "shapes", "--setting", "negation", "--points", 4)
    assert [(point["alpha"], point["beta"]) for point in told["points"]] == [
        (0, 0), (-0.25, -0.25), (-0.5, -0.5), (-0.75, -0.75),
    ]  # fmt: skip
    assert told["points"][0]["control"]["normalized"] == 1
    told = ask("curve", "--target", "shapes", "--setting", "robustness", "--schedule", "constant", "--points", 2)
    assert [point["alpha"] for point in told["points"]] == [1, 0]


def test_lines_of_the_settings() -> None:
    def schedules(*asked: Any) -> list[Schedule]:
        return [recipe.schedule for recipe in line("tiny", "shapes", *asked)]

    assert schedules("lines", "robustness", 3) == [lines(0.5, 0.5), lines(0.25, 0.25), lines(0, 0)]
    assert schedules("constant", "negation", 3) == [constant(0), constant(-0.75), constant(-1.5)]
    assert schedules("reversed", "edit", 2) == [Schedule("reversed", 1, 0), Schedule("reversed", 0, 1)]


def test_soups_of_runs(ask: Ask, engine: Engine) -> None:
    names = ",".join(RUNS)
    uniform = ask("evaluate", "--tasks", names, "--soup", "uniform")
    assert uniform["recipe"] | {"schedule": None} == {
        "suite": "tiny", "tasks": list(RUNS), "method": "average", "parameters": {}, "schedule": None,
        "rule": "reference",
    }  # fmt: skip
    soup = Recipe("tiny", RUNS, "average", schedule=constant(1))
    assert uniform["tasks"]["shapes"]["correct"] == right(engine, soup)
    assert uniform["tasks"]["shapes"]["reference"] == "expert" and uniform["control"]["tasks"] == 2
    greedy = ask("evaluate", "--tasks", names, "--soup", "greedy", "--alpha", 0.5, "--beta", 0.5)
    assert greedy["recipe"]["tasks"] == sorted(greedy_soup(engine, "shapes", RUNS))
    assert greedy["recipe"]["schedule"] == {"kind": "lines", "alpha": 0.5, "beta": 0.5}
    one = ask("curve", "--target", "shapes/1", "--schedule", "constant", "--points", 2)["points"]
    assert one[1]["control"]["normalized"] == 1 and one[0]["target"]["n"] == 40
    assert ask("evaluate", "--tasks", "all", "--scale", 0.3)["recipe"]["tasks"] == ["colours", "places", "shapes"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["evaluate", "--tasks", "places", "--shifts"], "tasks that have one: shapes"),
        (["curve", "--target", "places", "--shifts"], "has no shifted set"),
        (["curve", "--target", "places", "--split", "noisy"], "No split 'noisy' for places"),
        (["curve", "--target", "shapes", "--setting", "nothing"], "choose from edit, robustness, negation"),
        (["evaluate", "--tasks", "shapes/9"], "Unknown task 'shapes/9'"),
        (["evaluate", "--tasks", "shapes,places", "--soup", "uniform"], "runs of one task, not of places, shapes"),
        (["evaluate", "--tasks", "shapes,shapes/1", "--soup", "ties"], "choose from uniform, greedy"),
        (["evaluate", "--tasks", "shapes,shapes/1", "--soup", "greedy", "--method", "ties"], "--method ties does not"),
    ],
)
def test_bad_input_is_one_sentence(folder: Path, capsys, words: list[str], says: str) -> None:
    assert cli.main([*words, "--suite", str(folder)]) == 2
    told = capsys.readouterr().err
    assert says in told and told.count("\n") == 1
