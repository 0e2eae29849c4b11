"""study: every setting with and without LiNeS, written as a page, and continued after an interruption."""

from __future__ import annotations

import xml.etree.ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from runs_suite import write_runs_suite

from lines_explorer.commands.studying import parse_asked, study
from lines_explorer.engine import Engine, Store
from lines_explorer.errors import ExplorerError
from lines_explorer.suites import open_suite
from lines_explorer.sweep import family, settings
from lines_explorer.sweep.study import SETTINGS, Asked, plan
from lines_explorer.sweep.svg import Panel, Series, Whisker, panels_svg, whiskers_svg

SMALL = Asked(methods=("sum", "slerp"), kinds=("constant", "lines", "reversed"))


@pytest.fixture(scope="module", autouse=True)
def coarse() -> Iterator[None]:
    """Grids of few points: the real ones are tested with the search."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(family, "FALLING", (1.0, 0.5, 0.0))
        patch.setattr(family, "FIFTEEN", (0.5, 1.0))
        patch.setattr(family, "SOUP_BETAS", (0.2,))
        yield


@pytest.fixture(scope="module")
def folder(tiny_suite_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_runs_suite(tiny_suite_folder, tmp_path_factory.mktemp("study") / "tiny", {"shapes": 2, "colours": 2})


@pytest.fixture(scope="module")
def page(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("docs") / "RESULTS.md"
    engine = Engine(open_suite(folder), "cpu", Store(":memory:"))
    return out, dict(study(engine, out, SMALL).data)


def test_baseline_and_lines_of_everything_come_first(folder: Path) -> None:
    planned = plan(open_suite(folder), SMALL)
    kinds = [setting.kind for setting in planned]
    first = kinds.index("reversed")
    assert "reversed" not in kinds[:first] and set(kinds[first:]) == {"reversed"}
    assert {setting.name for setting in planned[:first]} == set(SETTINGS)
    keys = [(setting.name, setting.label, setting.kind) for setting in planned]
    assert len(set(keys)) == len(keys)
    for name, label, kind in keys:
        if kind != "constant":
            assert keys.index((name, label, "constant")) < keys.index((name, label, kind))


def test_page_tells_every_setting(page: tuple[Path, dict[str, Any]]) -> None:
    out, data = page
    text = out.read_text(encoding="utf-8")
    titles = ("Edit one model", "Merge many", "Robust", "Soups", "Forget on purpose", "Other fine-tuning runs")
    assert all(f"## {title}" in text for title in titles) and "Not complete" not in text
    assert "slerp of 2" in text and "sum of 3" in text and "study --suite tiny --methods sum,slerp --schedules" in text
    assert text.count("**: LiNeS ") == len(SETTINGS)
    for line in text.splitlines():
        if line.startswith("!["):
            assert (out.parent / line.partition("](")[2].rstrip(")")).is_file()
    assert {row["schedule"] for row in data["differences"]} == {"lines", "reversed"}
    assert set(data["edit_means"]) == {"lines", "reversed"}
    assert set(data["files"]) == {str(path) for path in out.parent.rglob("*") if path.is_file()}


def test_tables_hold_what_the_page_says(page: tuple[Path, dict[str, Any]]) -> None:
    out, data = page
    rows = {name: pyarrow.parquet.read_table(out.parent / "results" / f"{name}.parquet").to_pylist()
            for name in ("points", "outcomes", "differences")}  # fmt: skip
    assert {row["split"] for row in rows["outcomes"]} == {"test"}
    chosen = [row for row in rows["points"] if row["chosen"]]
    assert len(chosen) == len({(row["setting"], row["label"], row["kind"]) for row in rows["points"]})
    assert {row["recipe"] for row in chosen} == {row["recipe"] for row in rows["outcomes"]}
    scores = {(row["setting"], row["label"], row["kind"]): row["value"] for row in rows["differences"]
              if row["quantity"] == "score"}  # fmt: skip
    assert {(row["setting"], row["label"], row["schedule"]): row["value"] for row in data["differences"]} == scores


def test_figures_are_svg(page: tuple[Path, dict[str, Any]]) -> None:
    drawn = sorted((page[0].parent / "results").glob("*.svg"))
    assert {path.name for path in drawn} >= {"edit-lines.svg", "merge-differences.svg", "robustness-lines.svg"}
    for path in drawn:
        assert xml.etree.ElementTree.parse(path).getroot().tag.endswith("svg")
        assert "nan" not in path.read_text(encoding="utf-8")


def test_interrupted_study_writes_what_it_has_and_continues(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Asked(("edit",), kinds=("lines",), tasks=("shapes", "places"))
    engine = Engine(open_suite(folder), "cpu", Store(tmp_path / "store.sqlite"))
    evaluate, scored = engine.evaluate, []

    def interrupted(recipe: Any, score_on: Any = None, split: str = "validation") -> Any:
        if len(scored) == 40:
            raise KeyboardInterrupt
        scored.append(recipe)
        return evaluate(recipe, score_on, split)

    monkeypatch.setattr(engine, "evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        study(engine, tmp_path / "docs" / "RESULTS.md", small)
    engine.store.close()
    monkeypatch.undo()
    assert "Not complete yet" in (tmp_path / "docs" / "RESULTS.md").read_text(encoding="utf-8")
    again = Engine(open_suite(folder), "cpu", Store(tmp_path / "store.sqlite"))
    kept = len(again.store)
    study(again, tmp_path / "docs" / "RESULTS.md", small)
    assert "Not complete" not in (tmp_path / "docs" / "RESULTS.md").read_text(encoding="utf-8")
    whole = len(again.store)
    assert kept < whole
    study(again, tmp_path / "docs" / "RESULTS.md", small)
    assert len(again.store) == whole


def test_what_is_impossible_is_told_and_does_not_stop_the_rest(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> Any:
        raise ExplorerError("The merged task vector is zero.")

    monkeypatch.setattr(settings, "alpha_from_norms", refuse)
    engine = Engine(open_suite(folder), "cpu", Store(":memory:"))
    small = Asked(("merge", "robustness"), methods=("sum",), kinds=("lines",))
    data = study(engine, tmp_path / "RESULTS.md", small).data
    assert data["refused"] == ["The merged task vector is zero."]
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "## Not possible" in text and "merge many: sum of 3, LiNeS: The merged task vector is zero." in text
    assert "## Robust fine-tuning" in text


def test_adamerging_is_studied_where_it_was_learned_and_refused_where_not(
    adaptive_suite_folder: Path, tiny_suite_folder: Path, tmp_path: Path
) -> None:
    small = Asked(("merge",), methods=("sum", "adamerging"), kinds=("lines",))
    for number, folder in enumerate((adaptive_suite_folder, tiny_suite_folder)):
        engine = Engine(open_suite(folder), "cpu", Store(":memory:"))
        data = study(engine, tmp_path / str(number) / "RESULTS.md", small).data
        text = (tmp_path / str(number) / "RESULTS.md").read_text(encoding="utf-8")
        assert "adamerging of 3" in text
        assert {row["label"] for row in data["differences"]} >= ({"adamerging of 3"} if number == 0 else {"sum of 3"})
        assert ["build-suite adamerging" in sentence for sentence in data["refused"]] == [True] * number


def test_suites_without_runs_or_shifts_have_fewer_settings(tiny_suite_folder: Path, tmp_path: Path) -> None:
    suite = open_suite(tiny_suite_folder)
    assert {setting.name for setting in plan(suite, SMALL)} == {"edit", "merge", "robustness", "negation"}
    engine = Engine(suite, "cpu", Store(":memory:"))
    with pytest.raises(ExplorerError, match="nothing that these settings need"):
        study(engine, tmp_path / "RESULTS.md", Asked(("soup",)))


def test_bad_options(tiny_suite_folder: Path, tmp_path: Path) -> None:
    engine = Engine(open_suite(tiny_suite_folder), "cpu", Store(":memory:"))
    assert parse_asked(engine, "all", "sum,ties", "lines", "all") == Asked(methods=("sum", "ties"), kinds=("lines",))
    for given, words in (
        (("edits", "sum", "lines", "all"), "Unknown setting 'edits'"), (("all", "tie", "lines", "all"), "method 'tie'"),
        (("all", "sum", "free", "all"), "schedule 'free'"), (("all", "sum", "constant", "all"), "at least one other"),
        (("all", "sum", "lines", "zebra"), "zebra"),
    ):  # fmt: skip
        with pytest.raises(ExplorerError, match=words):
            parse_asked(engine, *given)
    with pytest.raises(ExplorerError, match="not a Markdown file"):
        study(engine, tmp_path / "results", SMALL)


def test_pictures_of_extreme_numbers() -> None:
    flat = Panel("one & two", "x", "y", (Series("lines", ((5.0, 5.0), (5.0, 5.0)), 1),))
    gap = Panel("gap", "x", "y", (Series("constant", ((0.0, float("nan")), (1.0, 2.0)), 0),))
    text = panels_svg([flat, gap] * 3)
    assert "one &amp; two" in text and "nan" not in text
    xml.etree.ElementTree.fromstring(text)
    rows = [Whisker("a", -3.0, -4.0, -2.0), Whisker("b", 0.0, 0.0, 0.0)]
    xml.etree.ElementTree.fromstring(whiskers_svg(rows, "difference"))
