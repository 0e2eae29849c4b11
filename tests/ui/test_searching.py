"""The search buttons' work: the paper's grid, its rule, the promise on control, and how it ends."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lines_explorer.analysis import constrained_choice, multi_task_choice, single_task_choice
from lines_explorer.engine import Engine, Store
from lines_explorer.errors import ExplorerError
from lines_explorer.suites import open_suite
from lines_explorer.ui.handlers import Desk
from lines_explorer.ui.searching import Hunt
from lines_explorer.ui.view import Catalogue

CATALOGUE = Catalogue(("shapes", "colours", "places"), ("sum", "average"), 3)
EDIT, MANY = CATALOGUE.default(), CATALOGUE.default("many")
PAIR = replace(MANY, tasks=("shapes", "places"))


@pytest.fixture
def search(desk, ask):
    """View, rule → the messages, checked to be JSON."""

    def searched(view, rule="rule", number=1, desk=desk):
        return [json.loads(text) for text in desk.search(ask(view, number=number) | {"rule": rule})]

    return searched


def normalized(desk, view, schedules):
    """(target, control) of the models of a line, evaluated here."""
    rows = []
    for schedule in schedules:
        summary = desk.engine.summary(desk.engine.evaluate(view.recipe("tiny", schedule)), view.targets)
        rows.append((summary.target_normalized, summary.control_normalized))
    return rows


def test_one_expert_is_searched_by_the_papers_rule(desk, search):
    messages = search(EDIT)
    grid = [message for message in messages if message["kind"] == "search"]
    assert [message["at"] for message in grid] == [[done, 11] for done in range(11)]
    assert [len(message["figure"]["x"]) for message in grid] == list(range(11))
    found = messages[-2]
    assert found["kind"] == "found" and messages[-1]["kind"] == "end"
    gammas = [step / 10 for step in range(10, -1, -1)]
    line = [replace(EDIT, alpha=gamma, beta=round(1 - gamma, 4)).curve(1.0) for gamma in gammas]
    rows = normalized(desk, EDIT, line)
    best = gammas[single_task_choice([(gamma, *row) for gamma, row in zip(gammas, rows, strict=True)])]
    assert (found["view"]["alpha"], found["view"]["schedule"]) == (best, "lines")
    said = found["said"].replace("\u00a0", " ")
    assert f"LiNeS at α = {best:g}, β = {1 - best:.3g} was chosen on validation" in said
    assert "2 × target + control" in said and "among the 11 points of the paper’s grid" in said
    assert sorted(found["figure"]["x"])[0] == pytest.approx(100 * min(_controls(desk, line)))


def _controls(desk, line):
    evaluations = [desk.engine.peek(EDIT.recipe("tiny", schedule)) for schedule in line]
    return [desk.engine.summary(one, ("shapes",)).control.value for one in evaluations]


def test_a_promise_on_control_is_kept_and_refined(desk, search):
    constant = replace(EDIT, schedule="constant")
    found = search(constant, "keep")[-2]
    scales = [step / 10 for step in range(11)]
    rows = normalized(desk, constant, [replace(constant, scale=scale).curve(1.0) for scale in scales])
    coarse = constrained_choice([(scale, *row) for scale, row in zip(scales, rows, strict=True)], 0.95)
    summary = desk.engine.summary(
        desk.engine.peek(constant.recipe("tiny", replace(constant, scale=found["view"]["scale"]).curve(1.0))),
        ("shapes",),
    )
    assert summary.control_normalized >= 0.95
    assert summary.target_normalized >= rows[coarse][0]
    assert "keeps 95 % of the base’s control" in found["said"].replace("\u00a0", " ")
    assert "11 of the paper’s grid and" in found["said"]


def test_several_experts_are_searched_over_beta_with_the_norms(desk, search):
    messages = search(replace(PAIR, norms=False, alpha=1.2))
    (family,) = [message["family"] for message in messages if message["kind"] == "family"]
    assert len(family["lines"]) == 10, "what was searched is on the line now"
    found = messages[-2]
    assert found["view"]["norms"] is True
    betas = [step / 10 for step in range(1, 11)]
    rows = normalized(desk, PAIR, [replace(PAIR, beta=beta).curve(0.5) for beta in betas])
    assert found["view"]["beta"] == betas[multi_task_choice([(b, row[0]) for b, row in zip(betas, rows, strict=True)])]
    assert any(message["kind"] == "progress" for message in messages)


def test_without_control_there_is_nothing_to_keep(search):
    assert search(MANY, "keep")[-1]["error"].startswith("Every task is a target")
    assert search(MANY)[-2]["kind"] == "found"


@pytest.mark.parametrize("rule", [None, "best", ["rule"], "rule; drop"])
def test_unknown_rules_are_refused(desk, search, rule):
    assert "choose one of rule, keep" in search(EDIT, rule)[-1]["error"]
    with pytest.raises(ExplorerError):
        Hunt(desk.results, EDIT, rule)


def test_a_newer_request_of_the_tab_ends_the_search(tiny_suite_folder, ask):
    """In the middle of the grid the visitor moves a slider: what is not evaluated stays so."""
    engine = Engine(open_suite(str(tiny_suite_folder)), "cpu", Store(":memory:"))
    desk = Desk(engine)
    kinds = []
    for text in desk.search(ask(EDIT, number=3) | {"rule": "rule"}):
        message = json.loads(text)
        kinds.append(message["kind"])
        if message["kind"] == "search" and message["at"][0] == 2:
            desk.live(ask(replace(EDIT, alpha=0.111), number=4))
    assert kinds[-1] == "end" and "found" not in kinds
    assert kinds.count("search") == 3
    assert Hunt(desk.results, EDIT, "rule").family().recipe(0.0).hash() not in _stored(engine)


def _stored(engine):
    return {
        recipe.hash()
        for recipe in (EDIT.recipe("tiny", replace(EDIT, alpha=g / 10, beta=1 - g / 10).curve(1.0)) for g in range(11))
        if engine.peek(recipe)
    }


def test_telling_evaluates_what_a_story_needs(desk, ask):
    messages = [json.loads(text) for text in desk.tell(ask(EDIT) | {"name": "story-sum"})]
    assert [message["kind"] for message in messages][-2:] == ["told", "end"]
    story = messages[-2]["told"]["stories"]["sum"]
    assert story["needs"] == 0 and "Added up whole" in story["caption"]
    assert desk.told(None) == messages[-2]["told"]
    for name in ("story-nothing", None, 3):
        assert json.loads(list(desk.tell(ask(EDIT) | {"name": name}))[-1])["kind"] == "error"
