"""The α×β surface of a view's family: stored results on a grid, and nothing where none is stored."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lines_explorer.analysis import pareto_front, single_task_score
from lines_explorer.schedule import lines
from lines_explorer.ui.modes import MODES
from lines_explorer.ui.results import Numbers, Results, Work
from lines_explorer.ui.view import View

if TYPE_CHECKING:
    from lines_explorer.schedule import Schedule


class Surface:
    """Reads the cells of one view's surface."""

    def __init__(self, results: Results, view: View) -> None:
        self.results, self.view = results, view
        self.alpha = results.alpha(view)
        self.alphas, self.betas = MODES[view.mode].axes(view, self.alpha)

    def cells(self) -> Iterator[tuple[int, int, "Schedule"]]:
        """(row of β, column of α, schedule) of every cell."""
        for row, beta in enumerate(self.betas):
            for column, alpha in enumerate(self.alphas):
                yield row, column, lines(alpha, beta)

    def numbers(self) -> Numbers:
        """The stored cells, for the figures.

        Keys: ``alphas``, ``betas``, ``alpha_norms``, ``mode``, ``targets``; ``target``, ``control``, ``score`` (rows of
        shares, or of the rule's sum; None where nothing is stored); ``n`` (pictures of target and control); ``missing``
        (cells not stored); ``front`` (the stored points of grid and lines that no other beats, by rising control).
        """
        size = {
            quantity: [[None] * len(self.alphas) for _ in self.betas] for quantity in ("target", "control", "score")
        }
        known: list[Numbers] = []
        n: Numbers = {"target": 0, "control": 0}
        ready = not self.results.missing_references(self.view)
        for row, column, schedule in self.cells() if ready else ():
            point = self.results.stored(self.view, self.results.recipe(self.view, schedule))
            if not point:
                continue
            known.append({"alpha": schedule.alpha, "beta": schedule.beta} | point)
            size["target"][row][column] = point["target"]["value"]
            size["score"][row][column] = score(point) if MODES[self.view.mode].rule else None
            n["target"] = point["target"]["n"]
            if point["control"]:
                size["control"][row][column] = point["control"]["value"]
                n["control"] = point["control"]["n"]
        missing = len(self.alphas) * len(self.betas) - len(known)
        about = {"alphas": list(self.alphas), "betas": list(self.betas), "alpha_norms": self.alpha, "n": n}
        about |= {"mode": self.view.mode, "targets": list(self.view.targets), "split": self.results.split}
        return size | about | {"missing": missing, "front": front(known, MODES[self.view.mode].falls)}

    def unstored(self) -> Work:
        """What the missing cells need, those nearest to the view's own setting first."""
        own = self.view.curve(self.alpha)
        cells = [schedule for _, _, schedule in self.cells()]
        cells.sort(key=lambda schedule: math.hypot(schedule.alpha - own.alpha, schedule.beta - own.beta))
        recipes = [self.results.recipe(self.view, schedule) for schedule in cells]
        return [work for recipe in filter(None, recipes) for work in self.results.missing(self.view, recipe)]


def score(point: Numbers) -> float | None:
    """What the paper's rule of choice compares (``analysis.single_task_score``)."""
    target, control = point["target"]["normalized"], point["control"]
    if target is None or control and control["normalized"] is None:
        return None
    return single_task_score(target, control["normalized"] if control else None)


def front(points: list[Numbers], falls: bool = False) -> list[Numbers]:
    """The points that no other beats in control (or, without control, the weakest task's share) and target.

    ``falls``: the lower target is the better one.
    """
    usable = [point for point in points if _across(point) is not None and point["target"]["value"] is not None]
    sign = -1 if falls else 1
    return [usable[index] for index in pareto_front([(_across(p), sign * p["target"]["value"]) for p in usable])]


def _across(point: Numbers) -> float | None:
    if point["control"]:
        return point["control"]["value"]
    return point["weakest"]["normalized"] if point["weakest"] else None
