"""Weights and data sets by name: from a mirror folder through the same calls, and clear refusals without a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pictures import SIZE, parquet, png

from lines_explorer.errors import ExplorerError
from lines_explorer.suites import hub, images
from lines_explorer.suites.sources import HubSource, open_source
from lines_explorer.suites.task import Data, Hub, Task

BIRDS = Task("birds", "Birds", "", "", ("robin", "wren"), ("a robin", "a wren"), ("{}",), {})


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder laid out as the hub's repositories are: parquet under data/, as ``push_to_hub`` writes it."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    monkeypatch.setenv("LINES_EXPLORER_HUB", str(tmp_path / "hub"))
    for split, count in (("train", 30), ("test", 5)):
        file = tmp_path / f"hub/somebody/birds/data/{split}-00000-of-00001.parquet"
        cells = [{"bytes": png(shade), "path": None} for shade in range(count)]
        parquet(file, cells, [shade % 2 for shade in range(count)], BIRDS.classes)
    return tmp_path / "hub"


def test_a_data_set_by_name(mirror: Path, fresh_cache: Path) -> None:
    source = open_source(Data(hub="somebody/birds", split="test"))
    assert source.names() == BIRDS.classes
    pixels, labels = images.cached_images(source, BIRDS, SIZE)
    assert labels.tolist() == [0, 1, 0, 1, 0] and pixels[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4]
    assert source.digest() == HubSource(Data(hub="somebody/birds", split="test")).digest()
    assert source.digest() != HubSource(Data(hub="somebody/birds", split="train")).digest()
    assert [name for name, _ in source.pictures([3])] == ["hub:somebody/birds/test: the image in row 3"]


def test_validation_held_out_of_train(mirror: Path, fresh_cache: Path) -> None:
    """A tenth of 30 rows, by the reference's permutation."""
    import torch

    source = open_source(Data(hub="somebody/birds", split="train", held_out=True))
    rows = [row for row in torch.utils.data.random_split(range(30), [27, 3], torch.Generator().manual_seed(0))[1]]
    pixels, labels = images.cached_images(source, BIRDS, SIZE)
    assert pixels[:, 0, 0, 0].tolist() == sorted(rows) and labels.tolist() == [row % 2 for row in sorted(rows)]
    assert source.digest() != HubSource(Data(hub="somebody/birds", split="train")).digest()


WRONG = {
    "split": (
        Data(hub="somebody/birds", split="dev"),
        'data set hub:somebody/birds/dev cannot be had.*Unknown split "dev"',
    ),
    "config": (
        Data(hub="somebody/birds", config="big", split="test"),
        "birds/big/test cannot be had .*'big' not found",
    ),
    "column": (Data(hub="somebody/birds", split="test", image="img"), "has no column img; it has image, label"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_a_data_set_has_not_is_named(mirror: Path, kind: str) -> None:
    data, message = WRONG[kind]
    with pytest.raises(ExplorerError, match=message):
        open_source(data).labels()


def test_weights_from_a_mirror(mirror: Path) -> None:
    folder = mirror / "somebody/model"
    folder.mkdir()
    with pytest.raises(ExplorerError, match="somebody/model holds no weights"):
        hub.snapshot(Hub("somebody/model"))
    (folder / "model.safetensors").write_bytes(b"x")
    assert hub.snapshot(Hub("somebody/model")) == folder
    assert hub.snapshot(Hub("somebody/model", file="model.safetensors")) == folder / "model.safetensors"
    with pytest.raises(ExplorerError, match="has no file other.pt"):
        hub.snapshot(Hub("somebody/model", file="other.pt"))


OFFLINE = """
import json
from lines_explorer.errors import ExplorerError
from lines_explorer.suites import hub
from lines_explorer.suites.task import Data, Hub
answers = {}
for name, work in {
    "data": lambda: hub.load_data(Data(hub="somebody/birds", split="test")),
    "missing": lambda: hub.snapshot(Hub("somebody/nothing", revision="main")),
    "model": lambda: hub.snapshot(Hub("somebody/model")),
    "pinned": lambda: hub.snapshot(Hub("somebody/model", revision="a" * 40)),
    "file": lambda: hub.snapshot(Hub("somebody/model", file="model.safetensors")),
}.items():
    try:
        answers[name] = str(work())
    except ExplorerError as error:
        answers[name] = f"refused: {error}"
print(json.dumps(answers))
"""


def test_offline_only_what_is_in_the_local_cache(tmp_path: Path) -> None:
    kept = tmp_path / "home/hub/models--somebody--model"
    (kept / "refs").mkdir(parents=True)
    (kept / "refs/main").write_text("a" * 40)
    snapshot = kept / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (snapshot / "model.safetensors").write_bytes(b"x")
    environment = {key: value for key, value in os.environ.items() if key != "LINES_EXPLORER_HUB"}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE], cwd=Path(__file__).resolve().parents[2], env=environment,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    answers = json.loads(done.stdout)
    remedy = "not in the local hub cache and HF_HUB_OFFLINE is set: unset it once to download"
    assert answers["data"].startswith("refused: The data set hub:somebody/birds/test is " + remedy)
    assert answers["missing"].startswith("refused: The model somebody/nothing at revision main is " + remedy)
    assert answers["model"] == answers["pinned"] == str(snapshot)
    assert answers["file"] == str(snapshot / "model.safetensors")
