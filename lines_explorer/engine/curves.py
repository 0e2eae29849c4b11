"""The recipes of the protocol's curves (METHOD: single task, multi-task); pure, nothing is evaluated here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import FREE, Schedule, constant, free, lines, single_task

TURNED = 0.3
"""The γ of LiNeS whose order over depth is put to the test."""


def single_task_recipes(suite: str, target: str, kind: str = "lines", points: int = 11) -> list[Recipe]:
    """α = γ, β = 1 − γ for γ from 1 (the expert) to 0 in ``points`` equal steps."""
    return [Recipe(suite, (target,), schedule=single_task(gamma, kind)) for gamma in _falling(points)]


def constant_recipes(suite: str, target: str, points: int = 11) -> list[Recipe]:
    """The WiSE-FT line θ₀ + λτ for λ from 1 (the expert) to 0 (the base) in ``points`` equal steps."""
    return [Recipe(suite, (target,), schedule=constant(scale)) for scale in _falling(points)]


def reversed_recipe(suite: str, task: str, blocks: int) -> Recipe:
    """LiNeS with γ = ``TURNED`` on one expert, its block factors in reverse order: the whole update in the first block.

    Outside the blocks the factor is γ, as it is under LiNeS; factors have four decimals.
    """
    factors = [round(factor, 4) for factor in single_task(TURNED).block_factors(blocks)]
    return Recipe(suite, (task,), schedule=free(factors[::-1], TURNED))


def multi_task_recipes(suite: str, tasks: Sequence[str], method: str, alpha: float | None) -> list[Recipe]:
    """The method's own grid: as β with ``alpha`` from the norms (LiNeS), or with None as a constant λ (baseline)."""
    if method not in METHODS:
        raise ExplorerError(f"There is no merge method {method}; choose one of {', '.join(METHODS)}.")
    schedules = [constant(value) if alpha is None else lines(alpha, value) for value in METHODS[method].grid]
    return [Recipe(suite, tuple(tasks), method, schedule=schedule) for schedule in schedules]


def neighbours(recipe: Recipe) -> list[Recipe]:
    """What is probably asked next: the tenths beside the recipe's λ, or beside its γ (α = γ, β = 1 − γ) and its β.

    γ stays between 0 and 1, λ and β between 0 and the end of the method's grid.  The base and free schedules have none.
    """
    schedule = recipe.schedule
    if not recipe.tasks or schedule.kind == FREE:
        return []
    end = METHODS[recipe.method].grid[-1] if recipe.method in METHODS else 1.0
    beside: list[Schedule] = []
    if schedule.kind == "constant":
        beside = [constant(scale) for scale in _tenths_beside(schedule.alpha, end)]
    else:
        if len(recipe.tasks) == 1 and math.isclose(schedule.alpha + schedule.beta, 1):
            beside = [single_task(gamma, schedule.kind) for gamma in _tenths_beside(schedule.alpha, 1.0)]
        beside += [Schedule(schedule.kind, schedule.alpha, beta) for beta in _tenths_beside(schedule.beta, end)]
    return [replace(recipe, schedule=other) for other in beside]


def _tenths_beside(value: float, end: float) -> list[float]:
    """The multiples of 0.1 just below and above ``value`` that lie in 0…``end``."""
    tenths = round(10 * value, 9)
    near = (math.ceil(tenths) - 1, math.floor(tenths) + 1)
    return [tenth / 10 for tenth in near if 0 <= tenth / 10 <= end]


def _falling(points: int) -> list[float]:
    if points < 2:
        raise ExplorerError(f"A curve needs at least 2 points, not {points}.")
    return [round(1 - step / (points - 1), 12) for step in range(points)]
