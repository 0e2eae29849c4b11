"""The recipes of the protocol's curves (METHOD: single task, multi-task); pure, nothing is evaluated here."""

from __future__ import annotations

from collections.abc import Sequence

from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant, lines, single_task


def single_task_recipes(suite: str, target: str, kind: str = "lines", points: int = 11) -> list[Recipe]:
    """α = γ, β = 1 − γ for γ from 1 (the expert) to 0 in ``points`` equal steps."""
    return [Recipe(suite, (target,), schedule=single_task(gamma, kind)) for gamma in _falling(points)]


def constant_recipes(suite: str, target: str, points: int = 11) -> list[Recipe]:
    """The WiSE-FT line θ₀ + λτ for λ from 1 (the expert) to 0 (the base) in ``points`` equal steps."""
    return [Recipe(suite, (target,), schedule=constant(scale)) for scale in _falling(points)]


def multi_task_recipes(suite: str, tasks: Sequence[str], method: str, alpha: float | None) -> list[Recipe]:
    """The method's own grid: as β with ``alpha`` from the norms (LiNeS), or with None as a constant λ (baseline)."""
    if method not in METHODS:
        raise ExplorerError(f"There is no merge method {method}; choose one of {', '.join(METHODS)}.")
    schedules = [constant(value) if alpha is None else lines(alpha, value) for value in METHODS[method].grid]
    return [Recipe(suite, tuple(tasks), method, schedule=schedule) for schedule in schedules]


def _falling(points: int) -> list[float]:
    if points < 2:
        raise ExplorerError(f"A curve needs at least 2 points, not {points}.")
    return [round(1 - step / (points - 1), 12) for step in range(points)]
