"""Accuracy as a proportion with its interval, and the protocol's normalisation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from lines_explorer.errors import ExplorerError

Z = NormalDist().inv_cdf(0.975)  # two-sided 95 %


@dataclass(frozen=True)
class Accuracy:
    """``correct`` right answers among ``n`` images; a share between 0 and 1.

    Raises:
        ExplorerError: unless 0 ≤ correct ≤ n.
    """

    correct: int
    n: int

    def __post_init__(self) -> None:
        if not 0 <= self.correct <= self.n:
            raise ExplorerError(f"{self.correct} right answers among {self.n} images is impossible.")

    @property
    def value(self) -> float:
        """The share of right answers; nan while there is no image."""
        return self.correct / self.n if self.n else math.nan

    @property
    def low(self) -> float:
        """Lower end of the Wilson 95 % interval; 0 while there is no image."""
        return wilson(self.value, self.n)[0] if self.n else 0.0

    @property
    def high(self) -> float:
        """Upper end of the Wilson 95 % interval; 1 while there is no image."""
        return wilson(self.value, self.n)[1] if self.n else 1.0


def wilson(share: float, n: float) -> tuple[float, float]:
    """The 95 % score interval of a share in [0, 1] seen in ``n`` > 0 images (Wilson, JASA 22, 1927):

        (p + z²/2n ± z·√(p(1 − p)/n + z²/4n²)) / (1 + z²/n).

    Its ends stay in [0, 1] and around the share, exactly 0 and 1 for shares 0 and 1.
    """
    centre = share + Z * Z / (2 * n)
    half = Z * math.sqrt(share * (1 - share) / n + (Z / (2 * n)) ** 2)
    low, high = ((centre + side) / (1 + Z * Z / n) for side in (-half, half))
    return (min(share, max(0.0, low)) if share > 0 else 0.0), (max(share, min(1.0, high)) if share < 1 else 1.0)


@dataclass(frozen=True)
class Mean:
    """The mean accuracy over tasks, every task with the same weight.

    Attributes:
        value, low, high: shares between 0 and 1, the ends those of a 95 % interval for the images drawn.
        n: images of all tasks together.
        tasks: number of tasks.
    """

    value: float
    low: float
    high: float
    n: int
    tasks: int


def mean_accuracy(accuracies: Sequence[Accuracy]) -> Mean:
    """Mean over T independent tasks, with a 95 % interval: Wilson's, at the effective number of images n*.

    n* is how many images of one task would leave the mean as uncertain as it is:

        n* = q̄(1 − q̄) / Var,   Var = (1/T²)·Σ qₜ(1 − qₜ)/nₜ,   qₜ = (correctₜ + 1)/(nₜ + 2),   q̄ = mean of qₜ.

    The variance of a sum is the sum of the variances; one more image of either kind keeps a perfect task from counting
    as certain; Wilson's form keeps the interval honest near 0 and 1, where experts are. One task gives its own Wilson
    interval. The interval covers the drawing of images, not the choice of tasks. While some task has no image the mean
    is nan, between 0 and 1.

    Raises:
        ExplorerError: no accuracy at all.
    """
    tasks = len(accuracies)
    if not tasks:
        raise ExplorerError("There is no mean accuracy over zero tasks; choose at least one.")
    n = sum(accuracy.n for accuracy in accuracies)
    if not all(accuracy.n for accuracy in accuracies):
        return Mean(math.nan, 0.0, 1.0, n, tasks)
    value = math.fsum(accuracy.value for accuracy in accuracies) / tasks
    adjusted = [((accuracy.correct + 1) / (accuracy.n + 2), accuracy.n) for accuracy in accuracies]
    variance = math.fsum(share * (1 - share) / images for share, images in adjusted) / tasks**2
    centre = math.fsum(share for share, _ in adjusted) / tasks
    return Mean(value, *wilson(value, centre * (1 - centre) / variance), n, tasks)


def normalized(accuracy: float, denominator: float) -> float:
    """``accuracy`` as a share of ``denominator``; it may exceed 1, and is nan for denominator 0.

    The protocol divides a target by its expert's accuracy on the same split, and in single-task mode a control task by
    its zero-shot accuracy.
    """
    return accuracy / denominator if denominator else math.nan


def mean_normalized(accuracies: Sequence[float], denominators: Sequence[float]) -> float:
    """The mean over tasks of each task's own ``normalized`` accuracy (not the ratio of two means).

    Raises:
        ExplorerError: no task, or not one denominator per accuracy.
    """
    if not accuracies or len(accuracies) != len(denominators):
        raise ExplorerError(f"{len(accuracies)} accuracies and {len(denominators)} denominators give no mean.")
    return math.fsum(map(normalized, accuracies, denominators)) / len(accuracies)
