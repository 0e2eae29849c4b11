from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lines_explorer.analysis.accuracy import Accuracy, wilson
from lines_explorer.analysis.estimate import Sample, allocation, estimate_accuracies, stratified_order
from lines_explorer.errors import ExplorerError

quick = settings(max_examples=50, deadline=None)
class_sizes = st.lists(st.integers(1, 12), min_size=1, max_size=6)


def one_class(seen, right, known) -> Sample:
    """Four images of one class."""
    return Sample(np.zeros(4, dtype=int), np.array(seen), np.array(right, dtype=bool), np.array(known, dtype=bool))


@st.composite
def samples(draw, neighbours: int | None = None, share: float | None = None) -> Sample:
    """Any labels, a new point's answers on a random part of the images, and up to three neighbours that resemble it."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    labels = rng.integers(0, draw(st.integers(1, 5)), size=draw(st.integers(1, 60)))
    truth = rng.random(len(labels)) < rng.random()
    known = truth ^ (rng.random((draw(st.integers(0, 3)) if neighbours is None else neighbours, len(labels))) < 0.2)
    n = round(len(labels) * (draw(st.floats(0, 1)) if share is None else share))
    seen = rng.permutation(len(labels))[:n]
    return Sample(labels, seen, truth[seen], known)


def ends(sample: Sample) -> tuple[float, float, float]:
    found = estimate_accuracies({"task": sample}).task("task")
    return found.value, found.low, found.high


@quick
@given(class_sizes, st.integers(0, 99))
def test_every_prefix_of_the_order_holds_the_classes_in_their_shares(sizes, seed):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    order = stratified_order(labels, seed)
    assert sorted(order) == list(range(len(labels)))
    assert (order == stratified_order(labels, seed)).all()
    for n in range(len(labels) + 1):
        looked = np.bincount(labels[order[:n]], minlength=len(sizes))
        shares = np.array(sizes) / len(labels)
        assert (np.abs(looked - n * shares) <= 1 + len(sizes) * shares).all()


def test_every_image_is_equally_likely_to_be_early():
    """The only image of its class must be in the first fifth for a fifth of the seeds, not always in the middle."""
    labels = np.array([0] * 49 + [1])
    early = np.mean([49 in stratified_order(labels, seed)[:10] for seed in range(500)])
    assert abs(early - 0.2) < 0.06


def test_stratified_mean_by_hand():
    """Classes of 4 and 2, of which 2 and 1 are seen: 2/3·1/2 + 1/3·1; Q = 1/2 on 1 degree of freedom."""
    sample = Sample(np.array([0, 0, 0, 0, 1, 1]), np.array([0, 1, 4]), np.array([True, False, True]), np.zeros((0, 6)))
    found = estimate_accuracies({"task": sample}).task("task")
    assert found.value == pytest.approx(2 / 3)
    miss = (2 / 81 + 16 / 81 + 1) / (2 / 3 + 1)  # powers of the answers about 2/3, and one miss
    squares = (0.5 + 4 * 0.6 * 0.4 + miss) / 5  # p = (2 + 1)/(3 + 2)
    assert found.variance == pytest.approx(squares * (4 / 9 * (1 / 2) / 2 + 1 / 9 * (1 / 2) / 1))
    low, high = wilson(2 / 3, 0.24 / found.variance)
    assert (found.low, found.high) == pytest.approx((max(low - 1 / 12, 2 / 6), min(high + 1 / 12, 5 / 6)))
    assert (found.correct, found.n, found.total, found.exact) == (2, 3, 6, False)


@pytest.mark.parametrize(
    ("right", "value"),
    [
        ([1, 0], 0.5),  # as the neighbour: w = 1, nothing to correct
        ([0, 0], 0.0),  # w = 0.8: 0.4 − 0.4
        ([1, 1], 1.0),  # w = 0.8: 0.4 + 0.6
        ([0, 1], 0.5),  # w = 0.6: 0.3 + 0.2
    ],
)
def test_difference_estimator_by_hand(right, value):
    """The neighbour is right on images 0 and 1; 0 and 2 are seen. w = (2 ± …)/(2 + 1/2)."""
    assert ends(one_class([0, 2], right, [[1, 1, 0, 0]]))[0] == pytest.approx(value)


def test_neighbours_alone_predict_their_mean():
    value, low, high = ends(one_class(np.zeros(0, dtype=int), [], [[1, 1, 0, 0], [1, 0, 0, 0]]))
    assert value == pytest.approx(0.375)
    assert low < 0.2 and high > 0.6


@quick
@given(samples(neighbours=1), st.integers(1, 3))
def test_identical_neighbours_give_the_exact_value(sample, times):
    truth = sample.known[0]
    found = estimate_accuracies(
        {"task": Sample(sample.labels, sample.seen, truth[sample.seen], np.stack([truth] * times))}
    )
    assert found.task("task").value == pytest.approx(truth.mean())


@quick
@given(samples(share=1.0))
def test_interval_closes_when_all_images_are_seen(sample):
    found = estimate_accuracies({"task": sample}).task("task")
    assert found.exact and found.variance == 0
    assert found.value == found.low == found.high == sample.right.sum() / len(sample.labels)


@quick
@given(samples())
def test_interval_holds_its_value_and_nothing_impossible(sample):
    value, low, high = ends(sample)
    total, n, correct = len(sample.labels), len(sample.seen), sample.right.sum()
    assert correct / total <= low <= value <= high <= (correct + total - n) / total
    assert n == total or low < high


@quick
@given(samples(), st.integers(0, 99))
def test_the_order_of_images_and_neighbours_does_not_matter(sample, seed):
    rng = np.random.default_rng(seed)
    rows, places, points = (rng.permutation(len(k)) for k in (sample.labels, sample.seen, sample.known))
    renamed = np.argsort(rows)
    shuffled = Sample(
        sample.labels[rows], renamed[sample.seen][places], sample.right[places], sample.known[points][:, rows]
    )
    assert ends(shuffled) == pytest.approx(ends(sample))


@quick
@given(samples())
def test_right_and_wrong_are_mirrored(sample):
    value, low, high = ends(sample)
    mirrored = ends(Sample(sample.labels, sample.seen, ~sample.right, ~sample.known.astype(bool)))
    if len(sample.seen) or not len(sample.known):
        assert mirrored == pytest.approx((1 - value, 1 - high, 1 - low))


def test_no_miss_seen_is_not_certainty():
    labels = np.arange(400) % 8
    seen = stratified_order(labels)[:40]
    plain = ends(Sample(labels, seen, np.ones(40, dtype=bool), np.zeros((0, 400))))
    assert plain[0] == 1 and 0.85 < plain[1] < 0.93 and plain[2] == 1
    agreed = ends(Sample(labels, seen, seen % 2 == 0, (np.arange(400) % 2 == 0)[None]))
    assert agreed[0] == pytest.approx(0.5)
    assert 0.01 < agreed[2] - agreed[1] < 0.1


def test_neighbours_make_the_interval_narrower_the_closer_they_are():
    rng = np.random.default_rng(0)
    labels = np.arange(400) % 8
    seen, truth = stratified_order(labels)[:80], rng.random(400) < 0.6
    widths = []
    for different in (None, 0.5, 0.2, 0.02):
        known = np.zeros((0, 400)) if different is None else (truth ^ (rng.random(400) < different))[None]
        _, low, high = ends(Sample(labels, seen, truth[seen], known))
        widths.append(high - low)
    plain, useless, near, nearest = widths
    assert useless < 1.1 * plain and near < 0.9 * plain and nearest < 0.5 * plain


@quick
@given(st.lists(samples(neighbours=1), min_size=2, max_size=4))
def test_means_over_tasks(several):
    found = estimate_accuracies({str(number): sample for number, sample in enumerate(several)})
    tasks = [found.task(task) for task in found.moments]
    mean = found.mean()
    assert mean.value == pytest.approx(np.mean([task.value for task in tasks]))
    assert mean.variance <= sum(task.variance for task in tasks) / len(tasks) ** 2 + 1e-12
    assert (mean.correct, mean.n, mean.total) == tuple(
        sum(getattr(task, name) for task in tasks) for name in ("correct", "n", "total")
    )
    assert mean.low <= mean.value <= mean.high
    assert found.mean(list(found.moments)[::-1]).value == pytest.approx(mean.value)


def test_allocation_looks_at_tasks_alike_as_far_as_they_go():
    assert allocation([10, 100, 100], 90) == (10, 40, 40)
    assert allocation([100, 100, 100], 80, [1, 2, 1]) == (20, 40, 20)
    assert allocation([100, 20, 100], 80, [1, 2, 1]) == (30, 20, 30)
    assert allocation([5, 7], 12) == (5, 7)
    assert allocation([5, 7], 0) == (0, 0)


@quick
@given(st.lists(st.tuples(st.integers(1, 50), st.floats(0.1, 5)), min_size=1, max_size=8), st.floats(0, 1))
def test_allocation_gives_all_and_no_more_than_there_is(tasks, share):
    sizes, spreads = zip(*tasks, strict=True)
    images = round(share * sum(sizes))
    given_to = allocation(sizes, images, spreads)
    assert sum(given_to) == images
    assert all(0 <= n <= size for n, size in zip(given_to, sizes, strict=True))


def test_the_interval_reaches_half_an_image_beyond_the_spread():
    """Five of 40 images left, the neighbour right about all seen: one miss among them must be inside."""
    labels, known = np.zeros(40, dtype=int), (np.arange(40) % 2 == 0)[None]
    found = estimate_accuracies({"task": Sample(labels, np.arange(35), known[0, :35], known)}).task("task")
    spread = wilson(0.5, 0.25 / found.variance)  # p is 1/2
    assert found.value == 0.5
    assert (found.low, found.high) == pytest.approx((spread[0] - 1 / 80, spread[1] + 1 / 80), abs=1e-4)


def test_rare_classes_show_their_variance_together():
    """20 classes of 5, one image of each seen: no class shows a variance, the images together do."""
    labels = np.arange(100) % 20
    right = np.arange(20) % 4 == 0
    found = estimate_accuracies({"task": Sample(labels, np.arange(20), right, np.zeros((0, 100)))})
    assert found.moments["task"].freedom == 19
    assert found.moments["task"].within == pytest.approx(20 * 0.25 * 0.75)


def test_measured_tasks_count_in_means_without_doubt():
    rng = np.random.default_rng(0)
    labels, truth = np.arange(60) % 3, rng.random(60) < 0.6
    sample = Sample(labels, np.arange(20), truth[:20], np.zeros((0, 60)))
    alone = estimate_accuracies({"new": sample}).task("new")
    both = estimate_accuracies({"new": sample}, {"old": Accuracy(9, 12)})
    old, mean = both.task("old"), both.mean()
    assert old.exact and (old.value, old.low, old.high, old.variance) == (0.75, 0.75, 0.75, 0.0)
    assert both.task("new") == alone
    assert mean.value == pytest.approx((alone.value + 0.75) / 2) and not mean.exact
    assert 0 < mean.variance < alone.variance / 3.9


def test_what_cannot_be_estimated_is_refused():
    sample = one_class([0], [1], [[1, 1, 0, 0]])
    with pytest.raises(ExplorerError, match="zero tasks"):
        estimate_accuracies({})
    with pytest.raises(ExplorerError, match="same neighbouring points"):
        estimate_accuracies({"a": sample, "b": one_class([0], [1], np.zeros((0, 4)))})
    with pytest.raises(ExplorerError, match="Task c was not estimated; these were: a"):
        estimate_accuracies({"a": sample}).mean(["a", "c"])
    with pytest.raises(ExplorerError, match="zero tasks"):
        estimate_accuracies({"a": sample}).mean([])
    with pytest.raises(ExplorerError, match="between 0 and 3"):
        one_class([0, 0], [1, 1], [[1, 1, 0, 0]])
    with pytest.raises(ExplorerError, match="between 0 and 3"):
        one_class([4], [1], [[1, 1, 0, 0]])
    with pytest.raises(ExplorerError, match=r"shape \(K, 4\), not 1 and \(1, 2\)"):
        one_class([0], [1], [[1, 1]])
    with pytest.raises(ExplorerError, match="without images"):
        Sample(np.zeros(0, dtype=int), np.zeros(0, dtype=int), np.zeros(0, dtype=bool), np.zeros((0, 0)))
    for images, spreads in ((13, None), (-1, None), (3, [1.0]), (3, [1.0, 0.0])):
        with pytest.raises(ExplorerError):
            allocation([5, 7], images, spreads)
