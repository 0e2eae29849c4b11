"""Merge methods and block knock-out on the command line: `--set`, `suites`, `curve --schedule blocks`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lines_explorer import cli
from lines_explorer.commands.arguments import METHOD_NAMES
from lines_explorer.engine import Engine
from lines_explorer.merging import METHODS
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant, free
from lines_explorer.suites import open_suite

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], tiny_suite_folder: Path) -> Ask:
    def call(verb: str, *arguments: object, suite: Path = tiny_suite_folder) -> dict[str, Any]:
        code = cli.main([verb, "--suite", str(suite), *map(str, arguments), "--json"])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        return json.loads(captured.out)

    return call


@pytest.fixture
def refuse(capsys: pytest.CaptureFixture[str], tiny_suite_folder: Path) -> Callable[..., str]:
    def call(verb: str, *arguments: object) -> str:
        assert cli.main([verb, "--suite", str(tiny_suite_folder), *map(str, arguments), "--json"]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        return captured.err

    return call


def test_set_reaches_the_recipe_and_defaults_leave_it_alone(ask: Ask) -> None:
    asked = ("--tasks", "all", "--method", "ties", "--scale", "0.4")
    plain = ask("evaluate", *asked)
    assert ask("evaluate", *asked, "--set", "k=20", "--set", "combine=mean")["hash"] == plain["hash"]
    changed = ask("evaluate", *asked, "--set", "k=50", "--set", "combine=sum")
    assert changed["recipe"]["parameters"] == {"k": 50.0, "combine": "sum"} and changed["hash"] != plain["hash"]
    recipe = Recipe("tiny", ("colours", "places", "shapes"), "ties", {"k": 50, "combine": "sum"}, constant(0.4))
    assert changed["hash"] == recipe.hash()
    assert ask("evaluate", *asked, "--set", "k=50", "--set", "combine=sum")["source"] == "stored"


def test_the_default_alpha_is_that_of_the_parameters(ask: Ask, tiny_suite_folder: Path) -> None:
    asked = ask(
        "evaluate", "--tasks", "all", "--method", "trim", "--set", "k=5", "--beta", "0.2", "--score-on", "shapes"
    )
    engine = Engine(open_suite(tiny_suite_folder), "cpu")
    alpha = engine.alpha_from_norms(tuple(engine.suite.experts), "trim", (("k", 5),))
    assert asked["recipe"]["schedule"]["alpha"] == alpha > 2 * engine.alpha_from_norms(tuple(engine.suite.experts))


def test_curve_search_and_merge_take_them_too(ask: Ask, tmp_path: Path) -> None:
    line = ask("curve", "--target", "shapes", "--method", "trim", "--set", "k=10", "--points", "2")
    assert (line["method"], line["parameters"], len(line["points"])) == ("trim", {"k": 10.0}, 2)
    asked = ("--tasks", "shapes,places", "--method", "slerp", "--set", "t=0.25")
    found = ask("search", *asked, "--no-lines", "--refine", "0", "--no-bootstrap")
    assert found["parameters"] == {"t": 0.25} == found["chosen"]["recipe"]["parameters"]
    written = ask("merge", *asked, "--scale", "0.5", "--out", tmp_path / "out")
    assert written["recipe"]["parameters"] == {"t": 0.25}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ties", "k=101"), "Parameter k must be a number from 0 to 100, not 101; its default is 20."),
        (("ties", "combine=max"), "Parameter combine must be one of mean, sum, not 'max'; its default is mean."),
        (
            ("dare", "seed=1.5"),
            "Parameter seed must be a whole number from 0 to 2147483647, not 1.5; its default is 0.",
        ),
        (("ties", "reference=1"), "Parameter reference must be true or false, not 1; its default is false."),
        (("ties", "p=1"), "The merge method ties does not take these parameters: p; its parameters are k, combine"),
        (("sum", "k=1"), "does not take these parameters: k; it has none."),
        (("ties", "k"), "--set 'k' is not NAME=VALUE, such as k=20."),
        (("ties", "k=[1"), "--set 'k=[1' is not NAME=VALUE, such as k=20."),
        (("adamerging", None), "has no AdaMerging coefficients of exactly these experts: colours, places, shapes"),
        (("adamerging", None), "run `python -m lines_explorer build-suite adamerging --tasks all --out FOLDER`"),
        (("fisher", None), "run `python -m lines_explorer build-suite statistics --out FOLDER`"),
    ],
)
def test_bad_parameters_get_one_sentence(refuse: Callable[..., str], words: tuple, message: str) -> None:
    method, given = words
    said = refuse("evaluate", "--tasks", "all", "--method", method, *(("--set", given) if given else ()))
    assert message in said and said.count("\n") == 1


def test_suites_lists_every_method_and_why_one_is_refused(ask: Ask, measured_suite_folder: Path) -> None:
    listed = ask("suites")
    assert [row["name"] for row in listed["methods"]] == list(METHODS) == METHOD_NAMES.split(", ")
    (k, combine, _) = next(row for row in listed["methods"] if row["name"] == "ties")["parameters"]
    assert (k["default"], k["range"], combine["default"]) == (20.0, "a number from 0 to 100", "mean")
    assert set(listed["suites"][0]["refused_methods"]) == {"fisher", "regmean", "adamerging"}
    assert set(ask("suites", suite=measured_suite_folder)["suites"][0]["refused_methods"]) == {"adamerging"}


def test_the_list_for_people(capsys: pytest.CaptureFixture[str], tiny_suite_folder: Path) -> None:
    assert cli.main(["suites", "--suite", str(tiny_suite_folder)]) == 0
    shown = capsys.readouterr().out
    assert (
        "k = 20: Percentage of each task vector's entries that is kept, the largest. (a number from 0 to 100)" in shown
    )
    assert all(method.title in shown for method in METHODS.values()) and "no fisher: Suite tiny has no" in shown


def test_fisher_is_scored_where_it_was_measured(ask: Ask, measured_suite_folder: Path) -> None:
    found = ask("evaluate", "--tasks", "all", "--method", "fisher", "--beta", "0.2", suite=measured_suite_folder)
    assert found["recipe"]["method"] == "fisher" and found["tasks"]["shapes"]["n"] == 40


def test_blocks_are_scaled_one_after_the_other(ask: Ask, tiny_suite_folder: Path) -> None:
    found = ask("curve", "--target", "shapes", "--schedule", "blocks", "--points", "3")
    assert [row["block"] for row in found["blocks"]] == [1, 2, 3, None]
    engine = Engine(open_suite(tiny_suite_folder), "cpu")
    expert = engine.evaluate(Recipe("tiny", ("shapes",)))
    for place, row in zip((0, 1, 2, None), found["blocks"], strict=True):
        assert [point["scale"] for point in row["points"]] == [1.0, 0.5, 0.0]
        assert row["points"][0]["target"]["accuracy"] == expert.scores["shapes"].accuracy.value
        factors = [0.5 if block == place else 1.0 for block in range(3)]
        half = Recipe("tiny", ("shapes",), schedule=free(factors, 0.5 if place is None else 1.0))
        stored = engine.peek(half)
        assert stored is not None, "what was scored is in the store"
        assert row["points"][1]["target"]["accuracy"] == stored.scores["shapes"].accuracy.value
        losses = [
            point["difference"]["value"] < 0 and not point["difference"]["within_noise"] for point in row["points"]
        ]
        harmless = losses.index(True) if True in losses else 3
        assert row["lowest"] == row["points"][harmless - 1]["scale"] and row["safe"] == (row["lowest"] == 0)


def test_block_knock_out_refuses_what_it_cannot_do(refuse: Callable[..., str]) -> None:
    blocks = ("curve", "--target", "shapes", "--schedule", "blocks")
    assert "leave --method out" in refuse(*blocks, "--method", "ties")
    assert "--points is 1" in refuse(*blocks, "--points", "1")
    assert "Unknown target 'cats'" in refuse("curve", "--target", "cats", "--schedule", "blocks")


def test_the_table_of_blocks_says_how_it_is_read(capsys: pytest.CaptureFixture[str], tiny_suite_folder: Path) -> None:
    words = ["curve", "--suite", str(tiny_suite_folder), "--target", "shapes", "--schedule", "blocks", "--points", "3"]
    assert cli.main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 1 + 4 + 1 and lines[1].split()[-2:] == ["down", "to"]
    assert lines[5].startswith("outside") and lines[-1].startswith("down to: the smallest s without a measurable loss")


def test_adamerging_is_scored_for_the_sets_it_learned(
    ask: Ask, capsys: pytest.CaptureFixture[str], adaptive_suite_folder: Path, tmp_path: Path
) -> None:
    folder = adaptive_suite_folder
    for tasks in ("all", "shapes,places", "places,shapes"):
        found = ask("evaluate", "--tasks", tasks, "--method", "adamerging", "--scale", "1", suite=folder)
        assert found["recipe"]["method"] == "adamerging" and found["tasks"]["shapes"]["n"] == 40
    chosen = ask("search", "--tasks", "all", "--method", "adamerging", suite=folder)
    assert chosen["test"] and len(chosen["grid"]) >= len(METHODS["adamerging"].grid)
    written = ask(
        "merge", "--tasks", "all", "--method", "adamerging", "--scale", "1", "--out", tmp_path / "m", suite=folder
    )
    assert Path(written["file"]).is_file()
    assert ask("suites", suite=folder)["suites"][0]["refused_methods"].keys() == {"fisher", "regmean"}
    assert cli.main(["evaluate", "--suite", str(folder), "--tasks", "shapes,colours", "--method", "adamerging"]) == 2
    said = capsys.readouterr().err
    assert "no AdaMerging coefficients of exactly these experts: colours, shapes" in said and said.count("\n") == 1
    assert "build-suite adamerging --tasks colours,shapes --out FOLDER" in said


def test_one_expert_has_nothing_for_adamerging_to_weigh(refuse: Callable[..., str]) -> None:
    said = refuse("curve", "--target", "shapes", "--method", "adamerging")
    assert "AdaMerging merges at least 2 experts, not 1; choose as many, or another method." in said
