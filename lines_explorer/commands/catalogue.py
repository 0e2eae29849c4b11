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
from lines_explorer.suites import presets, revisions

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
    """One suite: base, blocks, parameters, hashes, memory, hub sources, and tasks with sizes and stored accuracies."""
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
            | {"expert_sha256": suite.expert_sha256(name) if name in suite.experts else None}
            | {"runs": [{"name": run.name, **run.facts} for run in suite.runs.get(name, ())]}
        )
    tensors = suite.base()
    return {
        "name": suite.name,
        "title": suite.title,
        "base": suite.architecture,
        "blocks": engine.backend.layout.depth,
        "parameters": sum(tensor.numel() for tensor in tensors.values()),
        "activation": "quick_gelu" if suite.model_architecture.config.get("quick_gelu") else "gelu",
        "base_sha256": suite.base_sha256,
        "memory": suite.memory_bill().as_dict(),
        "hub": [vars(row) for row in revisions(suite)],
        "tasks": tasks,
        "refused_methods": engine.refused,
    }


def both_splits(found: dict[str, dict[str, Any] | None] | None) -> str:
    """``48.1 / 47.9``: validation and test accuracy in percent."""
    scores = [(found or {}).get(split) for split in REGULAR]
    return " / ".join(percent(score["accuracy"] if score else None) for score in scores)


def suites(engines: Iterable[Engine]) -> Report:
    """All suites, as JSON and as one table each, the merge methods, and the names of the ready-made ones."""
    described = [describe(engine) for engine in engines]
    shown = "\n\n".join(map(suite_text, described)) or "No suite found."
    data = {"suites": described, "methods": method_rows(), "presets": list(presets.NAMES)}
    return Report(data, f"{shown}\n\n{methods_text()}")


def suite_text(suite: dict[str, Any]) -> str:
    """One suite as a table: accuracies in percent, validation / test."""
    rows = []
    for task in suite["tasks"]:
        sizes = [str(task[column]) for column in ("classes", *REGULAR)]
        scores = [both_splits(task["zero_shot"]), both_splits(task["expert"])]
        rows.append([task["name"], *sizes, *scores, (task["expert_sha256"] or "–")[:12]])
    size = f"{suite['base']}, {suite['activation']}, {suite['blocks']} blocks, {suite['parameters']:,} parameters"
    header = ["task", "classes", "val", "test", "zero-shot % val/test", "expert % val/test", "expert sha256"]
    memory = f"base sha256 {suite['base_sha256'][:12]}; all experts merged: {suite['memory']['total'] / 1e9:.2f} GB"
    lines = [f"{suite['name']}: {suite['title']} ({size})", table(header, rows), memory, *map(hub_line, suite["hub"])]
    return "\n".join([*lines, *(f"no {name}: {sentence}" for name, sentence in suite["refused_methods"].items())])


def hub_line(row: dict[str, Any]) -> str:
    """One source on the hub: what was asked for, and what was taken."""
    asked = row["revision"] or "main"
    taken = f"commit {row['commit']}" if row["commit"] else "no commit known (a local folder, or not downloaded yet)"
    return f"{row['used_for']}: {row['source']} at {asked}, {taken}"
