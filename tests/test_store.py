"""engine/store.py: rows are whole or absent, whatever happens to the process or the file."""

from __future__ import annotations

import json
import logging
import math
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from lines_explorer.engine import Store
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant, lines

RIGHT = np.arange(37) % 3 == 0
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def path(tmp_path: Path, fresh_cache: Path) -> Path:
    return tmp_path / "results.sqlite"


def test_a_row_comes_back_with_its_bits(path: Path) -> None:
    store = Store(path)
    assert store.get("s", "r", "t", "test") is None
    store.put("s", "r", "t", "test", RIGHT, 1.5)
    store.close()
    row = Store(path).get("s", "r", "t", "test")
    assert (row.n, row.correct, row.seconds) == (37, 13, 1.5)
    assert np.array_equal(row.right(), RIGHT)
    for other in (("S", "r", "t", "test"), ("s", "R", "t", "test"), ("s", "r", "T", "test"), ("s", "r", "t", "val")):
        assert Store(path).get(*other) is None
    assert Store(path).get("s", "r", "t", "test", precision="float16") is None


def test_the_default_place_is_the_cache_folder(fresh_cache: Path) -> None:
    Store().put("s", "r", "t", "test", RIGHT, 1.0)
    assert (fresh_cache / "results.sqlite").is_file()
    assert len(Store()) == 1


@pytest.mark.parametrize("damage", ["rubbish", "truncated", "other version", "flipped pages"])
def test_an_unusable_file_is_moved_aside(path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(path)
    for number in range(300):
        store.put("s", f"r{number}", "t", "test", RIGHT, 1.0)
    store.close()
    content = path.read_bytes()
    if damage == "other version":
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA user_version=99")
        connection.close()
    else:
        wrong = {"rubbish": b"rubbish " * 900, "truncated": content[: len(content) // 2]}
        path.write_bytes(wrong.get(damage, content[:4096] + b"\xa5" * (len(content) - 4096)))
    with caplog.at_level(logging.WARNING, "lines_explorer"):
        store = Store(path)
    assert "moved to results.sqlite.aside-" in caplog.text
    assert len(store) == 0
    store.put("s", "r", "t", "test", RIGHT, 1.0)
    assert len(Store(path)) == 1
    assert len([file for file in path.parent.glob("results.sqlite.aside-*") if not file.name.endswith("m")]) >= 1


def test_an_unwritable_place_means_memory_and_one_notice(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_text("a file where a folder should be")
    with caplog.at_level(logging.WARNING, "lines_explorer"):
        stores = [Store(path / "below" / "results.sqlite") for _ in range(2)]
    stores[0].put("s", "r", "t", "test", RIGHT, 1.0)
    assert stores[0].get("s", "r", "t", "test").correct == 13
    assert caplog.text.count("kept in memory only") == 1


def test_a_store_whose_disk_begins_to_fail_goes_on_in_memory(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(path)
    store._connection.execute("PRAGMA query_only=1")
    store.put("s", "r", "t", "test", RIGHT, 1.0)
    assert store.get("s", "r", "t", "test").n == 37
    assert "kept in memory only" in caplog.text


def test_threads_share_one_store(path: Path) -> None:
    store = Store(path)

    def write(thread: int) -> None:
        for number in range(20):
            store.put("s", f"r{thread}-{number}", "t", "test", RIGHT, 1.0)

    threads = [threading.Thread(target=write, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store) == 80


WRITER = """
import itertools, sys, numpy as np
from lines_explorer.engine.store import Store
store = Store(sys.argv[1])
print("open", flush=True)
for number in range(int(sys.argv[3])):
    right = np.random.default_rng(number).random(4001) < 0.5
    store.put("s", f"{sys.argv[2]}-{number}", "t", "test", right, 1.0)
"""


def writer(path: Path, name: str, rows: int) -> subprocess.Popen:
    command = [sys.executable, "-c", WRITER, str(path), name, str(rows)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})


def test_several_processes_open_and_write_at_once(path: Path) -> None:
    children = [writer(path, str(child), 30) for child in range(3)]
    assert [child.wait(300) for child in children] == [0, 0, 0]
    for child in children:
        child.stdout.close()
    assert len(Store(path)) == 90
    assert not list(path.parent.glob("*.aside-*"))


def test_a_killed_writer_leaves_whole_rows_only(path: Path) -> None:
    child = writer(path, "r", 10**9)
    child.stdout.readline()
    deadline = time.monotonic() + 120
    while (not path.exists() or len(Store(path)) < 5) and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait(30)
    child.stdout.close()
    store = Store(path)
    count = len(store)
    assert count >= 5
    for number in range(count):
        row = store.get("s", f"r-{number}", "t", "test")
        expected = np.random.default_rng(number).random(4001) < 0.5
        assert row.correct == expected.sum() and np.array_equal(row.right(), expected)
    assert not list(path.parent.glob("*.aside-*"))
    store.put("s", "after", "t", "test", RIGHT, 1.0)
    assert len(store) == count + 1


def shipped(path: Path, **changes: object) -> Path:
    recipes = [Recipe("tiny", ("a",), schedule=lines(1.0, 0.0)), Recipe.base("tiny")]
    rows = [
        {"recipe": recipe.as_dict(), "task": "a", "correct": 3 + number, "n": 9}
        for number, recipe in enumerate(recipes)
    ]
    content = {"suite_hash": "hash", "split": "validation", "precision": "float32", "rows": rows} | changes
    path.write_text(json.dumps(content))
    return path


def test_shipped_results_are_found_under_equal_recipes(path: Path, tmp_path: Path) -> None:
    store = Store(path)
    assert store.seed(shipped(tmp_path / "validation.json"), "hash") == 2
    row = store.get("hash", Recipe("tiny", ("a",), schedule=constant(1.0)).hash(), "a", "validation")
    assert (row.correct, row.n, row.bits) == (3, 9, None) and math.isnan(row.seconds)
    assert row.right() is None
    assert len(store) == 0


def test_shipped_results_of_another_version_are_left_out(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(path)
    assert store.seed(shipped(tmp_path / "validation.json"), "other") == 0
    assert "another version of the suite" in caplog.text
    assert store.get("other", Recipe.base("tiny").hash(), "a", "validation") is None


@pytest.mark.parametrize("changes", [{"rows": [{"task": "a"}]}, {"rows": [{"recipe": {"x": 1}, "task": "a"}]}])
def test_damaged_shipped_results_are_named(path: Path, tmp_path: Path, changes: dict) -> None:
    with pytest.raises(ExplorerError, match="validation.json is damaged"):
        Store(path).seed(shipped(tmp_path / "validation.json", **changes), "hash")
    (tmp_path / "validation.json").write_text("{")
    with pytest.raises(ExplorerError, match="validation.json is damaged"):
        Store(path).seed(tmp_path / "validation.json", "hash")
