"""``sweep``: every point of a SPEC.yaml, scored and written as parquet; what is in the store is not scored again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from lines_explorer.commands.options import choose, parse_score_on, parse_split, split_name
from lines_explorer.commands.report import Report
from lines_explorer.commands.scoring import summarise
from lines_explorer.errors import ExplorerError
from lines_explorer.sweep.measuring import measure
from lines_explorer.sweep.progress import progress
from lines_explorer.sweep.spec import Spec, read_spec
from lines_explorer.sweep.tables import evaluation_rows, write_parquet

if TYPE_CHECKING:
    from lines_explorer.engine import Engine

__all__ = ["check_engine", "check_table", "read_spec", "sweep"]
LOCAL, RAY = "local", "ray"


def check_engine(name: str, address: str | None = None) -> None:
    """Refuse an engine other than the local one."""
    if choose("engine", name, (LOCAL, RAY)) == RAY or address is not None:
        raise ExplorerError("Sweeps on a Ray cluster are not supported yet: leave out --address, use --engine local.")


def check_table(out: Path) -> None:
    """Refuse a place where no parquet can be written, before any work is done."""
    if out.suffix != ".parquet":
        raise ExplorerError(f"--out {out} is not a parquet file: name one, such as results.parquet.")
    if out.is_dir() or (out.parent.exists() and not out.parent.is_dir()):
        raise ExplorerError(f"--out {out} cannot be written there: name a file in a folder.")


def sweep(engine: Engine, spec: Spec, out: Path) -> Report:
    """Scores all points and writes one row per point and task.

    Interrupted, it has written nothing to ``out``, but what was scored stays in the store: the next run continues.
    """
    started = time.perf_counter()
    check_table(out)
    split = parse_split(engine.suite, spec.split)
    names = parse_score_on(engine.suite, None if spec.score_on is None else ",".join(spec.score_on), split)
    recipes = spec.recipes(engine)
    before = sum(engine.peek(recipe, names, split) is not None for recipe in recipes)
    with progress("sweep", len(recipes)) as tick:
        evaluations = measure(engine, recipes, names, split, tick)
    rows = [row for found in evaluations for row in evaluation_rows(found, summarise(engine, found))]
    write_parquet(out, rows, {"suite_hash": engine.suite.hash})
    data = {
        "suite": engine.suite.name,
        "split": split_name(split),
        "points": len(recipes),
        "stored": before,
        "evaluated": len(recipes) - before,
        "rows": len(rows),
        "file": str(out),
        "seconds": time.perf_counter() - started,
    }
    return Report(data, sweep_text(data))


def sweep_text(data: dict) -> str:
    """What was done, in one line."""
    return (
        f"{data['points']} points of {data['suite']} on the {data['split']} split "
        f"({data['stored']} were stored, {data['evaluated']} evaluated): {data['rows']} rows in {data['file']}"
    )
