import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lines_explorer.errors import ExplorerError
from lines_explorer.schedule import CURVES, Schedule, constant, free, lines, single_task

kinds = st.sampled_from(sorted(CURVES))
numbers = st.floats(-4, 4)
depths = st.integers(1, 40)


def test_lines_by_hand():
    assert lines(0.1, 0.9).block_factors(4) == pytest.approx((0.1, 0.4, 0.7, 1.0))
    assert lines(0.25, 0.5).block_factors(3) == (0.25, 0.5, 0.75)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("lines", (1, 1.5, 2, 2.5, 3)),
        ("square", (1, 1.125, 1.5, 2.125, 3)),
        ("root", (1, 2, 2.4142136, 2.7320508, 3)),
        ("sigmoid", (1.0133857, 1.1517164, 2, 2.8482836, 2.9866143)),
        ("reversed", (3, 2.5, 2, 1.5, 1)),
        ("constant", (1, 1, 1, 1, 1)),
    ],
)
def test_every_curve_by_hand(kind, expected):
    assert Schedule(kind, 1, 2).block_factors(5) == pytest.approx(expected)


def test_the_table_above_covers_every_curve():
    assert set(CURVES) == {"lines", "square", "root", "sigmoid", "reversed", "constant"}


@given(numbers, numbers, st.integers(2, 40))
def test_end_points_are_exact(alpha, beta, depth):
    for kind in ("lines", "square", "root"):
        factors = Schedule(kind, alpha, beta).block_factors(depth)
        assert (len(factors), factors[0], factors[-1]) == (depth, alpha, alpha + beta)
    factors = Schedule("reversed", alpha, beta).block_factors(depth)
    assert (factors[0], factors[-1]) == (alpha + beta, alpha)
    assert constant(alpha).block_factors(depth) == (alpha,) * depth


@given(kinds, numbers, numbers, numbers, numbers, depths)
def test_factors_are_linear_in_alpha_and_beta(kind, a, b, c, d, depth):
    left = Schedule(kind, a, b).block_factors(depth)
    right = Schedule(kind, c, d).block_factors(depth)
    together = Schedule(kind, a + c, b + d).block_factors(depth)
    assert together == pytest.approx([x + y for x, y in zip(left, right, strict=True)], abs=1e-12)
    doubled = Schedule(kind, 2 * a, 2 * b).block_factors(depth)
    assert doubled == pytest.approx([2 * x for x in left], abs=1e-12)


@given(kinds, numbers, numbers)
def test_one_block_gets_alpha(kind, alpha, beta):
    schedule = Schedule(kind, alpha, beta)
    assert schedule.block_factors(1) == (alpha,)
    assert schedule.outer_factors(1, "reference") == schedule.outer_factors(1, "depth") == (alpha, alpha)


@given(st.floats(0, 1), st.integers(2, 40))
def test_single_task_keeps_factor_one_in_the_last_block(gamma, depth):
    factors = single_task(gamma).block_factors(depth)
    assert factors[0] == gamma
    assert factors[-1] == 1.0


def test_single_task_end_points():
    assert single_task(1.0).block_factors(12) == (1.0,) * 12
    assert single_task(0.0).block_factors(3) == (0.0, 0.5, 1.0)
    assert single_task(0.25, "reversed").block_factors(3) == (1.0, 0.625, 0.25)


def test_outer_factors_follow_the_rule():
    assert lines(0.1, 0.4).outer_factors(12, "reference") == (0.1, 0.1)
    assert lines(0.1, 0.4).outer_factors(12, "depth") == (0.1, 0.5)
    assert Schedule("reversed", 0.1, 0.4).outer_factors(12, "depth") == (0.1, 0.1)


def test_free_schedule_is_what_was_drawn():
    drawn = free([0.5, 0, 2], rest=0.25)
    assert drawn.block_factors(3) == (0.5, 0.0, 2.0)
    assert drawn.outer_factors(3, "reference") == drawn.outer_factors(3, "depth") == (0.25, 0.25)
    with pytest.raises(ExplorerError, match="3 factors, but the model has 12 blocks"):
        drawn.block_factors(12)
    with pytest.raises(ExplorerError, match="3 factors, but the model has 12 blocks"):
        drawn.outer_factors(12, "reference")


def test_equal_schedules_are_equal_and_hashable():
    assert lines(1, 0) == lines(1.0, 0.0)
    assert len({free([1, 2], 0), free((1.0, 2.0), 0.0)}) == 1
    assert all(type(value) is float for value in (lines(1, 0).alpha, *free([1, 2], 0).factors))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 10.001, -11, 10**400, "0.5", None, True])
def test_numbers_out_of_range_are_refused_by_name(bad):
    with pytest.raises(ExplorerError, match="alpha must be a number between -10 and 10"):
        lines(bad, 0)
    with pytest.raises(ExplorerError, match="beta must be"):
        lines(0, bad)
    with pytest.raises(ExplorerError, match="factor 2 must be"):
        free([1, bad], 0)
    with pytest.raises(ExplorerError, match="rest must be"):
        free([1], bad)
    with pytest.raises(ExplorerError, match="gamma must"):
        single_task(bad)


def test_the_limit_itself_is_allowed():
    assert lines(-10, 10).block_factors(3) == (-10, -5, 0)


@pytest.mark.parametrize("gamma", [-0.01, 1.01])
def test_gamma_lies_between_zero_and_one(gamma):
    with pytest.raises(ExplorerError, match="between 0 and 1"):
        single_task(gamma)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "cubic"}, "Unknown schedule 'cubic'"),
        ({"kind": "free"}, "needs one factor per block"),
        ({"kind": "free", "factors": (1,), "alpha": 0.5}, "do not belong to the free schedule"),
        ({"kind": "lines", "factors": (1, 2)}, "belong to the free schedule"),
        ({"kind": "lines", "rest": 0.5}, "belong to the free schedule"),
        ({"kind": "free", "factors": "123"}, "must be a list of numbers"),
        ({"kind": "free", "factors": 3}, "must be a list of numbers"),
    ],
)
def test_fields_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(ExplorerError, match=message):
        Schedule(**arguments)


def test_unknown_rule_and_depth_are_refused():
    with pytest.raises(ExplorerError, match="Unknown layer rule 'deep'; choose one of reference, depth"):
        lines(1, 0).outer_factors(12, "deep")
    with pytest.raises(ExplorerError, match="at least one block"):
        lines(1, 0).block_factors(0)
