"""Estimates on their way to the page: their numbers, their words, and who waits for whom in one tab."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest

from lines_explorer.recipe import Recipe
from lines_explorer.ui import serving, texts
from lines_explorer.ui.view import View

if TYPE_CHECKING:
    from lines_explorer.engine import Engine
    from lines_explorer.ui.handlers import Desk


def view_at(catalogue, alpha: float, beta: float = 0.55) -> View:
    return View(**{**vars(catalogue.default()), "alpha": alpha, "beta": beta})


def messages(stream) -> list[dict]:
    return [json.loads(text) for text in stream]


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_settling_tells_estimates_that_turn_exact(slow_desk: Desk, catalogue, ask) -> None:
    told = [m for m in messages(slow_desk.settle(ask(view_at(catalogue, 0.45)))) if m["kind"] == "point"]
    *growing, final = told
    assert len(growing) >= 3
    first = growing[0]["point"]
    assert not first["complete"] and "sentence" not in growing[0]
    said = plain(first["estimate"]["said"])
    assert said.startswith(f"Estimate, {first['estimate']['done']} of 120 pictures: target ")
    assert "α = 0.4, β = 0.6" in said and "α = 0.5, β = 0.5" in said, "both neighbours on the line are named"
    for point in (message["point"] for message in growing):
        for stat in (point["target"], point["control"], *point["tasks"].values()):
            assert stat["low"] <= stat["value"] <= stat["high"] and stat["n"] <= stat["total"]
        assert point["estimate"]["done"] < point["estimate"]["total"] == 120
    widths = [message["point"]["control"]["high"] - message["point"]["control"]["low"] for message in growing]
    assert widths[0] > widths[-1]
    assert final["point"]["complete"] and "estimate" not in final["point"] and "sentence" in final
    assert all("total" not in stat for stat in final["point"]["tasks"].values())


def test_an_estimate_divides_like_the_exact_point(slow_desk: Desk, catalogue, ask) -> None:
    *growing, final = [m["point"] for m in messages(slow_desk.settle(ask(view_at(catalogue, 0.47)))) if m.get("point")]
    for task, stat in growing[-1]["tasks"].items():
        exact = final["tasks"][task]
        assert (stat["denominator"], stat["reference"]) == (exact["denominator"], exact["reference"])
        assert stat["normalized"] == pytest.approx(stat["value"] / stat["denominator"], abs=1e-5)
    assert growing[-1]["weakest"]["task"] == "shapes"


def test_without_stored_points_the_words_name_none() -> None:
    stat = {"value": 0.5, "low": 0.4, "high": 0.65}
    said = plain(texts.estimate(48, 1200, stat, None, []))
    assert said == (
        "Estimate, 48 of 1,200 pictures: target 50.0 % (40.0 to 65.0 %). "
        "The 95 % intervals close when every picture is seen."
    )
    helped = plain(texts.estimate(48, 1200, stat, stat, ["the base", "λ = 0.4"]))
    assert "control 50.0 % (40.0 to 65.0 %). Stored answers help (the base; λ = 0.4). The 95 %" in helped


def test_a_tab_has_one_place_and_its_newest_view_takes_it(slow_desk: Desk, catalogue, ask) -> None:
    older = slow_desk.settle(ask(view_at(catalogue, 0.61), number=21))
    assert json.loads(next(older))["kind"] == "point"
    newer = messages(slow_desk.settle(ask(view_at(catalogue, 0.62), number=22)))
    assert newer[-2]["point"]["complete"]
    assert [m["kind"] for m in messages(older)] == ["end"]
    assert slow_desk.engine.peek(Recipe("tiny", ("shapes",), schedule=view_at(catalogue, 0.61).curve(1))) is None


def test_what_one_view_asks_for_twice_comes_one_after_the_other(slow_desk: Desk, catalogue, ask) -> None:
    """The test split is asked for while the point is still evaluated: neither takes the other's place."""
    request = ask(view_at(catalogue, 0.71), number=31)
    settling = slow_desk.settle(request)
    first = json.loads(next(settling))
    tested: list[dict] = []
    thread = threading.Thread(target=lambda: tested.extend(messages(slow_desk.score_test(request))))
    thread.start()
    settled = [first, *messages(settling)]
    thread.join(60)
    assert not thread.is_alive()
    assert settled[-2]["point"]["complete"] and tested[-2]["point"]["complete"]


def test_a_place_lost_to_a_stale_request_is_taken_again(slow_desk: Desk, catalogue, ask) -> None:
    view = view_at(catalogue, 0.81)
    settling = slow_desk.settle(ask(view, number=41))
    told = [json.loads(next(settling))]
    stale = slow_desk.engine.stream(
        Recipe("tiny", ("shapes",), schedule=view_at(catalogue, 0.82).curve(1)), visitor="a"
    )
    next(stale)
    stale.close()
    told += messages(settling)
    assert told[-2]["point"]["complete"]


def test_a_disk_that_takes_nothing_is_told_without_its_path(desk: Desk, catalogue, ask, monkeypatch) -> None:
    request = ask(catalogue.default())
    assert desk.live(request)["trouble"] is False
    monkeypatch.setattr(
        desk.engine.store, "trouble", "Results cannot be kept in /somewhere/of/mine/results.sqlite (full)."
    )
    answer = desk.live(request)
    assert answer["trouble"] is True and "/somewhere" not in json.dumps(answer)
    assert "memory" in texts.PHRASES["trouble"]


def test_the_served_engine_uses_idle_time(tiny_suite_folder, monkeypatch) -> None:
    made: list[Engine] = []

    def stop(engine: Engine, root: str, downloads: bool) -> None:
        made.append(engine)
        raise KeyboardInterrupt

    monkeypatch.setattr("lines_explorer.ui.layout.build_page", stop)
    with pytest.raises(KeyboardInterrupt):
        serving.serve(str(tiny_suite_folder), port=0)
    assert made[0].idle
