"""Engine answers → plain numbers for the page: points, and the family of lines a view belongs to.

Only stored results are read here (``Engine.peek``); whoever wants more asks the engine to evaluate it first.
"""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from lines_explorer.analysis import mean_accuracy
from lines_explorer.merging import METHODS
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import Schedule, constant, lines, single_task
from lines_explorer.ui.view import CONSTANT, EDIT, LINES, View

if TYPE_CHECKING:
    from lines_explorer.engine import Engine, Evaluation

Numbers = dict[str, Any]
GAMMAS = tuple(round(step / 10, 1) for step in range(10, -1, -1))
VALIDATION, TEST = "validation", "test"
MOST_KEPT = 4000


def number(value: float) -> float | None:
    """JSON knows no nan: None stands for it."""
    return round(value, 6) if math.isfinite(value) else None


def interval(mean: Any, normalized: float) -> Numbers:
    """An accuracy (or mean accuracy) with its 95 % interval, shares between 0 and 1."""
    ends = {"value": number(mean.value), "low": number(mean.low), "high": number(mean.high)}
    return ends | {"n": mean.n, "normalized": number(normalized)}


def schedules(view: View, alpha: float) -> dict[str, list[tuple[float, Schedule]]]:
    """The protocol's points of both lines, as (knob, schedule): γ or β along LiNeS, λ along the constant line."""
    if view.mode == EDIT:
        knobs = {LINES: [single_task(gamma) for gamma in GAMMAS], CONSTANT: [constant(gamma) for gamma in GAMMAS]}
        return {kind: list(zip(GAMMAS, points, strict=True)) for kind, points in knobs.items()}
    grid = METHODS[view.method].grid
    along = {LINES: [(beta, lines(alpha, beta)) for beta in grid]}
    return along | {CONSTANT: [(0.0, constant(0.0))] + [(scale, constant(scale)) for scale in grid]}


class Results:
    """Reads an engine's stored results for one split."""

    def __init__(self, engine: "Engine", split: str = VALIDATION) -> None:
        self.engine, self.split = engine, split
        self._kept: dict[tuple, Numbers] = {}

    def alpha(self, view: View) -> float:
        """The α of the norm ratio for a view that merges many; 1 otherwise."""
        return 1.0 if view.mode == EDIT else self.engine.alpha_from_norms(view.tasks, view.method, view.parameters)

    def recipe(self, view: View, schedule: Schedule) -> Recipe:
        """The view's recipe under a schedule."""
        return view.recipe(self.engine.suite.name, schedule)

    def expert(self, task: str) -> Recipe:
        """The unedited expert of a task."""
        return Recipe(self.engine.suite.name, (task,))

    def references(self) -> list[tuple[Recipe, tuple[str, ...]]]:
        """What every other number is compared with: the base on all tasks, each expert on its own."""
        suite = self.engine.suite
        own = [(self.expert(task), (task,)) for task in suite.experts]
        return [(Recipe.base(suite.name), tuple(suite.tasks)), *own]

    def missing_references(self) -> list[tuple[Recipe, tuple[str, ...]]]:
        """The references that are not stored yet."""
        return [(recipe, on) for recipe, on in self.references() if not self.peek(recipe, on)]

    def peek(self, recipe: Recipe, score_on: Sequence[str] | None = None) -> "Evaluation | None":
        """A stored, complete evaluation, or None."""
        return self.engine.peek(recipe, score_on=score_on, split=self.split)

    def point(self, view: View, evaluation: "Evaluation") -> Numbers | None:
        """The numbers of one evaluated model; None while some task has no picture scored."""
        scores = evaluation.scores
        if not scores or not all(score.n for score in scores.values()):
            return None
        summary = self.engine.summary(evaluation, view.targets)
        tasks = {}
        for name, score in scores.items():
            own = summary.tasks[name]
            tasks[name] = interval(score.accuracy, own.normalized) | {"correct": own.correct}
            tasks[name] |= {"denominator": number(own.denominator), "reference": own.reference}
        control = summary.control and interval(summary.control, summary.control_normalized)
        target = interval(summary.target, summary.target_normalized)
        point = {"target": target, "control": control, "tasks": tasks, "complete": evaluation.complete}
        return point | {"weakest": weakest(tasks, view.targets)}

    def stored(self, view: View, recipe: Recipe) -> Numbers | None:
        """The numbers of a recipe on all tasks if they are stored; what was read once is kept."""
        key = (self.engine.suite.hash, recipe, view.targets)
        if key not in self._kept and (evaluation := self.peek(recipe)):
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[key] = self.point(view, evaluation)
        return self._kept.get(key)

    def line(self, view: View, points: Iterable[tuple[float, Schedule]]) -> list[Numbers]:
        """The stored points among those asked for, each with its knob, α and β."""
        asked = [(knob, schedule, self.stored(view, self.recipe(view, schedule))) for knob, schedule in points]
        return [
            {"knob": knob, "alpha": schedule.alpha, "beta": schedule.beta} | numbers
            for knob, schedule, numbers in asked
            if numbers
        ]

    def family(self, view: View) -> Numbers:
        """Everything that stays while α, β and λ move: references and both lines, as far as they are stored.

        Keys: ``key``, ``mode``, ``split``, ``targets``, ``controls``, ``alpha_norms``, ``ready`` (references stored),
        ``base`` and ``expert`` (points or None; the expert only in edit mode), ``ceiling`` (mean of the merged tasks'
        own experts), ``experts`` (accuracy of each task's own expert), ``lines``, ``constant`` (lists of points) and
        ``missing`` (how many points of the two lines are not stored).
        """
        alpha, ready = self.alpha(view), not self.missing_references()
        tasks = tuple(self.engine.suite.tasks)
        family: Numbers = {"key": view.family, "mode": view.mode, "split": self.split, "ready": ready}
        family |= {"targets": list(view.targets), "alpha_norms": alpha, "base": None, "expert": None, "ceiling": None}
        family |= {"controls": [task for task in tasks if task not in view.targets], "experts": {}}
        asked = schedules(view, alpha)
        family |= {LINES: [], CONSTANT: [], "missing": sum(map(len, asked.values()))}
        if not ready:
            return family
        experts = self.engine.experts(self.split)
        family["experts"] = {task: interval(accuracy, 1.0) for task, accuracy in experts.items()}
        family["ceiling"] = interval(mean_accuracy([experts[task] for task in view.targets]), 1.0)
        family["base"] = self.stored(view, Recipe.base(self.engine.suite.name))
        if view.mode == EDIT:
            family["expert"] = self.stored(view, self.expert(view.target))
        family |= {kind: self.line(view, points) for kind, points in asked.items()}
        family["missing"] -= len(family[LINES]) + len(family[CONSTANT])
        return family

    def unstored(self, view: View) -> list[Recipe]:
        """The recipes that the family's lines still lack, the view's own schedule first."""
        asked = schedules(view, self.alpha(view))
        order = sorted(asked, key=lambda kind: kind != view.schedule)
        recipes = [self.recipe(view, schedule) for kind in order for _, schedule in asked[kind]]
        if view.mode == EDIT:
            recipes.insert(0, self.expert(view.target))
        return [recipe for recipe in recipes if not self.peek(recipe)]


def weakest(tasks: Numbers, targets: Sequence[str]) -> Numbers | None:
    """The target that keeps the least of its expert's accuracy."""
    known = [(tasks[task]["normalized"], task) for task in targets if tasks[task]["normalized"] is not None]
    if not known:
        return None
    share, task = min(known)
    return {"task": task, "normalized": share}
