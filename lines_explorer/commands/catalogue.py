"""``suites``: what can be opened, with the stored accuracies of base and experts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from lines_explorer.analysis import Accuracy
from lines_explorer.commands.methods import method_rows, methods_text
from lines_explorer.commands.options import SPLITS
from lines_explorer.commands.report import Report, percent, table
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import lines

if TYPE_CHECKING:
    from lines_explorer.engine import Engine

REGULAR = ("val", "test")


def stored(engine: Engine, recipe: Recipe, task: str) -> dict[str, dict[str, Any] | None]:
    """Accuracies of ``recipe`` on ``task`` by split, from the result store alone; ``None`` where unknown."""
    found: dict[str, dict[str, Any] | None] = {}
    for split in REGULAR:
        evaluation = engine.peek(recipe, score_on=(task,), split=SPLITS[split])
        score = evaluation.scores[task] if evaluation else None
        found[split] = accuracy_dict(Accuracy(score.correct, score.n)) if score else None
    return found


def accuracy_dict(accuracy: Accuracy) -> dict[str, Any]:
    """Fraction right, its 95 % Wilson limits, and the counts."""
    return {
        "accuracy": accuracy.value,
        "low": accuracy.low,
        "high": accuracy.high,
        "correct": accuracy.correct,
        "n": accuracy.n,
    }


def describe(engine: Engine) -> dict[str, Any]:
    """One suite: its base, blocks, parameters, and its tasks with sizes and stored accuracies."""
    suite = engine.suite
    base = Recipe.base(suite.name)
    tasks = []
    for name, task in suite.tasks.items():
        expert = Recipe(suite=suite.name, tasks=(name,), schedule=lines(1.0, 0.0))
        sizes = {split: suite.size(name, SPLITS[split]) for split in REGULAR}
        tasks.append(
            {"name": name, "title": task.title, "classes": len(task.classes), **sizes}
            | {"shifts": list(task.shifts), "zero_shot": stored(engine, base, name)}
            | {"expert": stored(engine, expert, name) if name in suite.experts else None}
        )
    tensors = suite.base()
    return {
        "name": suite.name,
        "title": suite.title,
        "base": suite.architecture,
        "blocks": engine.backend.layout.depth,
        "parameters": sum(tensor.numel() for tensor in tensors.values()),
        "tasks": tasks,
        "refused_methods": engine.refused,
    }


def both_splits(found: dict[str, dict[str, Any] | None] | None) -> str:
    """``48.1 / 47.9``: validation and test accuracy in percent."""
    scores = [(found or {}).get(split) for split in REGULAR]
    return " / ".join(percent(score["accuracy"] if score else None) for score in scores)


def suites(engines: Iterable[Engine]) -> Report:
    """All suites, as JSON and as one table each, and the merge methods."""
    described = [describe(engine) for engine in engines]
    shown = "\n\n".join(map(suite_text, described)) or "No suite found."
    return Report({"suites": described, "methods": method_rows()}, f"{shown}\n\n{methods_text()}")


def suite_text(suite: dict[str, Any]) -> str:
    """One suite as a table: accuracies in percent, validation / test."""
    rows = []
    for task in suite["tasks"]:
        sizes = [str(task[column]) for column in ("classes", *REGULAR)]
        rows.append([task["name"], *sizes, both_splits(task["zero_shot"]), both_splits(task["expert"])])
    size = f"{suite['base']}, {suite['blocks']} blocks, {suite['parameters']:,} parameters"
    header = ["task", "classes", "val", "test", "zero-shot % val/test", "expert % val/test"]
    refused = [f"no {name}: {sentence}" for name, sentence in suite["refused_methods"].items()]
    return "\n".join([f"{suite['name']}: {suite['title']} ({size})", table(header, rows), *refused])
