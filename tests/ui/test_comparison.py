"""Pinned A against current B: by pictures where the answers are stored, by intervals where they are not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lines_explorer.analysis.paired import paired_difference
from lines_explorer.schedule import constant, lines
from lines_explorer.ui import figures
from lines_explorer.ui.comparison import compare
from lines_explorer.ui.difference_figure import difference, explain
from lines_explorer.ui.links import Page


@pytest.fixture
def two(desk, catalogue):
    """The expert of ``shapes``, the base, and the expert's view."""
    view = replace(catalogue.default(), alpha=1.0, beta=0.0)
    points = [desk.results.whole(view, view.recipe("tiny", schedule)) for schedule in (lines(1, 0), constant(0))]
    return view, *points


def test_differences_are_those_of_the_pictures(desk, two):
    view, expert, base = two
    found = compare(desk.results, view, expert, base)
    bits = [desk.engine.stored_answers(point[0].recipe)["shapes"] for point in (expert, base)]
    own = paired_difference(*bits)
    assert found["tasks"]["shapes"]["how"] == "paired"
    assert found["tasks"]["shapes"]["value"] == pytest.approx(own.value, abs=1e-6)
    assert found["target"] == found["tasks"]["shapes"]
    assert found["tasks"]["shapes"]["gained"] - found["tasks"]["shapes"]["lost"] == base[0].scores["shapes"].correct - (
        expert[0].scores["shapes"].correct
    )
    assert found["control"]["n"] == 80
    assert all(type(row["within"]) is bool for row in [found["control"], *found["tasks"].values()])
    json.dumps(found, allow_nan=False)


def test_a_point_does_not_differ_from_itself(desk, two):
    view, expert, _ = two
    found = compare(desk.results, view, expert, expert)
    assert all(row["within"] and row["value"] == 0 for row in found["tasks"].values())


def test_without_stored_answers_intervals_decide(desk, two, monkeypatch):
    view, expert, base = two
    monkeypatch.setattr(desk.engine, "stored_answers", lambda *_, **__: {})
    found = compare(desk.results, view, expert, base)["tasks"]["shapes"]
    assert found["how"] == "intervals" and found["low"] is None
    first, second = (point[0].scores["shapes"].accuracy for point in (expert, base))
    assert found["within"] == (first.low <= second.high and second.low <= first.high)
    assert "overlap" in explain(found)


def test_figure_marks_what_may_be_noise(desk, two):
    view, expert, base = two
    found = compare(desk.results, view, expert, base)
    found["tasks"]["shapes"] |= {"within": False, "value": -0.4, "low": -0.6, "high": -0.2}
    found["tasks"]["colours"] |= {"within": True}
    drawn = difference(found, view.targets, desk.titles, 300)
    dots = drawn["data"][0]
    assert dots["y"][0] == "Shapes" and dots["x"][0] == -40
    assert dots["error_x"]["array"][0] == pytest.approx(20) and dots["error_x"]["arrayminus"][0] == pytest.approx(20)
    assert dots["marker"]["color"][:2] == ["@ink", "@paper"]
    marked = [label["y"] for label in drawn["layout"]["annotations"]]
    assert "Shapes" not in marked and "Colours" in marked
    assert dots["customdata"][0].startswith("More than noise")
    assert drawn["layout"]["height"] == 300
    assert difference(None, view.targets, desk.titles, 300)["data"] == []


def test_live_compares_with_the_pin(desk, catalogue, ask):
    view = catalogue.default()
    pinned = desk.live(ask(view, Page(pin=replace(view, schedule="constant", scale=0.5))))["pinned"]
    assert pinned["setting"] == "A constant λ = 0.5"
    assert pinned["point"]["target"]["n"] == 40
    assert pinned["factors"] == [0.5, 0.5, 0.5]
    assert set(pinned["differences"]["tasks"]) == {"shapes", "colours", "places"}
    assert all("Same pictures" in row["said"] for row in pinned["differences"]["tasks"].values())
    assert desk.live(ask(view))["pinned"] is None


def test_settle_evaluates_a_pin_that_is_not_stored(desk, catalogue, ask):
    view = catalogue.default()
    page = Page(pin=replace(view, alpha=0.123, beta=0.456))
    assert desk.live(ask(view, page, 2))["pinned"]["point"] is None
    messages = [json.loads(text) for text in desk.settle(ask(view, page, 2))]
    kinds = [message["kind"] for message in messages]
    assert kinds[-2:] == ["pinned", "end"]
    assert messages[-2]["pinned"]["differences"]["tasks"]


def test_pinning_across_targets_keeps_the_current_roles(desk, catalogue, ask):
    view = catalogue.default()
    other = replace(view, target="places", alpha=0.0, beta=0.0)  # the base, stored
    point = desk.live(ask(view, Page(pin=other)))["pinned"]["point"]
    base = desk.live(ask(replace(view, alpha=0.0, beta=0.0)))["point"]
    assert point["target"] == base["target"]


def test_empty_figure_has_the_height_of_the_bars(desk, catalogue):
    drawn = desk.family(catalogue.default())["figures"]
    assert drawn["difference"]["layout"]["height"] == drawn["tasks"]["layout"]["height"] == figures.tasks_height(3)
