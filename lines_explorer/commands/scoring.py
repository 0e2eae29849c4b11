"""``evaluate``: recipes scored by the engine, with a progress bar on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from lines_explorer.analysis import Accuracy, mean_accuracy
from lines_explorer.commands.options import split_name
from lines_explorer.commands.report import Report, percent, table
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import task_of

if TYPE_CHECKING:
    from lines_explorer.analysis import Mean
    from lines_explorer.engine import Engine, Evaluation, Summary, TaskSummary
    from lines_explorer.recipe import Recipe
    from lines_explorer.suites import Suite


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
    own = evaluation.recipe.targets
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


def evaluate(engine: Engine, recipe: Recipe, score_on: Sequence[str], split: str, shifts: bool = False) -> Report:
    """One merged model, scored: per task, and the means over target and control tasks; ``shifts``: see ``shifted``.

    Accuracies and their 95 % Wilson limits are fractions.  ``normalized`` is by the expert's accuracy for
    the recipe's own tasks and by the zero-shot accuracy for the control tasks.
    """
    more = shifted(engine, recipe, recipe.targets) if shifts else {}
    evaluation = score(engine, recipe, score_on, split)
    summary = summarise(engine, evaluation)
    data = {
        "recipe": recipe.as_dict(),
        "hash": recipe.hash(),
        "split": split_name(split),
        "tasks": {name: task_dict(task) for name, task in summary.tasks.items()},
        **means(summary),
        **more,
        "seconds": evaluation.seconds,
        "source": evaluation.source,
    }
    return Report(data, evaluation_text(data))


def evaluation_text(data: dict[str, Any]) -> str:
    """The evaluation as a table in percent; a star marks the recipe's own tasks."""
    own = [task_of(name) for name in data["recipe"]["tasks"]]
    named = {f"{name} *" if name in own else name: row for name, row in data["tasks"].items()}
    named |= {f"mean of {kind} tasks": data[kind] for kind in ("target", "control") if data[kind]}
    if "shifts" in data:
        named |= {f"{task}: {shift}": row for task, shifts in data["shifts"].items() for shift, row in shifts.items()}
        named |= {"mean of shifted sets": data["shifted"]}
    rows = [
        [name, percent(row["accuracy"]), f"{percent(row['low'])}–{percent(row['high'])}"]
        + [percent(row["normalized"]), str(row["n"])]
        for name, row in named.items()
    ]
    seconds = "stored" if data["source"] == "stored" else f"{data['seconds']:.1f} s"
    merged = ", ".join(data["recipe"]["tasks"])
    title = f"{merged} merged (*) on the {data['split']} split, % ({seconds}, recipe {data['hash']})"
    return f"{title}\n{table(['task', 'accuracy', '95 %', 'normalized', 'n'], rows)}"


def shifted_sets(suite: Suite, tasks: Sequence[str]) -> list[tuple[str, str]]:
    """(task, shift) of every shifted set of these tasks.

    Raises:
        ExplorerError: they have none.
    """
    sets = [(task, shift) for task in tasks for shift in suite.tasks[task].shifts]
    if not sets:
        having = ", ".join(name for name, task in suite.tasks.items() if task.shifts) or "none"
        raise ExplorerError(f"{', '.join(tasks)} of {suite.name} has no shifted set; tasks that have one: {having}.")
    return sets


def shifted(engine: Engine, recipe: Recipe, tasks: Sequence[str]) -> dict[str, Any]:
    """``shifts``: task → shift → its result; ``shifted``: the mean over all of them, each set with the same weight.

    ``normalized`` is by the accuracy of the task's expert on the same shifted set.
    """
    rows: dict[str, dict[str, Any]] = {}
    for task, shift in shifted_sets(engine.suite, tasks):
        evaluation = score(engine, recipe, [task], shift, label=shift)
        rows.setdefault(task, {})[shift] = task_dict(engine.summary(evaluation, [task]).tasks[task])
    every = [row for shifts in rows.values() for row in shifts.values()]
    mean = mean_accuracy([Accuracy(row["correct"], row["n"]) for row in every])
    return {"shifts": rows, "shifted": mean_dict(mean, sum(row["normalized"] for row in every) / len(every))}


def means(summary: Summary) -> dict[str, Any]:
    """Target and control means of one evaluation."""
    return {
        "target": mean_dict(summary.target, summary.target_normalized),
        "control": mean_dict(summary.control, summary.control_normalized),
    }
