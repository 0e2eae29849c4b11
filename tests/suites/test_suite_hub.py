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
def places():
    return [Hub("somebody/model"), Hub("somebody/nothing"), Data(hub="somebody/birds")]
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
answers["commits"] = [hub.commit_of(place) for place in places()]
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
    environment |= {"LINES_EXPLORER_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE], cwd=Path(__file__).resolve().parents[2], env=environment,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    answers = json.loads(done.stdout)
    remedy = "is not on this machine and HF_HUB_OFFLINE is set: unset it, or run `hf download somebody/"
    assert answers["data"].startswith("refused: The data set hub:somebody/birds/test " + remedy)
    assert "birds --repo-type dataset --local-dir HUB/somebody/birds` where there is a network" in answers["data"]
    assert answers["missing"].startswith("refused: The model somebody/nothing at revision main " + remedy)
    assert answers["missing"].endswith("bring the folder here and set LINES_EXPLORER_HUB=HUB.")
    assert answers["commits"] == ["a" * 40, None, None]
    assert answers["model"] == answers["pinned"] == str(snapshot)
    assert answers["file"] == str(snapshot / "model.safetensors")


def test_a_commit_is_noted_for_what_was_asked_for(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a download gives it: weights lie in snapshots/COMMIT, a data set's table under its commit."""
    import datasets
    import huggingface_hub

    class Rows:
        cache_files = [{"filename": f"datasets/somebody___birds/default/0.0.0/{'c' * 40}/birds-test.arrow"}]
        _fingerprint = "f"

    monkeypatch.delenv("LINES_EXPLORER_HUB", raising=False)
    place, birds = Hub("somebody/model", "v1"), Data(hub="somebody/birds", split="test")
    assert hub.commit_of(place) is None and hub.commit_of(birds) is None
    snapshot = fresh_cache / "models/snapshots" / ("b" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(b"x")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(snapshot))
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: Rows())
    assert hub.snapshot(place) == snapshot and hub.load_data(birds) is not None
    assert hub.commit_of(place) == "b" * 40 and hub.commit_of(birds) == "c" * 40
    assert hub.commit_of(Hub("somebody/model")) is None, "another revision is another commit"
    monkeypatch.setattr(Rows, "column_names", ["image", "label"], raising=False)
    unpinned, pinned = HubSource(birds), HubSource(Data(hub="somebody/birds", split="test", revision="c" * 40))
    assert unpinned.digest() == pinned.digest(), "results stay valid when the commit is written down"


def test_a_mirror_has_no_commits(mirror: Path) -> None:
    assert hub.commit_of(Data(hub="somebody/birds")) is None
