"""Fair comparisons: the point with the nearest control, guesses, verdicts on many differences."""

from __future__ import annotations

import math

import pytest

from lines_explorer.analysis import Accuracy, may_be_chance, nearest_control, verdicts
from lines_explorer.errors import ExplorerError


def test_nearest_control_and_on_ties_the_better_target():
    points = [(0.9, 0.2), (0.5, 0.4), (0.6, 0.6), (math.nan, 0.5), (0.7, math.nan)]
    assert nearest_control(points, 0.22) == 0
    assert nearest_control(points, 0.5) == 2
    assert nearest_control(points, 0.45) == 1
    with pytest.raises(ExplorerError):
        nearest_control([(math.nan, 0.1)], 0.1)


@pytest.mark.parametrize(("correct", "chance"), [(0, True), (25, True), (30, True), (50, False), (100, False)])
def test_chance_is_within_the_interval_or_above_it(correct, chance):
    assert may_be_chance(Accuracy(correct, 100), 4) is chance


def test_verdicts_are_corrected_for_their_number():
    assert verdicts([0.1, -0.1, 0.1, 0.0], [0.001, 0.002, 0.9, 0.0001]) == [1, -1, 0, 0]
    assert verdicts([0.1], [0.04]) == [1]
    assert verdicts([0.1] * 3, [0.04] * 3) == [0, 0, 0]
