"""Evaluations and the study's results as rows, and rows as parquet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lines_explorer.checkpoints.files import written_beside
from lines_explorer.errors import ExplorerError

if TYPE_CHECKING:
    from lines_explorer.engine import Evaluation, Summary
    from lines_explorer.recipe import Recipe
    from lines_explorer.sweep.comparison import Comparison, Difference
    from lines_explorer.sweep.study import Key, Study

Row = dict[str, Any]


def recipe_columns(recipe: Recipe) -> Row:
    """A recipe in columns; ``recipe_json`` gives it back through ``Recipe.from_dict``."""
    schedule = recipe.schedule
    return {
        "suite": recipe.suite,
        "recipe": recipe.hash(),
        "tasks": ",".join(recipe.tasks),
        "method": recipe.method,
        "parameters": json.dumps(dict(recipe.parameters)),
        "schedule": schedule.kind,
        "alpha": None if schedule.kind == "free" else schedule.alpha,
        "beta": None if schedule.kind == "free" else schedule.beta,
        "rule": recipe.rule,
        "recipe_json": json.dumps(recipe.as_dict()),
    }


def evaluation_rows(evaluation: Evaluation, summary: Summary) -> list[Row]:
    """One row per task: the recipe, the counts, accuracy with its 95 % interval, and the normalized accuracy."""
    return [
        recipe_columns(evaluation.recipe)
        | {"split": evaluation.split, "task": name, "role": row.role, "correct": row.correct, "n": row.n}
        | {"accuracy": row.accuracy, "low": row.low, "high": row.high, "normalized": row.normalized}
        | {"denominator": row.denominator, "reference": row.reference}
        for name, row in summary.tasks.items()
    ]


def outcome_rows(study: Study) -> list[Row]:
    """The chosen points on test: one row per setting, schedule and task."""
    return [
        _named(key) | {"coefficient": outcome.search.best.coefficient} | row
        for key, outcome in study.outcomes.items()
        for row in evaluation_rows(outcome.test, outcome.summary)
    ]


def point_rows(study: Study) -> list[Row]:
    """Every point that was tried, on validation."""
    return [
        _named(key)
        | {"coefficient": point.coefficient, "round": point.round, "chosen": index == outcome.search.chosen}
        | {"target": point.target, "control": point.control}
        | recipe_columns(point.recipe)
        for key, outcome in study.outcomes.items()
        for index, point in enumerate(outcome.search.points)
    ]


def difference_rows(study: Study) -> list[Row]:
    """Every difference between a schedule and the constant one, on test."""
    return [
        _named(key) | {"quantity": quantity} | _difference(found)
        for key, comparison in study.comparisons.items()
        for quantity, found in _quantities(comparison).items()
    ]


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]], note: Mapping[str, str] | None = None) -> None:
    """Writes the rows whole or not at all; ``note`` goes into the file's metadata.

    Raises:
        ExplorerError: there is no row, or the file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not rows:
        raise ExplorerError(f"There are no rows to write to {path}.")
    table = pa.Table.from_pylist(list(rows))
    try:
        with written_beside(path) as beside:
            pq.write_table(table.replace_schema_metadata(dict(note or {})), beside)
    except OSError as fault:
        raise ExplorerError(f"{path} cannot be written ({fault.strerror or fault}); choose another --out.") from fault


def write_text(path: Path, text: str) -> None:
    """Writes a text file whole or not at all; raises ExplorerError when that is impossible."""
    try:
        with written_beside(path) as beside:
            beside.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise ExplorerError(f"{path} cannot be written ({fault.strerror or fault}); choose another --out.") from fault


def write_study(folder: Path, study: Study) -> list[str]:
    """Writes the study's tables into ``folder``; returns the names of those that have rows."""
    tables = {"points": point_rows(study), "outcomes": outcome_rows(study), "differences": difference_rows(study)}
    written = {f"{name}.parquet": rows for name, rows in tables.items() if rows}
    for name, rows in written.items():
        write_parquet(folder / name, rows)
    return list(written)


def _named(key: Key) -> Row:
    return dict(zip(("setting", "label", "kind"), key, strict=True))


def _quantities(comparison: Comparison) -> dict[str, Difference]:
    found = {"target": comparison.target, "control": comparison.control, "score": comparison.score}
    shifts: Iterable[tuple[str, Difference]] = comparison.shifts.items()
    return {name: row for name, row in found.items() if row} | {f"shift {name}": row for name, row in shifts}


def _difference(found: Difference) -> Row:
    return {"value": found.value, "low": found.low, "high": found.high, "p": found.p, "n": found.n}
