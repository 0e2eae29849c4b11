"""``curve``: the line of one setting, point by point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lines_explorer.commands.options import choose, split_name, tasks_with
from lines_explorer.commands.report import Report, percent, table
from lines_explorer.commands.scoring import means, score, shifted, shifted_sets
from lines_explorer.engine import constant_recipes, single_task_recipes
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe, task_of
from lines_explorer.schedule import CURVES
from lines_explorer.sweep.family import negation_family, robust_family

if TYPE_CHECKING:
    from lines_explorer.engine import Engine

MOST_POINTS = 101
EDIT, ROBUSTNESS, NEGATION = "edit", "robustness", "negation"
POINTS = {EDIT: 11, ROBUSTNESS: 11, NEGATION: 16}
"""The settings that are lines of one expert, and how many points each has unless asked otherwise."""
SUBTRACTED = 1.5
"""The largest coefficient of the negation line."""


def line(suite: str, expert: str, kind: str, setting: str, points: int) -> list[Recipe]:
    """The recipes of a setting's line in ``points`` equal steps.

    edit: α = γ, β = 1 − γ (constant: λ = γ), γ from 1 to 0. robustness: α = β = γ/2 (constant: λ = γ), γ from 1 to 0.
    negation: α = β = −c/2 (constant: λ = −c), c from 0 to 1.5.
    """
    if setting == EDIT:
        return (
            constant_recipes(suite, expert, points)
            if kind == "constant"
            else single_task_recipes(suite, expert, kind, points)
        )
    first, last = (0.0, SUBTRACTED) if setting == NEGATION else (1.0, 0.0)
    family = negation_family(suite, expert, kind) if setting == NEGATION else robust_family(suite, expert, kind)
    return [family.recipe(round(first + (last - first) * step / (points - 1), 12)) for step in range(points)]


def curve(
    engine: Engine, target: str, kind: str, points: int | None, split: str, setting: str = EDIT, shifts: bool = False
) -> Report:
    """One line of one expert (or run), scored on every task that has ``split``; with ``shifts`` on its shifted sets."""
    suite = engine.suite
    choose("target", target, suite.fine_tuned)
    choose("schedule", kind, CURVES)
    choose("setting", setting, POINTS)
    points = POINTS[setting] if points is None else points
    if not 2 <= points <= MOST_POINTS:
        raise ExplorerError(f"--points is {points}: give a whole number from 2 to {MOST_POINTS}.")
    task, scored = task_of(target), tasks_with(suite, split)
    if task not in scored:
        raise ExplorerError(f"No split {split_name(split)!r} for {task}: tasks that have it are {', '.join(scored)}.")
    if shifts:
        shifted_sets(suite, [task])
    rows = []
    for step, recipe in enumerate(line(suite.name, target, kind, setting, points), start=1):
        evaluation = score(engine, recipe, scored, split, label=f"point {step} of {points}")
        factors = {"alpha": recipe.schedule.alpha, "beta": recipe.schedule.beta}
        row = factors | means(engine.summary(evaluation, (target,)))
        rows.append(row | (shifted(engine, recipe, [task]) if shifts else {}))
    data = {"suite": suite.name, "target": target, "setting": setting, "schedule": kind, "split": split_name(split)}
    return Report(data | {"points": rows}, curve_text(data | {"points": rows}))


def curve_text(data: dict[str, Any]) -> str:
    """The line as a table in percent; the mean of the shifted sets where they were scored."""
    kinds = ["target", "control", *(["shifted"] if "shifted" in data["points"][0] else [])]
    rows = []
    for point in data["points"]:
        cells = [f"{point['alpha']:.3g}", f"{point['beta']:.3g}"]
        for kind in kinds:
            row = point[kind] or {}
            cells += [percent(row.get("accuracy")), percent(row.get("normalized"))]
        rows.append(cells)
    header = ["α", "β", *(word for kind in kinds for word in (kind, "normalized"))]
    title = f"{data['target']} of {data['suite']}, {data['setting']}, {data['schedule']}, {data['split']} split, %"
    return f"{title}\n{table(header, rows)}"
