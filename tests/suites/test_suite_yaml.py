"""suite.yaml: everything that can be wrong in it gets one sentence with the file, the key's path and the remedy."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lines_explorer.errors import ExplorerError
from lines_explorer.suites import schema
from lines_explorer.suites.task import Data, Hub, read_description

GOOD: dict[str, Any] = {
    "name": "mine",
    "title": "My pictures",
    "base": {"architecture": "ViT-B-32", "activation": "quickgelu", "weights": "base.pt"},
    "experts": {"birds": "experts/birds", "cats": {"hub": "somebody/cats", "revision": "abc"}},
    "tasks": {
        "birds": {
            "classes": ["robin", "wren"],
            "splits": {"validation": "birds/validation.parquet", "test": {"hub": "somebody/birds", "label": "kind"}},
            "shifts": {"drawn": {"title": "Drawings", "data": {"parquet": ["drawn/a.parquet", "drawn/b.parquet"]}}},
        },
        "cats": {"prompts": ["a cat", "a lynx"], "head": "heads/cats.pt", "splits": {"train": {"folder": "cats"}}},
    },
}
Change = Callable[[dict[str, Any]], object]


def written(folder: Path, content: object) -> Path:
    text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
    (folder / "suite.yaml").write_text(text, encoding="utf-8")
    return folder


def test_a_good_one_is_read(tmp_path: Path) -> None:
    found = read_description(written(tmp_path, GOOD))
    birds, cats = found.tasks["birds"], found.tasks["cats"]
    assert found.experts == {"birds": tmp_path / "experts/birds", "cats": Hub("somebody/cats", "abc")}
    assert birds.splits["validation"] == tmp_path / "birds/validation.parquet"
    assert birds.splits["test"] == Data(hub="somebody/birds", split="test", label="kind")
    assert birds.splits["drawn"] == Data(parquet=(tmp_path / "drawn/a.parquet", tmp_path / "drawn/b.parquet"))
    assert (birds.prompts, birds.templates, birds.names_known) == (("robin", "wren"), ("a photo of a {}.",), True)
    assert cats.splits == {"validation": Data(folder=tmp_path / "cats", held_out=True)}
    assert (cats.classes, cats.names_known) == (("a cat", "a lynx"), False)


def test_class_names_come_from_the_folders_of_pictures(tmp_path: Path) -> None:
    for name in ("wren_bird", "robin"):
        (tmp_path / "birds" / name).mkdir(parents=True)
        (tmp_path / "birds" / name / "1.png").write_bytes(b"not looked at")
    content = copy.deepcopy(GOOD)
    content["tasks"]["birds"] = {"splits": {"test": "birds"}}
    birds = read_description(written(tmp_path, content)).tasks["birds"]
    assert (birds.classes, birds.prompts) == (("robin", "wren_bird"), ("robin", "wren bird"))
    assert birds.splits == {"test": Data(folder=tmp_path / "birds")}


def birds(content: dict[str, Any]) -> dict[str, Any]:
    return content["tasks"]["birds"]


WRONG: dict[str, tuple[Change, str]] = {
    "unknown key": (lambda c: c.update(expert={}), r"field expert is unknown; did you mean experts\?$"),
    "unknown nested key": (lambda c: birds(c).update(clases=["x"]), "tasks.birds.clases is unknown; did you mean cl"),
    "nothing like it": (lambda c: c["base"].update(zzz=1), "base.zzz is unknown; known are architecture, config"),
    "missing": (lambda c: c.pop("title"), "title is missing: what the page calls the suite"),
    "missing nested": (lambda c: c["base"].pop("weights"), "base.weights is missing: checkpoint"),
    "number for text": (lambda c: c.update(name=3), "name must be a non-empty text, got 3; write it in quotes"),
    "truth for class": (
        lambda c: birds(c).update(classes=[True, "wren"]),
        r"classes.0 must be a text, got True; .*quo",
    ),
    "list for mapping": (lambda c: c.update(tasks=[1]), "tasks must be a non-empty mapping"),
    "text for list": (lambda c: birds(c).update(classes="robin"), "classes must be a non-empty list of texts"),
    "empty list": (lambda c: birds(c).update(templates=[]), "templates must be a non-empty list"),
    "bad activation": (lambda c: c["base"].update(activation="relu"), "one of gelu, quickgelu, got relu"),
    "two means": (lambda c: c["base"].update(preprocess={"mean": [0, 0], "std": [1, 1, 1]}), "list of 3 numbers"),
    "prompt count": (lambda c: birds(c).update(prompts=["x"]), "tasks.birds has 2 classes and 1 prompts"),
    "class twice": (lambda c: birds(c).update(classes=["wren", "wren"]), "classes has wren twice"),
    "template without {}": (lambda c: birds(c).update(templates=["a bird"]), r"templates.0 needs \{\} once"),
    "expert without task": (lambda c: c["tasks"].pop("cats"), "experts without a task of the same name: cats"),
    "unknown split": (lambda c: birds(c)["splits"].update(val="x.parquet"), "splits.val is unknown; splits are train"),
    "two places": (lambda c: birds(c)["splits"].update(test={"hub": "a/b", "folder": "x"}), "exactly one of folder"),
    "no place": (lambda c: birds(c)["splits"].update(test={"label": "x"}), "exactly one of .*got none"),
    "split and shift": (lambda c: birds(c)["shifts"].update(test={"file": "x.parquet"}), "both as a split and as a sh"),
    "not a hub name": (lambda c: c["experts"].update(cats={"hub": "../../etc"}), "experts.cats.hub is .* OWNER/NAME"),
    "slash in a name": (lambda c: c["tasks"].update({"../x": birds(c)}), "a name has no /"),
    "outside, weights": (lambda c: c["base"].update(weights="../x.pt"), "base.weights is ../x.pt, .*outside the suite"),
    "outside, absolute": (
        lambda c: c["experts"].update(birds="/etc/passwd"),
        "experts.birds is /etc/passwd, .*LINES_E",
    ),
    "outside, data": (lambda c: birds(c)["splits"].update(test={"folder": "a/../../b"}), "test.folder is .*outside"),
    "outside, head": (lambda c: birds(c).update(head="~/head.pt"), "tasks.birds.head is .*outside"),
    "outside, on the hub": (
        lambda c: c["experts"]["cats"].update(file="../x.pt"),
        "cats.file is .*not a file of the re",
    ),
    "no path": (lambda c: c["base"].update(weights="a\0b"), "base.weights is .*which is no path"),
    "no file matches": (lambda c: birds(c)["splits"].update(test={"parquet": "no*.parquet"}), "which no file matches"),
    "names unknown": (
        lambda c: c["tasks"].update(birds={"splits": {"test": {"hub": "a/b"}}}),
        "tasks.birds.classes is missing: .*list them",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_is_named(tmp_path: Path, kind: str) -> None:
    change, message = WRONG[kind]
    content = copy.deepcopy(GOOD)
    change(content)
    with pytest.raises(ExplorerError, match=message) as caught:
        read_description(written(tmp_path, content))
    assert str(tmp_path / "suite.yaml") in str(caught.value) and "\n" not in str(caught.value)


DAMAGED = {
    "a: [": "is damaged: .*line 1",
    "a: 1\nb:\n  c: 1\n  c: 2\n": "the key c is written twice .line 4",
    "- a": "must be a mapping with name, title",
    "": "must be a mapping",
    "a: !!python/object/apply:os.system ['true']": "is damaged",
    "a: &x [*x]\nname: [*x]": "is unknown|is damaged",
    "[" * 5000: "is damaged",
    "name: \x00": "is damaged",
}


@pytest.mark.parametrize("text", DAMAGED)
def test_damaged_files_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ExplorerError, match=DAMAGED[text]) as caught:
        read_description(written(tmp_path, text))
    assert len(str(caught.value)) < 600


def test_an_alias_bomb_costs_nothing(tmp_path: Path) -> None:
    rows = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    with pytest.raises(ExplorerError, match="a0 is unknown"):
        read_description(written(tmp_path, "\n".join(rows)))
    bomb = "\n".join(["x:"] + [f" - &b{n} [*b{n - 1}, *b{n - 1}]" if n else " - &b0 [x]" for n in range(60)])
    with pytest.raises(ExplorerError, match="x is unknown"):
        read_description(written(tmp_path, bomb))


def test_a_user_may_allow_a_folder_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = tmp_path / "mine", tmp_path / "checkpoints"
    mine.mkdir()
    content = copy.deepcopy(GOOD) | {"text": str(other / "text.safetensors")}
    with pytest.raises(ExplorerError, match="LINES_EXPLORER_DATA"):
        read_description(written(mine, content))
    monkeypatch.setenv("LINES_EXPLORER_DATA", str(other))
    assert read_description(mine).text == other / "text.safetensors"


def test_a_link_does_not_lead_outside(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "base.pt").symlink_to(tmp_path / "secret")
    with pytest.raises(ExplorerError, match="base.weights is base.pt, which lies outside"):
        read_description(written(tmp_path / "mine", GOOD))


def test_the_shipped_schema_is_the_validators() -> None:
    shipped = json.loads(Path(schema.__file__).with_name("suite.schema.json").read_text(encoding="utf-8"))
    assert shipped == schema.suite_schema()
    assert set(shipped["properties"]) == set(schema.SUITE.fields)
    task = shipped["properties"]["tasks"]["additionalProperties"]
    assert set(task["properties"]) == set(schema.TASK.fields) and task["additionalProperties"] is False
    assert {"oneOf", "properties"} <= set(schema.DATA.json_schema()["anyOf"][1])


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
PATHS = [
    ("base",),
    ("experts", "birds"),
    ("tasks", "birds"),
    ("tasks", "birds", "splits"),
    ("tasks", "birds", "shifts"),
]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    junk=JUNK, path=st.sampled_from(PATHS), key=st.text(min_size=1, max_size=6) | st.sampled_from(["weights", "test"])
)
def test_junk_is_read_or_refused_in_one_sentence(tmp_path: Path, junk: Any, path: tuple[str, ...], key: str) -> None:
    content: Any = copy.deepcopy(GOOD)
    place = content
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = {key: junk} if isinstance(place[path[-1]], str) else {**place[path[-1]], key: junk}
    try:
        read_description(written(tmp_path, content))
    except ExplorerError as error:
        assert str(tmp_path) in str(error) and len(str(error)) < 2000
