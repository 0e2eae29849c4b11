"""`build-suite own`: folders of labelled pictures become tasks with experts beside the embedded ones."""

import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from lines_explorer.checkpoints import write_safetensors
from lines_explorer.engine import Engine, Store
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import lines
from lines_explorer.suites import Suite
from lines_explorer.training import assemble, expert, own


@pytest.fixture
def pictures(tmp_path):
    """FOLDER/balls/{red,blue}/*.png, 40 of each."""
    rng = np.random.default_rng(0)
    for name, channel in (("red", 0), ("blue", 2)):
        folder = tmp_path / "mine" / "balls" / name
        folder.mkdir(parents=True)
        for index in range(40):
            pixels = rng.integers(0, 80, (40, 50, 3), dtype=np.uint8)
            pixels[8:30, 10:40, channel] = 220
            Image.fromarray(pixels).save(folder / f"{index}.png")
    return tmp_path / "mine"


def test_reads_classes_splits_and_facts(pictures):
    (pictures / "balls/task.yaml").write_text("title: My balls\ntemplates: ['a {} ball']\nprompts: {red: crimson}\n")
    task = own.read_task(pictures / "balls")
    assert (task.title, task.classes, task.prompts, task.templates) == (
        "My balls",
        ["blue", "red"],
        ["blue", "crimson"],
        ["a {} ball"],
    )
    assert {picture.shape for picture in task.pixels} == {(32, 32, 3)}
    assert set(task.splits) == {"train", "validation", "test"} and len(task.labels) == 80
    assert task.splits == own.read_task(pictures / "balls").splits


def test_copies_of_a_picture_stay_in_one_split(pictures):
    for index in range(40):
        shutil.copy(pictures / f"balls/red/{index}.png", pictures / f"balls/red/copy{index}.png")
    task = own.read_task(pictures / "balls")
    where = {}
    for pixels, split in zip(task.pixels, task.splits, strict=True):
        assert where.setdefault(pixels.tobytes(), split) == split


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "balls/red/7.png").write_bytes(b"not a picture"), r"7\.png is no readable picture"),
        (lambda f: shutil.rmtree(f / "balls/red"), "at least two class folders"),
        (lambda f: [p.unlink() for p in (f / "balls/red").iterdir() if p.name != "1.png"], "red has too few pictures"),
        (lambda f: (f / "balls/task.yaml").write_text("templates: [a ball]"), "every template needs {}"),
        (lambda f: (f / "balls/task.yaml").write_text("tittle: Balls"), "holds tittle"),
        (lambda f: (f / "balls/task.yaml").write_text("{"), "is not YAML"),
    ],
)
def test_bad_folders_get_one_clear_sentence(pictures, spoil, message):
    spoil(pictures)
    with pytest.raises(ExplorerError, match=message):
        own.read_task(pictures / "balls")


def test_a_name_that_could_be_a_path_is_refused(pictures):
    (pictures / "balls").rename(pictures / "My Balls!")
    with pytest.raises(ExplorerError, match="lower-case letters"):
        own.read_task(pictures / "My Balls!")


def test_a_whole_suite(pictures, tiny_suite_folder, tmp_path, monkeypatch):
    embedded = tmp_path / "embedded"
    shutil.copytree(tiny_suite_folder, embedded)
    suite = Suite(embedded)
    width = suite.head(next(iter(suite.tasks))).shape[1]
    space = {"mean": torch.zeros(384), "matrix": torch.randn(384, width, generator=torch.Generator().manual_seed(0))}
    write_safetensors(embedded / "text_space.safetensors", space, {})
    monkeypatch.setattr(own, "open_suite", lambda name: suite)

    def sentences(texts):
        return torch.stack([torch.randn(384, generator=torch.Generator().manual_seed(hash(t) % 2**31)) for t in texts])

    monkeypatch.setattr(assemble, "sentence_vectors", sentences)
    out = tmp_path / "suite"
    own.build_own(pictures, out, expert.Recipe(steps=30, batch=16, rate=1e-3))

    made = Suite(out)
    assert made.verify() == []
    assert set(made.tasks) == {*suite.tasks, "balls"} == set(made.experts)
    engine = Engine(made, "cpu", Store(tmp_path / "store.sqlite"))
    edited = engine.evaluate(Recipe(made.name, ("balls",), schedule=lines(0.2, 0.8)))
    assert edited.complete and edited.scores["balls"].n > 0
    before = (out / "experts/balls.safetensors").read_bytes()
    own.build_own(pictures, out, expert.Recipe(steps=30, batch=16, rate=1e-3))
    assert (out / "experts/balls.safetensors").read_bytes() == before, "a second run keeps what is done"
    for index in range(20):
        shutil.copy(pictures / f"balls/red/{index}.png", pictures / f"balls/blue/wrong{index}.png")
    own.build_own(pictures, out, expert.Recipe(steps=30, batch=16, rate=1e-3))
    assert (out / "experts/balls.safetensors").read_bytes() != before, "other pictures make another expert"
    assert Suite(out).verify() == []
