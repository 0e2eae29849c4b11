"""Which point of a curve the protocol chooses, and which points no other beats."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lines_explorer.errors import ExplorerError

DECIMALS = 12  # scores that agree so far are tied: they differ by rounding alone


class SingleTaskPoint(NamedTuple):
    """``alpha`` of a point, normalized ``target`` accuracy, mean normalized ``control`` accuracy (1.0 is 100 %)."""

    alpha: float
    target: float
    control: float


class MultiTaskPoint(NamedTuple):
    """``coefficient`` of a point (β, or a constant λ) and mean ``normalized`` accuracy over the merged tasks."""

    coefficient: float
    normalized: float


def single_task_choice(points: Sequence[tuple[float, float, float]], weight: float = 2.0) -> int:
    """Index of the largest weight·target + control; ties keep the larger α.

    Args:
        points: ``SingleTaskPoint`` or plain (alpha, target, control), scored on validation.
        weight: what the target counts for against control; the protocol's is 2.

    Raises:
        ExplorerError: no point has a score (points without a number are passed over).
    """
    return _best([(weight * target + control, alpha) for alpha, target, control in points])


def multi_task_choice(points: Sequence[tuple[float, float]]) -> int:
    """Index of the largest mean normalized accuracy; ties keep the smaller coefficient.

    Args:
        points: ``MultiTaskPoint`` or plain (coefficient, normalized), scored on validation.

    Raises:
        ExplorerError: no point has a score (points without a number are passed over).
    """
    return _best([(score, -coefficient) for coefficient, score in points])


def constrained_choice(points: Sequence[tuple[float, float, float]], floor: float = 0.95, forget: bool = False) -> int:
    """Index of the best target among the points that keep control; ties keep the better control, then the larger α.

    Args:
        points: ``SingleTaskPoint`` or plain (alpha, target, control), scored on validation.
        floor: the least mean normalized control allowed, as a share of zero-shot (1.0 is 100 %).
        forget: whether the best target is the lowest (a task is subtracted) instead of the highest.

    Raises:
        ExplorerError: no point keeps control (points without a number are passed over).
    """
    scored = [index for index, point in enumerate(points) if not any(map(math.isnan, point))]
    kept = [index for index in scored if round(points[index][2] - floor, DECIMALS) >= 0]
    if not kept:
        most = max((points[index][2] for index in scored), default=math.nan)
        raise ExplorerError(
            f"No point keeps control at {floor:.0%} of zero-shot or more (the best keeps {most:.1%}); ask for less."
        )
    sign = -1 if forget else 1
    return max(kept, key=lambda i: (round(sign * points[i][1], DECIMALS), round(points[i][2], DECIMALS), points[i][0]))


def greedy_choice(names: Sequence[str], accuracy: Callable[[tuple[str, ...]], float]) -> tuple[str, ...]:
    """The runs that a greedy soup keeps (Wortsman et al., Model soups, ICML 2022, recipe 1).

    From the best run on, each next one, by falling accuracy of its own, is kept if the soup is then not worse.

    Args:
        names: the runs, at least one; among equals the earlier comes first.
        accuracy: validation accuracy of the mean of the weights of some runs.

    Raises:
        ExplorerError: no run.
    """
    if not names:
        raise ExplorerError("There is no soup of no runs; choose at least one.")
    ranked = sorted(names, key=lambda name: -accuracy((name,)))
    kept, best = (ranked[0],), accuracy((ranked[0],))
    for name in ranked[1:]:
        if (found := accuracy((*kept, name))) >= best:
            kept, best = (*kept, name), found
    return kept


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of the points that no other beats, both coordinates the larger the better; by rising first coordinate.

    A point is beaten by one at least as good in both and better in one. Equal points stay together; a point with nan
    is never on the front.
    """
    numbered = [(x, y, index) for index, (x, y) in enumerate(points) if not math.isnan(x + y)]
    front: list[tuple[float, float, int]] = []
    for point in sorted(numbered, key=lambda p: (-p[0], -p[1], -p[2])):
        if not front or point[1] > front[-1][1] or point[:2] == front[-1][:2]:
            front.append(point)
    return [index for _, _, index in reversed(front)]


def _best(ranks: list[tuple[float, float]]) -> int:
    """Index of the largest (score, preference among ties)."""
    scored = [index for index, (score, _) in enumerate(ranks) if not math.isnan(score)]
    if not scored:
        raise ExplorerError("No point can be chosen: none has a target and a control accuracy to compare.")
    return max(scored, key=lambda index: (round(ranks[index][0], DECIMALS), ranks[index][1]))
