"""What a file's or a folder's content is: sha256, read once per change."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from lines_explorer.checkpoints import sha256, written_beside
from lines_explorer.errors import ExplorerError
from lines_explorer.suites.cache import cache_folder

SMALL = 1 << 20  # bytes; reading so much costs less than remembering it
SETTLED = 2.0  # seconds since the last change; within a clock's tick another change would not show


def file_sha256(path: Path) -> str:
    """`checkpoints.sha256` of a file; of a big one it is remembered until its size, times or inode change."""
    return _remembered([("", path)], lambda: sha256(path))


def files_sha256(files: Iterable[tuple[str, Path]]) -> str:
    """One sha256 of several files under their names; neither order nor place on the disk matters.

    It is remembered as a file's is.
    """
    found = sorted(files)

    def read() -> str:
        return hashlib.sha256(json.dumps([(name, sha256(path)) for name, path in found]).encode()).hexdigest()

    return _remembered(found, read)


def path_sha256(path: Path) -> str:
    """sha256 of a file, or of a folder's files (hidden ones aside).

    Raises ExplorerError when the path is missing or the folder is empty.
    """
    if not path.is_dir():
        return file_sha256(path)
    found = [(file.relative_to(path).as_posix(), file) for file in path.rglob("*") if file.is_file()]
    shown = [(name, file) for name, file in found if not any(part.startswith(".") for part in name.split("/"))]
    if not shown:
        raise ExplorerError(f"{path} is an empty folder; put the files there.")
    return files_sha256(shown)


def without_key(file: Path, *keys: str) -> bytes:
    """The file's bytes without the blocks of top-level keys of its YAML: what the file was before they were added."""
    kept, inside = [], False
    for line in file.read_bytes().splitlines(keepends=True):
        if line[:1].strip(b" \t#\r\n"):  # neither indented, nor a remark, nor empty
            inside = line.startswith(tuple(key.encode() + b":" for key in keys))
        if not inside:
            kept.append(line)
    return b"".join(kept)


def read_manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """File → its ``bytes`` and ``sha256``, from the folder's manifest.json; none without one.

    Raises ExplorerError when it is damaged.
    """
    file = folder / "manifest.json"
    if not file.exists():
        return {}
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))["files"]
        return {name: {"bytes": int(row["bytes"]), "sha256": str(row["sha256"])} for name, row in rows.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
        raise ExplorerError(f"{file} is damaged ({fault!r}); reinstall it or rebuild it with `build-suite`.") from fault


def _remembered(files: Sequence[tuple[str, Path]], read: Callable[[], str]) -> str:
    """``read()``, or what it gave when the files were last in this state."""
    try:
        states = [path.stat() for _, path in files]
    except OSError:
        return read()  # says what is wrong
    changed = max((max(state.st_mtime, state.st_ctime) for state in states), default=0.0)
    if sum(state.st_size for state in states) < SMALL or time.time() - changed < SETTLED:
        return read()
    note = cache_folder() / "hashes" / _key(files, states)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        remembered = note.read_text(encoding="ascii")
        if len(remembered) == 64:
            return remembered
    digest = read()
    with contextlib.suppress(OSError), written_beside(note) as beside:
        beside.write_text(digest, encoding="ascii")
    return digest


def _key(files: Sequence[tuple[str, Path]], states: Sequence[os.stat_result]) -> str:
    rows = [
        [name, os.path.abspath(path), state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]
        for (name, path), state in zip(files, states, strict=True)
    ]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:32]
