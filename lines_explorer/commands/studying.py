"""``study``: every setting on one suite, written as a page with tables and figures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lines_explorer.commands.options import parse_names
from lines_explorer.commands.report import Report, table
from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS
from lines_explorer.sweep.answers import read_answers, write_answers
from lines_explorer.sweep.comparison import Difference
from lines_explorer.sweep.family import KINDS
from lines_explorer.sweep.figures import figures
from lines_explorer.sweep.progress import progress
from lines_explorer.sweep.report import CHAPTERS, difference, results_markdown, sentence
from lines_explorer.sweep.study import SETTINGS, Asked, Study, advance, edit_means, plan
from lines_explorer.sweep.tables import write_study, write_text

if TYPE_CHECKING:
    from lines_explorer.engine import Engine

FOLDER = "results"


def study(engine: Engine, out: Path, asked: Asked) -> Report:
    """Runs what is missing and writes ``out``; tables and figures go into the folder ``results`` beside it.

    After an interruption what is finished is written, marked as incomplete; the next run continues from the store, and
    on another machine from the answers beside the tables.
    """
    started = time.perf_counter()
    check_page(out)
    planned = tuple(plan(engine.suite, asked))
    if not planned:
        raise ExplorerError("The suite has nothing that these settings need: no runs, shifts or experts to compare.")
    found = Study(planned)
    read_answers(engine, out.parent / FOLDER)
    try:
        with progress("study") as tick:
            for setting in planned:
                advance(engine, found, setting, tick)
    finally:
        means, written = edit_means(engine, found), []
        if found.outcomes:
            written = write_page(engine, found, out, asked.command(engine.suite.name), means)
    data = {
        "suite": engine.suite.name,
        "settings": len(planned),
        "refused": list(dict.fromkeys(found.refused.values())),
        "files": written,
        "differences": differences(found),
        "edit_means": {kind: {name: vars(row) for name, row in rows.items()} for kind, rows in means.items()},
        "seconds": time.perf_counter() - started,
    }
    return Report(data, study_text(found, data, means))


def parse_asked(engine: Engine, settings: str, methods: str, schedules: str, tasks: str) -> Asked:
    """The texts of the command line: names separated by commas, or ``all``."""
    return Asked(
        parse_words(settings, SETTINGS),
        parse_words(methods, tuple(METHODS)),
        parse_words(schedules, KINDS),
        None if tasks.strip() == "all" else parse_names("--tasks", tasks, tuple(engine.suite.experts)),
    )


def parse_words(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """``"a,b"`` → ``("a", "b")``, ``all`` → all known ones; ``Asked`` refuses unknown words."""
    if text.strip() == "all":
        return tuple(known)
    return tuple(dict.fromkeys(word.strip() for word in text.split(",")))


def check_page(out: Path) -> None:
    """Refuse a place where no page can be written, before any work is done."""
    if out.suffix != ".md":
        raise ExplorerError(f"--out {out} is not a Markdown file: name one, such as docs/RESULTS.md.")
    if out.is_dir() or (out.parent.exists() and not out.parent.is_dir()):
        raise ExplorerError(f"--out {out} cannot be written there: name a file in a folder.")


def write_page(
    engine: Engine, found: Study, out: Path, command: str, means: dict[str, dict[str, Difference]]
) -> list[str]:
    """Writes page, tables and figures; returns their paths."""
    folder, suite = out.parent / FOLDER, engine.suite
    names = [*write_study(folder, found), *write_answers(engine, found, folder)]
    drawn = figures(found)
    for name, text in drawn.items():
        write_text(folder / name, text)
    about = f"Suite {suite.name} ({suite.title}), {len(suite.tasks)} tasks, hash {suite.hash[:16]}"
    paths = [f"{FOLDER}/{name}" for name in drawn]
    write_text(out, results_markdown(found, about, command, paths, means))
    return [str(out), *(str(folder / name) for name in [*names, *drawn])]


def differences(found: Study) -> list[dict[str, Any]]:
    """What each schedule changes against the constant one, in the setting's own score."""
    return [
        {"setting": name, "label": label, "schedule": kind} | vars(comparison.score)
        for (name, label, kind), comparison in found.comparisons.items()
    ]


def study_text(found: Study, data: dict[str, Any], means: dict[str, dict[str, Difference]]) -> str:
    """The sentences of the page's head, and what was written."""
    said = [sentence(found, name).replace("**", "") for name in CHAPTERS if found.of(name)]
    rows = [[kind, difference(row["target"]), difference(row["control"])] for kind, row in means.items()]
    shown = [table(["mean over edits", "Δ target", "Δ control"], rows)] if rows else []
    refused = [f"not possible: {words}" for words in data["refused"]]
    return "\n".join([*said, *shown, *refused, f"written: {', '.join(data['files'])}"])
