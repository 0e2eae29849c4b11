"""How much of a choice is the validation images' doing: other images drawn, would another point have been chosen?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lines_explorer.analysis.choice import constrained_choice, multi_task_choice, single_task_choice
from lines_explorer.errors import ExplorerError

ROUNDS = 1000
NONE = -1

Rule = Callable[[Mapping[str, np.ndarray]], int]


@dataclass(frozen=True)
class Sensitivity:
    """How often each point is chosen when the validation images are drawn again.

    Attributes:
        chosen: index of the point chosen on the images as they are.
        shares: per point, between 0 and 1.
        none: the share of draws in which no point fulfils the rule.
    """

    chosen: int
    shares: tuple[float, ...]
    none: float

    @property
    def kept(self) -> float:
        """How often the same point is chosen again."""
        return self.shares[self.chosen]

    def plausible(self, level: float = 0.95) -> list[int]:
        """The fewest points that together are chosen in ``level`` of the draws that have a choice; by index."""
        wanted, found, gathered = level * sum(self.shares), [], 0.0
        for index in sorted(range(len(self.shares)), key=lambda i: -self.shares[i]):
            if gathered >= wanted - 1e-12:
                break
            found.append(index)
            gathered += self.shares[index]
        return sorted(found)


def single_task_rule(alphas: Sequence[float], target: Sequence[str], weight: float = 2.0) -> Rule:
    """``single_task_choice`` over points with these ``alphas``; tasks outside ``target`` are control."""
    return lambda scores: single_task_choice(_points(alphas, scores, target), weight)


def constrained_rule(alphas: Sequence[float], target: Sequence[str], floor: float = 0.95, forget: bool = False) -> Rule:
    """``constrained_choice`` over points with these ``alphas``; tasks outside ``target`` are control."""
    return lambda scores: constrained_choice(_points(alphas, scores, target), floor, forget)


def multi_task_rule(coefficients: Sequence[float]) -> Rule:
    """``multi_task_choice`` over points with these coefficients: the mean is over all tasks scored."""
    return lambda scores: multi_task_choice(list(zip(coefficients, _mean(list(scores.values())), strict=True)))


def choice_sensitivity(
    right: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray], rule: Rule, seed: int = 0
) -> Sensitivity:
    """The rule's choice, and its choices on ROUNDS validation sets drawn from the images (bootstrap, task by task).

    An image is drawn with the answers of all points and of its reference, so what they share does not count as
    noise: the denominators move with the points.

    Args:
        right: per task bool (P, N), the right answers of P points.
        reference: per task bool (N,), those of the model whose accuracy is the task's denominator (METHOD's protocol:
            the expert for target tasks, the base for control tasks).
        rule: which point is chosen, from normalized accuracies float64 (P,) by task; see the rules above.
        seed: of the draws.

    Raises:
        ExplorerError: no task, tasks or images that do not fit together, or no point can be chosen as it is.
    """
    _check(right, reference)
    chosen = rule({task: _normalized(right[task].mean(axis=1), reference[task].mean()) for task in right})
    rng = np.random.default_rng(seed)
    drawn = {task: _drawn(right[task], reference[task], rng) for task in right}
    points = len(next(iter(right.values())))
    counts = np.zeros(points + 1, dtype=int)
    for draw in range(ROUNDS):
        counts[_choose(rule, {task: scores[draw] for task, scores in drawn.items()})] += 1
    return Sensitivity(chosen, tuple((counts[:points] / ROUNDS).tolist()), float(counts[NONE] / ROUNDS))


def _check(right: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray]) -> None:
    if not right:
        raise ExplorerError("No choice can be tested over zero tasks; choose at least one.")
    points = {bits.shape[0] for bits in right.values()}
    if len(points) > 1:
        raise ExplorerError(f"Every task needs the same points, not {sorted(points)} of them.")
    for task, bits in right.items():
        if task not in reference or reference[task].shape != bits.shape[1:] or not bits.shape[1]:
            raise ExplorerError(f"Task {task} needs a reference on the same images as its {bits.shape[0]} points.")


def _choose(rule: Rule, scores: Mapping[str, np.ndarray]) -> int:
    try:
        return rule(scores)
    except ExplorerError:  # this draw leaves no point to choose
        return NONE


def _drawn(right: np.ndarray, reference: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Normalized accuracies on images drawn again, float64 (ROUNDS, P)."""
    images = right.shape[1]
    times = rng.multinomial(images, np.full(images, 1 / images), size=ROUNDS).astype(np.float32)
    both = times @ np.vstack([right, reference]).T.astype(np.float32)  # whole numbers, exact
    return _normalized(both[:, :-1].astype(np.float64), both[:, -1:].astype(np.float64))


def _normalized(accuracy: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """As ``analysis.normalized``: nan where the denominator is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(denominator > 0, accuracy / denominator, np.nan)


def _points(
    alphas: Sequence[float], scores: Mapping[str, np.ndarray], target: Sequence[str]
) -> list[tuple[float, float, float]]:
    """(alpha, mean target, mean control) of every point."""
    means = [_mean([score for task, score in scores.items() if (task in target) is wanted]) for wanted in (True, False)]
    return list(zip(alphas, *means, strict=True))


def _mean(scores: Sequence[np.ndarray]) -> np.ndarray:
    if not scores:
        raise ExplorerError("No point can be chosen: a target and a control task are needed.")
    return np.mean(scores, axis=0)
