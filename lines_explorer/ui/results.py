"""Engine answers → plain numbers for the page: points, and the family of lines a view belongs to.

Only stored results are read here (``Engine.peek``); whoever wants more asks the engine to evaluate it first.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from lines_explorer.analysis import Accuracy, constrained_choice, greedy_choice, mean_accuracy, mean_normalized
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import Schedule, constant
from lines_explorer.ui.modes import CONSTANT, GREEDY, LINES, MANY, MODES, NEGATION, SOUP, Scored
from lines_explorer.ui.view import View

if TYPE_CHECKING:
    from lines_explorer.engine import Engine, Evaluation

Numbers = dict[str, Any]
Work = list[tuple[Recipe, "tuple[str, ...] | None", str]]
"""Recipes to evaluate, each with the tasks to score (None: all) and the split."""
VALIDATION, TEST = "validation", "test"
MOST_KEPT = 4000


def number(value: float) -> float | None:
    """JSON knows no nan: None stands for it."""
    return round(value, 6) if math.isfinite(value) else None


def interval(mean: Any, normalized: float) -> Numbers:
    """An accuracy (or mean accuracy) with its 95 % interval, shares between 0 and 1."""
    ends = {"value": number(mean.value), "low": number(mean.low), "high": number(mean.high)}
    return ends | {"n": mean.n, "normalized": number(normalized)}


class Results:
    """Reads an engine's stored results for one split."""

    def __init__(self, engine: "Engine", split: str = VALIDATION) -> None:
        self.engine, self.split = engine, split
        self._kept: dict[tuple, Numbers] = {}
        self._greedy: dict[tuple, tuple[str, ...]] = {}

    def alpha(self, view: View) -> float:
        """The α of the norm ratio for a view that merges many; 1 otherwise."""
        if view.mode != MANY:
            return 1.0
        return self.engine.alpha_from_norms(view.tasks, view.method, view.parameters)

    def sets(self, view: View) -> tuple[Scored, ...]:
        """What is scored in a view: its rows, the target's first where there are shifted sets."""
        return MODES[view.mode].sets(self.engine.suite, view, self.split)

    def parts(self, view: View) -> dict[str, tuple[str, ...] | None]:
        """Split → tasks to score on it (None: all that have it)."""
        parts: dict[str, list[str]] = {}
        for one in self.sets(view):
            parts.setdefault(one.split, []).append(one.task)
        every = [name for name, task in self.engine.suite.tasks.items() if self.split in task.splits]
        return {split: None if tasks == every else tuple(tasks) for split, tasks in parts.items()}

    def recipe(self, view: View, schedule: Schedule) -> Recipe | None:
        """The view's recipe under a schedule; None while it is not known what a greedy soup keeps."""
        experts, _ = self.soup(view)
        return experts and view.recipe(self.engine.suite.name, schedule, experts)

    def soup(self, view: View) -> tuple[tuple[str, ...] | None, Recipe | None]:
        """The experts or runs that are merged; or None and the recipe whose validation accuracy must be known first."""
        if view.mode != SOUP or view.soup != GREEDY:
            return view.experts, None
        key = (self.engine.suite.hash_for(view.runs), view.target, view.runs)
        if key not in self._greedy:
            try:
                self._greedy[key] = greedy_choice(view.runs, lambda chosen: self._soup_accuracy(view, chosen))
            except _Unknown as unknown:
                return None, unknown.recipe
        return self._greedy[key], None

    def _soup_accuracy(self, view: View, chosen: Sequence[str]) -> float:
        recipe = view.recipe(self.engine.suite.name, constant(1.0), tuple(chosen))
        if (found := self.engine.peek(recipe, (view.target,), VALIDATION)) is None:
            raise _Unknown(recipe)
        return found.scores[view.target].accuracy.value

    def expert(self, task: str) -> Recipe:
        """The unedited expert of a task, or a further run of it."""
        return Recipe(self.engine.suite.name, (task,))

    def references(self, view: View) -> Work:
        """What every number is compared with: base and experts on their tasks, and on the view's shifted sets."""
        suite, split = self.engine.suite, self.split
        work: Work = [(Recipe.base(suite.name), tuple(suite.tasks), split)]
        work += [(self.expert(task), (task,), split) for task in suite.experts]
        shifted = [one for one in self.sets(view) if one.split != split]
        pairs = [(one, recipe) for one in shifted for recipe in (Recipe.base(suite.name), self.expert(one.task))]
        return work + [(recipe, (one.task,), one.split) for one, recipe in pairs]

    def missing_references(self, view: View) -> Work:
        """The references that are not stored yet."""
        return [(recipe, on, split) for recipe, on, split in self.references(view) if not self.peek(recipe, on, split)]

    def whole(self, view: View, recipe: Recipe | None) -> list["Evaluation"] | None:
        """The stored, complete evaluations of all that a view scores, one per split, or None."""
        if recipe is None:
            return None
        found = [self.peek(recipe, tasks, split) for split, tasks in self.parts(view).items()]
        return found if all(found) else None

    def missing(self, view: View, recipe: Recipe) -> Work:
        """What a view scores of a recipe and is not stored."""
        parts = self.parts(view).items()
        return [(recipe, tasks, split) for split, tasks in parts if not self.peek(recipe, tasks, split)]

    def peek(
        self, recipe: Recipe, score_on: Sequence[str] | None = None, split: str | None = None
    ) -> "Evaluation | None":
        """A stored, complete evaluation on one split (default: these results' own), or None."""
        return self.engine.peek(recipe, score_on=score_on, split=split or self.split)

    def point(self, view: View, evaluations: Iterable["Evaluation"]) -> Numbers | None:
        """The numbers of one evaluated model; None while some set has no picture scored."""
        by_split = {evaluation.split: evaluation for evaluation in evaluations}
        rows, groups = {}, {True: [], False: []}
        for one in self.sets(view):
            evaluation = by_split.get(one.split)
            score = evaluation and evaluation.scores.get(one.task)
            if not score or not score.n:
                return None
            own = self.engine.summary(replace(evaluation, scores={one.task: score}), view.targets).tasks[one.task]
            rows[one.name] = interval(score.accuracy, own.normalized) | {"correct": own.correct}
            rows[one.name] |= {"denominator": number(own.denominator), "reference": own.reference}
            groups[one.target].append((score.accuracy, own.denominator))
        target, control = (_mean(groups[role]) for role in (True, False))
        complete = all(evaluation.complete for evaluation in by_split.values())
        point = {"target": target, "control": control, "tasks": rows, "complete": complete}
        return point | {"weakest": weakest(rows, view.targets)}

    def stored(self, view: View, recipe: Recipe | None) -> Numbers | None:
        """The numbers of a recipe on all that the view scores if they are stored; what was read once is kept."""
        if recipe is None:
            return None
        key = (self.engine.suite.hash_of(recipe), recipe, view.mode, view.targets)
        if key not in self._kept and (evaluations := self.whole(view, recipe)):
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[key] = self.point(view, evaluations)
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

        Keys: ``key``, ``mode``, ``split``, ``targets``, ``controls`` (names of rows), ``alpha_norms``, ``ready``
        (references stored), ``base`` and ``expert`` (points or None; the expert where the mode draws it), ``ceiling``
        (mean of the target tasks' own experts), ``experts`` (accuracy of each task's own expert), ``lines``,
        ``constant`` (lists of points), ``missing`` (how many points of the two lines are not stored), ``runs`` (points
        of a soup's single runs, by name), ``soup`` (the runs that are merged; None: not known yet), ``floor`` and
        ``kept`` (negation: the floor of control, and per line the index of the lowest target that keeps it),
        ``blocks`` (what is scaled, per block: ``norms`` and ``conflicts`` of the experts' task vectors).
        """
        alpha, ready, row = self.alpha(view), not self.missing_references(view), MODES[view.mode]
        family: Numbers = {"key": view.family, "mode": view.mode, "split": self.split, "ready": ready}
        family |= {"targets": list(view.targets), "alpha_norms": alpha, "base": None, "expert": None, "ceiling": None}
        family |= {"controls": [one.name for one in self.sets(view) if not one.target], "experts": {}, "runs": {}}
        family |= {"soup": self.soup(view)[0], "floor": view.floor if view.mode == NEGATION else None, "kept": {}}
        family["blocks"] = asdict(self.engine.block_facts(view.experts))
        asked = row.points(view, alpha)
        family |= {LINES: [], CONSTANT: [], "missing": sum(map(len, asked.values()))}
        if not ready:
            return family
        experts = self.engine.experts(self.split)
        family["experts"] = {task: interval(accuracy, 1.0) for task, accuracy in experts.items()}
        family["ceiling"] = interval(mean_accuracy([experts[task] for task in view.targets]), 1.0)
        family["base"] = self.stored(view, Recipe.base(self.engine.suite.name))
        if row.expert:
            family["expert"] = self.stored(view, self.expert(view.target))
        runs = {name: self.stored(view, self.expert(name)) for name in view.experts if view.mode == SOUP}
        family["runs"] = {name: point for name, point in runs.items() if point}
        family |= {kind: self.line(view, points) for kind, points in asked.items()}
        family["missing"] -= len(family[LINES]) + len(family[CONSTANT])
        if view.mode == NEGATION:
            family["kept"] = {kind: _least(family[kind], view.floor) for kind in (LINES, CONSTANT)}
        return family

    def unstored(self, view: View) -> Work:
        """What the family's lines still lack, the view's own schedule first; nothing while a greedy soup is unknown."""
        row = MODES[view.mode]
        asked = row.points(view, self.alpha(view))
        order = sorted(asked, key=lambda kind: kind != view.schedule)
        recipes = [self.recipe(view, schedule) for kind in order for _, schedule in asked[kind]]
        marks = [self.expert(view.target)] if row.expert else []
        marks += [self.expert(name) for name in view.experts] if view.mode == SOUP else []
        wanted = dict.fromkeys([*marks, *filter(None, recipes)])
        return [work for recipe in wanted for work in self.missing(view, recipe)]


class _Unknown(Exception):
    """The greedy choice needs an accuracy that is not stored."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        self.recipe = recipe


def _mean(group: Sequence[tuple[Accuracy, float]]) -> Numbers | None:
    """The mean over sets, every set with the same weight; None without sets."""
    if not group:
        return None
    accuracies, denominators = zip(*group, strict=True)
    shares = mean_normalized([accuracy.value for accuracy in accuracies], denominators)
    return interval(mean_accuracy(accuracies), shares)


def _least(points: Sequence[Numbers], floor: float) -> int | None:
    """Index of the lowest target among the points that keep control (normalized) at the floor; None if none does."""
    shares = [(p["alpha"], p["target"]["normalized"], p["control"] and p["control"]["normalized"]) for p in points]
    numbers = [tuple(math.nan if value is None else value for value in share) for share in shares]
    try:
        return constrained_choice(numbers, floor, forget=True)
    except ExplorerError:
        return None


def weakest(tasks: Numbers, targets: Sequence[str]) -> Numbers | None:
    """The target that keeps the least of its expert's accuracy."""
    known = [(tasks[task]["normalized"], task) for task in targets if tasks[task]["normalized"] is not None]
    if not known:
        return None
    share, task = min(known)
    return {"task": task, "normalized": share}
