"""search: the protocol's choice, ties, refinement, constraints, one look at test, and how sure the choice is."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from lines_explorer.analysis.choice import multi_task_choice, single_task_choice
from lines_explorer.commands.searching import SearchOptions, parse_goal, parse_parameters, search_suite
from lines_explorer.engine import Engine, Store, single_task_recipes, write_results
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant, lines
from lines_explorer.suites import open_suite
from lines_explorer.sweep.family import KINDS, Family, edit_family, merge_family, soup_family
from lines_explorer.sweep.goal import Goal
from lines_explorer.sweep.measuring import answers
from lines_explorer.sweep.search import search, sensitivity

ALL = ("shapes", "colours", "places")


@pytest.fixture(scope="module")
def shared(tiny_suite_folder: Path) -> Engine:
    return Engine(open_suite(tiny_suite_folder), "cpu", Store(":memory:"))


@pytest.fixture
def engine(tiny_suite_folder: Path) -> Engine:
    return Engine(open_suite(tiny_suite_folder), "cpu", Store(":memory:"))


def test_families_are_the_papers_lines() -> None:
    assert [edit_family("tiny", "shapes", "lines").recipe(c).schedule for c in (1.0, 0.3)] == [
        lines(1.0, 0.0), lines(0.3, 0.7),
    ]  # fmt: skip
    assert edit_family("tiny", "shapes", "constant").recipe(0.3).schedule == constant(0.3)
    assert merge_family("tiny", ALL, "lines", 1 / 3).recipe(0.4).schedule == lines(1 / 3, 0.4)
    soup = soup_family("tiny", ALL, "lines")
    assert soup.recipe(1.0).hash() == soup_family("tiny", ALL, "constant").recipe(1.0).hash()
    assert soup.recipe(1.2).hash() == Recipe("tiny", ALL, "average", schedule=lines(1.0, 0.2)).hash()


@pytest.mark.parametrize("kind", KINDS)
def test_every_grid_of_an_edit_holds_the_expert_of_lines(kind: str) -> None:
    recipe = edit_family("tiny", "shapes", kind).recipe(1.0)
    assert recipe.hash() == Recipe("tiny", ("shapes",), schedule=constant(1.0)).hash()


def test_ties_follow_the_rule_asked_for() -> None:
    level = [(0.0, 1.0, 1.0), (0.5, 1.0, 1.0), (1.0, 1.0, 1.0)]
    for kind in ("weighted", "mean", "constrained"):
        assert Goal(kind, "larger").choose(level) == 2
        assert Goal(kind, "smaller").choose(level) == 0
    assert Goal("gentle", "smaller", floor=0.99).choose([(0.2, 0.98, 1), (0.4, 0.995, 1), (1.0, 1.0, 1)]) == 1


def test_constraint_and_forgetting_keep_control() -> None:
    points = [(0.0, 0.5, 1.0), (0.5, 0.8, 0.96), (1.0, 1.0, 0.5)]
    assert Goal("constrained", "larger").choose(points) == 1
    assert Goal("constrained", "larger", floor=0.4).choose(points) == 2
    assert Goal("forget", "smaller").choose(points) == 0
    with pytest.raises(ExplorerError, match="No point keeps control"):
        Goal("constrained", "larger", floor=1.5).choose(points)


def test_single_task_choice_is_the_protocols(shared: Engine) -> None:
    found = search(shared, edit_family("tiny", "shapes", "lines"), Goal("weighted", "larger"), ("shapes",), ALL)
    curve = [(e.recipe.schedule.alpha, shared.summary(e, ("shapes",))) for e in shared.single_task_curve("shapes")]
    rows = [(alpha, s.target_normalized, s.control_normalized) for alpha, s in curve]
    assert found.best.coefficient == rows[single_task_choice(rows)][0]
    assert found.chosen == found.coarse and len(found.points) == 11


def test_multi_task_choice_is_the_protocols(shared: Engine) -> None:
    alpha = shared.alpha_from_norms(ALL)
    found = search(shared, merge_family("tiny", ALL, "lines", alpha), Goal("mean", "smaller"), ALL, ALL)
    curve = shared.multi_task_curve(ALL)
    rows = [(e.recipe.schedule.beta, shared.summary(e, ALL).target_normalized) for e in curve]
    assert found.best.recipe.hash() == curve[multi_task_choice(rows)].recipe.hash()
    assert math.isnan(found.best.control) and found.front()


def test_refinement_keeps_all_points_and_is_never_worse(shared: Engine) -> None:
    family, goal = edit_family("tiny", "colours", "lines"), Goal("weighted", "larger")
    coarse = search(shared, family, goal, ("colours",), ALL)
    fine = search(shared, family, goal, ("colours",), ALL, rounds=2)
    tried = [point.coefficient for point in fine.points]
    assert tried == sorted(tried) and set(tried) > set(family.grid) and 0 <= min(tried) and max(tried) <= 1
    assert {point.round for point in fine.points} == {0, 1, 2}
    assert fine.points[fine.coarse].coefficient == coarse.best.coefficient
    score = [goal.score(found.best.target, found.best.control) for found in (coarse, fine)]
    assert score[1] >= score[0]
    assert all(abs(c - fine.best.coefficient) < 0.2 for c in set(tried) - set(family.grid))


def test_without_control_a_constraint_is_refused(shared: Engine) -> None:
    with pytest.raises(ExplorerError, match="no control task"):
        search(shared, merge_family("tiny", ALL, "lines", 0.3), Goal("constrained", "smaller"), ALL, ALL)


def test_test_split_is_scored_at_the_chosen_point_alone(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []
    evaluate = engine.evaluate

    def spy(recipe: Recipe, score_on=None, split: str = "validation"):
        asked.append((split, recipe.hash()))
        return evaluate(recipe, score_on, split)

    monkeypatch.setattr(engine, "evaluate", spy)
    report = search_suite(engine, SearchOptions("shapes", refine=1))
    chosen, base = report.data["chosen"]["hash"], Recipe.base("tiny").hash()
    expert = Recipe("tiny", ("shapes",)).hash()
    assert {digest for split, digest in asked if split == "test"} <= {chosen, base, expert}
    assert [digest for split, digest in asked if split == "test"].count(chosen) == 1 + (chosen == expert)


def test_report_is_the_contract(engine: Engine) -> None:
    report = search_suite(engine, SearchOptions("shapes,colours", lines=False, refine=1))
    data = json.loads(report.as_json())
    assert {"chosen", "validation", "test", "grid"} <= set(data) and data["schedule"] == "constant"
    assert sum(row["chosen"] for row in data["grid"]) == 1
    (chosen,) = [row for row in data["grid"] if row["chosen"]]
    assert chosen["hash"] == data["chosen"]["hash"] and chosen["target"] == data["validation"]["target"]
    assert set(data["front"]) == {row["hash"] for row in data["grid"] if row["front"]}
    assert data["test"]["target"]["low"] <= data["test"]["target"]["accuracy"] <= data["test"]["target"]["high"]
    assert set(data["test"]["tasks"]) == set(ALL)
    assert sum(row["chosen_again"] for row in data["grid"]) == pytest.approx(1)
    assert data["sensitivity"]["chosen_again"] == chosen["chosen_again"]
    assert Recipe.from_dict(data["chosen"]["recipe"]).hash() == data["chosen"]["hash"]
    assert "chosen again" in report.text and data["chosen"]["hash"] in report.text


def test_sensitivity_chooses_what_the_search_chose(shared: Engine) -> None:
    family = edit_family("tiny", "shapes", "lines")
    weighted = search(shared, family, Goal("weighted", "larger"), ("shapes",), ALL)
    floor = sorted(point.control for point in weighted.points)[5]
    constrained = search(shared, family, Goal("constrained", "larger", floor=floor), ("shapes",), ALL)
    assert constrained.best.control >= floor and not all(point.control >= floor for point in constrained.points)
    for found in (weighted, constrained):
        steady = sensitivity(shared, found)
        assert steady.chosen == found.chosen
        assert 0 < steady.kept <= 1


def test_answers_are_scored_again_where_only_counts_are_known(engine: Engine, tmp_path: Path) -> None:
    recipes = single_task_recipes("tiny", "shapes", points=3)
    scored = [engine.evaluate(recipe) for recipe in recipes]
    bits = answers(engine, recipes[1], ALL, "validation")
    write_results(tmp_path / "validation.json", engine.suite.hash, "validation", scored)
    other = Engine(engine.suite, "cpu", Store(":memory:"))
    other.store.seed(tmp_path / "validation.json", engine.suite.hash)
    assert other.stored_answers(recipes[1]) == {}
    again = answers(other, recipes[1], ALL, "validation")
    assert all(np.array_equal(bits[task], again[task]) for task in ALL)
    assert set(other.stored_answers(recipes[1])) == set(ALL)


def test_methods_take_their_parameters(engine: Engine) -> None:
    assert parse_parameters("ties", ["k=10", "combine=sum"]) == (("combine", "sum"), ("k", 10.0))
    assert parse_parameters("ties", ["k=20"]) == ()
    data = search_suite(engine, SearchOptions("shapes,colours", "ties", ["k=50"], refine=0, bootstrap=False)).data
    assert data["parameters"] == {"k": 50.0} and len(data["grid"]) == 15 and data["sensitivity"] is None


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (SearchOptions("shapes,colours", weight=2.0), "--weight goes with one expert"),
        (SearchOptions("shapes", weight=2.0, constraint=0.9), "--weight goes with one expert and no constraint"),
        (SearchOptions("shapes", weight=0.0), "above 0"),
        (SearchOptions("shapes", constraint=95.0), "0.95 is 95 %"),
        (SearchOptions("shapes", tie="none"), "tie rule"),
        (SearchOptions("shapes", refine=99), "Refine between"),
        (SearchOptions("shapes", schedule="root", lines=False), "contradict"),
        (SearchOptions("shapes", schedule="free"), "Unknown schedule"),
        (SearchOptions("shapes,colours", "ties", ["k"]), "NAME=VALUE"),
        (SearchOptions("shapes,colours", "ties", ["k=1", "k=2"]), "twice"),
        (SearchOptions("shapes,colours,places", "slerp"), "exactly 2"),
        (SearchOptions("shapes,zebra"), "zebra"),
    ],
)
def test_bad_options_get_one_sentence(shared: Engine, asked: SearchOptions, words: str) -> None:
    with pytest.raises(ExplorerError, match=words):
        search_suite(shared, asked)


def test_goals_by_the_protocol() -> None:
    assert parse_goal(SearchOptions("a"), 1) == Goal("weighted", "larger", 2.0)
    assert parse_goal(SearchOptions("a,b"), 2) == Goal("mean", "smaller")
    assert parse_goal(SearchOptions("a", constraint=0.95, tie="smaller"), 1) == Goal("constrained", "smaller")
    with pytest.raises(ExplorerError, match="different coefficients"):
        Family("tiny", ("a",), "lines", "gamma", (0.1, 0.1))
