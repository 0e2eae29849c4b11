"""The recipes of the protocol's curves (METHOD: single task, multi-task); pure, nothing is evaluated here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import FREE, Schedule, constant, free, lines, single_task

Parameters = tuple[tuple[str, Any], ...]
TURNED = 0.3
"""The γ of LiNeS whose order over depth is put to the test."""


def single_task_recipes(
    suite: str, target: str, kind: str = "lines", points: int = 11, method: str = "sum", parameters: Parameters = ()
) -> list[Recipe]:
    """α = γ, β = 1 − γ for γ from 1 (the expert) to 0 in ``points`` equal steps; ``method`` of the one expert."""
    schedules = [single_task(gamma, kind) for gamma in _falling(points)]
    return [Recipe(suite, (target,), method, parameters, schedule) for schedule in schedules]


def constant_recipes(
    suite: str, target: str, points: int = 11, method: str = "sum", parameters: Parameters = ()
) -> list[Recipe]:
    """The WiSE-FT line θ₀ + λτ for λ from 1 (the expert) to 0 (the base) in ``points`` equal steps."""
    schedules = [constant(scale) for scale in _falling(points)]
    return [Recipe(suite, (target,), method, parameters, schedule) for schedule in schedules]


def block_recipes(suite: str, target: str, depth: int, points: int = 5) -> dict[int, list[tuple[float, Recipe]]]:
    """The expert with one block of its task vector scaled by s, for s from 1 to 0 in ``points`` equal steps.

    Keys are the blocks 1…L (L = ``depth``) and 0 for the tensors outside them; values are (s, recipe), s = 1 being the
    expert itself: a free schedule whose other factors are 1.
    """
    scaled: dict[int, list[tuple[float, Recipe]]] = {}
    for place in range(depth + 1):
        rows = scaled[place] = []
        for scale in _falling(points):
            factors = [scale if block == place else 1.0 for block in range(1, depth + 1)]
            drawn = constant(1.0) if scale == 1 else free(factors, 1.0 if place else scale)
            rows.append((scale, Recipe(suite, (target,), schedule=drawn)))
    return scaled


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


def family(recipe: Recipe) -> list[Recipe]:
    """Where stored points of the recipe's own tasks and method are likely: the base, constant λs, and the α×β surface.

    λ and β run over the method's grid, α over the tenths from 0 to 1, each with the recipe's own value among them.
    """
    base = Recipe.base(recipe.suite)
    if not recipe.tasks:
        return [base]
    grid = METHODS[recipe.method].grid if recipe.method in METHODS else ()
    own, kind = recipe.schedule, "lines" if recipe.schedule.kind in (FREE, "constant") else recipe.schedule.kind
    alphas = dict.fromkeys([step / 10 for step in range(11)])
    betas = dict.fromkeys([0.0, *grid])
    if own.kind != FREE:
        alphas[own.alpha] = betas[own.beta] = None
    schedules = [constant(scale) for scale in grid]
    schedules += [Schedule(kind, alpha, beta) for alpha in alphas for beta in betas]
    return [base, *(replace(recipe, schedule=schedule) for schedule in schedules)]


def _tenths_beside(value: float, end: float) -> list[float]:
    """The multiples of 0.1 just below and above ``value`` that lie in 0…``end``."""
    tenths = round(10 * value, 9)
    near = (math.ceil(tenths) - 1, math.floor(tenths) + 1)
    return [tenth / 10 for tenth in near if 0 <= tenth / 10 <= end]


def _falling(points: int) -> list[float]:
    if points < 2:
        raise ExplorerError(f"A curve needs at least 2 points, not {points}.")
    return [round(1 - step / (points - 1), 12) for step in range(points)]
