"""What a visitor can do: one row per mode, from which view, links, controls, lines and figures follow.

A mode says which fields a view of it is made of, how far its sliders go, along which line of α and β its one knob
moves, what the lines of its figures are, and what is scored. Nothing is merged or scored here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import isclose
from typing import TYPE_CHECKING, Any

from lines_explorer.merging import METHODS
from lines_explorer.schedule import Schedule, constant, lines, single_task
from lines_explorer.sweep.family import Family, negation_family, robust_family, soup_family

if TYPE_CHECKING:
    from lines_explorer.suites import Suite
    from lines_explorer.ui.view import View

EDIT, MANY, ROBUSTNESS, SOUP, NEGATION = "edit", "many", "robustness", "soup", "negation"
LINES, CONSTANT = "lines", "constant"
UNIFORM, GREEDY = "uniform", "greedy"
SOUPS = (UNIFORM, GREEDY)
GAMMAS = tuple(round(step / 10, 1) for step in range(10, -1, -1))
TENTHS = tuple(sorted(GAMMAS))
OWN_SLIDERS = ("alpha", "beta", "scale", "gamma")
Points = list[tuple[float, Schedule]]
Range = tuple[float, float]


@dataclass(frozen=True)
class Scored:
    """A set, one row of the figures: the pictures of a task's ``split``, with its title; ``target`` or control."""

    name: str
    task: str
    split: str
    title: str
    target: bool


@dataclass(frozen=True)
class Mode:
    """One row of the table.

    Attributes:
        fields: of a view, beside its schedule: what its link and its family's key hold, in this order.
        points: view, α of the norms → the points of the LiNeS and of the constant line, as (knob, schedule).
        axes: view, α of the norms → the values of α and of β on the surface.
        nodes: the LiNeS line as (knob, α, β) with straight lines between; without nodes the knob is β beside the α of
            the norms.
        symbol: the name of that knob.
        limits: of alpha, beta, scale and, where there is one slider for both, gamma (the knob).
        controls: field of a view → the control it is read from, where that has another name.
        start: alpha, beta and scale of a page opened in this mode.
        sets: suite, view, split → what is scored.
        between: whether between the two lines one reads at the same α.
        rule: whether the paper's sum of target and control ranks its points.
        expert: whether the target's own expert is a point of the plane.
        falls: whether a low target is the better one.
    """

    fields: tuple[str, ...]
    points: Callable[[View, float], dict[str, Points]]
    axes: Callable[[View, float], tuple[tuple[float, ...], tuple[float, ...]]]
    nodes: tuple[tuple[float, float, float], ...]
    symbol: str
    limits: Mapping[str, Range]
    start: Mapping[str, float]
    sets: Callable[[Suite, View, str], tuple[Scored, ...]]
    controls: Mapping[str, str] = field(default_factory=dict)
    between: bool = False
    rule: bool = True
    expert: bool = True
    falls: bool = False

    def as_json(self) -> dict[str, Any]:
        """What the page's scripts need of it."""
        names = ("fields", "nodes", "limits", "controls", "between")
        return {name: getattr(self, name) for name in names}


def tasks_with_split(suite: Suite, view: View, split: str) -> tuple[Scored, ...]:
    """Every task that has the split."""
    having = [name for name, task in suite.tasks.items() if split in task.splits]
    return tuple(Scored(name, name, split, suite.tasks[name].title, name in view.targets) for name in having)


def shifted_sets(suite: Suite, view: View, split: str) -> tuple[Scored, ...]:
    """The target's split, in distribution, and its shifted sets."""
    name, task = view.target, suite.tasks[view.target]
    rows = [Scored(shifted_name(name, shift), name, shift, title, False) for shift, title in task.shifts.items()]
    return (Scored(name, name, split, task.title, True), *rows)


def shifted_name(task: str, shift: str) -> str:
    """The name of a task's shifted set as a row of the figures."""
    return f"{task}@{shift}"


def _edit(view: View, alpha: float) -> dict[str, Points]:
    return {
        LINES: [(gamma, single_task(gamma)) for gamma in GAMMAS],
        CONSTANT: [(gamma, constant(gamma)) for gamma in GAMMAS],
    }


def _many(view: View, alpha: float) -> dict[str, Points]:
    grid = METHODS[view.method].grid
    along = {LINES: [(beta, lines(alpha, beta)) for beta in grid]}
    return along | {CONSTANT: [(0.0, constant(0.0))] + [(scale, constant(scale)) for scale in grid]}


def _robustness(view: View, alpha: float) -> dict[str, Points]:
    return _of_families({kind: robust_family("-", view.target, kind) for kind in (LINES, CONSTANT)})


def _soup(view: View, alpha: float) -> dict[str, Points]:
    return _of_families({kind: soup_family("-", view.runs, kind) for kind in (LINES, CONSTANT)}, base=True)


def _negation(view: View, alpha: float) -> dict[str, Points]:
    families = {kind: negation_family("-", view.target, kind) for kind in (LINES, CONSTANT)}
    found = _of_families(families, base=True)
    return found | {CONSTANT: [(schedule.alpha, schedule) for _, schedule in found[CONSTANT]]}


def _of_families(families: Mapping[str, Family], base: bool = False) -> dict[str, Points]:
    """The points of the study's families; with ``base`` from the coefficient 0 on."""
    found = {}
    for kind, family in families.items():
        grid = (0.0, *family.grid) if base and 0.0 not in family.grid else family.grid
        found[kind] = [(coefficient, family.recipe(coefficient).schedule) for coefficient in grid]
    return found


def _many_axes(view: View, alpha: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    others = [tenth for tenth in TENTHS if abs(tenth - alpha) > 1e-6]
    return tuple(sorted([*others, alpha])), (0.0, *METHODS[view.method].grid)


def _tenths(view: View, alpha: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return TENTHS, TENTHS


def _below(view: View, alpha: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    falling = tuple(round(-tenth, 1) + 0.0 for tenth in GAMMAS)
    return falling, falling


def _own(mode: str, *more: str) -> dict[str, str]:
    """Controls of the mode's own for these fields and its sliders: ``alpha_negation``."""
    return {name: f"{name}_{mode}" for name in (*OWN_SLIDERS, *more)}


UP: dict[str, Range] = {"alpha": (0.0, 1.5), "beta": (-0.5, 1.5), "scale": (0.0, 1.5)}
DOWN: dict[str, Range] = {"alpha": (-1.5, 0.0), "beta": (-1.5, 0.5), "scale": (-1.5, 0.0)}
MODES: dict[str, Mode] = {
    EDIT: Mode(
        fields=("target",), points=_edit, axes=_tenths, nodes=((0.0, 0.0, 1.0), (1.0, 1.0, 0.0)), symbol="γ",
        limits=UP | {"gamma": (0.0, 1.0)}, start={"alpha": 0.3, "beta": 0.7, "scale": 0.5}, between=True,
        sets=tasks_with_split,
    ),
    MANY: Mode(
        fields=("tasks", "method"), points=_many, axes=_many_axes, nodes=(), symbol="β", limits=UP,
        start={"alpha": 0.3, "beta": 0.3, "scale": 0.5}, controls=_own(MANY), expert=False, sets=tasks_with_split,
    ),
    ROBUSTNESS: Mode(
        fields=("target",), points=_robustness, axes=_tenths, nodes=((0.0, 0.0, 0.0), (1.0, 0.5, 0.5)), symbol="γ",
        limits=UP | {"gamma": (0.0, 1.0)}, start={"alpha": 0.3, "beta": 0.3, "scale": 0.5},
        controls=_own(ROBUSTNESS, "target"), rule=False, sets=shifted_sets,
    ),
    SOUP: Mode(
        fields=("target", "soup", "runs"), points=_soup, axes=_tenths,
        nodes=((0.0, 0.0, 1.0), (1.0, 1.0, 0.0), (1.5, 1.0, 0.5)), symbol="γ", limits=UP | {"gamma": (0.0, 1.5)},
        start={"alpha": 1.0, "beta": 0.0, "scale": 1.0}, controls=_own(SOUP, "target"), between=True,
        sets=tasks_with_split,
    ),
    NEGATION: Mode(
        fields=("target", "floor"), points=_negation, axes=_below, nodes=((0.0, 0.0, 0.0), (1.5, -0.75, -0.75)),
        symbol="c", limits=DOWN | {"gamma": (0.0, 1.5)}, start={"alpha": -0.25, "beta": -0.25, "scale": -0.5},
        controls=_own(NEGATION), rule=False, expert=False, falls=True, sets=tasks_with_split,
    ),
}  # fmt: skip
"""Every mode, in the order in which the page offers them."""


def knob_of(mode: str, alpha: float, beta: float) -> float | None:
    """Where (α, β) lies on the mode's LiNeS line; None beside it."""
    for (first, a0, b0), (last, a1, b1) in pairwise(MODES[mode].nodes):
        along_alpha = abs(a1 - a0) >= abs(b1 - b0)
        share = (alpha - a0) / (a1 - a0) if along_alpha else (beta - b0) / (b1 - b0)
        met = isclose(a0 + share * (a1 - a0), alpha, abs_tol=1e-6) and isclose(
            b0 + share * (b1 - b0), beta, abs_tol=1e-6
        )
        if -1e-6 <= share <= 1 + 1e-6 and met:
            return round(first + share * (last - first), 4)
    return None
