"""sweep: what a SPEC.yaml means, what is refused with which words, and that it continues from the store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import yaml

from lines_explorer.commands import sweeping
from lines_explorer.engine import Engine, Store
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import Schedule, constant, free
from lines_explorer.suites import open_suite
from lines_explorer.sweep import spec as specs
from lines_explorer.sweep.spec import Spec, read_spec


@pytest.fixture(scope="module")
def engine(tiny_suite_folder: Path) -> Engine:
    return Engine(open_suite(tiny_suite_folder), "cpu", Store(":memory:"))


def written(folder: Path, *blocks: dict[str, Any], **more: Any) -> Spec:
    file = folder / "spec.yaml"
    file.write_text(yaml.safe_dump({"suite": "tiny", "points": list(blocks)} | more), encoding="utf-8")
    return read_spec(file)


def test_blocks_are_products(engine: Engine, tmp_path: Path) -> None:
    block = {
        "tasks": [["shapes", "colours"], "each"], "method": ["sum", "trim"], "schedule": ["lines", "root"],
        "alpha": [0.1, 0.2], "beta": {"from": 0.2, "to": 0.8, "points": 3}, "rule": "depth",
    }  # fmt: skip
    recipes = written(tmp_path, block).recipes(engine)
    assert len(recipes) == (1 + 3) * 2 * 2 * 2 * 3
    assert len({recipe.hash() for recipe in recipes}) == len(recipes)
    assert Recipe("tiny", ("shapes", "colours"), "trim", (), Schedule("root", 0.2, 0.5), "depth") in recipes


def test_knobs_of_every_kind(engine: Engine, tmp_path: Path) -> None:
    pair = ["shapes", "places"]
    recipes = written(
        tmp_path,
        {"tasks": pair, "method": "ties", "parameters": {"k": [10, 20]}, "alpha": "norms", "beta": 0.5},
        {"tasks": "shapes", "gamma": [1, 0.5]},
        {"tasks": "all", "scale": [0.3, 0.3]},
        {"tasks": ["shapes"], "factors": [[0, 0.5, 1]], "rest": 0.25},
        {"tasks": ["shapes"], "scale": 1},
    ).recipes(engine)
    alphas = [engine.backend.alpha_from_norms(pair, "ties", given) for given in ((("k", 10.0),), ())]
    assert [recipe.schedule.alpha for recipe in recipes[:2]] == alphas
    assert recipes[1].parameters == ()
    assert [recipe.schedule for recipe in recipes[2:4]] == [Schedule("lines", 1, 0), Schedule("lines", 0.5, 0.5)]
    assert [recipe.schedule for recipe in recipes[4:]] == [constant(0.3), free((0, 0.5, 1), 0.25)]


BLOCK = {"tasks": ["shapes"], "scale": 1}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("points: [", "is not YAML"),
        ("suite: tiny", r"the field points is missing"),
        ({"points": [BLOCK]}, r"the field suite is missing"),
        ({"points": []}, r"points must be a non-empty list"),
        ({"points": [BLOCK | {"shedule": "lines"}]}, r"points.0.shedule is unknown; did you mean schedule\?"),
        ({"points": [{"tasks": ["shapes"]}]}, "needs exactly one of gamma, alpha and beta, scale, factors, got none"),
        ({"points": [BLOCK | {"gamma": 1}]}, "got gamma, scale"),
        ({"points": [{"tasks": ["shapes"], "alpha": 1}]}, "needs both alpha and beta"),
        ({"points": [BLOCK | {"schedule": "lines"}]}, "contradicts scale"),
        ({"points": [BLOCK | {"rest": 1}]}, "goes with factors"),
        ({"points": [BLOCK | {"scale": "big"}]}, r"points.0.scale must be a number between -10 and 10, got 'big'"),
        ({"points": [BLOCK | {"scale": float("nan")}]}, "must be a number"),
        ({"points": [BLOCK | {"scale": {"from": 0, "to": 1}}]}, r"scale.points is missing"),
        ({"points": [BLOCK | {"scale": {"from": 0, "to": 1, "points": 1}}]}, "from 2 to 1001"),
        ({"points": [BLOCK | {"method": "magic"}]}, r"method must be one of sum, average.*got magic"),
        ({"points": [BLOCK | {"parameters": {"k": None}}]}, r"parameters.k must be"),
        ({"points": [BLOCK | {"rule": "deep"}]}, "must be one of reference, depth"),
    ],
)
def test_bad_specs_name_the_field(tmp_path: Path, content: Any, words: str) -> None:
    file = tmp_path / "spec.yaml"
    given = content if isinstance(content, str) or "suite" in words else {"suite": "tiny"} | content
    file.write_text(given if isinstance(given, str) else yaml.safe_dump(given), encoding="utf-8")
    with pytest.raises(ExplorerError, match=words) as caught:
        read_spec(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (BLOCK | {"tasks": ["zebra"]}, "points.0.tasks names zebra, which is no expert"),
        (BLOCK | {"parameters": {"k": 5}}, "does not take these parameters: k"),
        ({"tasks": ["shapes"], "gamma": 2}, "gamma must lie between 0 and 1"),
        ({"tasks": ["shapes"], "gamma": 1, "schedule": "free"}, "written as factors"),
        ({"tasks": ["shapes"], "gamma": 1, "schedule": "wave"}, "Unknown schedule 'wave'"),
        (BLOCK | {"tasks": [["shapes", "shapes"]]}, "merged only once"),
    ],
)
def test_what_the_suite_or_method_refuses(engine: Engine, tmp_path: Path, block: dict[str, Any], words: str) -> None:
    with pytest.raises(ExplorerError, match=words):
        written(tmp_path, block).recipes(engine)


def test_too_many_points(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specs, "MOST_POINTS", 5)
    with pytest.raises(ExplorerError, match="goes beyond 5 points"):
        written(tmp_path, {"tasks": "all", "scale": {"from": 0.1, "to": 1, "points": 6}}).recipes(engine)


def test_sweep_writes_a_row_per_point_and_task_and_continues(
    tiny_suite_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(open_suite(tiny_suite_folder), "cpu", Store(tmp_path / "store.sqlite"))
    spec = written(tmp_path, {"tasks": ["shapes", "places"], "scale": [0.1, 0.2, 0.3]}, split="test")
    evaluate, count = engine.evaluate, [0]

    def interrupted(*arguments: Any) -> Any:
        count[0] += 1
        if count[0] == 3:
            raise KeyboardInterrupt
        return evaluate(*arguments)

    monkeypatch.setattr(engine, "evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweeping.sweep(engine, spec, tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()
    engine.store.close()
    again = Engine(open_suite(tiny_suite_folder), "cpu", Store(tmp_path / "store.sqlite"))
    report = sweeping.sweep(again, spec, tmp_path / "new" / "out.parquet")
    assert report.data["stored"] == 2 and report.data["evaluated"] == 1 and report.data["rows"] == 9
    rows = pyarrow.parquet.read_table(tmp_path / "new" / "out.parquet").to_pylist()
    assert {row["split"] for row in rows} == {"test"} and {row["role"] for row in rows} == {"target", "control"}
    for row in rows:
        recipe = Recipe.from_dict(json.loads(row["recipe_json"]))
        assert recipe.hash() == row["recipe"] and row["accuracy"] == row["correct"] / row["n"]
        score = again.evaluate(recipe, [row["task"]], "test").scores[row["task"]]
        assert (score.correct, score.n) == (row["correct"], row["n"])


def test_sweep_on_another_split_and_some_tasks(engine: Engine, tmp_path: Path) -> None:
    spec = written(tmp_path, BLOCK, split="noisy")
    assert sweeping.sweep(engine, spec, tmp_path / "noisy.parquet").data["rows"] == 1
    spec = written(tmp_path, BLOCK, score_on=["places", "colours"])
    assert sweeping.sweep(engine, spec, tmp_path / "some.parquet").data["rows"] == 2


@pytest.mark.parametrize(("split", "score_on", "words"), [("train", None, "split"), ("val", ["zebra"], "zebra")])
def test_unknown_split_or_task(
    engine: Engine, tmp_path: Path, split: str, score_on: list[str] | None, words: str
) -> None:
    more = {"score_on": score_on} if score_on else {}
    with pytest.raises(ExplorerError, match=words):
        sweeping.sweep(engine, written(tmp_path, BLOCK, split=split, **more), tmp_path / "out.parquet")


def test_places_and_engines_that_cannot_be(engine: Engine, tmp_path: Path) -> None:
    spec = written(tmp_path, BLOCK)
    with pytest.raises(ExplorerError, match="not a parquet file"):
        sweeping.sweep(engine, spec, tmp_path / "out.csv")
    with pytest.raises(ExplorerError, match="cannot be written there"):
        sweeping.sweep(engine, spec, tmp_path / "spec.yaml" / "out.parquet")
    with pytest.raises(ExplorerError, match="not supported yet"):
        sweeping.check_engine("ray")
    with pytest.raises(ExplorerError, match="Unknown engine"):
        sweeping.check_engine("spark")
    with pytest.raises(ExplorerError, match="cannot be read"):
        read_spec(tmp_path / "absent.yaml")
    sweeping.check_engine("local")
