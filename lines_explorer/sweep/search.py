"""One point of a family, chosen on validation: the coarse grid, then finer around the best; test once at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lines_explorer.analysis import pareto_front
from lines_explorer.analysis.sensitivity import Sensitivity, choice_sensitivity
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.sweep.family import Family
from lines_explorer.sweep.goal import Goal
from lines_explorer.sweep.measuring import Tick, answers, measure, silent

if TYPE_CHECKING:
    from lines_explorer.engine import Engine, Evaluation, Summary

MOST_ROUNDS = 6
VALIDATION, TEST = "validation", "test"


@dataclass(frozen=True)
class Point:
    """One evaluated point: its coefficient, in which round it was tried (0: the coarse grid), and what came out."""

    coefficient: float
    round: int
    recipe: Recipe
    evaluation: Evaluation
    summary: Summary

    @property
    def target(self) -> float:
        """Mean normalized accuracy of the target tasks; nan where there are none."""
        return self.summary.target_normalized

    @property
    def control(self) -> float:
        """Mean normalized accuracy of the control tasks; nan where there are none."""
        return self.summary.control_normalized

    @property
    def weakest(self) -> float:
        """The smallest normalized accuracy among the target tasks."""
        shares = [task.normalized for task in self.summary.tasks.values() if task.role == "target"]
        return min(shares, default=math.nan)


@dataclass(frozen=True)
class Search:
    """All points that were tried, by rising coefficient, and the index of the chosen one.

    ``coarse`` is the index of the best point of the coarse grid alone, the protocol's own choice; ``targets`` the
    target tasks.
    """

    family: Family
    goal: Goal
    targets: tuple[str, ...]
    points: tuple[Point, ...]
    chosen: int
    coarse: int

    @property
    def best(self) -> Point:
        """The chosen point."""
        return self.points[self.chosen]

    def front(self) -> list[int]:
        """Indices of the points that no other beats: target against control, or against the weakest task."""
        second = [point.weakest if math.isnan(point.control) else point.control for point in self.points]
        return pareto_front([(point.target, other) for point, other in zip(self.points, second, strict=True)])


def search(
    engine: Engine, family: Family, goal: Goal, targets: Sequence[str], score_on: Sequence[str], rounds: int = 0,
    tick: Tick = silent,
) -> Search:  # fmt: skip
    """The best point of ``family`` on the validation split.

    ``rounds`` times the distance between neighbours is halved and the two points beside the best one are tried.

    Raises:
        ExplorerError: rounds out of range, no control tasks although the goal needs them, or what the goal refuses.
    """
    check(goal, targets, score_on, rounds)
    points: list[Point] = []
    for number in range(rounds + 1):
        fresh = coefficients(family, goal, points, number)
        points += _measured(engine, family, fresh, number, targets, score_on, tick)
    return finished(family, goal, targets, points)


def check(goal: Goal, targets: Sequence[str], score_on: Sequence[str], rounds: int) -> None:
    """Refuses what ``search`` cannot do. Raises as it."""
    if not 0 <= rounds <= MOST_ROUNDS:
        raise ExplorerError(f"Refine between 0 and {MOST_ROUNDS} times, not {rounds}.")
    if goal.needs_control and not set(score_on) - set(targets):
        raise ExplorerError("Every task is a target, so there is no control task: leave out a task, or the constraint.")


def coefficients(family: Family, goal: Goal, points: Sequence[Point], number: int) -> list[float]:
    """What round ``number`` tries: in round 0 the family's grid, then what is new beside the best of ``points``.

    Raises:
        ExplorerError: no point can be chosen.
    """
    if number == 0:
        return list(family.grid)
    step, known = family.step / 2**number, {point.coefficient for point in points}
    best = points[_choose(goal, points)].coefficient
    return [c for c in family.between(best, step) if step > 0 and c not in known]


def finished(family: Family, goal: Goal, targets: Sequence[str], points: Sequence[Point]) -> Search:
    """The choice among points of round 0 and later ones. Raises ExplorerError when none can be chosen."""
    grid = [point for point in points if point.round == 0]
    coarse = grid[_choose(goal, grid)]
    ordered = sorted(points, key=lambda point: point.coefficient)
    return Search(family, goal, tuple(targets), tuple(ordered), _choose(goal, ordered), ordered.index(coarse))


def tested(engine: Engine, found: Search, score_on: Sequence[str], split: str = TEST) -> tuple[Evaluation, Summary]:
    """The chosen point on the test split (or a shifted set), scored there once."""
    (evaluation,) = measure(engine, [found.best.recipe], score_on, split)
    return evaluation, engine.summary(evaluation, found.targets)


def sensitivity(engine: Engine, found: Search, tick: Tick = silent) -> Sensitivity:
    """How often other validation images would have chosen another point (bootstrap over images)."""
    scored = list(found.best.evaluation.scores)
    tasks = [task for task in scored if task in found.targets or found.goal.needs_control]
    right: dict[str, list[np.ndarray]] = {task: [] for task in tasks}
    for point in found.points:
        for task, bits in answers(engine, point.recipe, tasks, VALIDATION).items():
            right[task].append(bits)
        tick(point.recipe)
    rule = found.goal.rule([point.coefficient for point in found.points], found.targets)
    stacked = {task: np.stack(rows) for task, rows in right.items()}
    return choice_sensitivity(stacked, _reference(engine, found, tasks), rule)


def _reference(engine: Engine, found: Search, tasks: Sequence[str]) -> dict[str, np.ndarray]:
    """The answers of the model whose accuracy is each task's denominator: its expert, or the base for control."""
    base = Recipe.base(engine.suite.name)
    owner = {task: Recipe(engine.suite.name, (task,)) if task in found.targets else base for task in tasks}
    return {task: answers(engine, recipe, [task], VALIDATION)[task] for task, recipe in owner.items()}


def _measured(
    engine: Engine, family: Family, coefficients: Sequence[float], number: int, targets: Sequence[str],
    score_on: Sequence[str], tick: Tick,
) -> list[Point]:  # fmt: skip
    recipes = [family.recipe(c) for c in coefficients]
    evaluations = measure(engine, recipes, score_on, VALIDATION, tick)
    return [
        Point(c, number, recipe, evaluation, engine.summary(evaluation, targets))
        for c, recipe, evaluation in zip(coefficients, recipes, evaluations, strict=True)
    ]


def _choose(goal: Goal, points: Sequence[Point]) -> int:
    return goal.choose([(point.coefficient, point.target, point.control) for point in points])
