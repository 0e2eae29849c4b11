"""The paper's settings: what is merged, along which family, by which goal it is chosen, and what is reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from lines_explorer.analysis import greedy_choice
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe, task_of
from lines_explorer.schedule import constant
from lines_explorer.sweep.family import (
    CONSTANT,
    Family,
    edit_family,
    merge_family,
    negation_family,
    robust_family,
    soup_family,
)
from lines_explorer.sweep.goal import FLOOR, LARGER, SMALLER, Goal
from lines_explorer.sweep.measuring import Tick, alpha_from_norms, measure, silent
from lines_explorer.sweep.runs import scored_with
from lines_explorer.sweep.search import TEST, VALIDATION, Search, search, tested

if TYPE_CHECKING:
    from lines_explorer.engine import Engine, Evaluation, Summary

KEEP = 0.99
UNIFORM, GREEDY = "uniform", "greedy"


class Setting(Protocol):
    """One question: a family of recipes, the goal that chooses among them, and the tasks it is about.

    ``label`` says what is merged; settings that differ in ``kind`` alone share it, and are compared.
    """

    name: ClassVar[str]
    kind: str

    @property
    def label(self) -> str:
        """What is edited or merged, and how, without the schedule."""

    @property
    def targets(self) -> tuple[str, ...]:
        """The tasks that the choice is about."""

    @property
    def goal(self) -> Goal:
        """How the point is chosen."""

    def family(self, engine: Engine) -> Family:
        """The recipes to choose from; soups and norm ratios need the engine."""

    def score_on(self, engine: Engine, split: str) -> tuple[str, ...]:
        """The tasks scored on a split."""


class _Whole:
    """Scores the target tasks and, once each, all others."""

    targets: tuple[str, ...]

    def score_on(self, engine: Engine, split: str) -> tuple[str, ...]:
        return scored_with(engine.suite, self.targets, split)


class _OneTask(_Whole):
    """Is about the task whose expert it scales."""

    task: str

    @property
    def label(self) -> str:
        return self.task

    @property
    def targets(self) -> tuple[str, ...]:
        return (task_of(self.task),)


class _Alone:
    """Scores the target task only."""

    task: str

    @property
    def targets(self) -> tuple[str, ...]:
        return (self.task,)

    def score_on(self, engine: Engine, split: str) -> tuple[str, ...]:
        return self.targets


@dataclass(frozen=True)
class Edit(_OneTask):
    """Edit one model so that it forgets less: METHOD's single-task protocol."""

    name: ClassVar[str] = "edit"
    task: str
    kind: str

    @property
    def goal(self) -> Goal:
        return Goal("weighted", LARGER)

    def family(self, engine: Engine) -> Family:
        return edit_family(engine.suite.name, self.task, self.kind)


@dataclass(frozen=True)
class Merge(_Whole):
    """Merge the experts of several tasks: METHOD's multi-task protocol, on the method's own grid."""

    name: ClassVar[str] = "merge"
    tasks: tuple[str, ...]
    kind: str
    method: str = "sum"
    parameters: tuple[tuple[str, Any], ...] = ()

    @property
    def label(self) -> str:
        given = " ".join(f"{name}={value}" for name, value in self.parameters)
        return f"{self.method} {given} of {len(self.tasks)}" if given else f"{self.method} of {len(self.tasks)}"

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(map(task_of, self.tasks))

    @property
    def goal(self) -> Goal:
        return Goal("mean", SMALLER)

    def family(self, engine: Engine) -> Family:
        alpha = 1.0
        if self.kind != CONSTANT:
            alpha = alpha_from_norms(engine, self.tasks, self.method, self.parameters)
        return merge_family(engine.suite.name, self.tasks, self.kind, alpha, self.method, self.parameters)


@dataclass(frozen=True)
class Robustness(_Alone):
    """Robust fine-tuning: the WiSE-FT line, in distribution against the task's shifted sets.

    Chosen is the gentlest point that keeps 99 % of the best validation accuracy; shifted sets have no validation
    pictures, so nothing is chosen on them.
    """

    name: ClassVar[str] = "robustness"
    task: str
    kind: str

    @property
    def label(self) -> str:
        return self.task

    @property
    def goal(self) -> Goal:
        return Goal("gentle", SMALLER, floor=KEEP)

    def family(self, engine: Engine) -> Family:
        return robust_family(engine.suite.name, self.task, self.kind)


@dataclass(frozen=True)
class Soup(_Alone):
    """A soup of several runs of one task: all of them (uniform), or those that help on validation (greedy)."""

    name: ClassVar[str] = "soup"
    task: str
    runs: tuple[str, ...]
    how: str
    kind: str

    @property
    def label(self) -> str:
        return f"{self.task}, {self.how}"

    @property
    def goal(self) -> Goal:
        return Goal("mean", SMALLER)

    def family(self, engine: Engine) -> Family:
        chosen = self.runs if self.how == UNIFORM else greedy_soup(engine, self.task, self.runs)
        return soup_family(engine.suite.name, chosen, self.kind)


@dataclass(frozen=True)
class Negation(_OneTask):
    """Subtract one task: the lowest accuracy on it with control at least ``floor`` of zero-shot."""

    name: ClassVar[str] = "negation"
    task: str
    kind: str
    floor: float = FLOOR

    @property
    def goal(self) -> Goal:
        return Goal("forget", SMALLER, floor=self.floor)

    def family(self, engine: Engine) -> Family:
        return negation_family(engine.suite.name, self.task, self.kind)


@dataclass(frozen=True)
class Outcome:
    """What a setting came to: the search on validation, and the chosen point scored once on test and shifted sets."""

    setting: Setting
    search: Search
    test: Evaluation
    summary: Summary
    shifts: Mapping[str, Evaluation]


def run(engine: Engine, setting: Setting, rounds: int = 0, tick: Tick = silent) -> Outcome:
    """The setting, from the store as far as it is there.

    Raises:
        ExplorerError: what the family, the method or the goal refuses.
    """
    family = setting.family(engine)
    scored = setting.score_on(engine, VALIDATION)
    found = search(engine, family, setting.goal, setting.targets, scored, rounds, tick)
    test, summary = tested(engine, found, setting.score_on(engine, TEST))
    shifts = {}
    if isinstance(setting, Robustness):
        shifts = {shift: tested(engine, found, [setting.task], shift)[0] for shift in shifted_sets(engine, setting)}
    return Outcome(setting, found, test, summary, shifts)


def shifted_sets(engine: Engine, setting: Robustness) -> tuple[str, ...]:
    """Names of the task's shifted sets.

    Raises:
        ExplorerError: there is none.
    """
    shifts = tuple(engine.suite.tasks[setting.task].shifts)
    if not shifts:
        raise ExplorerError(f"Task {setting.task} has no shifted set: choose a task with shifts in its suite.yaml.")
    return shifts


def shifted_line(engine: Engine, outcome: Outcome, tick: Tick = silent) -> list[dict[str, float]]:
    """For every point of the line the accuracy on each shifted set, for the eye: nothing is chosen on it."""
    task, rows = outcome.setting.targets[0], []
    for point in outcome.search.points:
        row = {}
        for shift in outcome.shifts:
            (evaluation,) = measure(engine, [point.recipe], [task], shift, tick)
            row[shift] = evaluation.scores[task].accuracy.value
        rows.append(row)
    return rows


def greedy_soup(engine: Engine, task: str, runs: Sequence[str]) -> tuple[str, ...]:
    """The runs a greedy soup keeps, by validation accuracy on ``task`` (Wortsman et al., Model soups, ICML 2022).

    See ``analysis.greedy_choice``.
    """
    suite = engine.suite.name

    def accuracy(chosen: Sequence[str]) -> float:
        recipe = Recipe(suite, tuple(chosen), "average" if len(chosen) > 1 else "sum", schedule=constant(1.0))
        return engine.evaluate(recipe, [task], VALIDATION).scores[task].accuracy.value

    return greedy_choice(runs, accuracy)
