"""The search buttons: one point of the view's own line, chosen on validation, its grid shown as it is evaluated."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lines_explorer.errors import ExplorerError
from lines_explorer.sweep.family import CONSTANT, LINES, Family, edit_family, merge_family
from lines_explorer.sweep.goal import FLOOR, LARGER, SMALLER, Goal
from lines_explorer.sweep.search import Point, Search, check, coefficients, finished
from lines_explorer.ui import figures, style, texts
from lines_explorer.ui.modes import EDIT, MANY
from lines_explorer.ui.results import Numbers, Results
from lines_explorer.ui.view import View

if TYPE_CHECKING:
    from lines_explorer.engine import Evaluation

RULE, KEEP = "rule", "keep"
ROUNDS = {RULE: 0, KEEP: 2}
"""The paper's rule is for the paper's grid; for the constraint the best point's neighbourhood is tried more finely."""
SEARCHED = (EDIT, MANY)
"""The modes whose lines are searched."""


class Hunt:
    """One search over the line that a view lies on: LiNeS, or the constant λ.

    Raises:
        ExplorerError: a mode whose line is not searched, an unknown rule, or one that needs control tasks where there
            are none.
    """

    def __init__(self, results: Results, view: View, rule: Any) -> None:
        if view.mode not in SEARCHED:
            raise ExplorerError(texts.SEARCH["elsewhere"])
        if not isinstance(rule, str) or rule not in ROUNDS:
            raise ExplorerError(f"Unknown search {str(rule)[:40]!r}; choose one of {', '.join(ROUNDS)}.")
        self.results, self.rule = results, rule
        self.kind = CONSTANT if view.schedule == CONSTANT else LINES
        self.view = replace(view, schedule=self.kind, norms=True)
        tie = LARGER if view.mode == EDIT else SMALLER
        best = Goal("weighted", tie) if view.mode == EDIT else Goal("mean", tie)
        self.goal = best if rule == RULE else Goal("constrained", tie, floor=FLOOR)
        self.targets = view.targets
        suite = results.engine.suite
        self.score_on = tuple(name for name, task in suite.tasks.items() if results.split in task.splits)
        if rule == RULE and not set(self.score_on) - set(self.targets):
            self.goal = Goal("mean", tie)
        check(self.goal, self.targets, self.score_on, ROUNDS[rule])

    def family(self) -> Family:
        """The protocol's own line: γ or λ for one expert; β beside the α of the norms, or λ, for several."""
        suite = self.results.engine.suite.name
        if self.view.mode == EDIT:
            return edit_family(suite, self.view.target, self.kind)
        return merge_family(
            suite, self.targets, self.kind, self.results.alpha(self.view), self.view.method, self.view.parameters
        )

    def steps(self) -> Iterator["Step"]:
        """One step per point to evaluate; the caller sets its ``evaluation``, or ends the search by leaving.

        The last step is ``found``.

        Raises:
            ExplorerError: no point can be chosen.
        """
        family, points = self.family(), []
        for number in range(ROUNDS[self.rule] + 1):
            fresh = coefficients(family, self.goal, points, number)
            for coefficient in fresh:
                step = Step(self, family, coefficient, tuple(points), len(family.grid) if number == 0 else None)
                yield step
                points.append(step.point(number))
        yield Found(self, finished(family, self.goal, self.targets, points))

    def at(self, coefficient: float) -> View:
        """The view of one point of the line."""
        if self.kind == CONSTANT:
            return replace(self.view, scale=round(coefficient, 4))
        if self.view.mode == EDIT:
            return replace(self.view, alpha=round(coefficient, 4), beta=round(1 - coefficient, 4))
        return replace(self.view, beta=round(coefficient, 4))

    def trace(self, points: Sequence[Point]) -> figures.Figure:
        """Rings in the plane around the points evaluated so far."""
        rows = [(point, self.results.stored(self.view, point.recipe)) for point in points]
        known = [(point, numbers) for point, numbers in rows if numbers]
        about = {"mode": self.view.mode}
        hover = [figures.custom(texts.setting(point.recipe.schedule), numbers, about) for point, numbers in known]
        ring = {"size": 15, "color": "rgba(0,0,0,0)", "line": {"color": style.ROLES[self.kind], "width": 2}}
        return {
            "type": "scatter",
            "mode": "markers",
            "x": [figures.control_of(numbers) for _, numbers in known],
            "y": [figures.percent(numbers["target"]["value"]) for _, numbers in known],
            "customdata": hover,
            "meta": "searched",
            "marker": ring,
            "hovertemplate": figures.hover_of(about),
        }


class Step:
    """One point to evaluate; ``known`` are those before it, ``grid`` the size of the grid while that lasts."""

    def __init__(self, hunt: Hunt, family: Family, coefficient: float, known: tuple[Point, ...], grid: int | None):
        self.hunt, self.coefficient, self.known, self.grid = hunt, coefficient, known, grid
        self.recipe = family.recipe(coefficient)
        self.evaluation: Evaluation | None = None

    def point(self, number: int) -> Point:
        """The evaluated point of round ``number``."""
        summary = self.hunt.results.engine.summary(self.evaluation, self.hunt.targets)
        return Point(self.coefficient, number, self.recipe, self.evaluation, summary)

    def message(self) -> Numbers:
        """How far the search is, for the page."""
        figure = self.hunt.trace(self.known)
        return {"kind": "search", "figure": figure, "key": self.hunt.view.family, "at": [len(self.known), self.grid]}


class Found:
    """The end of a search."""

    def __init__(self, hunt: Hunt, search: Search) -> None:
        self.hunt, self.search = hunt, search

    def message(self) -> Numbers:
        """The chosen view, and the sentence that says what chose it and among how many points."""
        best, hunt = self.search.best, self.hunt
        about = {"kind": "found", "view": hunt.at(best.coefficient).as_json(), "key": hunt.view.family}
        about["figure"] = hunt.trace(self.search.points)
        grid = sum(point.round == 0 for point in self.search.points)
        numbers = (grid, len(self.search.points) - grid)
        return about | {"said": said(hunt.goal, texts.setting(best.recipe.schedule), numbers, best)}


def said(goal: Goal, setting: str, numbers: tuple[int, int], best: Point) -> str:
    """What was chosen, by which rule, on how many points of which split."""
    words = texts.SEARCH
    grid, finer = numbers
    whose = "expert’s" if len(best.recipe.tasks) == 1 else "experts’"
    text = words["found"].format(setting=setting, rule=words[goal.kind].format(floor=texts.percent(goal.floor, 0)))
    text += words["points" if finer else "grid"].format(grid=grid, finer=finer, all=grid + finer)
    text += words["target"].format(target=texts.percent(best.target), whose=whose)
    return texts.unbroken(
        text + (words["control"].format(control=texts.percent(best.control)) if best.summary.control else ".")
    )
