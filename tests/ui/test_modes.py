"""Robustness, soup and negation on the page: what is merged and scored, where nothing is known, and what is said."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from runs_suite import write_runs_suite

from lines_explorer import cli
from lines_explorer.analysis import greedy_choice
from lines_explorer.commands import scoring
from lines_explorer.commands.report import Report
from lines_explorer.engine import Engine, Store
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant, lines
from lines_explorer.suites import open_suite
from lines_explorer.sweep.settings import greedy_soup
from lines_explorer.ui import controls, figures, layout, surface_figure, texts
from lines_explorer.ui.comparison import compare
from lines_explorer.ui.handlers import Desk
from lines_explorer.ui.links import Page
from lines_explorer.ui.modes import MODES
from lines_explorer.ui.surface import Surface
from lines_explorer.ui.view import View

RUNS = ("shapes", "shapes/1", "shapes/2")


@pytest.fixture(scope="module")
def engine(tiny_suite_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A suite with three runs and a shifted set of ``shapes``; base and experts are stored."""
    folder = write_runs_suite(tiny_suite_folder, tmp_path_factory.mktemp("modes") / "tiny", {"shapes": 3})
    engine = Engine(open_suite(folder), "cpu", Store(":memory:"))
    engine.zero_shot()
    engine.experts()
    return engine


@pytest.fixture(scope="module")
def desk(engine: Engine) -> Iterator[Desk]:
    """The desk, its suite listed by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LINES_EXPLORER_SUITES", str(engine.suite.folder.parent))
        yield Desk(engine)


def messages(stream) -> list[dict]:
    return [json.loads(text) for text in stream]


def settled(desk: Desk, view: View, ask, number: int = 1, page: Page | None = None) -> dict:
    """The last point of a settled view."""
    told = messages(desk.settle(ask(view, page, number)))
    assert told[-1]["kind"] == "end", told[-1]
    return [message for message in told if message["kind"] == "point"][-1]


def accuracy(engine: Engine, recipe: Recipe, task: str = "shapes", split: str = "validation") -> float:
    return engine.evaluate(recipe, [task], split).scores[task].accuracy.value


def test_the_suite_offers_what_it_has(desk: Desk) -> None:
    assert desk.catalogue.modes == tuple(MODES)
    assert desk.catalogue.targets("robustness") == desk.catalogue.targets("soup") == ("shapes",)
    assert set(layout.control_names(desk)) >= {"runs_shapes", "target_soup", "floor", "gamma_negation", "alpha_many"}
    boot = json.loads(layout.boot(desk))
    assert set(boot["controls"]) == set(layout.control_names(desk)) and boot["lacking"] == {}
    assert boot["runs"] == {"shapes": list(RUNS)}


def test_robustness_is_in_distribution_against_the_shifted_sets(desk: Desk, engine: Engine, ask) -> None:
    view = desk.catalogue.default("robustness")
    assert desk.live(ask(view))["point"] is None
    told = settled(desk, view, ask)
    recipe = Recipe("tiny", ("shapes",), schedule=lines(0.3, 0.3))
    point = told["point"]
    assert point["target"]["value"] == pytest.approx(accuracy(engine, recipe), abs=1e-6)
    assert point["control"]["value"] == pytest.approx(accuracy(engine, recipe, split="noisy"), abs=1e-6)
    assert list(point["tasks"]) == ["shapes", "shapes@noisy"]
    expert = accuracy(engine, Recipe("tiny", ("shapes",)), split="noisy")
    assert point["control"]["normalized"] == pytest.approx(point["control"]["value"] / expert, abs=1e-5)
    assert "in distribution" in told["sentence"] and "on its shifted set" in told["sentence"]
    assert desk.live(ask(view))["point"] == point


def test_robustness_line_is_wise_ft_with_and_without_lines(desk: Desk, ask) -> None:
    view = desk.catalogue.default("robustness")
    families = [m["family"] for m in messages(desk.line(ask(view))) if m["kind"] == "family"]
    family = families[-1]
    assert family["missing"] == 0 and family["controls"] == ["shapes@noisy"]
    assert [(p["knob"], p["alpha"], p["beta"]) for p in family["lines"]][:2] == [(1, 0.5, 0.5), (0.9, 0.45, 0.45)]
    assert [(p["knob"], p["alpha"], p["beta"]) for p in family["constant"]][0] == (1, 1, 0)
    plane = family["figures"]["plane"]
    assert "Shifted" in plane["layout"]["xaxis"]["title"]["text"]
    assert "shifted test sets, n = 40" in plane["layout"]["xaxis"]["title"]["text"]
    assert "In distribution" in plane["layout"]["yaxis"]["title"]["text"]
    assert family["constant"][0]["tasks"] == family["expert"]["tasks"]
    assert family["figures"]["tasks"]["meta"]["order"] == ["shapes", "shapes@noisy"]
    assert family["figures"]["curve_lines"]["layout"]["xaxis"]["title"]["text"].startswith("<b>γ</b>")


def test_robustness_test_is_on_the_test_split_and_the_same_shifted_sets(desk: Desk, engine: Engine, ask) -> None:
    view = desk.catalogue.default("robustness")
    final = [m for m in messages(desk.score_test(ask(view))) if m["kind"] == "test"][-1]["point"]
    recipe = Recipe("tiny", ("shapes",), schedule=lines(0.3, 0.3))
    assert final["target"]["value"] == pytest.approx(accuracy(engine, recipe, split="test"), abs=1e-6)
    assert final["control"]["value"] == pytest.approx(accuracy(engine, recipe, split="noisy"), abs=1e-6)


def test_uniform_soup_is_the_mean_of_the_ticked_runs(desk: Desk, engine: Engine, ask) -> None:
    view = desk.catalogue.default("soup")
    assert view.runs == RUNS and (view.alpha, view.beta) == (1, 0)
    two = replace(view, runs=("shapes", "shapes/2"))
    told = settled(desk, two, ask)
    recipe = Recipe("tiny", ("shapes", "shapes/2"), "average", schedule=constant(1))
    assert told["point"]["target"]["value"] == pytest.approx(accuracy(engine, recipe), abs=1e-6)
    assert "uniform soup of 2 runs" in told["sentence"]
    assert told["point"]["control"]["n"] == 80


def test_greedy_soup_is_chosen_first_and_then_scored(desk: Desk, engine: Engine, ask) -> None:
    view = replace(desk.catalogue.default("soup"), soup="greedy", alpha=0.5, beta=0.5)
    fresh = Desk(Engine(engine.suite, "cpu", Store(":memory:")))
    assert fresh.results.soup(view)[0] is None and fresh.results.recipe(view, constant(1)) is None
    assert fresh.live(ask(view))["point"] is None
    assert fresh.results.unstored(view) and fresh.results.family(view)["soup"] is None
    told = settled(fresh, view, ask)
    kept = greedy_soup(engine, "shapes", RUNS)
    assert set(fresh.results.soup(view)[0]) == set(kept)
    recipe = Recipe("tiny", kept, "average" if len(kept) > 1 else "sum", schedule=lines(0.5, 0.5))
    assert told["point"]["target"]["value"] == pytest.approx(accuracy(engine, recipe), abs=1e-6)
    assert f"greedy soup of {len(kept)} run" in told["sentence"] and "of 3 has" in told["sentence"]


def test_greedy_choice_by_hand() -> None:
    table = {("a",): 0.5, ("b",): 0.7, ("c",): 0.6, ("b", "c"): 0.65, ("b", "a"): 0.7, ("b", "a", "c"): 0.9}
    assert greedy_choice("abc", table.__getitem__) == ("b", "a")
    assert greedy_choice(("b", "c"), table.__getitem__) == ("b",)
    assert greedy_choice(("a",), table.__getitem__) == ("a",)
    ties = {("a",): 0.5, ("b",): 0.5, ("a", "b"): 0.5}
    assert greedy_choice(("a", "b"), ties.__getitem__) == ("a", "b")
    with pytest.raises(ExplorerError, match="no soup of no runs"):
        greedy_choice((), table.__getitem__)


def test_soup_shows_its_single_runs(desk: Desk, ask) -> None:
    view = desk.catalogue.default("soup")
    for _ in desk.line(ask(view)):
        pass
    family = desk.family(view)
    assert list(family["runs"]) == list(RUNS) and family["missing"] == 0
    assert [p["knob"] for p in family["lines"]][:3] == [0, 0.1, 0.2] or family["lines"][0]["knob"] == 1
    assert max(p["knob"] for p in family["lines"]) == 1.5
    trace = next(t for t in family["figures"]["plane"]["data"] if t["meta"] == "single run")
    assert len(trace["x"]) == 3 and trace["marker"]["symbol"] == ["star"] * 3
    assert "its single runs have" in desk.live(ask(view))["sentence"].replace("\u00a0", " ")


def test_negation_subtracts_and_knows_the_floor(desk: Desk, engine: Engine, ask) -> None:
    view = replace(desk.catalogue.default("negation"), floor=0.9)
    told = settled(desk, view, ask)
    assert told["point"]["target"]["value"] == pytest.approx(
        accuracy(engine, Recipe("tiny", ("shapes",), schedule=lines(-0.25, -0.25))), abs=1e-6
    )
    for _ in desk.line(ask(view)):
        pass
    family = desk.family(view)
    assert [p["alpha"] for p in family["constant"]][:3] == [0, -0.1, -0.2]
    assert [(p["knob"], p["alpha"]) for p in family["lines"]][2] == (0.2, -0.1)
    allowed = {
        kind: [p["target"]["value"] for p in family[kind] if p["control"]["normalized"] >= 0.9]
        for kind in ("lines", "constant")
    }
    for kind, values in allowed.items():
        assert family[kind][family["kept"][kind]]["target"]["value"] == min(values)
    plane = family["figures"]["plane"]
    line = next(t for t in plane["data"] if t["meta"] == "constant λ")
    shares = [p["control"]["normalized"] for p in sorted(family["constant"], key=lambda p: p["knob"])]
    assert line["marker"]["opacity"] == [1 if share >= 0.9 else 0.3 for share in shares]
    assert {t["meta"] for t in plane["data"]} >= {"lowest target that keeps control", "base"}
    assert "expert" not in {t["meta"] for t in plane["data"]}
    assert plane["layout"]["shapes"][0]["y0"] == 100 * family["base"]["target"]["value"]
    said = desk.live(ask(view))["sentence"].replace("\u00a0", " ")
    assert "the floor of 90 %" in said and "where the base has" in said


def test_negation_without_an_allowed_point_marks_none(desk: Desk) -> None:
    family = desk.family(replace(desk.catalogue.default("negation"), floor=1.0))
    allowed = [p for p in family["lines"] if p["control"]["normalized"] >= 1]
    assert (family["kept"]["lines"] is None) == (not allowed)
    assert all(p["alpha"] <= 0 for p in family["lines"])


def test_the_front_of_negation_falls(desk: Desk) -> None:
    view = desk.catalogue.default("negation")
    points = Surface(desk.results, view).numbers()["front"]
    assert [p["control"]["value"] for p in points] == sorted(p["control"]["value"] for p in points)
    assert [p["target"]["value"] for p in points] == sorted(p["target"]["value"] for p in points)


@pytest.mark.parametrize("mode", list(MODES))
def test_every_figure_of_every_mode_is_plain_json(desk: Desk, mode: str) -> None:
    view = desk.catalogue.default(mode)
    json.dumps(desk.family(view), allow_nan=False)
    numbers = Surface(desk.results, view).numbers()
    json.dumps(surface_figure.surfaces(numbers), allow_nan=False)
    assert figures.control_title(desk.family(view)).count("{") == 0
    assert texts.SENTENCES.keys() == texts.LINE_NAMES.keys() == MODES.keys()


@pytest.mark.parametrize("mode", list(MODES))
@pytest.mark.parametrize("schedule", ["lines", "constant", "free"])
def test_the_command_line_means_the_same(desk: Desk, mode: str, schedule: str, monkeypatch, capsys) -> None:
    asked = []

    def note(engine, recipe, score_on, split, shifts):
        asked.append((recipe.hash(), tuple(score_on), shifts))
        return Report({}, "")

    monkeypatch.setattr(scoring, "evaluate", note)
    view = replace(desk.catalogue.default(mode), schedule=schedule)
    words = shlex.split(desk.look(view, Page())["command"])
    assert cli.main(words[3:]) == 0, capsys.readouterr().err
    recipe = desk.results.recipe(view, view.curve(desk.results.alpha(view)))
    everything = ("shapes",) if mode == "robustness" else ("shapes", "colours", "places")
    assert asked == [(recipe.hash(), everything, mode == "robustness")]


def test_the_command_line_of_a_greedy_soup_chooses_the_same(desk: Desk, monkeypatch, capsys, ask) -> None:
    view = replace(desk.catalogue.default("soup"), soup="greedy", alpha=0.5, beta=0.5)
    settled(desk, view, ask)
    asked = []
    monkeypatch.setattr(scoring, "evaluate", lambda engine, recipe, *rest: (asked.append(recipe), Report({}, ""))[1])
    assert cli.main(shlex.split(desk.look(view, Page())["command"])[3:]) == 0, capsys.readouterr().err
    assert asked[0].hash() == desk.results.recipe(view, lines(0.5, 0.5)).hash()


def test_a_pin_of_another_mode_is_seen_in_this_ones_sets(desk: Desk, ask) -> None:
    pin = desk.catalogue.default("edit")
    view = desk.catalogue.default("robustness")
    messages(desk.settle(ask(view, Page(pin=pin))))
    answer = desk.live(ask(view, Page(pin=pin)))
    assert list(answer["pinned"]["differences"]["tasks"]) == ["shapes", "shapes@noisy"]
    evaluations = [desk.results.whole(view, one.recipe("tiny", one.curve(1))) for one in (pin, view)]
    found = compare(desk.results, view, *evaluations)
    assert found["control"] == found["tasks"]["shapes@noisy"]


def test_modes_without_what_they_need_are_greyed_with_the_reason(tiny_suite_folder: Path) -> None:
    desk = Desk(Engine(open_suite(tiny_suite_folder), "cpu", Store(":memory:")))
    boot = json.loads(layout.boot(desk))
    assert list(boot["lacking"]) == ["soup"] and "build-suite runs" in boot["lacking"]["soup"]
    assert "build-suite runs" in controls._lacking(desk)
    assert desk.restore("#mode=soup")["problems"][0].startswith("In the link: Soup needs several fine-tuning runs")


@pytest.mark.parametrize("change", [{"runs": []}, {"runs": ["places"]}, {"runs": None}, {"soup": 3}, {"mode": "stew"}])
def test_bad_soups_get_one_sentence(desk: Desk, ask, change: dict) -> None:
    request = ask(desk.catalogue.default("soup"))
    request["view"] |= change
    assert desk.live(request)["error"].endswith(".")
