"""``search``: one point chosen on validation by the protocol or under a constraint, reported once on test."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lines_explorer.commands.options import choose, parse_names, parse_parameters
from lines_explorer.commands.report import Report, percent, table
from lines_explorer.commands.scoring import means, task_dict
from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS
from lines_explorer.schedule import RULES
from lines_explorer.sweep.family import CONSTANT, KINDS, LINES, Family, edit_family, merge_family
from lines_explorer.sweep.goal import LARGER, SMALLER, WEIGHT, Goal
from lines_explorer.sweep.measuring import alpha_from_norms
from lines_explorer.sweep.progress import progress
from lines_explorer.sweep.runs import scored_with
from lines_explorer.sweep.search import TEST, Point, Search, search, sensitivity, tested

if TYPE_CHECKING:
    from lines_explorer.analysis.sensitivity import Sensitivity
    from lines_explorer.engine import Engine

PROTOCOL = "protocol"


@dataclass(frozen=True)
class SearchOptions:
    """What is searched, as asked for.

    ``parameters``: NAME=VALUE texts of the method; ``schedule``: a curve instead of LiNeS or the constant;
    ``weight``: of the target, single task only; ``constraint``: least mean normalized control; ``tie``: larger,
    smaller, or protocol (larger for one expert, smaller for several); ``refine``: rounds after the coarse grid;
    ``bootstrap``: tell how often other validation images would have chosen another point (which needs every answer,
    so points of which a suite ships the counts alone are scored once more).
    """

    tasks: str
    method: str = "sum"
    parameters: Sequence[str] = ()
    lines: bool = True
    schedule: str | None = None
    weight: float | None = None
    constraint: float | None = None
    tie: str = PROTOCOL
    refine: int = 2
    rule: str = "reference"
    bootstrap: bool = True


def search_suite(engine: Engine, asked: SearchOptions) -> Report:
    """The verb: the grid, the choice, the test at the chosen point, the front, and how sure the choice is."""
    started = time.perf_counter()
    names = parse_names("--tasks", asked.tasks, tuple(engine.suite.experts))
    family, goal = parse_family(engine, names, asked), parse_goal(asked, len(names))
    score_on = scored_with(engine.suite, names)
    with progress("search", len(family.grid) + 2 * asked.refine) as tick:
        found = search(engine, family, goal, names, score_on, asked.refine, tick)
    _, test = tested(engine, found, scored_with(engine.suite, names, TEST))
    steady = None
    if asked.bootstrap:
        with progress("bootstrap", len(found.points)) as tick:
            steady = sensitivity(engine, found, tick)
    data = {
        "suite": engine.suite.name,
        "tasks": list(family.tasks),
        "method": family.method,
        "parameters": dict(family.parameters),
        "schedule": family.kind,
        "goal": goal.words(),
        "chosen": point_dict(found.best),
        "protocol": point_dict(found.points[found.coarse]),
        "validation": means(found.best.summary),
        "test": means(test) | {"tasks": {name: task_dict(task) for name, task in test.tasks.items()}},
        "grid": grid_rows(found, steady),
        "front": [found.points[index].recipe.hash() for index in found.front()],
        "sensitivity": sensitivity_dict(found, steady) if steady else None,
        "seconds": time.perf_counter() - started,
    }
    return Report(data, search_text(data))


def parse_family(engine: Engine, names: Sequence[str], asked: SearchOptions) -> Family:
    """The protocol's family: the single-task line for one expert, the method's grid for several."""
    choose("method", asked.method, METHODS)
    choose("layer rule", asked.rule, RULES)
    kind = choose("schedule", asked.schedule or (LINES if asked.lines else CONSTANT), KINDS)
    if asked.schedule and not asked.lines and asked.schedule != CONSTANT:
        raise ExplorerError(f"--no-lines and --schedule {asked.schedule} contradict each other: give one of them.")
    suite, parameters = engine.suite.name, parse_parameters(asked.method, asked.parameters)
    METHODS[asked.method].check(parameters, len(names))
    if len(names) == 1:
        return edit_family(suite, names[0], kind, asked.method, parameters, asked.rule)
    alpha = 1.0 if kind == CONSTANT else alpha_from_norms(engine, names, asked.method, parameters)
    return merge_family(suite, names, kind, alpha, asked.method, parameters, asked.rule)


def parse_goal(asked: SearchOptions, experts: int) -> Goal:
    """The protocol's goal for one or several experts, or the constraint."""
    single = experts == 1
    tie = choose("tie rule", asked.tie, (PROTOCOL, LARGER, SMALLER))
    tie = (LARGER if single else SMALLER) if tie == PROTOCOL else tie
    if asked.weight is not None and (asked.constraint is not None or not single):
        other = "--constraint" if asked.constraint is not None else "several --tasks"
        raise ExplorerError(f"--weight goes with one expert and no constraint; leave it out beside {other}.")
    if asked.constraint is not None:
        return Goal("constrained", tie, floor=asked.constraint)
    if single:
        return Goal("weighted", tie, weight=WEIGHT if asked.weight is None else asked.weight)
    return Goal("mean", tie)


def point_dict(point: Point) -> dict[str, Any]:
    """One point: its recipe and the numbers that chose it."""
    schedule = point.recipe.schedule
    return {
        "coefficient": point.coefficient,
        "alpha": schedule.alpha,
        "beta": schedule.beta,
        "recipe": point.recipe.as_dict(),
        "hash": point.recipe.hash(),
    }


def grid_rows(found: Search, steady: Sensitivity | None) -> list[dict[str, Any]]:
    """Every evaluated point, by rising coefficient, on validation."""
    front = set(found.front())
    return [
        point_dict(point)
        | {"round": point.round, "score": found.goal.score(point.target, point.control)}
        | {"allowed": found.goal.allows(point.control), "chosen": index == found.chosen, "front": index in front}
        | {"chosen_again": steady.shares[index] if steady else None, "weakest": point.weakest}
        | means(point.summary)
        for index, point in enumerate(found.points)
    ]


def sensitivity_dict(found: Search, steady: Sensitivity) -> dict[str, Any]:
    """How often the choice would have been the same with other validation images."""
    return {
        "chosen_again": steady.kept,
        "no_choice": steady.none,
        "plausible": [found.points[index].coefficient for index in steady.plausible()],
    }


def search_text(data: dict[str, Any]) -> str:
    """The grid and the test result as tables in percent; ``>`` marks the chosen point, ``*`` the front."""
    rows = []
    for row in data["grid"]:
        mark = (">" if row["chosen"] else " ") + ("*" if row["front"] else " ")
        cells = [f"{mark} {row['alpha']:.3g}", f"{row['beta']:.3g}"]
        for kind in ("target", "control"):
            cells += [percent((row[kind] or {}).get(key)) for key in ("accuracy", "normalized")]
        rows.append([*cells, f"{row['score']:.4f}" if row["allowed"] else "–", percent(row["chosen_again"])])
    header = ["   α", "β", "target", "normalized", "control", "normalized", "score", "chosen again"]
    title = f"{', '.join(data['tasks'])} of {data['suite']}, {data['method']}, {data['schedule']}, validation, %"
    chosen = data["chosen"]
    return (
        f"{title}\n{table(header, rows)}\n\n{data['goal']}\n"
        f"chosen: α {chosen['alpha']:.4g}, β {chosen['beta']:.4g} (recipe {chosen['hash']}); test split, %\n"
        f"{test_table(data)}"
    )


def test_table(data: dict[str, Any]) -> str:
    """The chosen point on test, task by task; a star marks the target tasks."""
    test = data["test"]
    named = {f"{name} *" if row["reference"] == "expert" else name: row for name, row in test["tasks"].items()}
    named |= {f"mean of {kind} tasks": test[kind] for kind in ("target", "control") if test[kind]}
    rows = [
        [name, percent(row["accuracy"]), f"{percent(row['low'])}–{percent(row['high'])}"]
        + [percent(row["normalized"]), str(row["n"])]
        for name, row in named.items()
    ]
    return table(["task", "accuracy", "95 %", "normalized", "n"], rows)
