"""Points of two lines that can be compared fairly, and accuracies that may be guesses."""

import math
from collections.abc import Sequence

from lines_explorer.analysis.accuracy import Accuracy
from lines_explorer.analysis.paired import LEVEL, holm
from lines_explorer.errors import ExplorerError


def nearest_control(points: Sequence[tuple[float, float]], control: float) -> int:
    """Index of the point whose control is nearest to ``control``; ties keep the better target.

    Args:
        points: (target, control) accuracies, shares between 0 and 1; points without a number are passed over.
        control: what the other line's point has.

    Raises:
        ExplorerError: no point has both numbers.
    """
    known = [index for index, point in enumerate(points) if not any(map(math.isnan, point))]
    if not known:
        raise ExplorerError("No point has a target and a control accuracy to compare.")
    return min(known, key=lambda index: (round(abs(points[index][1] - control), 12), -points[index][0]))


def may_be_chance(accuracy: Accuracy, classes: int) -> bool:
    """Whether the 95 % interval reaches down to 1/``classes``, what guessing among the classes would give."""
    return accuracy.low <= 1 / classes


def verdicts(values: Sequence[float], p_values: Sequence[float]) -> list[int]:
    """1, 0 or −1 per difference: above noise, within it, below; Holm's correction for the number of differences.

    Args:
        values: the differences.
        p_values: their two-sided p values, in the same order.
    """
    corrected = holm(p_values)
    return [
        0 if p >= LEVEL or value == 0 else int(math.copysign(1, value))
        for value, p in zip(values, corrected, strict=True)
    ]
