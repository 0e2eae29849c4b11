"""The answers beside a study's tables: another machine evaluates nothing twice, and believes no other suite's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from lines_explorer.commands.studying import study
from lines_explorer.engine import Engine, Store
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.suites import Suite, open_suite
from lines_explorer.sweep import family
from lines_explorer.sweep.answers import FILE, read_answers
from lines_explorer.sweep.study import Asked

ASKED = Asked(("edit", "merge"), methods=("sum",), kinds=("lines",))


@pytest.fixture(scope="module", autouse=True)
def coarse() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(family, "FALLING", (1.0, 0.5, 0.0))
        yield


@pytest.fixture(scope="module")
def suite(tiny_suite_folder: Path) -> Suite:
    return open_suite(tiny_suite_folder)


@pytest.fixture(scope="module")
def first(suite: Suite, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that a study left behind, and its page."""
    out = tmp_path_factory.mktemp("docs") / "RESULTS.md"
    study(Engine(suite, "cpu", Store(":memory:"), shipped=False), out, ASKED)
    return out, out.read_text(encoding="utf-8")


def elsewhere(suite: Suite) -> tuple[Engine, list[Recipe]]:
    """An engine that knows nothing yet, and the recipes that reach its device."""
    engine, loads = Engine(suite, "cpu", Store(":memory:"), shipped=False), []
    load = engine.backend.load
    engine.backend.load = lambda recipe: (loads.append(recipe), load(recipe))[1]
    return engine, loads


def test_another_machine_goes_on_from_them(first: tuple[Path, str], suite: Suite) -> None:
    out, told = first
    engine, loads = elsewhere(suite)
    study(engine, out, ASKED)
    assert out.read_text(encoding="utf-8") == told
    base_and_experts = {Recipe.base("tiny").hash(), *(Recipe("tiny", (task,)).hash() for task in suite.experts)}
    assert {recipe.hash() for recipe in loads} <= base_and_experts, "what the page's denominators need"


def test_they_are_those_of_the_points(first: tuple[Path, str], suite: Suite) -> None:
    folder = first[0].parent / "results"
    outcomes = pyarrow.parquet.read_table(folder / "outcomes.parquet").to_pylist()
    answers = {
        (row["recipe"], row["task"], row["split"]): row for row in pyarrow.parquet.read_table(folder / FILE).to_pylist()
    }
    for row in outcomes:
        kept = answers[row["recipe"], row["task"], row["split"]]
        assert (kept["correct"], kept["n"]) == (row["correct"], row["n"])
    points = pyarrow.parquet.read_table(folder / "points.parquet").to_pylist()
    assert {point["recipe"] for point in points} == {recipe for recipe, _, split in answers if split == "validation"}
    assert {split for _, _, split in answers} == {"validation", "test"}


def test_those_of_another_suite_are_left(first: tuple[Path, str], suite: Suite, tmp_path: Path) -> None:
    engine, _ = elsewhere(suite)
    assert read_answers(engine, first[0].parent / "results") > 50
    table = pyarrow.parquet.read_table(first[0].parent / "results" / FILE)
    pyarrow.parquet.write_table(table.replace_schema_metadata({"suite": "0" * 64}), tmp_path / FILE)
    assert read_answers(engine, tmp_path) == 0
    assert read_answers(engine, tmp_path / "nothing here") == 0


def damaged(table: Any) -> Iterator[Any]:
    """The table with counts that are not those of the answers, without a column, and with another kind of column."""
    yield table.set_column(table.schema.get_field_index("correct"), "correct", [[0] * len(table)])
    yield table.drop_columns(["bits"])
    yield table.set_column(table.schema.get_field_index("bits"), "bits", [["text"] * len(table)])


def test_damage_is_named_and_nothing_is_taken(first: tuple[Path, str], suite: Suite, tmp_path: Path) -> None:
    whole = pyarrow.parquet.read_table(first[0].parent / "results" / FILE)
    engine, _ = elsewhere(suite)
    for number, table in enumerate(damaged(whole)):
        folder = tmp_path / str(number)
        folder.mkdir()
        pyarrow.parquet.write_table(table, folder / FILE)
        with pytest.raises(ExplorerError, match=rf"{FILE} is damaged .* delete it"):
            read_answers(engine, folder)
    (tmp_path / FILE).write_bytes((first[0].parent / "results" / FILE).read_bytes()[:-100])
    with pytest.raises(ExplorerError, match="is damaged"):
        read_answers(engine, tmp_path)
    assert engine.peek(Recipe("tiny", ("shapes",))) is None
