"""bench --opening, at a small size: real files, each way in a process of its own, the figures it promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from lines_explorer.cli import main
from lines_explorer.commands import opening
from lines_explorer.errors import ExplorerError
from lines_explorer.suites import open_suite

WIDTH, EXPERTS = 96, 4


def test_shapes_are_those_of_the_references_files() -> None:
    shapes = opening._shapes(768)
    assert (len(shapes), sum(map(opening._numel, shapes.values()))) == (158, 113_448_705)
    visual = [shape for name, shape in shapes.items() if name.startswith("visual.")]
    assert (len(visual), sum(map(opening._numel, visual))) == (152, 87_849_216)


def test_opening_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "files"
    arguments = ["--opening", str(folder), "--experts", str(EXPERTS), "--width", str(WIDTH), "--repeats", "1"]
    assert main(["bench", *arguments, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    files = [folder / "base.pt", *folder.glob("experts/*.pt")]
    assert len(files) == EXPERTS + 1
    assert data["bytes"] <= sum(file.stat().st_size for file in files) < 1.01 * data["bytes"] + 100_000 * len(files)
    ways = data["ways"]
    assert list(ways) == list(opening.WAYS) and all(row["seconds"] >= 0 for row in ways.values())
    assert ways["torch.load"]["above_imports"] > 0.8 * data["bytes"], "it holds every file"
    assert ways["torch.load, merged"]["peak"] > ways["torch.load"]["peak"] > ways["imports"]["peak"] > 1e8
    assert data["memory_ratio_merged"] == pytest.approx(
        ways["suite, merged"]["above_imports"] / ways["torch.load, merged"]["above_imports"]
    )
    before = {file: file.stat().st_mtime_ns for file in files}
    assert opening.write_files(folder, EXPERTS, WIDTH) == data["bytes"]
    assert {file: file.stat().st_mtime_ns for file in files} == before, "what is there is used again"
    suite = open_suite(folder)
    assert suite.memory_bill().total < data["bytes"], "the frozen text part is not held"
    found, stored = suite.expert("02"), torch.load(folder / "experts/02.pt", weights_only=True)
    assert all(torch.equal(tensor, stored[f"model.{name}"]) for name, tensor in found.items())


def test_what_cannot_be_measured_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ExplorerError, match="holds something else: name an empty or a new folder"):
        opening.opening(tmp_path, 1, WIDTH)
    with pytest.raises(ExplorerError, match="multiple of 24"):
        opening.opening(tmp_path / "new", 1, 100)
    with pytest.raises(ExplorerError, match="GB free, but the files take"):
        opening.opening(tmp_path / "new", 10_000_000, WIDTH)
    monkeypatch.setattr(opening, "peak_bytes", lambda: None)
    with pytest.raises(ExplorerError, match="does not count"):
        opening.opening(tmp_path / "new", 1, WIDTH)
