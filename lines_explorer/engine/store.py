"""Counts that were evaluated once, kept in SQLite: safe for several processes and for a killed one."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lines_explorer.engine.precision import FLOAT32
from lines_explorer.errors import ExplorerError
from lines_explorer.merging import standard
from lines_explorer.recipe import Recipe
from lines_explorer.suites.cache import cache_folder, notice

VERSION = 2
ATTEMPTS = 100
MOST_BYTES = 256 * 2**20
MOST_IN_MEMORY = 100_000
SCHEMA = """CREATE TABLE IF NOT EXISTS results (
    suite TEXT NOT NULL, recipe TEXT NOT NULL, task TEXT NOT NULL, split TEXT NOT NULL, precision TEXT NOT NULL,
    n INTEGER NOT NULL, correct INTEGER NOT NULL, bits BLOB, seconds REAL,
    PRIMARY KEY (suite, recipe, task, split, precision))"""
FIND = "SELECT n, correct, bits, seconds FROM results WHERE suite=? AND recipe=? AND task=? AND split=? AND precision=?"
PUT = "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
COUNT = "SELECT COUNT(*) FROM results"
FORGET = "DELETE FROM results WHERE rowid IN (SELECT rowid FROM results ORDER BY rowid LIMIT 1 + ? / 8)"

Key = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class Row:
    """``correct`` of ``n``; ``bits``: packed by np.packbits, in the file's order (None in shipped results);
    ``seconds`` of device time (nan in shipped results).
    """

    n: int
    correct: int
    bits: bytes | None = None
    seconds: float = float("nan")

    def right(self) -> np.ndarray | None:
        """Bool (n,): which images were answered rightly; None when only the counts are known."""
        if self.bits is None:
            return None
        return np.unpackbits(np.frombuffer(self.bits, dtype=np.uint8), count=self.n).astype(bool)


class _Link:
    """A connection of this process and the lock of those who use it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection, self.lock, self.pid = connection, threading.Lock(), os.getpid()

    def run(self, action: Callable[[sqlite3.Connection], Any]) -> Any:
        with self.lock:
            return action(self.connection)


class Store:
    """Results by (suite hash, recipe hash, task, split, precision), each row whole or absent.

    ``path`` defaults to results.sqlite in the cache folder; ``Store(":memory:")`` keeps nothing.  Beyond
    ``most_bytes`` the rows written longest ago are forgotten.  A damaged file, or one of another schema version, is
    moved aside with a notice; one that cannot be written is still read, and what is new stays in memory: ``trouble``
    then holds the sentence for people.  Reading never waits for somebody's writing.  Thread-safe; several processes
    may use one file.
    """

    def __init__(self, path: str | Path | None = None, most_bytes: int = MOST_BYTES) -> None:
        self.path = Path(path) if path is not None else cache_folder() / "results.sqlite"
        self.most_bytes = most_bytes
        self.trouble: str | None = None
        self._shipped: dict[Key, Row] = {}
        self._memory: OrderedDict[Key, Row] = OrderedDict()
        self._opening = threading.RLock()
        self._inherited: list[_Link] = []
        self._reader: _Link | None = None
        self._writer: _Link | None = None
        if str(self.path) != ":memory:":
            self._open()

    def get(self, suite: str, recipe: str, task: str, split: str, precision: str = FLOAT32) -> Row | None:
        """The stored row, or the shipped one, or None."""
        key = (suite, recipe, task, split, precision)
        if (kept := self._memory.get(key)) is not None:
            return kept
        if (found := self._read(lambda connection: connection.execute(FIND, key).fetchone())) is None:
            return self._shipped.get(key)
        n, correct, bits, seconds = found
        return Row(n, correct, bits, float("nan") if seconds is None else seconds)

    def put(
        self, suite: str, recipe: str, task: str, split: str, right: np.ndarray, seconds: float,
        precision: str = FLOAT32,
    ) -> None:  # fmt: skip
        """Keeps a completed task: ``right`` is bool (n,) over the whole split, in the file's order."""
        key = (suite, recipe, task, split, precision)
        row = Row(len(right), int(right.sum()), np.packbits(right).tobytes(), seconds)
        if not self._write(lambda connection: self._put(connection, key, row)):
            self._memory[key] = row
            while len(self._memory) > MOST_IN_MEMORY:
                self._memory.popitem(last=False)

    def seed(self, path: str | Path, suite_hash: str) -> int:
        """Adds a shipped results file (kept in memory, the database stays as it is); returns the number of rows.

        A file for another version of the suite is left out with a notice.  Raises ExplorerError when it is damaged.
        """
        path = Path(path)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["suite_hash"] != suite_hash:
                notice(str(path), f"{path} was computed for another version of the suite and is not used.")
                return 0
            rows = dict(_shipped_rows(content))
        except (OSError, ValueError, KeyError, TypeError, ExplorerError) as fault:
            raise ExplorerError(f"{path} is damaged ({fault}); reinstall it or delete it.") from fault
        self._shipped.update(rows)
        return len(rows)

    def ship(self, rows: Mapping[Key, tuple[int, int, bytes]]) -> int:
        """Adds (n, correct, bits as in `Row`) of many keys, as `seed` does; returns their number.

        Raises ExplorerError, and adds nothing, when bits and counts disagree.
        """
        shipped = {key: _checked(key, Row(*row)) for key, row in rows.items()}
        self._shipped.update(shipped)
        return len(shipped)

    def __len__(self) -> int:
        """Rows kept, shipped ones not counted."""
        found = self._read(lambda connection: connection.execute(COUNT).fetchone())
        return len(self._memory) + (found[0] if found else 0)

    def close(self) -> None:
        """Closes the database; what is put afterwards stays in memory."""
        with self._opening:
            for link in filter(None, (self._reader, self._writer)):
                with link.lock:
                    link.connection.close()
            self._reader = self._writer = None

    def _put(self, connection: sqlite3.Connection, key: Key, row: Row) -> None:
        connection.execute(PUT, (*key, row.n, row.correct, row.bits, row.seconds))
        pages, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        if (pages - free) * size > self.most_bytes:
            connection.execute(FORGET, connection.execute(COUNT).fetchone())

    def _read(self, action: Callable[[sqlite3.Connection], Any]) -> Any:
        """The answer of the file, or None when there is none to read."""
        for _ in range(2):
            if (link := self._mine("_reader")) is None:
                return None
            try:
                return link.run(action)
            except sqlite3.DatabaseError as fault:
                _raise_mistake(fault)
                self._reopen(link)
        return None

    def _write(self, action: Callable[[sqlite3.Connection], Any]) -> bool:
        """Whether the file took it.  A full or failing disk ends the writing; a damaged file is opened anew."""
        for _ in range(2):
            if (link := self._mine("_writer")) is None:
                return False
            try:
                link.run(action)
                return True
            except sqlite3.OperationalError as fault:
                self._stop_writing(fault)
                return False
            except sqlite3.DatabaseError as fault:
                _raise_mistake(fault)
                self._reopen(link)
        return False

    def _mine(self, which: str) -> _Link | None:
        """This process's link; after a fork a new one, as closing the parent's would release the parent's locks."""
        link = getattr(self, which)
        if link is None or link.pid == os.getpid():
            return link
        with self._opening:
            self._inherited += filter(None, (self._reader, self._writer))
            self._open()
            return getattr(self, which)

    def _reopen(self, failed: _Link) -> None:
        with self._opening:
            if failed in (self._reader, self._writer):
                self._open()

    def _open(self) -> None:
        self._reader = self._writer = None
        for _ in range(2):
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._writer = _Link(_connect(self.path))
                self._reader = _Link(_connect(self.path, check=False))
                return
            except (OSError, sqlite3.OperationalError) as fault:
                self._stop_writing(fault)
                self._reader = _read_only(self.path)
                return
            except sqlite3.DatabaseError as fault:
                if (failed := self._move_aside(fault)) is not None:
                    self._stop_writing(failed)
                    return
        self._stop_writing("it was damaged twice")

    def _stop_writing(self, why: object) -> None:
        self._writer = None
        self.trouble = (
            f"Results cannot be kept in {self.path} ({why}); they are kept in memory only. Set "
            "LINES_EXPLORER_CACHE to a folder you may write to."
        )
        notice("store", self.trouble)

    def _move_aside(self, why: object) -> OSError | None:
        """Renames the file and its companions to a name that is free, whatever the clock says."""
        stamp = time.time_ns()
        while (aside := self.path.with_name(f"{self.path.name}.aside-{stamp}")).exists():
            stamp += 1
        try:
            for suffix in ("", "-wal", "-shm"):
                part = self.path.with_name(self.path.name + suffix)
                if part.exists():
                    part.rename(aside.with_name(aside.name + suffix))
        except OSError as fault:
            return fault
        notice(
            str(aside),
            f"The result store {self.path} cannot be used ({why}); it was moved to {aside.name} and a "
            "new one was begun.",
        )
        return None


def _connect(path: Path, check: bool = True) -> sqlite3.Connection:
    """An open database in autocommit mode: every row is written whole or not at all; ``check`` reads it through."""
    connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
    try:
        _use_wal(connection)
        connection.execute("PRAGMA synchronous=NORMAL")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError(f"its schema has version {version}, not {VERSION}")
        if check and (found := connection.execute("PRAGMA quick_check").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(found)
        connection.execute(SCHEMA)
        connection.execute(f"PRAGMA user_version={VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection


def _read_only(path: Path) -> _Link | None:
    """What can still be read of a file that cannot be written, for instance on a read-only disk."""
    for how in ("mode=ro", "immutable=1"):
        try:
            connection = sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True, check_same_thread=False)
            if connection.execute("PRAGMA user_version").fetchone()[0] == VERSION:
                connection.execute(COUNT)
                return _Link(connection)
        except sqlite3.Error:
            continue
    return None


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switches to WAL; SQLite answers "locked" at once while another process is switching, whatever the timeout."""
    for attempt in range(ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as fault:
            if "locked" not in str(fault) or attempt == ATTEMPTS - 1:
                raise
            time.sleep(0.05)


def _raise_mistake(fault: sqlite3.DatabaseError) -> None:
    """Raises the fault again when it is a mistake of the program, not of the file."""
    if isinstance(fault, sqlite3.ProgrammingError | sqlite3.IntegrityError):
        raise fault


def _shipped_rows(content: dict) -> Iterable[tuple[Key, Row]]:
    suite, split, precision = content["suite_hash"], content["split"], content["precision"]
    hashes: dict[str, str] = {}
    for row in content["rows"]:
        text = json.dumps(row["recipe"], sort_keys=True)
        if text not in hashes:
            hashes[text] = standard(Recipe.from_dict(row["recipe"])).hash()
        shipped = Row(int(row["n"]), int(row["correct"]), base64.b64decode(row["bits"]) if "bits" in row else None)
        key = (row.get("suite", suite), hashes[text], row["task"], split, precision)
        yield key, _checked(key, shipped)


def _checked(key: Key, row: Row) -> Row:
    """The row, unless its bits are not those of its counts."""
    if row.bits is not None and (len(row.bits) != (row.n + 7) // 8 or int(row.right().sum()) != row.correct):
        raise ExplorerError(f"the bits of {key[2]} are not {row.correct} right of {row.n}")
    return row
