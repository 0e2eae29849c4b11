"""``evaluate`` and ``curve``: recipes scored by the engine, with a progress bar on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from lines_explorer.commands.options import choose, split_name, tasks_with
from lines_explorer.commands.report import Report, percent, table
from lines_explorer.engine import constant_recipes, single_task_recipes
from lines_explorer.errors import ExplorerError
from lines_explorer.schedule import CURVES

if TYPE_CHECKING:
    from lines_explorer.analysis import Mean
    from lines_explorer.engine import Engine, Evaluation, Summary, TaskSummary
    from lines_explorer.recipe import Recipe

MOST_POINTS = 101


def score(engine: Engine, recipe: Recipe, score_on: Sequence[str], split: str, label: str = "") -> Evaluation:
    """The finished evaluation of ``recipe`` on ``split`` of the tasks ``score_on``.

    Pictures scored so far are shown on stderr when it is a terminal, nothing in a pipe.
    """
    evaluation = None
    with tqdm(unit=" pictures", desc=label or None, disable=None, leave=False) as bar:
        for evaluation in engine.stream(recipe, score_on=score_on, split=split):
            bar.total = sum(score.total for score in evaluation.scores.values())
            bar.update(sum(score.n for score in evaluation.scores.values()) - bar.n)
    if evaluation is None or not evaluation.complete:
        raise RuntimeError(f"the evaluation of {recipe.hash()} ended before all pictures were scored")
    return evaluation


def summarise(engine: Engine, evaluation: Evaluation) -> Summary:
    """The engine's summary for the recipe's own tasks; without a target when none of them was asked for.

    The engine wants a target: the first own task's validation score stands in, and is taken out again.
    """
    own = evaluation.recipe.tasks
    if set(own) & set(evaluation.scores):
        return engine.summary(evaluation, own)
    stand_in = engine.evaluate(evaluation.recipe, own[:1]).scores
    summary = engine.summary(replace(evaluation, scores={**evaluation.scores, **stand_in}), own)
    tasks = {name: task for name, task in summary.tasks.items() if name in evaluation.scores}
    return replace(summary, target=None, target_normalized=math.nan, tasks=tasks)


def task_dict(task: TaskSummary) -> dict[str, Any]:
    """One task's result as JSON: fractions, not percent; ``reference`` names the denominator's model."""
    return {
        "correct": task.correct,
        "n": task.n,
        "accuracy": task.accuracy,
        "low": task.low,
        "high": task.high,
        "normalized": task.normalized,
        "denominator": task.denominator,
        "reference": task.reference,
    }


def mean_dict(mean: Mean | None, normalized: float | None) -> dict[str, Any] | None:
    """A mean over tasks as JSON: fractions, not percent; ``None`` where no such task was scored."""
    if mean is None:
        return None
    return {
        "accuracy": mean.value,
        "low": mean.low,
        "high": mean.high,
        "n": mean.n,
        "tasks": mean.tasks,
        "normalized": normalized,
    }


def evaluate(engine: Engine, recipe: Recipe, score_on: Sequence[str], split: str) -> Report:
    """One merged model, scored: per task, and the means over target and control tasks.

    Accuracies and their 95 % Wilson limits are fractions.  ``normalized`` is by the expert's accuracy for
    the recipe's own tasks and by the zero-shot accuracy for the control tasks.
    """
    evaluation = score(engine, recipe, score_on, split)
    summary = summarise(engine, evaluation)
    data = {
        "recipe": recipe.as_dict(),
        "hash": recipe.hash(),
        "split": split_name(split),
        "tasks": {name: task_dict(task) for name, task in summary.tasks.items()},
        **means(summary),
        "seconds": evaluation.seconds,
        "source": evaluation.source,
    }
    return Report(data, evaluation_text(data))


def evaluation_text(data: dict[str, Any]) -> str:
    """The evaluation as a table in percent; a star marks the recipe's own tasks."""
    own = data["recipe"]["tasks"]
    named = {f"{name} *" if name in own else name: row for name, row in data["tasks"].items()}
    named |= {f"mean of {kind} tasks": data[kind] for kind in ("target", "control") if data[kind]}
    rows = [
        [name, percent(row["accuracy"]), f"{percent(row['low'])}–{percent(row['high'])}"]
        + [percent(row["normalized"]), str(row["n"])]
        for name, row in named.items()
    ]
    seconds = "stored" if data["source"] == "stored" else f"{data['seconds']:.1f} s"
    title = f"{', '.join(own)} merged (*) on the {data['split']} split, % ({seconds}, recipe {data['hash']})"
    return f"{title}\n{table(['task', 'accuracy', '95 %', 'normalized', 'n'], rows)}"


def curve(
    engine: Engine, target: str, kind: str, points: int, split: str, method: str = "sum",
    parameters: tuple[tuple[str, Any], ...] = (),
) -> Report:  # fmt: skip
    """The single-task trade-off line, γ from 1 (the expert) to 0 in equal steps, scored on every task.

    α = γ and β = 1 − γ; for ``kind="constant"`` the plain line θ₀ + γτ.  ``method`` is applied to the one expert.
    """
    suite = engine.suite
    choose("target", target, suite.experts)
    choose("schedule", kind, CURVES)
    if not 2 <= points <= MOST_POINTS:
        raise ExplorerError(f"--points is {points}: give a whole number from 2 to {MOST_POINTS}.")
    if kind == "constant":
        recipes = constant_recipes(suite.name, target, points, method, parameters)
    else:
        recipes = single_task_recipes(suite.name, target, kind, points, method, parameters)
    rows = []
    for step, recipe in enumerate(recipes, start=1):
        evaluation = score(engine, recipe, tasks_with(suite, split), split, label=f"point {step} of {points}")
        factors = {"alpha": recipe.schedule.alpha, "beta": recipe.schedule.beta}
        rows.append(factors | means(engine.summary(evaluation, (target,))))
    data = {"suite": suite.name, "target": target, "schedule": kind, "split": split_name(split), "points": rows}
    data |= {"method": method, "parameters": dict(parameters)}
    return Report(data, curve_text(data))


def means(summary: Summary) -> dict[str, Any]:
    """Target and control means of one evaluation."""
    return {
        "target": mean_dict(summary.target, summary.target_normalized),
        "control": mean_dict(summary.control, summary.control_normalized),
    }


def curve_text(data: dict[str, Any]) -> str:
    """The line as a table in percent."""
    rows = []
    for point in data["points"]:
        cells = [f"{point['alpha']:.3g}", f"{point['beta']:.3g}"]
        for kind in ("target", "control"):
            row = point[kind] or {}
            cells += [percent(row.get("accuracy")), percent(row.get("normalized"))]
        rows.append(cells)
    header = ["α", "β", "target", "normalized", "control", "normalized"]
    how = data["schedule"] if data["method"] == "sum" else f"{data['method']}, {data['schedule']}"
    return f"{data['target']} of {data['suite']}, {how}, {data['split']} split, %\n{table(header, rows)}"
