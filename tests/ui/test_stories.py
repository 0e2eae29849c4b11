"""Stories and lesson: told from stored results, true whichever way those point, and left out where they cannot be."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lines_explorer.analysis.paired import mean_paired_difference
from lines_explorer.engine import Engine, Store, reversed_recipe
from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant, free, lines
from lines_explorer.suites import open_suite
from lines_explorer.ui import lessons, stories, story_texts
from lines_explorer.ui.facts import Facts, Untold
from lines_explorer.ui.guide import Guide
from lines_explorer.ui.links import Links
from lines_explorer.ui.modes import GAMMAS
from lines_explorer.ui.results import Results
from lines_explorer.ui.view import Catalogue

N = 40
TASKS = ("shapes", "colours", "places")
Level = Callable[[Recipe, str], float]


def answers(share: float) -> np.ndarray:
    """The first ``share`` of the pictures are right: whoever has more, has all that the other has."""
    return np.arange(N) < round(share * N)


def everything() -> list[Recipe]:
    """Every recipe that any story or step may need on the tiny suite."""
    recipes = [Recipe.base("tiny")]
    for task in TASKS:
        for gamma in GAMMAS:
            recipes += [Recipe("tiny", (task,), schedule=s) for s in (lines(gamma, 1 - gamma), constant(gamma))]
        recipes.append(reversed_recipe("tiny", task, 3))
    for method in ("sum", "average"):
        alpha = 1 / 3 if method == "sum" else 1.0
        for knob in METHODS[method].grid:
            recipes += [Recipe("tiny", TASKS, method, schedule=s) for s in (lines(alpha, knob), constant(knob))]
    return recipes


@pytest.fixture(scope="module")
def told(tiny_suite_folder: Path) -> Callable[[Level], Guide]:
    """Results of one's own making → a guide that tells them."""
    suite = open_suite(str(tiny_suite_folder))
    engine = Engine(suite, "cpu", Store(":memory:"))
    alphas = {method: engine.alpha_from_norms(TASKS, method) for method in ("sum", "average")}
    assert alphas["sum"] == pytest.approx(1 / 3)

    def guide(level: Level) -> Guide:
        engine.store = Store(":memory:")
        for recipe in everything():
            schedule = recipe.schedule
            if recipe.tasks == tuple(sorted(TASKS)) and schedule.kind == "lines":
                recipe = Recipe("tiny", TASKS, recipe.method, schedule=lines(alphas[recipe.method], schedule.beta))
            for task in TASKS:
                engine.store.put(suite.hash, recipe.hash(), task, "validation", answers(level(recipe, task)), 0.0)
        catalogue = Catalogue(TASKS, tuple(METHODS), engine.backend.layout.depth)
        return Guide(Facts(Results(engine), catalogue), Links("tiny", catalogue))

    return guide


def usual(recipe: Recipe, task: str) -> float:
    """Experts win their own task and forget, most of all that of ``colours``; LiNeS wins back; deep blocks matter."""
    schedule, own = recipe.canonical().schedule, task in recipe.tasks
    if not recipe.canonical().tasks:
        return 0.5
    if len(recipe.tasks) > 1:
        size = schedule.alpha if schedule.kind == "constant" else schedule.alpha + schedule.beta / 2
        size *= 1 if recipe.method == "sum" else 1 / 3
        best = 0.7 if schedule.kind == "constant" else 0.9
        return best - 0.5 * abs(size - 0.3)
    loss = 0.3 if recipe.tasks == ("colours",) else 0.2
    if schedule.kind == "free":
        return 0.6 if own else 0.3
    if schedule.kind == "constant":
        return 0.5 + 0.5 * schedule.alpha if own else 0.5 - loss * schedule.alpha
    return 1.0 - 0.15 * (1 - schedule.alpha) if own else 0.5 - loss * schedule.alpha


def turned(recipe: Recipe, task: str) -> float:
    """The same the other way round: experts lose what they were trained on, and help everywhere else."""
    return 0.95 - 0.9 * usual(recipe, task)


def flat(recipe: Recipe, task: str) -> float:
    """Nothing makes any difference."""
    return 0.5


def captions(guide: Guide) -> dict[str, str]:
    return {name: story["caption"].replace("\u00a0", " ") for name, story in guide.told()["stories"].items()}


def test_at_least_eight_stories_and_each_is_told(told):
    guide = told(usual)
    all_told = guide.told()
    assert len(all_told["stories"]) >= 8
    assert list(all_told["stories"]) == [name for name, _ in guide.names()["stories"]] == list(stories.ROWS)
    assert set(stories.ROWS) == set(story_texts.TITLES)
    assert not [name for name, story in all_told["stories"].items() if story["needs"] or "{" in story["caption"]]
    assert not [name for name, step in all_told["lesson"].items() if step["needs"] or "{" in step["answer"]]
    json.dumps(all_told, allow_nan=False)


def test_every_storys_link_opens_its_view_and_its_pin(told):
    guide = told(usual)
    for name, story in guide.told()["stories"].items():
        opened = guide.links.read(story["link"])
        assert opened.problems == ()
        assert opened.page.guide == f"story-{name}"
        for view, sent in ((opened.view, story["view"]), (opened.page.pin, story["pin"])):
            if sent:
                recipe = guide.facts.recipe(guide.links.catalogue.read(sent))
                assert guide.facts.recipe(view).hash() == recipe.hash()
                assert guide.facts.results.peek(recipe)


def test_the_order_that_is_tested_is_that_of_lines_turned_round():
    """What a suite ships is what the story opens: λ from 1 in the first block to 0.3 in the last."""
    assert reversed_recipe("tiny", "shapes", 3) == Recipe("tiny", ("shapes",), schedule=free((1.0, 0.65, 0.3), 0.3))
    assert len(reversed_recipe("tiny", "shapes", 12).schedule.factors) == 12


def test_captions_agree_with_recomputed_numbers(told):
    guide = told(usual)
    engine, said = guide.facts.results.engine, captions(guide)

    def bits(recipe, tasks):
        return [engine.stored_answers(recipe)[task] for task in tasks]

    def change(first, second, tasks):
        return mean_paired_difference(list(zip(bits(first, tasks), bits(second, tasks), strict=True)))

    base, expert = Recipe.base("tiny"), Recipe("tiny", ("colours",))
    own, lost = change(base, expert, ["colours"]), change(base, expert, ["shapes", "places"])
    assert f"Fine-tuned on Colours, the base gains {100 * own.value:.1f} points" in said["forgets"]
    ends = f"[{-100 * lost.high:.1f} to {-100 * lost.low:.1f}]"
    assert f"it loses {-100 * lost.value:.1f} points {ends} (50.0 % → {50 + 100 * lost.value:.1f} %)" in said["forgets"]
    best = max(
        (constant(k / 10) for k in range(1, 11)),
        key=lambda s: sum(b.mean() for b in bits(Recipe("tiny", TASKS, schedule=s), TASKS)),
    )
    gain = change(Recipe("tiny", TASKS), Recipe("tiny", TASKS, schedule=best), TASKS)
    assert f"λ = {best.alpha:g}, is the best" in said["scaled"]
    assert f"gains {100 * gain.value:.1f} points" in said["scaled"]


FLIPS = {
    "forgets": ("gains .* there .* it loses", "loses .* there .* it gains"),
    "shallow": ("wins back .* of control .* costs .* of target", "loses another .* of control .* gains .* of target"),
    "level": ("LiNeS keeps .* more of the target", "LiNeS keeps .* less of the target|no more than noise"),
    "least": ("LiNeS is better beyond noise for 3", "LiNeS is better beyond noise for 0"),
    "reversed": ("costs .* of target", "gains .* of target"),
    "transfer": ("loses .* against the base there", "gains .* over the base there"),
    "sum": ("less than the base. .* the updates interfere", "more than the base, .* do not interfere"),
    "layered": ("gains .* over the best constant", "loses .* against the best constant"),
}


@pytest.mark.parametrize("name", FLIPS)
def test_captions_follow_the_numbers_in_both_directions(told, name):
    first, second = (captions(told(level))[name] for level in (usual, turned))
    assert re.search(FLIPS[name][0], first), first
    assert re.search(FLIPS[name][1], second), second
    assert first != second


def test_nothing_is_claimed_where_nothing_differs(told):
    said = captions(told(flat))
    for name in ("forgets", "level", "reversed", "transfer", "sum", "scaled", "layered", "average"):
        assert re.search("no more than noise|No constant λ up to 1 is better", said[name]), said[name]
        assert not re.search(r"(gains|loses|costs|keeps|wins back) \d", said[name]), said[name]


def test_the_story_that_speaks_against_lines_takes_the_worst_expert(told):
    """Of the three experts, that of ``places`` is the one for which LiNeS does worse than a constant."""

    def mixed(recipe, task):
        if recipe.canonical().tasks != ("places",) or recipe.schedule.kind == "free":
            return usual(recipe, task)
        schedule, own = recipe.canonical().schedule, task == "places"
        if schedule.kind == "lines":
            return 0.6 if own else 0.4
        return (0.6 if schedule.alpha == 1 else 1.0) if own else 0.5 - 0.2 * schedule.alpha

    guide = told(mixed)
    story = stories.tell(guide.facts, "least")
    assert story.view.target == "places"
    assert "LiNeS keeps" in story.caption and "less of the target" in story.caption
    assert "worse for 1" in story.caption


def test_guessing_is_said_only_where_the_interval_reaches_chance(told):
    def level(recipe, task):
        return 0.25 if task == "places" else usual(recipe, task)

    assert "On 1 of 3 tasks the base cannot be told from guessing: Places (25.0 %" in captions(told(level))["chance"]
    assert "On each of the 3 tasks the base is better than guessing" in captions(told(usual))["chance"]


def test_what_is_not_stored_is_not_told(engine, catalogue):
    """On the fixture's engine only the lines of ``shapes`` are stored."""
    catalogue = Catalogue(catalogue.tasks, tuple(METHODS), 3)
    guide = Guide(Facts(Results(engine), catalogue), Links("tiny", catalogue))
    story = stories.tell(guide.facts, "layered")
    assert len(story.needs) == 10
    assert story.caption == "Not told yet: 10 of the models it speaks of are not evaluated."
    assert guide.needs("story-layered") == story.needs
    with pytest.raises(Untold):
        guide.facts.merged("sum", "constant")
    for name in ("story-nothing", "lesson-", "", None, 3, "story"):
        with pytest.raises(ExplorerError):
            guide.needs(name)


def test_a_choice_that_cannot_be_made_is_said(told):
    """An expert without a single right answer has no normalized accuracy."""
    guide = told(lambda recipe, task: 0.0 if recipe.canonical().tasks and task in recipe.tasks else 0.5)
    assert stories.tell(guide.facts, "shallow").caption.startswith("No point can be chosen")
    assert lessons.step(guide.facts, "rule").question.startswith("No point can be chosen")
    assert guide.told()["stories"]["forgets"]["needs"] == 0


class Told(Facts):
    """Facts of a suite with fewer tasks and experts."""

    def __init__(self, facts: Facts, tasks: tuple[str, ...], experts: tuple[str, ...]) -> None:
        super().__init__(facts.results, Catalogue(experts, facts.catalogue.methods, facts.catalogue.blocks))
        self.tasks = tasks


def test_a_suite_is_told_only_what_it_can_tell(told):
    facts = told(usual).facts
    alone = Told(facts, ("shapes",), ("shapes",))
    assert stories.tellable(alone) == ["reversed", "chance"]
    assert lessons.steps(alone) == ["zero", "expert", "half", "order", "split"]
    one = Told(facts, TASKS, ("shapes",))
    assert stories.tellable(one) == ["forgets", "shallow", "level", "reversed", "transfer", "chance"]
    assert all(stories.tell(one, name).caption for name in stories.tellable(one))
    assert "Of all" not in stories.tell(one, "forgets").caption


class TestLesson:
    def test_right_answers_are_the_numbers(self, told):
        guide = told(usual)
        steps = {step.name: step for step in lessons.lesson(guide.facts)}
        assert len(steps) == 13
        assert steps["zero"].right == pytest.approx(50)
        assert steps["expert"].right == pytest.approx(100)
        assert steps["others"].right == 2
        assert steps["half"].right == pytest.approx(100 * 0.75)
        assert steps["order"].right == 2
        assert steps["layered"].right == 0
        best = guide.facts.best(guide.facts.edited("colours", "lines"))
        assert steps["rule"].right == best.knob
        assert f"γ = {best.knob:g}:" in steps["rule"].answer.replace("\u00a0", " ")

    def test_the_other_way_round(self, told):
        steps = {step.name: step for step in lessons.lesson(told(turned).facts)}
        assert steps["others"].right == 0
        assert steps["order"].right == 0
        assert steps["layered"].right == 2
        steps = {step.name: step for step in lessons.lesson(told(flat).facts)}
        assert [steps[name].right for name in ("others", "order", "level", "sum", "layered")] == [1] * 5

    def test_a_promise_nobody_can_keep(self, told):
        def level(recipe, task):
            return usual(recipe, task) if task in recipe.tasks or not recipe.canonical().tasks else 0.1

        step = lessons.step(told(level).facts, "keep")
        assert step.answer.startswith("None: the most that any γ keeps is")

    def test_start_and_end_are_different_settings(self, told):
        guide = told(usual)
        for step in lessons.lesson(guide.facts):
            hashes = {guide.facts.recipe(view).hash() for view in (step.start, step.end)}
            assert len(hashes) == 2, step.name
