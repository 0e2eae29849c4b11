"""Families of recipes: one number, the coefficient, chooses a point; everything else stays.

Pure description: nothing is merged or scored here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import CURVES, Schedule, constant

CONSTANT, LINES = "constant", "lines"
KINDS = (CONSTANT, LINES, *(kind for kind in CURVES if kind not in (CONSTANT, LINES)))
"""The schedules side by side: the baseline first, LiNeS next, then the authors' other curves."""
FALLING = tuple(tenth / 10 for tenth in range(10, -1, -1))
FIFTEEN = tuple(tenth / 10 for tenth in range(1, 16))
SOUP_BETAS = (0.1, 0.2, 0.3, 0.4, 0.5)

KNOBS: dict[str, Callable[[str, float, float], Schedule]] = {
    "scale": lambda kind, alpha, c: constant(c),
    "gamma": lambda kind, alpha, c: Schedule(kind, c, 1 - c),
    "beta": lambda kind, alpha, c: Schedule(kind, alpha, c),
    "half": lambda kind, alpha, c: Schedule(kind, c / 2, c / 2),
    "remove": lambda kind, alpha, c: Schedule(kind, -c / 2, -c / 2),
    "minus": lambda kind, alpha, c: constant(-c),
    "soup": lambda kind, alpha, c: Schedule(kind, min(c, 1.0), 1 - c if c <= 1 else c - 1),
}
"""What the coefficient c is, given the curve's kind and the family's α (METHOD's symbols):

    scale    λ = c everywhere
    gamma    α = c, β = 1 − c (single-task LiNeS)
    beta     β = c beside a fixed α (multi-task LiNeS)
    half     α = β = c/2 (robust fine-tuning: LiNeS with α = β = ½, then the line over c)
    remove   α = β = −c/2, and minus  λ = −c everywhere: the task is subtracted
    soup     below 1 as gamma; above 1 as beta with α = 1 and β = c − 1
"""


@dataclass(frozen=True)
class Family:
    """θ₀ + λ⁽ˡ⁾(c)·g(τ over ``tasks``) for every coefficient c.

    Attributes:
        suite, tasks, method, parameters, rule: as in ``Recipe``.
        kind: the curve over depth, a key of ``CURVES``.
        knob: what the coefficient is, a key of ``KNOBS``.
        grid: the coefficients tried first, at least one, each once.
        alpha: the fixed α of the knob ``beta``.

    Raises:
        ExplorerError: an unknown kind, or a grid that is empty or names a coefficient twice.
    """

    suite: str
    tasks: tuple[str, ...]
    kind: str
    knob: str
    grid: tuple[float, ...]
    method: str = "sum"
    parameters: tuple[tuple[str, Any], ...] = ()
    alpha: float = 1.0
    rule: str = "reference"

    def __post_init__(self) -> None:
        require_kind(self.kind)
        if not self.grid or len(set(self.grid)) < len(self.grid):
            raise ExplorerError(f"A grid needs different coefficients, at least one, not {list(self.grid)}.")

    def recipe(self, coefficient: float) -> Recipe:
        """The recipe at one coefficient."""
        schedule = KNOBS[self.knob](self.kind, self.alpha, coefficient)
        return Recipe(self.suite, self.tasks, self.method, self.parameters, schedule, self.rule)

    def between(self, best: float, step: float) -> tuple[float, ...]:
        """The coefficients one ``step`` beside ``best`` that lie within the grid's ends."""
        beside = (round(best - step, 12), round(best + step, 12))
        return tuple(c for c in beside if min(self.grid) <= c <= max(self.grid))

    @property
    def step(self) -> float:
        """The smallest distance between two neighbours of the grid; 0 for a single coefficient."""
        ordered = sorted(self.grid)
        return min((b - a for a, b in zip(ordered, ordered[1:], strict=False)), default=0.0)


def edit_family(
    suite: str, task: str, kind: str, method: str = "sum", parameters: tuple[tuple[str, Any], ...] = (),
    rule: str = "reference",
) -> Family:  # fmt: skip
    """Edit one model (METHOD: single task): γ from 1.0 to 0.0; the constant line without LiNeS."""
    knob = "scale" if kind == CONSTANT else "gamma"
    return Family(suite, (task,), kind, knob, FALLING, method, parameters, rule=rule)


def merge_family(
    suite: str, tasks: Sequence[str], kind: str, alpha: float, method: str = "sum",
    parameters: tuple[tuple[str, Any], ...] = (), rule: str = "reference",
) -> Family:  # fmt: skip
    """Merge many (METHOD: multi-task): the method's own grid as β beside α, or as a constant λ without LiNeS."""
    if method not in METHODS:
        raise ExplorerError(f"There is no merge method {method}; choose one of {', '.join(METHODS)}.")
    knob, grid = "scale" if kind == CONSTANT else "beta", METHODS[method].grid
    return Family(suite, tuple(tasks), kind, knob, grid, method, parameters, alpha, rule)


def robust_family(suite: str, task: str, kind: str) -> Family:
    """Robust fine-tuning: the WiSE-FT line θ₀ + γτ, with a curve over depth θ₀ + γ·(½ + ½g(x))·τ."""
    return Family(suite, (task,), kind, "scale" if kind == CONSTANT else "half", FALLING)


def negation_family(suite: str, task: str, kind: str) -> Family:
    """Forgetting on purpose: the task vector subtracted, c from 0.1 to 1.5 (with a curve: c·(½ + ½g(x)))."""
    return Family(suite, (task,), kind, "minus" if kind == CONSTANT else "remove", FIFTEEN)


def soup_family(suite: str, runs: Sequence[str], kind: str) -> Family:
    """A soup of runs of one task: constant λ from 0.1 to 1.5, or a curve that gives less or more of the mean.

    The curve's grid is the single-task one, and beyond it α = 1 with β up to ½; c = 1 is the plain soup in both.
    """
    grid = FIFTEEN if kind == CONSTANT else (*FALLING, *(round(1 + beta, 12) for beta in SOUP_BETAS))
    return Family(suite, tuple(runs), kind, "scale" if kind == CONSTANT else "soup", grid, "average")


def require_kind(kind: str) -> None:
    """Refuse a schedule that has no α and β."""
    if kind not in CURVES:
        raise ExplorerError(f"Unknown schedule {kind!r}; choose one of {', '.join(KINDS)}.")
