"""Verbs of the command line about suites and files; ``cli`` puts them among the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lines_explorer.errors import ExplorerError

if TYPE_CHECKING:
    from lines_explorer.commands.report import Report
    from lines_explorer.engine import Engine

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


def suites(
    suite: Annotated[str | None, typer.Option("--suite", help="Only this suite: a name, or a folder.")] = None,
    preset: Annotated[
        str | None, typer.Option("--preset", help="Print the suite.yaml of a public suite, to be edited.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="With --preset: the folder to write it into.")] = None,
    pin: Annotated[
        bool, typer.Option("--pin", help="With --preset: name the hub's present commits as revisions.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the suites that can be opened, their tasks, accuracies and merge methods; or a public suite's suite.yaml."""
    from lines_explorer.cli import answer, open_engine

    def work() -> Report:
        from lines_explorer.commands import catalogue, ready_made
        from lines_explorer.suites import available

        if preset is not None:
            if suite is not None:
                raise ExplorerError("--suite and --preset contradict each other: give one of them.")
            return ready_made.preset(preset, out, pin)
        if out is not None or pin:
            raise ExplorerError("--out and --pin go with --preset: name a public suite.")
        if suite is not None:
            return catalogue.suites([open_engine(suite, "cpu")])
        return catalogue.suites(readable(available()))

    answer(work, as_json)


def readable(names: Sequence[str]) -> Iterator[Engine]:
    """Engines of the suites that open; a damaged one is told on stderr and does not hide the others."""
    from lines_explorer.cli import note, open_engine

    for name in names:
        try:
            yield open_engine(name, "cpu")
        except ExplorerError as error:
            note(f"{name} cannot be opened: {error}")


def merge_files(
    base: Annotated[Path, typer.Option("--base", help="Checkpoint of the pre-trained model: a file, or a folder.")],
    expert: Annotated[list[Path], typer.Option("--expert", help="Checkpoint or adapter of it; may be repeated.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the model.")],
    method: Annotated[str, typer.Option("--method", help="How task vectors are merged.")] = "sum",
    parameter: Annotated[
        list[str] | None, typer.Option("--parameter", help="NAME=VALUE of the method, such as k=20; may be repeated.")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option("--alpha", help="Factor of the first block. Default: 1, or the norm ratio.")
    ] = None,
    beta: Annotated[float | None, typer.Option("--beta", help="What the last block's factor adds to alpha.")] = None,
    schedule: Annotated[
        str | None, typer.Option("--schedule", help="Curve over depth: lines, square, root, sigmoid, reversed.")
    ] = None,
    scale: Annotated[float | None, typer.Option("--scale", help="One constant factor.")] = None,
    factors: Annotated[str | None, typer.Option("--factors", help="One factor per block, separated by commas.")] = None,
    rest: Annotated[float | None, typer.Option("--rest", help="With --factors: the factor outside the blocks.")] = None,
    rule: Annotated[
        str, typer.Option("--rule", help="Tensors after the last block: reference or depth.")
    ] = "reference",
    force: Annotated[bool, typer.Option("--force", help="Replace a model that is already there.")] = False,
    as_json: Json = False,
) -> None:
    """Merge checkpoints that are in no suite, of any known architecture: plain weights, nothing is scored."""
    from lines_explorer.cli import answer

    def work() -> Report:
        from lines_explorer.commands import merge_files as merging
        from lines_explorer.commands.options import ScheduleOptions

        curve = ScheduleOptions(schedule, alpha, beta, scale, factors, rest)
        return merging.merge_files(merging.Asked(base, expert, method, parameter or (), curve, rule), out, force)

    answer(work, as_json)
