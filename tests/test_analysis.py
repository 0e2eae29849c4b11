import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lines_explorer.analysis import (
    Accuracy,
    MultiTaskPoint,
    SingleTaskPoint,
    constrained_choice,
    mean_accuracy,
    mean_normalized,
    multi_task_choice,
    normalized,
    pareto_front,
    single_task_choice,
    single_task_score,
)
from lines_explorer.errors import ExplorerError

quick = settings(deadline=None)
accuracies = st.integers(1, 5000).flatmap(lambda n: st.builds(Accuracy, st.integers(0, n), st.just(n)))
coordinates = st.integers(0, 5).map(float)
planes = st.lists(st.tuples(coordinates, coordinates), max_size=12)

# Test accuracies of ViT-B/32 on DTD, SUN397, MNIST, RESISC45, GTSRB, Cars, SVHN, the controls of EuroSAT.
ZERO_SHOT = (43.99, 63.16, 48.26, 60.67, 32.60, 59.73, 31.63)
EXPERT = (37.50, 52.60, 37.35, 31.02, 25.60, 46.65, 18.50)
LINES = (43.83, 61.98, 55.52, 46.51, 34.32, 58.04, 33.91)


@pytest.mark.parametrize(
    ("correct", "n", "low", "high"),
    [
        (8, 10, 0.4902, 0.9433),
        (81, 263, 0.2553, 0.3662),  # the cases of Newcombe, Statistics in Medicine 17, 1998
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (29, 29, 0.8830, 1.0),
    ],
)
def test_wilson_interval_known_values(correct, n, low, high):
    accuracy = Accuracy(correct, n)
    assert (accuracy.low, accuracy.high) == pytest.approx((low, high), abs=5e-5)
    assert accuracy.value == correct / n


@quick
@given(accuracies)
def test_wilson_interval_solves_its_equation_and_mirrors(accuracy):
    assert 0 <= accuracy.low <= accuracy.value <= accuracy.high <= 1
    mirrored = Accuracy(accuracy.n - accuracy.correct, accuracy.n)
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - accuracy.high, 1 - accuracy.low))
    for end in (accuracy.low, accuracy.high):  # |p̂ − p| = 1.96·√(p(1 − p)/n)
        error = 1.959964 * math.sqrt(end * (1 - end) / accuracy.n)
        assert abs(accuracy.value - end) == pytest.approx(error, rel=1e-5, abs=1e-9)


def test_no_image_yet_says_nothing():
    nothing = Accuracy(0, 0)
    assert math.isnan(nothing.value)
    assert (nothing.low, nothing.high) == (0.0, 1.0)


@pytest.mark.parametrize(("correct", "n"), [(3, 2), (-1, 2), (0, -1)])
def test_impossible_counts_are_refused(correct, n):
    with pytest.raises(ExplorerError, match=f"{correct} right answers among {n} images"):
        Accuracy(correct, n)


def test_mean_weighs_tasks_alike_whatever_their_size():
    mean = mean_accuracy([Accuracy(1, 10), Accuracy(900, 1000)])
    assert mean.value == pytest.approx(0.5)
    assert (mean.n, mean.tasks) == (1010, 2)


def test_mean_interval_by_hand():
    """For q = 3/4, 1/6: q̄ = 11/24, variance = (3/16/10 + 5/36/4)/4; Wilson at n* = (143/576)/variance = 130/7."""
    mean = mean_accuracy([Accuracy(8, 10), Accuracy(0, 4)])
    assert (143 / 576) / ((3 / 160 + 5 / 144) / 4) == pytest.approx(130 / 7)
    assert mean.value == pytest.approx(0.4)
    assert (mean.low, mean.high) == pytest.approx((0.2135994, 0.6206796), abs=1e-6)


def test_mean_of_equal_tasks_is_the_pooled_interval():
    mean, pooled = mean_accuracy([Accuracy(360, 400)] * 9), Accuracy(9 * 360, 9 * 400)
    assert (mean.value, mean.low, mean.high) == pytest.approx((pooled.value, pooled.low, pooled.high))


def test_perfect_and_hopeless_tasks_are_not_certain():
    mean = mean_accuracy([Accuracy(20, 20), Accuracy(0, 20)])
    assert mean.high - mean.low > 0.1
    assert mean_accuracy([Accuracy(20, 20)] * 2).low == pytest.approx(Accuracy(40, 40).low)


@quick
@given(accuracies)
def test_mean_of_one_task_is_its_wilson_interval(accuracy):
    mean = mean_accuracy([accuracy])
    assert (mean.value, mean.low, mean.high) == pytest.approx((accuracy.value, accuracy.low, accuracy.high))


@quick
@given(st.lists(accuracies, min_size=1, max_size=8))
def test_mean_interval_holds_its_mean(several):
    mean = mean_accuracy(several)
    assert 0 <= mean.low <= mean.value <= mean.high <= 1
    assert mean.low < mean.high


@pytest.mark.parametrize(
    "truth",
    [
        ((0.5, 50), (0.9, 200), (0.2, 100)),
        ((0.97, 60), (0.99, 60), (0.95, 60), (0.9, 60)),
        ((0.3, 400),) * 9,
        ((0.99, 400),) * 9,
    ],
)
def test_mean_interval_covers_the_truth_nineteen_times_in_twenty(truth):
    rounds = 4000
    shares, sizes = np.array(truth).T
    drawn = np.random.default_rng(0).binomial(sizes.astype(int), shares, size=(rounds, len(truth)))
    means = [mean_accuracy([Accuracy(int(c), n) for c, (_, n) in zip(row, truth, strict=True)]) for row in drawn]
    covered = sum(mean.low <= shares.mean() <= mean.high for mean in means) / rounds
    assert 0.94 <= covered <= 0.97, covered


def test_mean_while_a_task_has_no_image():
    mean = mean_accuracy([Accuracy(1, 2), Accuracy(0, 0)])
    assert math.isnan(mean.value)
    assert (mean.low, mean.high, mean.n, mean.tasks) == (0.0, 1.0, 2, 2)


def test_mean_of_no_task_is_refused():
    with pytest.raises(ExplorerError, match="zero tasks"):
        mean_accuracy([])


def test_normalized():
    assert normalized(0.5, 0.8) == 0.625
    assert normalized(0.9, 0.6) == pytest.approx(1.5)
    assert math.isnan(normalized(0.5, 0.0)) and math.isnan(normalized(0.0, 0.0))


def test_mean_normalized_is_the_mean_of_the_ratios():
    assert mean_normalized([0.2, 0.9], [0.4, 0.9]) == 0.75  # the ratio of the means is 0.846
    with pytest.raises(ExplorerError, match="2 accuracies and 1 denominators"):
        mean_normalized([0.2, 0.9], [0.4])
    with pytest.raises(ExplorerError, match="0 accuracies"):
        mean_normalized([], [])


def test_the_papers_eurosat_example():
    """EuroSAT 99.87 → 98.70 while control goes 35.6 → 47.7, of 48.6 zero-shot: the protocol chooses that edit."""
    control = {name: sum(row) / 7 for name, row in {"zero": ZERO_SHOT, "expert": EXPERT, "lines": LINES}.items()}
    assert control == pytest.approx({"zero": 48.6, "expert": 35.6, "lines": 47.7}, abs=0.05)
    means = [mean_accuracy([Accuracy(round(100 * p), 10_000) for p in row]).value for row in (EXPERT, LINES)]
    assert means == pytest.approx([0.356, 0.477], abs=5e-4)
    expert = SingleTaskPoint(1.0, 1.0, mean_normalized(EXPERT, ZERO_SHOT))
    edited = SingleTaskPoint(0.1, 98.70 / 99.87, mean_normalized(LINES, ZERO_SHOT))
    base = SingleTaskPoint(0.0, 46.50 / 99.87, 1.0)
    assert (expert.control, edited.control) == pytest.approx((0.73167, 0.99876), abs=1e-5)
    assert single_task_choice([expert, edited, base]) == 1


def test_single_task_weight_decides():
    points = [(1.0, 1.0, 0.5), (0.5, 0.8, 0.8), (0.0, 0.5, 1.0)]
    assert single_task_choice(points) == 0  # 2.5, 2.4, 2.0
    assert single_task_choice(points, weight=1.0) == 1  # 1.5, 1.6, 1.5
    assert single_task_choice(points, weight=0.5) == 2  # 1.0, 1.2, 1.25


def test_the_score_is_what_the_choice_compares():
    assert single_task_score(0.8, 0.5) == 2 * 0.8 + 0.5
    assert single_task_score(0.8, 0.5, weight=0.5) == 0.9
    assert single_task_score(0.8) == 0.8
    points = [(0.9, 0.7, 0.9), (0.5, 0.8, 0.8), (0.1, 0.9, 0.5)]
    scores = [single_task_score(target, control) for _, target, control in points]
    assert single_task_choice(points) == scores.index(max(scores))


@pytest.mark.parametrize("order", [1, -1])
def test_ties_keep_the_larger_alpha_and_the_smaller_coefficient(order):
    single = [(0.2, 0.5, 0.5), (0.7, 0.4, 0.7), (0.4, 0.5, 0.5), (0.9, 0.1, 0.1)][::order]
    assert single[single_task_choice(single)][0] == 0.7
    multi = [(0.9, 0.8), (0.3, 0.8), (0.5, 0.8), (0.1, 0.7)][::order]
    assert multi[multi_task_choice(multi)][0] == 0.3


def test_a_difference_of_rounding_alone_is_a_tie():
    assert 0.1 + 0.2 > 0.3
    assert multi_task_choice([MultiTaskPoint(0.4, 0.1 + 0.2), MultiTaskPoint(0.2, 0.3)]) == 1
    assert single_task_choice([(0.4, 0, 0.1 + 0.2), (0.8, 0, 0.3)]) == 1


def test_points_without_a_score_are_passed_over():
    assert multi_task_choice([(0.1, math.nan), (0.2, 0.1)]) == 1
    assert single_task_choice([(0.1, math.nan, 1), (0.2, 0.1, 0.1), (0.3, 0.9, math.nan)]) == 1
    for none in ([], [(0.1, math.nan)]):
        with pytest.raises(ExplorerError, match="No point can be chosen"):
            multi_task_choice(none)
    with pytest.raises(ExplorerError, match="No point can be chosen"):
        single_task_choice([])


def test_constrained_choice_keeps_control():
    points = [(1.0, 1.0, 0.9), (0.6, 0.9, 0.94999), (0.5, 0.8, 0.95), (0.2, 0.6, 1.0)]
    assert constrained_choice(points) == 2
    assert constrained_choice(points, floor=0.9) == 0
    assert constrained_choice(points, floor=0.97) == 3
    assert constrained_choice(points, forget=True) == 3
    assert constrained_choice([(0.3, 0.5, 0.96), (0.1, 0.5, 0.97), (0.2, 0.5, 0.97)]) == 2
    assert constrained_choice([(0.3, 0.9, math.nan), (0.1, math.nan, 1.0), (0.2, 0.5, 0.97)]) == 2
    assert constrained_choice([(0.3, 0.5, 0.1 * 3)], floor=0.3) == 0
    with pytest.raises(ExplorerError, match=r"at 95% of zero-shot or more \(the best keeps 92.0%\)"):
        constrained_choice([(1.0, 1.0, 0.9), (0.5, 1.0, 0.92)])
    with pytest.raises(ExplorerError, match="No point keeps control"):
        constrained_choice([])


def test_pareto_front_by_hand():
    points = [(1, 5), (3, 3), (2, 2), (5, 1), (3, 1), (math.nan, 9), (1, 4)]
    assert pareto_front(points) == [0, 1, 3]
    assert pareto_front([(2, 2), (1, 3), (2, 2)]) == [1, 0, 2]
    assert pareto_front([]) == []


@quick
@given(planes)
def test_pareto_front_is_what_its_definition_says(points):
    def beaten(p):
        return any(q != p and q[0] >= p[0] and q[1] >= p[1] for q in points)

    front = pareto_front(points)
    assert sorted(front) == [i for i, p in enumerate(points) if not beaten(p)]
    assert [points[i][0] for i in front] == sorted(points[i][0] for i in front)


@quick
@given(planes)
def test_a_front_is_its_own_front(points):
    assume(points)
    front = [points[i] for i in pareto_front(points)]
    assert pareto_front(front) == list(range(len(front)))
