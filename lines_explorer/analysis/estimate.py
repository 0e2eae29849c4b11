"""What a few images of each task already say about the exact accuracy on all of them.

The images of a task are looked at in a fixed random order that holds the classes in balance.  Everything here
estimates one number: the accuracy on *all* N images of the split, so every interval closes when the last image is
seen.  (How far that accuracy is from the one on images never collected is another question: ``Accuracy`` and ``Mean``
answer it.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lines_explorer.analysis.accuracy import Accuracy, wilson
from lines_explorer.errors import ExplorerError

PRIOR_IMAGES = 4.0  # what the pooled spread counts for against a task's own, in images
MISSES = {False: 1.0, True: 0.04}  # reckoned with beside those seen, without and with neighbours that predict
STRATUM_IMAGES = 2  # that a class must be expected to have among those seen, to be a stratum of its own
PRIOR_SQUARES = 1.0  # what the pooled sums of squares begin with: one miss
RIDGE = 2.0  # sum of squares that holds the neighbours' weights to equal ones


@dataclass(frozen=True, eq=False)
class Sample:
    """What is known of one task at a new point.

    Attributes:
        labels: int (N,), the class of every image.
        seen: int (n,), rows of the images already looked at, each once.
        right: bool (n,), whether the new point answers those rightly.
        known: bool (K, N), the correct-bits of K neighbouring points on all images; K = 0 when there are none.

    Raises:
        ExplorerError: shapes that do not fit, a row out of range or twice, no image at all.
    """

    labels: np.ndarray
    seen: np.ndarray
    right: np.ndarray
    known: np.ndarray

    def __post_init__(self) -> None:
        total, n = len(self.labels), len(self.seen)
        if not total:
            raise ExplorerError("A task without images has no accuracy to estimate.")
        if len(self.right) != n or self.known.ndim != 2 or self.known.shape[1] != total:
            raise ExplorerError(
                f"{n} images seen of {total} need {n} answers and neighbours of shape (K, {total}), "
                f"not {len(self.right)} and {self.known.shape}."
            )
        if n and not (0 <= self.seen.min() and self.seen.max() < total and len(np.unique(self.seen)) == n):
            raise ExplorerError(f"The rows seen must be different ones between 0 and {total - 1}.")


@dataclass(frozen=True)
class Estimate:
    """An estimated share of right answers on all ``total`` images, from ``n`` of them.

    Attributes:
        value, low, high: shares between 0 and 1, the ends those of a 95 % interval for the exact value.
        variance: of the estimate; 0 when all images are seen.
        correct: right answers among those seen.
        n, total: images seen and to be seen, of all tasks together.
    """

    value: float
    low: float
    high: float
    variance: float
    correct: int
    n: int
    total: int

    @property
    def exact(self) -> bool:
        """Whether every image was seen, so that ``value`` is a measurement."""
        return self.n == self.total


@dataclass(frozen=True, eq=False)
class Estimates:
    """What ``estimate_accuracies`` found out about every task, and about the mean over some of them.

    Attributes:
        moments: the sums of every task.
        unexplained: r, the share of the answers' variance that the neighbours' predictions leave open.
        miss: the squares reckoned with beside those seen, a multiple of κ.
    """

    moments: Mapping[str, _Moments]
    unexplained: float
    miss: float

    def task(self, task: str) -> Estimate:
        """One task's accuracy."""
        return self.mean([task])

    def mean(self, tasks: Sequence[str] | None = None) -> Estimate:
        """The mean over ``tasks`` (all when left out), every task with the same weight.

        Tasks are seen independently, so their variances add up; the miss reckoned with is shared out among them.

        Raises:
            ExplorerError: no task, or one that was not estimated.
        """
        tasks = list(self.moments) if tasks is None else tasks
        if not tasks:
            raise ExplorerError("There is no mean accuracy over zero tasks; choose at least one.")
        if unknown := [task for task in tasks if task not in self.moments]:
            raise ExplorerError(f"Task {unknown[0]} was not estimated; these were: {', '.join(self.moments)}.")
        chosen = [self.moments[task] for task in tasks]
        variance = math.fsum(self._variance(task, self.miss / len(tasks)) for task in chosen) / len(tasks) ** 2
        return _estimate(chosen, variance)

    def _variance(self, task: _Moments, misses: float) -> float:
        """Var of a task's value; ``misses`` are the squares reckoned with beside those seen."""
        prior = self.unexplained * task.spread
        squares = task.within + PRIOR_IMAGES * prior + misses
        return squares / (task.freedom + PRIOR_IMAGES) * task.seen + prior * task.unseen


@dataclass(frozen=True)
class _Moments:
    """One task's sums: see ``estimate_accuracies``.

    Attributes:
        value: the estimate.
        chance: p, the estimate with one right and one wrong answer added.
        within, freedom: sum of squares of e about its stratum's mean, and its degrees of freedom.
        answers: sum of squares of the answers about their mean.
        squares, fourth: sums of the second and fourth power of e about its mean.
        seen, unseen: what s² and r·p(1 − p) are multiplied by.
        correct, n, total: right answers among the images seen, and all images.
    """

    value: float
    chance: float
    within: float
    freedom: int
    answers: float
    squares: float
    fourth: float
    seen: float
    unseen: float
    correct: int
    n: int
    total: int

    @property
    def spread(self) -> float:
        """p(1 − p)."""
        return self.chance * (1 - self.chance)


def stratified_order(labels: np.ndarray, seed: int = 0) -> np.ndarray:
    """A fixed random order of the rows, int64 (N,), every prefix of which holds the classes in about their shares.

    The j-th image (from 0) of a class of N_h comes at (j + u)/N_h, with u in [0, 1) drawn once for the class: the
    first n images hold n·N_h/N of it, to about one, and every image is equally likely to be among them.  A longer
    prefix contains every shorter one.
    """
    rng = np.random.default_rng(seed)
    shuffled, place = rng.permutation(len(labels)), np.empty(len(labels))
    for label in np.unique(labels):
        rows = shuffled[labels[shuffled] == label]
        place[rows] = (np.arange(len(rows)) + rng.random()) / len(rows)
    return shuffled[np.argsort(place[shuffled], kind="stable")]


def allocation(sizes: Sequence[int], images: int, spreads: Sequence[float] | None = None) -> tuple[int, ...]:
    """How many images of each task to look at, so that the mean over tasks is known best (Neyman's allocation).

    Every task weighs the same in the mean, whatever its size: equal numbers of images, or numbers in proportion to
    the tasks' ``spreads`` (standard deviations of what is estimated), as far as the tasks have so many.

    Args:
        sizes: images of each task.
        images: to look at in all, between 0 and their sum.
        spreads: positive, one per task; equal when left out.

    Raises:
        ExplorerError: more images than there are, or spreads that are not positive or not one per task.
    """
    spreads = [1.0] * len(sizes) if spreads is None else spreads
    if len(spreads) != len(sizes) or not all(0 < spread < math.inf for spread in spreads):
        raise ExplorerError(f"{len(sizes)} tasks need as many positive spreads, not {list(spreads)}.")
    if not 0 <= images <= sum(sizes):
        raise ExplorerError(f"{images} images cannot be chosen from {sum(sizes)}.")
    given = [0] * len(sizes)
    left, open_tasks = images, sorted(range(len(sizes)), key=lambda task: sizes[task] / spreads[task])
    while open_tasks:
        share = left / math.fsum(spreads[task] for task in open_tasks)
        task = open_tasks.pop(0)  # the one whose images run out first
        given[task] = min(sizes[task], round(share * spreads[task])) if open_tasks else left
        left -= given[task]
    return tuple(given)


def estimate_accuracies(samples: Mapping[str, Sample], measured: Mapping[str, Accuracy] | None = None) -> Estimates:
    """The tasks' accuracies on all their images, from those seen; with neighbours, by the difference estimator.

    The neighbours' bits predict each image's answer, m = Σₖ wₖ·xₖ; the images seen correct the prediction stratum by
    stratum (generalised difference estimator: Särndal, Swensson & Wretman, Model Assisted Survey Sampling, 1992,
    ch. 6; without neighbours m = 0, the stratified mean), with e = right − m, ē_h its mean in stratum h, W_h = N_h/N:

        value = mean of m over all N images + Σ W_h·ē_h / Σ W_h                    (sums over the strata seen)
        Var   = s²·Σ W_h²·(1 − n_h/N_h)/n_h / (Σ W_h)² + r·p(1 − p)·Σ W_h²         (last sum: strata not seen yet)

    Strata are the classes; those too small to show a variance, with fewer than 2 images expected among n, N_h < 2N/n,
    are one stratum together.  The weights wₖ are regressed on the images seen of all tasks together, held to equal ones
    by a ridge.  s² is the variance of e within strata, from their sum of squares Q on f degrees of freedom.  Few images
    show few misses or none, which is no certainty: what all tasks show, worth 4 images, is added, and c = 1 miss more,
    or with neighbours, which are rarely wrong, c = 1/25 (with which intervals cover 95 % on real predictions, see the
    tests):

        s² = (Q + 4·r·p(1 − p) + c·κ)/(f + 4)      r: share of the answers' variance left in e, over all tasks
                                                   κ: squared size of a typical miss, over all tasks

    The interval is Wilson's for the number of images, p(1 − p)/Var, that leaves as much doubt, half an image wider at
    both ends: the exact value is a whole number of images, and towards the end, where few misses are left to be found,
    an interval of their spread alone passes it by (continuity correction).  It never goes beyond what is certain,
    (right so far)/N and (right so far + not seen)/N: it closes when all are seen.

    Args:
        samples: by task, all with the same K neighbours in the same order.
        measured: tasks of which every image is known to be seen, by their exact accuracies.

    Raises:
        ExplorerError: no task, or tasks with different numbers of neighbours.
    """
    if not samples:
        raise ExplorerError("There is nothing to estimate over zero tasks; choose at least one.")
    if len({len(sample.known) for sample in samples.values()}) > 1:
        raise ExplorerError("All tasks need the same neighbouring points.")
    strata = {task: _strata(sample) for task, sample in samples.items()}
    weights = _neighbour_weights([(sample, strata[task]) for task, sample in samples.items()])
    moments = {task: _moments(sample, strata[task], weights) for task, sample in samples.items()}
    moments |= {task: _closed(accuracy) for task, accuracy in (measured or {}).items()}
    answers, squares, fourth = (
        math.fsum(getattr(task, power) for task in moments.values()) + PRIOR_SQUARES
        for power in ("answers", "squares", "fourth")
    )
    return Estimates(moments, squares / answers, MISSES[len(weights) > 0] * fourth / squares)


def _strata(sample: Sample) -> np.ndarray:
    """Int (N,): every image's class, or one number more where the class is too small to be a stratum."""
    sizes = np.bincount(sample.labels)
    small = sizes * len(sample.seen) < STRATUM_IMAGES * len(sample.labels)
    return np.where(small[sample.labels], len(sizes), sample.labels)


def _neighbour_weights(samples: Sequence[tuple[Sample, np.ndarray]]) -> np.ndarray:
    """Float64 (K,): w, the ridge regression, within strata, of the answers on the neighbours' answers."""
    neighbours = len(samples[0][0].known)
    squares = RIDGE * np.eye(neighbours)
    products = np.full(neighbours, RIDGE / max(neighbours, 1))
    for sample, strata in samples if neighbours else ():
        known = np.stack([_centred(bits[sample.seen], strata[sample.seen]) for bits in sample.known])
        squares += known @ known.T
        products += known @ sample.right
    return np.linalg.solve(squares, products)


def _centred(values: np.ndarray, strata: np.ndarray) -> np.ndarray:
    """The values less their stratum's mean."""
    return values - (np.bincount(strata, values) / np.maximum(np.bincount(strata), 1))[strata]


def _moments(sample: Sample, strata: np.ndarray, weights: np.ndarray) -> _Moments:
    n, total, inside = len(sample.seen), len(sample.labels), strata[sample.seen]
    predicted = weights @ sample.known
    misses = sample.right - predicted[sample.seen]
    about = misses - misses.sum() / max(n, 1)
    looked, sizes = (np.bincount(rows, minlength=strata.max() + 1) for rows in (inside, strata))
    means = np.bincount(inside, misses, minlength=len(sizes)) / np.maximum(looked, 1)
    share, reached = sizes / total, looked > 0
    reach = share[reached].sum() if n else 1.0
    left = (1 - looked[reached] / sizes[reached]) / looked[reached]
    value = predicted.mean() + share @ means / reach if n or len(weights) else 0.5
    correct = int(sample.right.sum())
    value = float(min(max(value, correct / total), (correct + total - n) / total))
    return _Moments(
        value=value,
        chance=(n * value + 1) / (n + 2),
        within=float(((misses - means[inside]) ** 2).sum()),
        freedom=n - int(reached.sum()),
        answers=correct * (n - correct) / max(n, 1),
        squares=float((about**2).sum()),
        fourth=float((about**4).sum()),
        seen=float(share[reached] ** 2 @ left / reach**2),
        unseen=float((share[~reached] ** 2).sum()) if n else 1.0,
        correct=correct,
        n=n,
        total=total,
    )


def _closed(accuracy: Accuracy) -> _Moments:
    """The moments of a task with nothing left to estimate."""
    correct, n = accuracy.correct, accuracy.n
    chance = (correct + 1) / (n + 2)
    return _Moments(accuracy.value, chance, 0.0, 0, 0.0, 0.0, 0.0, seen=0.0, unseen=0.0, correct=correct, n=n, total=n)


def _estimate(moments: Sequence[_Moments], variance: float) -> Estimate:
    """The mean of the tasks' values with its interval."""
    tasks = len(moments)
    value = math.fsum(task.value for task in moments) / tasks
    chance = math.fsum(task.chance for task in moments) / tasks
    low = high = value
    if variance > 0:
        half_image = 0.5 / sum(task.total for task in moments)
        low, high = wilson(value, chance * (1 - chance) / variance)
        low, high = low - half_image, high + half_image
    least = math.fsum(task.correct / task.total for task in moments) / tasks
    most = math.fsum((task.correct + task.total - task.n) / task.total for task in moments) / tasks
    return Estimate(
        value=value,
        low=min(value, max(low, least)),
        high=max(value, min(high, most)),
        variance=variance,
        correct=sum(task.correct for task in moments),
        n=sum(task.n for task in moments),
        total=sum(task.total for task in moments),
    )
