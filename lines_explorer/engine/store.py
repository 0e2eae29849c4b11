"""Counts that were evaluated once, kept in SQLite: safe for several processes and for a killed one."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lines_explorer.engine.results import PRECISION
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.suites.cache import cache_folder, notice

VERSION = 1
ATTEMPTS = 100
SCHEMA = """CREATE TABLE IF NOT EXISTS results (
    suite TEXT NOT NULL, recipe TEXT NOT NULL, task TEXT NOT NULL, split TEXT NOT NULL, precision TEXT NOT NULL,
    n INTEGER NOT NULL, correct INTEGER NOT NULL, bits BLOB, seconds REAL,
    PRIMARY KEY (suite, recipe, task, split, precision)) WITHOUT ROWID"""
FIND = "SELECT n, correct, bits, seconds FROM results WHERE suite=? AND recipe=? AND task=? AND split=? AND precision=?"
PUT = "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"

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


class Store:
    """Results by (suite hash, recipe hash, task, split, precision), each row whole or absent.

    ``path`` defaults to results.sqlite in the cache folder; ``Store(":memory:")`` keeps nothing.  A file that cannot
    be written is replaced by memory, a damaged one or one of another schema version is moved aside; both with a notice.
    Thread-safe; several processes may use one file.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path is not None else cache_folder() / "results.sqlite"
        self._lock = threading.RLock()
        self._shipped: dict[Key, Row] = {}
        self._pid = os.getpid()
        self._inherited: list[sqlite3.Connection] = []
        self._connection = self._open()

    def get(self, suite: str, recipe: str, task: str, split: str, precision: str = PRECISION) -> Row | None:
        """The stored row, or the shipped one, or None."""
        key = (suite, recipe, task, split, precision)
        with self._lock:
            found = self._execute(lambda connection: connection.execute(FIND, key).fetchone())
        if found is None:
            return self._shipped.get(key)
        n, correct, bits, seconds = found
        return Row(n, correct, bits, float("nan") if seconds is None else seconds)

    def put(
        self, suite: str, recipe: str, task: str, split: str, right: np.ndarray, seconds: float,
        precision: str = PRECISION,
    ) -> None:  # fmt: skip
        """Keeps a completed task: ``right`` is bool (n,) over the whole split, in the file's order."""
        row = (
            suite,
            recipe,
            task,
            split,
            precision,
            len(right),
            int(right.sum()),
            np.packbits(right).tobytes(),
            seconds,
        )
        with self._lock:
            self._execute(lambda connection: connection.execute(PUT, row))

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
        with self._lock:
            self._shipped.update(rows)
        return len(rows)

    def __len__(self) -> int:
        """Rows in the database, shipped ones not counted."""
        with self._lock:
            return self._execute(lambda connection: connection.execute("SELECT COUNT(*) FROM results").fetchone()[0])

    def close(self) -> None:
        """Closes the database; the store cannot be used afterwards."""
        with self._lock:
            self._connection.close()

    def _execute(self, action):
        """Runs ``action`` on the connection; once more on a fresh one after a fault, a fork or a failing disk."""
        if self._pid != os.getpid():
            self._inherited.append(self._connection)  # closing it here would release the parent's locks
            self._pid, self._connection = os.getpid(), self._open()
        try:
            return action(self._connection)
        except sqlite3.DatabaseError as fault:
            if isinstance(fault, sqlite3.ProgrammingError | sqlite3.IntegrityError):
                raise
            self._connection.close()
            self._connection = self._in_memory(fault) if _cannot_write(fault) else self._open()
            return action(self._connection)

    def _open(self) -> sqlite3.Connection:
        if str(self.path) == ":memory:":
            return _connect(":memory:")
        for _ in range(2):
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                return _connect(self.path)
            except (OSError, sqlite3.OperationalError) as fault:
                return self._in_memory(fault)
            except sqlite3.DatabaseError as fault:
                if (failed := self._move_aside(fault)) is not None:
                    return self._in_memory(failed)
        return self._in_memory("it was damaged twice")

    def _in_memory(self, why: object) -> sqlite3.Connection:
        notice(
            "store",
            f"Results cannot be kept in {self.path} ({why}); they are kept in memory only. Set "
            "LINES_EXPLORER_CACHE to a folder you may write to.",
        )
        return _connect(":memory:")

    def _move_aside(self, why: object) -> OSError | None:
        aside = self.path.with_name(f"{self.path.name}.aside-{time.time_ns()}")
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


def _connect(path: str | Path) -> sqlite3.Connection:
    """An open, checked database in autocommit mode: every row is written whole or not at all."""
    connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
    try:
        _use_wal(connection)
        connection.execute("PRAGMA synchronous=NORMAL")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError(f"its schema has version {version}, not {VERSION}")
        if (found := connection.execute("PRAGMA quick_check").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(found)
        connection.execute(SCHEMA)
        connection.execute(f"PRAGMA user_version={VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection


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


def _cannot_write(fault: sqlite3.DatabaseError) -> bool:
    return isinstance(fault, sqlite3.OperationalError)


def _shipped_rows(content: dict) -> Iterable[tuple[Key, Row]]:
    suite, split, precision = content["suite_hash"], content["split"], content["precision"]
    hashes: dict[str, str] = {}
    for row in content["rows"]:
        text = json.dumps(row["recipe"], sort_keys=True)
        if text not in hashes:
            hashes[text] = Recipe.from_dict(row["recipe"]).hash()
        yield (suite, hashes[text], row["task"], split, precision), Row(int(row["n"]), int(row["correct"]))
