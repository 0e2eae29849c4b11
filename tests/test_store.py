"""engine/store.py: rows are whole or absent, whatever happens to the process or the file."""

from __future__ import annotations

import json
import logging
import math
import multiprocessing
import signal
import sqlite3
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
    store._writer.connection.execute("PRAGMA query_only=1")
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


def write_rows(path: Path, name: str, rows: int) -> None:
    store = Store(path)
    for number in range(rows):
        store.put("s", f"{name}-{number}", "t", "test", np.random.default_rng(number).random(4001) < 0.5, 1.0)


def writer(path: Path, name: str, rows: int) -> multiprocessing.Process:
    child = multiprocessing.get_context("fork").Process(target=write_rows, args=(path, name, rows), daemon=True)
    child.start()
    return child


def test_several_processes_open_and_write_at_once(path: Path) -> None:
    children = [writer(path, str(child), 30) for child in range(3)]
    for child in children:
        child.join(300)
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert len(Store(path)) == 90
    assert not list(path.parent.glob("*.aside-*"))


def test_a_killed_writer_leaves_whole_rows_only(path: Path) -> None:
    child = writer(path, "r", 10**9)
    deadline = time.monotonic() + 120
    while (not path.exists() or len(Store(path)) < 5) and time.monotonic() < deadline:
        time.sleep(0.02)
    child.kill()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
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


def test_a_forked_process_uses_the_store_it_inherits(path: Path) -> None:
    store = Store(path)
    store.put("s", "before", "t", "test", RIGHT, 1.0)
    child = multiprocessing.get_context("fork").Process(
        target=lambda: store.put("s", "child", "t", "test", store.get("s", "before", "t", "test").right(), 1.0)
    )
    child.start()
    child.join(60)
    assert child.exitcode == 0 and store.get("s", "child", "t", "test").correct == 13


def test_reading_does_not_wait_for_a_writer(path: Path) -> None:
    store = Store(path)
    store.put("s", "r", "t", "test", RIGHT, 1.0)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = threading.Thread(target=lambda: store.put("s", "late", "t", "test", RIGHT, 1.0))
    waiting.start()
    time.sleep(0.1)
    assert store.get("s", "r", "t", "test").correct == 13 and store.get("s", "late", "t", "test") is None
    assert waiting.is_alive()
    other.execute("COMMIT")
    other.close()
    waiting.join(60)
    assert store.get("s", "late", "t", "test").correct == 13 and store.trouble is None


def test_the_rows_written_longest_ago_are_forgotten(path: Path) -> None:
    store = Store(path, most_bytes=200_000)
    for number in range(400):
        store.put("s", f"r{number}", "t", "test", np.ones(16_000, dtype=bool), 1.0)
    assert 20 < len(store) < 100 and path.stat().st_size < 400_000
    assert store.get("s", "r399", "t", "test") is not None and store.get("s", "r0", "t", "test") is None
    store.close()
    assert Store(path).get("s", "r399", "t", "test").n == 16_000


def test_a_full_disk_keeps_what_was_stored_and_the_rest_in_memory(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(path)
    store.put("s", "old", "t", "test", RIGHT, 1.0)
    pages = store._writer.connection.execute("PRAGMA page_count").fetchone()[0]
    store._writer.connection.execute(f"PRAGMA max_page_count={pages}")
    for number in range(30):
        store.put("s", f"r{number}", "t", "test", np.ones(40_000, dtype=bool), 1.0)
    assert "full" in store.trouble and caplog.text.count("kept in memory only") == 1
    assert [store.get("s", name, "t", "test").n for name in ("old", "r0", "r29")] == [37, 40_000, 40_000]
    assert len(store) == 31 and len(Store(path)) == 1


def test_a_read_only_disk_is_still_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(path).put("s", "old", "t", "test", RIGHT, 1.0)

    def refuse(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr("lines_explorer.engine.store._connect", refuse)
    store = Store(path)
    assert store.get("s", "old", "t", "test").correct == 13 and "readonly" in store.trouble
    store.put("s", "new", "t", "test", RIGHT, 1.0)
    assert store.get("s", "new", "t", "test").n == 37 and len(store) == 2


def test_a_clock_that_stands_still_loses_no_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 7)
    for content in (b"first" * 999, b"second" * 999):
        path.write_bytes(content)
        Store(path).close()
    aside = [path.with_name(f"results.sqlite.aside-{number}") for number in (7, 8)]
    assert [file.read_bytes()[:6] for file in aside] == [b"firstf", b"second"]


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
