"""Merged models to download: whole, the ones that were scored, few at a time, and only where the operator allows it."""

from __future__ import annotations

import errno
import json
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lines_explorer.checkpoints import read_safetensors
from lines_explorer.commands import export
from lines_explorer.engine import Engine
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import lines
from lines_explorer.ui import downloads as module
from lines_explorer.ui import layout, serving, texts
from lines_explorer.ui.downloads import MOST, Downloads
from lines_explorer.ui.handlers import Desk
from lines_explorer.ui.view import Catalogue

VIEW = Catalogue(("shapes", "colours", "places"), ("sum", "average"), 3).default()


@pytest.fixture
def files(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Downloads:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "handed out"))
    return Downloads(desk)


@pytest.fixture
def merges(monkeypatch: pytest.MonkeyPatch) -> list[Recipe]:
    """The recipes that were written."""
    written, merge = [], export.merge
    monkeypatch.setattr(
        export, "merge", lambda engine, recipe, out: written.append(recipe) or merge(engine, recipe, out)
    )
    return written


def edit(alpha: float) -> Recipe:
    return Recipe("tiny", ("shapes",), schedule=lines(alpha, 1 - alpha))


def test_the_file_holds_the_model_of_the_view(files: Downloads, ask: Callable, engine: Engine, tmp_path: Path) -> None:
    answer = files.model(ask(VIEW))
    path = Path(answer["path"])
    assert path.is_relative_to(tmp_path / "handed out") and path.name == answer["name"]
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        file.extractall(tmp_path)
    folder = tmp_path / path.stem
    assert {"README.md", export.WEIGHTS, export.CONFIG, export.HEADS} <= {part.name for part in folder.iterdir()}
    with engine.lock:
        engine.backend.load(edit(0.3))
        expected = engine.backend.state_dict()
    found = read_safetensors(folder / export.WEIGHTS)
    assert all(found[key].equal(tensor) for key, tensor in expected.items())
    assert [part.name for part in path.parent.iterdir()] == [path.name], "nothing else is left"


def test_one_file_for_all_who_ask_at_once(files: Downloads, merges: list[Recipe]) -> None:
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(files.zipped(edit(0.4)))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and len(found) == 6 and len(merges) == 1
    found[0].unlink()
    assert files.zipped(edit(0.4)).exists() and len(merges) == 2


def test_no_more_than_some_are_kept(files: Downloads) -> None:
    paths = [files.zipped(edit(0.1 * number)) for number in range(MOST)]
    files.zipped(edit(0.0))
    newest = files.zipped(edit(0.9))
    assert [path.exists() for path in paths] == [True, False, *[True] * (MOST - 2)] and newest.exists()


def test_a_full_disk_is_a_sentence_and_leaves_nothing(files: Downloads, ask: Callable, monkeypatch, tmp_path) -> None:
    class Full(zipfile.ZipFile):
        def write(self, *_, **__):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module.zipfile, "ZipFile", Full)
    assert "No space left on device" in files.model(ask(VIEW))["error"]
    monkeypatch.undo()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_bad_requests_are_sentences(files: Downloads, ask: Callable) -> None:
    for request in (None, 5, {}, ask(VIEW) | {"view": {"mode": "../../etc"}}, ask(VIEW) | {"tab": None}):
        assert set(files.model(request)) == {"error"}
    assert not list(files._kept)


def test_only_where_the_operator_allows_it(desk: Desk, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(layout.boot(desk, downloads=True))["downloads"] is True
    assert json.loads(layout.boot(desk))["downloads"] is False

    def offered(page) -> bool:
        return any(hasattr(block, "model") for block in page.blocks.values())

    asked = [layout.build_page(engine, downloads=allowed) for allowed in (False, True)]
    assert [offered(page) for page in asked] == [False, True]


@pytest.mark.parametrize(
    ("host", "said", "allowed"),
    [
        ("127.0.0.1", None, True), ("localhost", None, True), ("::1", None, True), ("127.0.0.1", False, False),
        ("0.0.0.0", None, False), ("0.0.0.0", True, True), ("192.168.1.7", None, False), ("some.host", None, False),
    ],
)  # fmt: skip
def test_a_page_for_this_machine_alone_allows_it(host, said, allowed, tiny_suite_folder, monkeypatch) -> None:
    class BuiltError(Exception):
        pass

    built = []

    def build(engine, root, downloads):
        built.append(downloads)
        raise BuiltError

    monkeypatch.setattr(layout, "build_page", build)
    monkeypatch.setattr(serving, "check_port", lambda host, port: port)
    with pytest.raises(BuiltError):
        serving.serve(str(tiny_suite_folder), host=host, port=0, downloads=said)
    assert built == [allowed]
    assert texts.BUTTONS["model"]
