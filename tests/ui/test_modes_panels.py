"""What the panels do in the modes beside Edit and Merge: work as they do there, or say that they do not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from runs_suite import write_runs_suite

from lines_explorer.engine import Engine, Evidence, Store
from lines_explorer.suites import open_suite
from lines_explorer.ui import texts
from lines_explorer.ui.drawing import DrawingDesk
from lines_explorer.ui.evidence import EvidenceDesk
from lines_explorer.ui.handlers import Desk
from lines_explorer.ui.links import Page
from lines_explorer.ui.modes import MODES
from lines_explorer.ui.searching import SEARCHED, Hunt


@pytest.fixture(scope="module")
def desk(tiny_suite_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = write_runs_suite(tiny_suite_folder, tmp_path_factory.mktemp("panels") / "tiny", {"shapes": 3})
    engine = Engine(open_suite(folder), "cpu", Store(":memory:"))
    engine.zero_shot()
    engine.experts()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LINES_EXPLORER_SUITES", str(engine.suite.folder.parent))
        yield Desk(engine)


def pictures(view, ask, **choice) -> dict:
    given = {"against": None, "task": "", "label": None, "direction": "both", "start": 0, "confusion": False}
    return ask(view) | {"run": 0, "evidence": given | choice}


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in SEARCHED])
def test_a_line_that_is_not_searched_says_so(desk: Desk, ask, mode) -> None:
    (told,) = [json.loads(text) for text in desk.search(ask(desk.catalogue.default(mode)) | {"rule": "keep"})]
    assert (told["kind"], told["error"]) == ("error", texts.SEARCH["elsewhere"])


def test_the_parameters_of_the_method_are_searched_with(desk: Desk) -> None:
    view = replace(desk.catalogue.default("many"), method="ties", parameters=(("k", 30.0),))
    assert Hunt(desk.results, view, "rule").family().recipe(0.5).parameters == view.parameters


def test_robustness_shows_nothing_before_every_set_is_evaluated(slow_desk: Desk, ask) -> None:
    view = replace(slow_desk.catalogue.default("robustness"), alpha=0.37)
    told = [json.loads(text) for text in slow_desk.settle(ask(view))]
    points = [message for message in told if message["kind"] == "point"]
    assert len(points) > 2 and [message["point"] for message in points[:-1]] == [None] * (len(points) - 1)
    assert points[-1]["point"]["complete"] and points[-1]["step"] == [2, 2]


@pytest.mark.parametrize("mode", ["soup", "negation"])
def test_what_grows_in_one_split_is_estimated(slow_desk: Desk, ask, mode) -> None:
    view = slow_desk.catalogue.default(mode)
    view = replace(view, schedule="constant", scale=0.37 if mode == "soup" else -0.37)
    told = [json.loads(text) for text in slow_desk.settle(ask(view))]
    *growing, last = [message["point"] for message in told if message["kind"] == "point" and message["point"]]
    assert growing and last["complete"]
    assert all(set(point["tasks"]) == set(last["tasks"]) and "estimate" in point for point in growing)


def test_negation_is_compared_with_the_base(desk: Desk, ask) -> None:
    view = desk.catalogue.default("negation")
    evidence = EvidenceDesk(desk, Evidence(desk.engine))
    assert evidence.changes(pictures(view, ask))["against"] == "base"
    assert evidence.changes(pictures(desk.catalogue.default("soup"), ask))["against"] == "expert"


def test_panels_wait_for_the_greedy_choice(desk: Desk, ask) -> None:
    view = replace(desk.catalogue.default("soup"), soup="greedy", runs=("shapes", "shapes/2"))
    fresh = Desk(Engine(desk.suite, "cpu", Store(":memory:")))
    evidence = Evidence(fresh.engine)
    blank = [0] * desk.suite.image_size**2
    request = ask(view, Page()) | {"task": "shapes", "pixels": blank}
    assert EvidenceDesk(fresh, evidence).changes(pictures(view, ask)) == {"error": texts.SOUP_UNKNOWN}
    assert DrawingDesk(fresh, evidence).classify(request) == {"error": texts.SOUP_UNKNOWN}
    for _ in fresh.settle(ask(view)):
        pass
    assert set(DrawingDesk(fresh, evidence).classify(request)["best"]) == {"base", "expert", "current"}
    assert "error" not in EvidenceDesk(fresh, evidence).changes(pictures(view, ask))
