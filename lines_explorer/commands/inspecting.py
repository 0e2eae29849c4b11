"""``inspect``: what checkpoints are, from their headers alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lines_explorer.checkpoints import Checkpoint, open_checkpoint
from lines_explorer.checkpoints.sources import escaped
from lines_explorer.commands.report import Report, table
from lines_explorer.errors import ExplorerError

HEADER = ["file", "format", "content", "family", "blocks", "activation", "tensors", "parameters", "dtypes", "sha256"]
ACTIVATIONS = {True: "quick_gelu", False: "gelu", None: None}


def inspect(paths: Sequence[Path], hashed: bool = True) -> Report:
    """Every path's format, family, blocks, sizes, sha256 and problems, as JSON and as a table.

    A path that is no checkpoint has ``format`` null and the reason in ``problems``; it does not hide the others.
    With ``hashed`` each file is read once for its sha256, otherwise only headers are.
    """
    rows = [_described(path, hashed) for path in paths]
    first: dict[str, str] = {}
    for row in rows:
        if row["sha256"] and (other := first.setdefault(row["sha256"], row["file"])) != row["file"]:
            row["notes"].append(f"the same content as {other}")
    return Report({"files": rows}, _text(rows))


def refusals(report: Report) -> list[str]:
    """The sentences on the paths that could not be read."""
    return [row["problems"][0] for row in report.data["files"] if row["format"] is None]


def _described(path: Path, hashed: bool) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(("file", *HEADER[1:], "bytes")) | {"file": _printable(path)}
    try:
        checkpoint = open_checkpoint(path)
        facts = _facts(checkpoint) | {"sha256": checkpoint.sha256 if hashed else None}
    except ExplorerError as error:
        return row | {"problems": [_printable(error)], "notes": []}
    return row | facts


def _facts(checkpoint: Checkpoint) -> dict[str, Any]:
    try:
        family, blocks = checkpoint.layout.family, checkpoint.layout.depth
    except ExplorerError:  # ``problems`` says it where it matters
        family = blocks = None
    return {
        "format": checkpoint.format,
        "content": checkpoint.what if checkpoint.kind == "weights" else f"{checkpoint.kind}: {checkpoint.what}",
        "family": family,
        "blocks": blocks,
        "tensors": len(checkpoint.entries),
        "parameters": checkpoint.parameters,
        "dtypes": checkpoint.dtypes,
        "bytes": checkpoint.nbytes,
        "activation": ACTIVATIONS[checkpoint.quick_gelu],
        "problems": [_printable(problem) for problem in checkpoint.problems],
        "notes": [_printable(note) for note in checkpoint.notes],
    }


def _printable(value: object) -> str:
    """Text that any terminal and JSON can carry, whatever bytes a path or name is made of."""
    return str(value).encode("utf-8", "backslashreplace").decode()


def _text(rows: Sequence[dict[str, Any]]) -> str:
    """A table of what was read, then what there is to say of each file."""
    read = [row for row in rows if row["format"]]
    remarks = [
        escaped(f"{mark} {row['file']}: {sentence}")
        for row in rows
        for mark, sentences in (("!", row["problems"]), ("-", row["notes"]))
        for sentence in sentences
    ]
    lines = [table(HEADER, [_cells(row) for row in read])] if read else []
    return "\n".join(lines + remarks)


def _cells(row: dict[str, Any]) -> list[str]:
    dtypes = ", ".join(f"{count} {dtype}" for dtype, count in row["dtypes"].items())
    numbers = [f"{row[name]:,}" for name in ("tensors", "parameters")]
    names = [escaped(row["file"]), row["format"], row["content"], row["family"] or "–"]
    blocks = "–" if row["blocks"] is None else str(row["blocks"])
    return [*names, blocks, row["activation"] or "–", *numbers, dtypes, (row["sha256"] or "–")[:12]]
