"""Two settings on the same images: how much better is the second, and could that be noise?

Only the images that the two settings answer differently say anything about their difference.  ``gained`` are right in
the second setting alone, ``lost`` in the first alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lines_explorer.analysis.accuracy import Z
from lines_explorer.errors import ExplorerError

LEVEL = 0.05
ROUNDS = 10_000
BISECTIONS = 60


@dataclass(frozen=True)
class PairedDifference:
    """Accuracy of the second setting minus that of the first.

    Attributes:
        value, low, high: between −1 and 1, the ends those of a 95 % interval for the images drawn.
        p: two-sided probability of a difference at least as large if neither setting were better.
        gained, lost: images right in the second setting alone and in the first alone, of all tasks together.
        n: images, of all tasks together.
        tasks: number of tasks, each with the same weight.
    """

    value: float
    low: float
    high: float
    p: float
    gained: int
    lost: int
    n: int
    tasks: int = 1

    @property
    def within_noise(self) -> bool:
        """Whether the images cannot tell the two settings apart: the interval holds 0, or p is 0.05 or more."""
        return self.low <= 0 <= self.high or self.p >= LEVEL


def paired_difference(first: np.ndarray, second: np.ndarray) -> PairedDifference:
    """The difference on one task's images: Tango's score interval and McNemar's mid-p value.

    Args:
        first: bool (n,), which images the first setting answers rightly.
        second: bool (n,), the same of the second setting on the same images, in the same order.

    Raises:
        ExplorerError: no image, or two different numbers of them.
    """
    gained, lost, n = _discordant(first, second)
    low, high = tango(gained, lost, n)
    return PairedDifference((gained - lost) / n, low, high, mcnemar(gained, lost), gained, lost, n)


def mean_paired_difference(pairs: Sequence[tuple[np.ndarray, np.ndarray]], seed: int = 0) -> PairedDifference:
    """The mean over tasks of the differences, every task with the same weight; one task gives ``paired_difference``.

    The interval is that of a stratified paired bootstrap: ROUNDS times the images of every task are drawn again, each
    with both its answers, and the middle 95 % of the means are kept.  One gained and one lost image, shared out among
    the tasks, are added to what is drawn from (Bonett & Price, J. Educ. Behav. Stat. 37, 2012), so that two settings
    without any difference on few images do not count as equal for certain; the middle stays the mean observed.  p is
    the mid-p value of the paired permutation test: in every image answered differently the two settings are
    exchanged by a coin's toss.  Both are seeded: the same bits give the same numbers.

    Args:
        pairs: per task the bool (n,) right answers of the first and of the second setting.
        seed: of the random draws.

    Raises:
        ExplorerError: no task, a task without images, or two settings with different numbers of them.
    """
    if not pairs:
        raise ExplorerError("There is no mean difference over zero tasks; choose at least one.")
    if len(pairs) == 1:
        return paired_difference(*pairs[0])
    gained, lost, n = np.array([_discordant(*pair) for pair in pairs]).T
    value = float(np.mean((gained - lost) / n))
    rng = np.random.default_rng(seed)
    low, high = _bootstrap(gained, lost, n, rng)
    p = _permutation(gained, lost, n, rng)
    ends = float(max(-1.0, value + low)), float(min(1.0, value + high))
    return PairedDifference(value, *ends, p, int(gained.sum()), int(lost.sum()), int(n.sum()), len(pairs))


def mcnemar(gained: int, lost: int) -> float:
    """McNemar's two-sided mid-p value: exact, given that gained + lost images are answered differently.

    With d = gained + lost tosses of a fair coin and m = min(gained, lost): 2·P(X ≤ m) − P(X = m), and 1 − P(X = m)/2
    when both are equal (Fagerland, Lydersen & Laake, BMC Med. Res. Methodol. 13:91, 2013).  1 without any difference.
    """
    tosses, fewer = gained + lost, min(gained, lost)
    if tosses == 0:
        return 1.0
    ways, here = 0, 1
    for k in range(fewer + 1):
        ways += here
        last, here = here, here * (tosses - k) // (k + 1)
    if gained == lost:
        return 1 - last / 2 ** (tosses + 1)
    return (2 * ways - last) / 2**tosses


def tango(gained: int, lost: int, n: int) -> tuple[float, float]:
    """The 95 % score interval of (gained − lost)/n (Tango, Statistics in Medicine 17, 1998).

    Its ends are the differences Δ with (gained − lost − nΔ)² = z²·n·(2q + Δ(1 − Δ)), where q is the likeliest
    probability of a lost image given Δ: the positive root of 2n·q² + (Δ(2n − gained + lost) − gained − lost)·q
    − lost·Δ(1 − Δ) = 0.
    """
    value = (gained - lost) / n

    def score(delta: float) -> float:
        middle = delta * (2 * n - gained + lost) - gained - lost
        root = math.sqrt(max(0.0, middle**2 + 8 * n * lost * delta * (1 - delta)))
        variance = n * (2 * (root - middle) / (4 * n) + delta * (1 - delta))
        distance = gained - lost - n * delta
        return distance / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, distance)

    return _crossing(lambda delta: score(delta) < Z, -1.0, value), _crossing(lambda d: score(d) < -Z, value, 1.0)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values of a table, corrected for their number (Holm, Scand. J. Statist. 6, 1979), in the same order.

    The k-th smallest of m (from 0) is multiplied by m − k, never falls below a smaller one's, and stays at most 1.
    To call all below 0.05 real is to call noise real, anywhere in the table, in at most 5 % of tables.

    Raises:
        ExplorerError: a value outside [0, 1] or nan.
    """
    if wrong := [p for p in p_values if not 0 <= p <= 1]:
        raise ExplorerError(f"A p value must lie between 0 and 1, not {wrong[0]}.")
    corrected, highest = [0.0] * len(p_values), 0.0
    for k, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - k) * p_values[index]))
        corrected[index] = highest
    return corrected


def _discordant(first: np.ndarray, second: np.ndarray) -> tuple[int, int, int]:
    """(gained, lost, n)."""
    first, second = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if first.shape != second.shape or first.ndim != 1 or not len(first):
        raise ExplorerError(
            f"Two settings can be compared on the same images alone, not on {len(first)} and {len(second)}."
        )
    return int((second & ~first).sum()), int((first & ~second).sum()), len(first)


def _crossing(after: Callable[[float], bool], low: float, high: float) -> float:
    """Where ``after`` turns from False to True between ``low`` and ``high``."""
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if after(middle) else (middle, high)
    return (low + high) / 2


def _bootstrap(gained: np.ndarray, lost: np.ndarray, n: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The ends, relative to the mean observed, of the middle 95 % of the means redrawn."""
    share = 1 / len(n)
    means = np.zeros(ROUNDS)
    for g, b, images in zip(gained, lost, n, strict=True):
        chances = np.array([g + share, b + share, images - g - b]) / (images + 2 * share)
        drawn = rng.multinomial(images, chances, size=ROUNDS)
        means += ((drawn[:, 0] - drawn[:, 1]) / images - (chances[0] - chances[1])) * share
    return np.quantile(means, (0.025, 0.975))


def _permutation(gained: np.ndarray, lost: np.ndarray, n: np.ndarray, rng: np.random.Generator) -> float:
    """Mid-p of the mean under coin tosses; the observed mean counts as one of the tosses.  1 without any difference."""
    if not (gained + lost).any():
        return 1.0
    observed = abs(float(np.sum((gained - lost) / n)))
    tossed = np.zeros(ROUNDS)
    for different, images in zip(gained + lost, n, strict=True):
        tossed += (2 * rng.binomial(different, 0.5, size=ROUNDS) - different) / images
    more, same = (np.abs(tossed) > observed + 1e-9).sum(), (np.abs(np.abs(tossed) - observed) <= 1e-9).sum()
    return float((more + (same + 1) / 2) / (ROUNDS + 1))
