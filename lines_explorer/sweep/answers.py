"""The right answers that a study rests on, image by image, beside its tables: whoever runs it again continues there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lines_explorer.errors import ExplorerError
from lines_explorer.merging import standard
from lines_explorer.sweep.search import TEST, VALIDATION
from lines_explorer.sweep.tables import write_parquet

if TYPE_CHECKING:
    from lines_explorer.engine import Engine
    from lines_explorer.recipe import Recipe
    from lines_explorer.sweep.study import Study

FILE = "answers.parquet"
COLUMNS = ("kept_under", "recipe", "task", "split", "precision")


def write_answers(engine: Engine, study: Study, folder: Path) -> list[str]:
    """Writes what the store knows of every point of the study; returns the file's name, if there was anything.

    A row is one task's split: ``kept_under`` (`Suite.hash_of`), the recipe's hash, ``n``, ``correct``, and ``bits``,
    eight images to a byte in the file's order.

    Raises:
        ExplorerError: the file cannot be written.
    """
    rows = {}
    for recipe, tasks, split in _scored(study):
        kept_under, digest = engine.suite.hash_of(recipe), standard(recipe).hash()
        for task in tasks:
            key = (kept_under, digest, task, split, engine.precision)
            row = engine.store.get(*key)
            if row is not None and row.bits is not None:
                named = dict(zip(COLUMNS, key, strict=True))
                rows[key] = named | {"n": row.n, "correct": row.correct, "bits": row.bits}
    if rows:
        write_parquet(folder / FILE, [rows[key] for key in sorted(rows)], {"suite": engine.suite.hash})
    return [FILE] if rows else []


def read_answers(engine: Engine, folder: Path) -> int:
    """Lets the engine's store know what an earlier study left in ``folder``; returns the number of rows.

    Nothing is taken of another version of the suite.

    Raises:
        ExplorerError: the file is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / FILE
    if not path.exists():
        return 0
    try:
        table = pq.read_table(path)
        if (table.schema.metadata or {}).get(b"suite") != engine.suite.hash.encode():
            return 0
        return engine.store.ship(
            {tuple(row[name] for name in COLUMNS): (row["n"], row["correct"], row["bits"]) for row in table.to_pylist()}
        )
    except (OSError, pa.ArrowException, KeyError, TypeError, ExplorerError) as fault:
        raise ExplorerError(f"{path} is damaged ({fault}); delete it, and everything is evaluated anew.") from fault


def _scored(study: Study) -> Iterator[tuple[Recipe, Sequence[str], str]]:
    """(recipe, tasks, split) of everything that was evaluated for the study's outcomes."""
    for outcome in study.outcomes.values():
        for point in outcome.search.points:
            yield point.recipe, list(point.evaluation.scores), VALIDATION
            for shift in outcome.shifts:
                yield point.recipe, outcome.search.targets, shift
        yield outcome.test.recipe, list(outcome.test.scores), TEST
