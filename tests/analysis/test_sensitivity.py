from __future__ import annotations

import numpy as np
import pytest

from lines_explorer.analysis.sensitivity import (
    Sensitivity,
    choice_sensitivity,
    constrained_rule,
    multi_task_rule,
    single_task_rule,
)
from lines_explorer.errors import ExplorerError


def first(right: int, of: int) -> np.ndarray:
    """Right on the first so many images."""
    return np.arange(of) < right


def test_a_clear_winner_is_always_chosen():
    right = {"a": np.stack([first(10, 100), first(90, 100), first(50, 100)])}
    found = choice_sensitivity(right, {"a": first(100, 100)}, multi_task_rule([0.1, 0.2, 0.3]))
    assert (found.chosen, found.shares, found.none, found.kept) == (1, (0.0, 1.0, 0.0), 0.0, 1.0)
    assert found.plausible() == [1]


def test_points_that_answer_alike_are_tied_in_every_draw():
    bits = np.stack([first(30, 50)] * 3)
    multi = choice_sensitivity({"a": bits}, {"a": first(50, 50)}, multi_task_rule([0.3, 0.1, 0.2]))
    assert (multi.chosen, multi.kept) == (1, 1.0)
    both = {"a": bits, "b": bits}
    single = choice_sensitivity(both, dict.fromkeys("ab", first(50, 50)), single_task_rule([0.3, 0.1, 0.2], ["a"]))
    assert (single.chosen, single.kept) == (0, 1.0)


def test_even_points_share_the_draws():
    even = np.arange(200) % 2 == 0
    found = choice_sensitivity({"a": np.stack([even, ~even])}, {"a": first(200, 200)}, multi_task_rule([0.1, 0.2]))
    assert found.chosen == 0
    assert 0.4 < found.kept < 0.65 and sum(found.shares) == pytest.approx(1)
    assert found.plausible() == [0, 1]


def test_the_denominator_is_drawn_with_the_points():
    """A point that answers as its reference has a normalized accuracy of 1 in every draw, however few its images."""
    reference = first(8, 20)
    found = choice_sensitivity(
        {"a": np.stack([reference, first(7, 20)])}, {"a": reference}, multi_task_rule([0.2, 0.1])
    )
    assert found.chosen == 0
    assert found.shares[1] == pytest.approx((19 / 20) ** 20, abs=0.05)  # image 7 not drawn: a tie, the smaller wins


def test_the_single_task_rule_weighs_target_and_control():
    right = {"a": np.stack([first(100, 100), first(80, 100)]), "b": np.stack([first(40, 100), first(70, 100)])}
    reference = {"a": first(100, 100), "b": first(80, 100)}
    alphas = [1.0, 0.5]
    assert choice_sensitivity(right, reference, single_task_rule(alphas, ["a"])).chosen == 0  # 2.5 against 2.475
    assert choice_sensitivity(right, reference, single_task_rule(alphas, ["a"], weight=1.0)).chosen == 1


def test_the_constraint_may_leave_nothing_to_choose():
    right = {"a": np.stack([first(90, 100), first(50, 100)]), "b": np.stack([first(70, 100), first(96, 100)])}
    reference = {"a": first(100, 100), "b": first(100, 100)}
    found = choice_sensitivity(right, reference, constrained_rule([1.0, 0.0], ["a"]))
    assert found.chosen == 1
    assert 0.1 < found.none < 0.6 and found.none + found.kept == pytest.approx(1)
    with pytest.raises(ExplorerError, match="No point keeps control"):
        choice_sensitivity(right, reference, constrained_rule([1.0, 0.0], ["a"], floor=0.99))


def test_seeded():
    rng = np.random.default_rng(0)
    right, reference = {"a": rng.random((5, 80)) < 0.6}, {"a": first(80, 80)}
    rule = multi_task_rule(range(5))
    assert choice_sensitivity(right, reference, rule) == choice_sensitivity(right, reference, rule)
    assert choice_sensitivity(right, reference, rule, seed=1) != choice_sensitivity(right, reference, rule)


def test_plausible_points_are_the_fewest():
    found = Sensitivity(1, (0.25, 0.5, 0.05, 0.2), 0.0)
    assert found.plausible(0.5) == [1]
    assert found.plausible(0.75) == [0, 1]
    assert found.plausible() == [0, 1, 3]
    assert Sensitivity(0, (0.5, 0.0), 0.5).plausible() == [0]


def test_what_does_not_fit_is_refused():
    bits, rule = np.ones((2, 5), dtype=bool), multi_task_rule([0.1, 0.2])
    with pytest.raises(ExplorerError, match="zero tasks"):
        choice_sensitivity({}, {}, rule)
    with pytest.raises(ExplorerError, match="Task a needs a reference"):
        choice_sensitivity({"a": bits}, {}, rule)
    with pytest.raises(ExplorerError, match="Task a needs a reference"):
        choice_sensitivity({"a": bits}, {"a": first(4, 4)}, rule)
    with pytest.raises(ExplorerError, match="same points"):
        choice_sensitivity({"a": bits, "b": bits[:1]}, {"a": first(5, 5), "b": first(5, 5)}, rule)
    with pytest.raises(ExplorerError, match="a target and a control"):
        choice_sensitivity({"a": bits}, {"a": first(5, 5)}, single_task_rule([1.0, 0.0], ["a"]))
