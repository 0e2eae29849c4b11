"""The embedded suite as committed: every file what the manifest says, nothing in two splits, words and labels agree."""

import io
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image

from lines_explorer.checkpoints import metadata, read_safetensors
from lines_explorer.suites import open_suite
from lines_explorer.training.data import TASKS, short_hash
from lines_explorer.training.sources import pins

ASSETS = Path(__file__).resolve().parents[1] / "assets"
POCKET = ASSETS / "pocket"
LIMIT = 10_000_000


@pytest.fixture(scope="module")
def suite():
    return open_suite("pocket")


@pytest.fixture(scope="module")
def tables():
    """Every parquet file as pyarrow table, by (task, split)."""
    files = sorted(POCKET.glob("tasks/*/*.parquet"))
    return {(file.parent.name, file.stem): pyarrow.parquet.read_table(file) for file in files}


def test_every_file_is_what_the_manifest_says(suite):
    assert suite.verify() == []
    listed = set(json.loads((POCKET / "manifest.json").read_text())["files"])
    there = {path.relative_to(POCKET).as_posix() for path in POCKET.rglob("*") if path.is_file()}
    assert there - {"manifest.json"} == listed


def test_every_file_is_small_enough_for_a_space():
    assert [path for path in ASSETS.rglob("*") if path.is_file() and path.stat().st_size >= LIMIT] == []


def test_the_suite_has_its_tasks_and_experts(suite):
    assert tuple(suite.tasks) == TASKS == tuple(suite.experts)
    assert {task: set(suite.tasks[task].shifts) for task in TASKS if suite.tasks[task].shifts} == {
        "digits": {"uci"},
        "emoji": {"renders", "clipart"},
        "flags": {"round"},
    }


def test_datasets_opens_every_split_with_the_suites_classes(suite, tables):
    import datasets

    for task, split in tables:
        opened = datasets.Dataset.from_parquet(str(POCKET / f"tasks/{task}/{split}.parquet"), keep_in_memory=True)
        assert isinstance(opened.features["image"], datasets.Image)
        assert opened.features["label"].names == list(suite.tasks[task].classes), (task, split)
    picture = opened[0]["image"]
    assert picture.size == (32, 32)


def test_prompts_and_text_vectors_agree_with_the_classes(suite):
    text = read_safetensors(POCKET / "text.safetensors")
    for name, task in suite.tasks.items():
        assert len(task.classes) == len(set(task.classes)) == len(task.prompts) == len(set(task.prompts)), name
        assert task.templates and all(template.count("{}") == 1 for template in task.templates), name
        assert tuple(text[name].shape[:2]) == (len(task.classes), len(task.templates)), name
        assert np.allclose(text[name].norm(dim=-1), 1, atol=1e-5), name


def test_each_prompt_speaks_of_its_own_class(suite):
    """Order: a class and its prompt share a word (a digit and its name count as one)."""
    numbers = dict(zip("0123456789", "zero one two three four five six seven eight nine".split(), strict=True))

    def words(text: str) -> set[str]:
        return {word.rstrip("s") for word in re.findall(r"[a-z0-9]+", text.lower())}

    for name, task in suite.tasks.items():
        own = [bool(words(numbers.get(c, c)) & words(p)) for c, p in zip(task.classes, task.prompts, strict=True)]
        assert np.mean(own) > 0.75, (name, [task.classes[i] for i, fits in enumerate(own) if not fits])


def test_every_class_is_in_validation_and_test(suite, tables):
    for task, split in itertools.product(TASKS, ("validation", "test")):
        labels = np.array(tables[task, split]["label"])
        counts = np.bincount(labels, minlength=len(suite.tasks[task].classes))
        assert counts.min() >= 2, (task, split, suite.tasks[task].classes[int(counts.argmin())])


def test_no_item_and_no_picture_is_in_two_splits(tables):
    training = json.loads((POCKET / "training_fingerprints.json").read_text())
    for task in TASKS:
        items = {"train": set(training[task]["items"].split())}
        pixels = {"train": set(training[task]["pixels"].split())}
        for split in ("validation", "test"):
            table = tables[task, split]
            items[split] = {short_hash(item.encode()) for item in table["item"].to_pylist()}
            pixels[split] = {_fingerprint(row["bytes"]) for row in table["image"].to_pylist()}
        for kind in (items, pixels):
            assert all(kind.values()), task
            for first, second in itertools.combinations(kind, 2):
                assert not kind[first] & kind[second], (task, first, second)


def _fingerprint(png: bytes) -> str:
    with Image.open(io.BytesIO(png)) as picture:
        return short_hash(np.asarray(picture.convert("RGB"), dtype=np.uint8).tobytes())


def test_experts_were_made_for_this_base_by_one_recipe(suite):
    log = {task: _training_log(task) for task in TASKS}
    recipes = {json.dumps(log[task]["recipe"]) for task in TASKS}
    assert len(recipes) == 1
    for task in TASKS:
        facts = metadata(POCKET / f"experts/{task}.safetensors")
        assert facts["base_sha256"] == suite.base_sha256 == log[task]["base_sha256"]


def _training_log(task: str) -> dict:
    return json.loads((POCKET / f"experts/{task}.json").read_text())


def _shipped(split: str) -> dict[tuple[tuple[str, ...], str], tuple[int, int]]:
    """Base and unedited experts of a results file: (merged tasks, scored task) → (correct, n)."""
    rows = json.loads((POCKET / f"results/{split}.json").read_text())["rows"]
    plain = [row for row in rows if not row["recipe"]["tasks"] or _is_expert(row["recipe"])]
    return {(tuple(row["recipe"]["tasks"]), row["task"]): (row["correct"], row["n"]) for row in plain}


def _is_expert(recipe: dict) -> bool:
    schedule = recipe["schedule"]
    return len(recipe["tasks"]) == 1 and schedule.get("alpha") == 1 and not schedule.get("beta")


@pytest.mark.parametrize("split", ["validation", "test"])
def test_half_precision_deltas_change_no_expert_by_a_tenth_of_a_point(split):
    shipped = _shipped(split)
    for task in TASKS:
        correct, n = shipped[(task,), task]
        assert abs(correct / n - _training_log(task)["float32_accuracy"][split]) < 1e-3, task


def test_the_notice_names_every_source():
    notice = (ASSETS / "NOTICE.md").read_text(encoding="utf-8").lower()
    for kind, name in pins():
        if kind in ("apt", "apt-source") and name.startswith("fonts-"):
            assert name in notice, name
    for word in (
        "fashion",
        "mnist",
        "animal",
        "blue marble",
        "köppen",
        "sweet home",
        "crawl",
        "openclipart",
        "fluent",
        "twemoji",
    ):
        assert word in notice, word


def test_the_card_shows_the_shipped_numbers(suite):
    card = (POCKET / "CARD.md").read_text(encoding="utf-8")
    for split in ("validation", "test"):
        shipped = _shipped(split)
        section = card.split(f"## {split.capitalize()} accuracy")[1].split("\n## ")[0]
        for task in TASKS:
            row = next(line for line in section.splitlines() if line.startswith(f"| {suite.tasks[task].title} |"))
            for who in ((), (task,)):
                correct, n = shipped[who, task]
                assert f"{100 * (correct / n):.1f} %" in row, (split, task, who)
