"""The α×β surface: what is stored and nothing else, filled on request, drawn with the two families."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lines_explorer.schedule import lines
from lines_explorer.ui import figures, surface_figure
from lines_explorer.ui.modes import MODES
from lines_explorer.ui.surface import Surface, front, score
from lines_explorer.ui.view import View


@pytest.fixture
def view(catalogue) -> View:
    return catalogue.default()


@pytest.fixture
def numbers(desk, view) -> dict:
    return Surface(desk.results, view).numbers()


def test_only_stored_cells_have_numbers(desk, view, numbers):
    known = [
        (alpha, beta)
        for row, beta in zip(numbers["target"], numbers["betas"], strict=True)
        for cell, alpha in zip(row, numbers["alphas"], strict=True)
        if cell is not None
    ]
    assert sorted(known) == sorted(
        {(alpha, 0.0) for alpha in numbers["alphas"]} | {(alpha, round(1 - alpha, 1)) for alpha in numbers["alphas"]}
    )
    assert numbers["missing"] == 121 - 21
    point = desk.results.stored(view, desk.results.recipe(view, lines(0.3, 0.7)))
    assert numbers["target"][7][3] == point["target"]["value"]
    assert numbers["control"][7][3] == point["control"]["value"]
    assert numbers["score"][7][3] == pytest.approx(2 * point["target"]["normalized"] + point["control"]["normalized"])


def test_fill_begins_beside_the_current_setting_and_ends_complete(desk, view, ask):
    own = replace(view, alpha=0.52, beta=0.21)
    first = Surface(desk.results, own).unstored()[0][0]
    assert (first.schedule.alpha, first.schedule.beta) == (0.5, 0.2)
    messages = (json.loads(text) for text in desk.fill(ask(own)))
    sent = [message["surface"] for message in messages if message["kind"] == "surface"]
    assert [surface["missing"] for surface in sent] == list(range(len(sent) - 1, -1, -1))
    assert sent[-1]["key"] == "edit:shapes"
    assert not Surface(desk.results, own).unstored()


def test_fill_ends_when_the_page_moves_on(desk, catalogue, ask):
    asked = ask(replace(catalogue.default(), target="places"), number=3)
    messages = desk.fill(asked)
    assert json.loads(next(messages))["kind"] == "progress"
    desk.live(ask(catalogue.default(), number=4))
    kinds = [json.loads(message)["kind"] for message in messages]
    assert kinds[-1] == "end" and kinds.count("surface") < 100


def test_axes_hold_the_norms_alpha(catalogue):
    def axes(view, alpha):
        return MODES[view.mode].axes(view, alpha)

    many = catalogue.default("many")
    assert 1 / 3 in axes(many, 1 / 3)[0]
    assert len(axes(many, 0.3 + 1e-12)[0]) == 11
    assert axes(replace(many, method="ties"), 0.3)[1][-1] == 1.5
    assert axes(catalogue.default(), 1.0)[0] == axes(catalogue.default(), 1.0)[1]


def test_many_without_control_has_the_target_alone(desk, catalogue):
    numbers = Surface(desk.results, catalogue.default("many")).numbers()
    stored = [(a, b) for a in range(11) for b in range(11) if numbers["target"][b][a] is not None]
    assert stored == [(0, 0)]  # the base
    assert numbers["control"][0][0] is None
    assert numbers["score"][0][0] == pytest.approx(
        desk.results.stored(catalogue.default("many"), desk.results.recipe(catalogue.default("many"), lines(0, 0)))[
            "target"
        ]["normalized"]
    )
    drawn = surface_figure.surface(numbers, "control")
    assert "no task is left out" in drawn["layout"]["annotations"][0]["text"]


def point(control: float | None, target: float, weakest: float = 0.5) -> dict:
    stat = {"value": target, "normalized": target}
    return {
        "target": stat, "control": control and {"value": control, "normalized": control},
        "weakest": {"task": "t", "normalized": weakest}, "alpha": 0.1, "beta": 0.2,
    }  # fmt: skip


def test_front_holds_what_no_other_beats():
    best, low, high = point(0.5, 0.9), point(0.4, 0.8), point(0.3, 0.95)
    assert front([best, low, high]) == [high, best]
    assert front([point(None, 0.9, 0.1), point(None, 0.8, 0.2)])[1]["weakest"]["normalized"] == 0.2
    assert score(point(0.4, 0.9)) == pytest.approx(2.2)


def test_figure_is_empty_where_nothing_is_known(numbers):
    drawn = surface_figure.surfaces(numbers)
    for quantity, figure in drawn.items():
        cells = figure["data"][0]
        assert cells["type"] == "heatmap" and not cells["hoverongaps"]
        assert cells["meta"] == quantity
        assert [[value is None for value in row] for row in cells["z"]] == [
            [value is None for value in row] for row in numbers["target"]
        ]
        json.dumps(figure, allow_nan=False)
    assert drawn["target"]["data"][0]["z"][7][3] == 100 * numbers["target"][7][3]
    assert drawn["score"]["data"][0]["z"][7][3] == numbers["score"][7][3]


def test_isolines_only_between_known_cells_that_differ(numbers):
    def kinds(corner: list[float | None]) -> list[str]:
        rows = [[None] * len(numbers["alphas"]) for _ in numbers["betas"]]
        rows[3][4:6], rows[4][4:6] = corner[:2], corner[2:]
        return [trace["type"] for trace in surface_figure.surface(numbers | {"target": rows}, "target")["data"][:2]]

    assert kinds([0.5, 0.5, 0.5, 0.6]) == ["heatmap", "contour"]
    assert kinds([0.5, None, 0.5, 0.6]) == ["heatmap", "scatter"]
    assert kinds([0.5, 0.5, 0.5, 0.5]) == ["heatmap", "scatter"]


def test_both_families_lie_on_the_surface(numbers):
    traces = {trace["meta"]: trace for trace in surface_figure.surface(numbers, "target")["data"]}
    assert (traces["α + β = 1 (γ)"]["x"], traces["α + β = 1 (γ)"]["y"]) == ([0, 1], [1, 0])
    assert traces["β = 0, constant λ"]["y"] == [0, 0]
    many = surface_figure.surface(numbers | {"mode": "many", "alpha_norms": 0.25}, "target")
    assert {trace["meta"]: trace["x"] for trace in many["data"]}["α from the norms"] == [0.25, 0.25]


def test_front_trace_says_the_settings(numbers):
    trace = surface_figure.front(numbers["front"], {"mode": "edit"})
    assert len(trace["x"]) == len(numbers["front"]) > 1
    assert trace["x"] == sorted(trace["x"]) and trace["y"] == sorted(trace["y"], reverse=True)
    assert trace["customdata"][0][0].startswith("α = ")


def test_nothing_is_drawn_before_the_references_are_known(tiny_suite_folder, view):
    from lines_explorer.engine import Engine, Store
    from lines_explorer.suites import open_suite
    from lines_explorer.ui.results import Results

    empty = Engine(open_suite(str(tiny_suite_folder)), "cpu", Store(":memory:"))
    numbers = Surface(Results(empty), view).numbers()
    assert numbers["missing"] == 121
    assert numbers["front"] == []
    drawn = surface_figure.surface(numbers, "target")
    assert "nothing evaluated yet" in drawn["layout"]["annotations"][0]["text"]


def test_trail_and_front_hover_alike():
    assert figures.trail({"mode": "edit"})["hovertemplate"] == figures.hover_of({"mode": "edit"})
