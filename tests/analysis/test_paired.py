from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lines_explorer.analysis import paired
from lines_explorer.analysis.paired import holm, mcnemar, mean_paired_difference, paired_difference, tango
from lines_explorer.errors import ExplorerError

quick = settings(max_examples=60, deadline=None)
counts = st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 60)).filter(any)


def bits(gained: int, lost: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Right answers of two settings that differ in so many of n images; half of the others are right in both."""
    both = np.arange(n - gained - lost) % 2 == 0
    first = np.concatenate([np.zeros(gained), np.ones(lost), both]).astype(bool)
    return first, np.concatenate([np.ones(gained), np.zeros(lost), both]).astype(bool)


@pytest.mark.parametrize(
    ("gained", "lost", "p"),
    [
        (1, 7, 0.0391),  # the two examples of Fagerland, Lydersen & Laake, 2013
        (6, 16, 0.0347),
        (0, 0, 1.0),
        (0, 1, 0.5),
        (1, 1, 0.75),
        (0, 5, 1 / 32),
    ],
)
def test_mcnemar_mid_p_known_values(gained, lost, p):
    assert mcnemar(gained, lost) == pytest.approx(p, abs=5e-5)
    assert mcnemar(lost, gained) == mcnemar(gained, lost)


def test_mcnemar_of_many_images_is_the_normal_test():
    z = (1100 - 1000) / math.sqrt(2100)
    assert mcnemar(1100, 1000) == pytest.approx(math.erfc(z / math.sqrt(2)), rel=0.01)


@pytest.mark.parametrize(
    ("gained", "lost", "n", "low", "high"),
    [
        (1, 7, 21, -0.517, -0.026),  # Fagerland, Lydersen & Laake, Statistics in Medicine 33, 2014
        (0, 0, 20, -0.1611, 0.1611),  # z²/(n + z²)
    ],
)
def test_tango_interval_known_values(gained, lost, n, low, high):
    assert tango(gained, lost, n) == pytest.approx((low, high), abs=5e-4)


@quick
@given(counts)
def test_tango_interval_agrees_with_mcnemars_score_test_and_mirrors(count):
    gained, lost, same = count
    n = gained + lost + same
    low, high = tango(gained, lost, n)
    assert -1 <= low <= (gained - lost) / n <= high <= 1
    assert tango(lost, gained, n) == pytest.approx((-high, -low), abs=1e-9)
    if gained != lost:
        assert (low > 0 or high < 0) is ((gained - lost) ** 2 > 1.959964**2 * (gained + lost))


def test_tango_interval_against_a_likelihood_searched_by_brute_force():
    """At an end the score statistic, with the likeliest nuisance parameter for that difference, is ±1.96."""
    gained, lost, n = 9, 3, 40
    for end in tango(gained, lost, n):
        q = np.linspace(max(0, -end), (1 - end) / 2, 200_001)[1:-1]
        likelihood = gained * np.log(q + end) + lost * np.log(q) + (n - gained - lost) * np.log(1 - 2 * q - end)
        best = q[np.argmax(likelihood)]
        score = (gained - lost - n * end) / math.sqrt(n * (2 * best + end - end**2))
        assert abs(score) == pytest.approx(1.959964, abs=1e-3)


@quick
@given(counts)
def test_a_difference_is_what_the_images_say(count):
    gained, lost, same = count
    first, second = bits(gained, lost, gained + lost + same)
    found = paired_difference(first, second)
    assert found.value == pytest.approx(second.mean() - first.mean())
    assert (found.gained, found.lost, found.n, found.tasks) == (gained, lost, len(first), 1)
    swapped = paired_difference(second, first)
    assert (swapped.value, swapped.p) == (-found.value, found.p)
    assert (swapped.low, swapped.high) == pytest.approx((-found.high, -found.low), abs=1e-9)
    order = np.random.default_rng(0).permutation(len(first))
    assert paired_difference(first[order], second[order]) == found
    assert mean_paired_difference([(first, second)]) == found


def test_within_noise():
    assert paired_difference(*bits(3, 2, 100)).within_noise
    assert not paired_difference(*bits(13, 2, 100)).within_noise
    assert paired_difference(*bits(0, 0, 100)).within_noise


def test_mean_difference_weighs_tasks_alike():
    found = mean_paired_difference([bits(10, 0, 100), bits(0, 20, 1000)])
    assert found.value == pytest.approx((0.1 - 0.02) / 2)
    assert (found.gained, found.lost, found.n, found.tasks) == (10, 20, 1100, 2)
    assert found.low < found.value < found.high
    assert found == mean_paired_difference([bits(10, 0, 100), bits(0, 20, 1000)])


def test_mean_interval_by_hand():
    """Two tasks of 400 images, 20 gained and 10 lost each: σ² = (0.075 − 0.025²)/400/2, a little more is reckoned."""
    found = mean_paired_difference([bits(20, 10, 400)] * 2)
    half = 1.96 * math.sqrt((0.075 - 0.025**2) / 800)
    assert half < (found.high - found.low) / 2 < 1.12 * half
    assert found.p == pytest.approx(math.erfc(20 / math.sqrt(60) / math.sqrt(2)), abs=0.01)
    assert not found.within_noise


def test_equal_settings_are_not_equal_for_certain():
    found = mean_paired_difference([bits(0, 0, 50), bits(0, 0, 30)])
    assert (found.value, found.p, found.within_noise) == (0, 1, True)
    assert -0.1 < found.low < -0.01 and 0.01 < found.high < 0.1


def test_mean_interval_covers_and_p_is_honest(monkeypatch):
    monkeypatch.setattr(paired, "ROUNDS", 1000)
    rng = np.random.default_rng(0)
    chances = [(100, 0.06, 0.04), (200, 0.03, 0.05), (150, 0.1, 0.02), (80, 0.02, 0.02)]
    truth = np.mean([gain - loss for _, gain, loss in chances])
    covered, low_p = [], []
    for draw in range(300):
        drawn = [(*rng.multinomial(n, [g, b, 1 - g - b])[:2], n) for n, g, b in chances]
        found = mean_paired_difference([bits(*map(int, task)) for task in drawn], seed=draw)
        covered.append(found.low <= truth <= found.high)
        equal = [(*rng.multinomial(n, [g, g, 1 - 2 * g])[:2], n) for n, g, _ in chances]
        low_p.append(mean_paired_difference([bits(*map(int, task)) for task in equal], seed=draw).p < 0.05)
    assert 0.92 <= np.mean(covered) <= 0.98
    assert 0.02 <= np.mean(low_p) <= 0.08


def test_holm_known_values():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


@quick
@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_lies_between_the_raw_values_and_bonferronis(p_values):
    corrected = holm(p_values)
    for raw, value in zip(p_values, corrected, strict=True):
        assert raw <= value <= min(1, len(p_values) * raw) + 1e-12
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    assert [corrected[index] for index in order] == sorted(corrected)


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ExplorerError, match="not on 3 and 2"):
        paired_difference(np.ones(3, dtype=bool), np.ones(2, dtype=bool))
    with pytest.raises(ExplorerError, match="not on 0 and 0"):
        paired_difference(np.ones(0, dtype=bool), np.ones(0, dtype=bool))
    with pytest.raises(ExplorerError, match="zero tasks"):
        mean_paired_difference([])
    for wrong in (1.5, -0.1, math.nan):
        with pytest.raises(ExplorerError, match="between 0 and 1"):
            holm([0.1, wrong])
