"""Options that several verbs share, and longer ones. Nothing here takes seconds to import."""

from __future__ import annotations

from typing import Annotated

import typer

METHOD_NAMES = ", ".join(
    "sum average trim ties consensus dare dare_ties breadcrumbs della stock slerp tsv iso pcb fisher regmean "
    "adamerging".split()
)
Method = Annotated[str, typer.Option("--method", help=f"How task vectors are merged: {METHOD_NAMES}.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "--parameter",
        help="NAME=VALUE of the method, such as k=20; may be repeated. `suites` lists methods and parameters.",
    ),
]
Downloads = Annotated[
    bool | None,
    typer.Option(
        "--downloads/--no-downloads",
        help="Whether visitors may download merged models. If not said: only on a page for this machine alone.",
    ),
]
