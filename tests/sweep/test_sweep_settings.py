"""The paper's settings: their families, goals and baselines, and the differences on the same images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from runs_suite import write_runs_suite

from lines_explorer.analysis.paired import paired_difference
from lines_explorer.engine import Engine, Store
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import Schedule, constant, lines
from lines_explorer.suites import open_suite
from lines_explorer.sweep.comparison import (
    HELPS,
    HURTS,
    NOISE,
    Comparison,
    Difference,
    Part,
    compare,
    mean_over_edits,
    verdicts,
    weighted_difference,
)
from lines_explorer.sweep.runs import runs, scored_with, seed_sets
from lines_explorer.sweep.settings import (
    GREEDY,
    UNIFORM,
    Edit,
    Merge,
    Negation,
    Outcome,
    Robustness,
    Soup,
    greedy_soup,
    run,
    shifted_line,
)

ALL = ("shapes", "colours", "places")


@pytest.fixture(scope="module")
def engine(tiny_suite_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("settings") / "tiny"
    write_runs_suite(tiny_suite_folder, folder, {"shapes": 3, "colours": 2})
    return Engine(open_suite(folder), "cpu", Store(":memory:"))


def test_runs_are_experts_on_the_same_pictures(engine: Engine) -> None:
    suite = engine.suite
    assert runs(suite) == {
        "shapes": ("shapes", "shapes/1", "shapes/2"), "colours": ("colours", "colours/1"), "places": ("places",),
    }  # fmt: skip
    assert scored_with(suite, ["shapes/1"]) == ALL == scored_with(suite, [])
    assert scored_with(suite, ["shapes/1"], "noisy") == ("shapes",)
    assert seed_sets(suite) == [("shapes", "colours"), ("shapes/1", "colours/1")]


@pytest.mark.parametrize(
    ("counts", "one_rate", "expected"),
    [
        ({"shapes": 3, "colours": 3}, ("shapes", "colours"), [("shapes", "colours"), ("shapes/1", "colours/1"),
                                                              ("shapes/2", "colours/2")]),
        ({"shapes": 4, "colours": 3, "places": 3}, ("colours", "places"), [("colours", "places"),
                                                                          ("colours/1", "places/1"),
                                                                          ("colours/2", "places/2")]),
        ({"shapes": 3}, ("shapes",), []),
    ],
    ids=["alike", "one with other rates", "a single task"],
)  # fmt: skip
def test_seeds_are_compared_where_nothing_else_differs(
    tiny_suite_folder: Path, tmp_path: Path, counts: dict, one_rate: tuple, expected: list
) -> None:
    folder = write_runs_suite(tiny_suite_folder, tmp_path / "tiny", counts, one_rate)
    assert sorted(map(sorted, seed_sets(open_suite(folder)))) == sorted(map(sorted, expected))


def test_edit_scores_target_and_control_once(engine: Engine) -> None:
    outcome = run(engine, Edit("shapes", "lines"))
    assert set(outcome.test.scores) == set(ALL) and outcome.test.split == "test"
    assert outcome.summary.tasks["shapes"].reference == "expert"
    assert outcome.summary.tasks["places"].reference == "zero-shot"


def test_merge_takes_alpha_from_the_norms(engine: Engine) -> None:
    found = run(engine, Merge(ALL, "lines", "ties")).search
    alpha = engine.backend.alpha_from_norms(ALL, "ties")
    assert {point.recipe.schedule.alpha for point in found.points} == {alpha}
    assert [point.recipe.schedule.beta for point in found.points] == [point.coefficient for point in found.points]
    plain = run(engine, Merge(ALL, "constant", "ties")).search
    assert {point.recipe.schedule.kind for point in plain.points} == {"constant"} and len(plain.points) == 15


def test_negation_subtracts_and_keeps_control(engine: Engine) -> None:
    family = Negation("shapes", "lines").family(engine)
    tried = [engine.summary(engine.evaluate(family.recipe(c), ALL), ("shapes",)) for c in family.grid]
    floor = sorted(summary.control_normalized for summary in tried)[7]
    setting = Negation("shapes", "lines", floor=floor)
    assert setting.family(engine).recipe(0.6).schedule == lines(-0.3, -0.3)
    assert Negation("shapes", "constant").family(engine).recipe(0.6).schedule == constant(-0.6)
    outcome = run(engine, setting)
    allowed = [point for point in outcome.search.points if point.control >= floor]
    assert outcome.search.best.target == min(point.target for point in allowed)
    assert 1 < len(allowed) < 15


def test_robustness_is_the_wise_ft_line(engine: Engine) -> None:
    plain, scaled = (run(engine, Robustness("shapes", kind)) for kind in ("constant", "lines"))
    assert scaled.search.family.recipe(0.8).schedule == Schedule("lines", 0.4, 0.4)
    assert set(plain.shifts) == {"noisy"} and plain.shifts["noisy"].split == "noisy"
    best = max(point.target for point in plain.search.points)
    smaller = [point for point in plain.search.points if point.coefficient < plain.search.best.coefficient]
    assert plain.search.best.target >= 0.99 * best > max(point.target for point in smaller)
    line = shifted_line(engine, plain)
    assert line[plain.search.chosen]["noisy"] == plain.shifts["noisy"].scores["shapes"].accuracy.value
    found = compare(engine, plain, scaled)
    assert found.score == found.shifts["noisy"]
    with pytest.raises(ExplorerError, match="no shifted set"):
        run(engine, Robustness("places", "lines"))


def test_greedy_soup_is_never_worse_than_its_best_run(engine: Engine) -> None:
    names = runs(engine.suite)["shapes"]
    kept = greedy_soup(engine, "shapes", names)

    def accuracy(chosen: tuple[str, ...]) -> float:
        recipe = Recipe("tiny", chosen, "average", schedule=constant(1.0))
        return engine.evaluate(recipe, ["shapes"]).scores["shapes"].accuracy.value

    alone = [accuracy((name,)) for name in names]
    assert set(kept) <= set(names) and accuracy((kept[0],)) == max(alone)
    assert accuracy(kept) >= max(alone)
    outcome = run(engine, Soup("shapes", names, GREEDY, "lines"))
    assert outcome.search.family.tasks == kept and outcome.search.best.target * alone[0] >= accuracy(kept) - 1e-12
    assert run(engine, Soup("shapes", names, UNIFORM, "constant")).search.family.tasks == names


def test_comparison_is_of_the_same_images(engine: Engine) -> None:
    first, second = (run(engine, Edit("colours", kind)) for kind in ("constant", "lines"))
    found = compare(engine, first, second)
    for task, role in (("colours", found.target), ("places", found.control)):
        change = [o.summary.tasks[task].accuracy for o in (second, first)]
        if task == "colours":
            assert role.value == pytest.approx(change[0] - change[1])
    bits = [engine.stored_answers(o.search.best.recipe, ["colours"], "test")["colours"] for o in (first, second)]
    assert found.target == Difference.of(paired_difference(*bits))
    goal = first.setting.goal
    scores = [goal.score(o.summary.target_normalized, o.summary.control_normalized) for o in (first, second)]
    assert found.score.value == pytest.approx(scores[1] - scores[0])
    assert found.score.low <= found.score.value <= found.score.high
    means = mean_over_edits(engine, [found])
    assert means["target"].value == pytest.approx(found.target.value)
    assert means["control"].value == pytest.approx(found.control.value)
    assert means["score"].value == pytest.approx(found.score.value)


def test_weighted_difference_by_hand() -> None:
    first, second = np.array([True, False, False, False]), np.array([True, True, True, False])
    found = weighted_difference([Part("a", 2.0, first, second)])
    spread = np.sqrt((4 * ((np.array([0, 1, 1, 0]) - 0.5) ** 2).sum() + 2 * 4) / 16)
    assert found.value == 1.0 and found.n == 4
    assert found.high - found.value == pytest.approx(1.959964 * spread)
    halves = weighted_difference([Part("a", 1.0, first, second), Part("a", 1.0, first, second)])
    assert halves == found
    opposed = weighted_difference([Part("a", 1.0, first, second), Part("a", 1.0, second, first)])
    assert opposed.value == 0 and opposed.p == 1
    apart = weighted_difference([Part("a", 1.0, first, second), Part("b", 1.0, first, second)])
    assert apart.value == found.value and apart.high < found.high


def test_weighted_interval_covers_as_often_as_it_says() -> None:
    rng, covered = np.random.default_rng(0), 0
    for _ in range(400):
        parts = []
        for name, n in (("a", 150), ("b", 400)):
            first = rng.random(n) < 0.6
            parts.append(Part(name, 0.5, first, np.where(rng.random(n) < 0.2, rng.random(n) < 0.9, first)))
        found = weighted_difference(parts)
        covered += found.low <= 0.2 * (0.9 - 0.6) <= found.high
    assert 0.92 <= covered / 400 <= 0.98


def test_verdicts_are_corrected_for_the_table(engine: Engine) -> None:
    outcome: Outcome = run(engine, Edit("colours", "constant"))

    def told(*rows: tuple[float, float]) -> list[str]:
        scores = [Difference(value, value - 0.01, value + 0.01, p, 100) for value, p in rows]
        return verdicts([Comparison(outcome, outcome, score, None, score) for score in scores])

    assert told((0.1, 0.001), (-0.1, 0.001), (0.1, 0.2)) == [HELPS, HURTS, NOISE]
    assert told((0.1, 0.03)) == [HELPS]
    assert told(*[(0.1, 0.03)] * 2) == [NOISE, NOISE]
