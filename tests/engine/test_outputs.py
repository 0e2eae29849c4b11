"""Outputs of base and experts, kept to foretell what merged models answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny import TASKS, N

from lines_explorer.analysis.estimate import Sample, allocation, estimate_accuracies, stratified_order
from lines_explorer.engine import Backend, Engine, Evaluator, Store
from lines_explorer.engine.estimating import importance
from lines_explorer.engine.outputs import Outputs
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant, lines
from lines_explorer.suites import Suite, open_suite

ALL, SPLIT = tuple(TASKS), "validation"
PAIRS = [(task, SPLIT) for task in ALL]
BASE, EXPERT, OTHER = Recipe.base("tiny"), Recipe("tiny", ("shapes",)), Recipe("tiny", ("colours",))
MERGE = Recipe("tiny", ("colours", "shapes"), schedule=constant(0.5))


def scored(evaluator: Evaluator, *recipes: Recipe) -> None:
    for recipe in recipes:
        *_, last = evaluator.run(recipe, PAIRS)
        assert last.complete


def outputs(backend: Backend, recipe: Recipe, task: str) -> torch.Tensor:
    backend.load(recipe)
    return (backend.features(backend.suite.images(task, SPLIT)[0]) @ backend.head(task).T).half().float()


def test_sums_of_outputs_foretell_the_answers(backend: Backend) -> None:
    evaluator = Evaluator(backend, batch=25)
    scored(evaluator, BASE, EXPERT, Recipe("tiny", ("colours",), schedule=constant(1.0)))
    one = evaluator.outputs.foretold(Recipe("tiny", ("shapes",), schedule=lines(0.2, 0.8)), 0.6, ALL, SPLIT)
    both = evaluator.outputs.foretold(MERGE, 0.6, ALL, SPLIT)
    assert one.coefficients == (0.3, 0.6, 0.8) and both.coefficients == (0.3, 0.6, 0.3)
    for task in ALL:
        labels = backend.suite.images(task, SPLIT)[1]
        start, shapes, colours = (
            outputs(backend, recipe, task) for recipe in (BASE, EXPERT, Recipe("tiny", ("colours",)))
        )
        for found, change in ((one, shapes - start), (both, shapes + colours - 2 * start)):
            expected = [((start + c * change).argmax(1) == labels).numpy() for c in found.coefficients]
            assert np.mean(found.right(task, labels.numpy()) == expected) > 0.99, "but for ties of half precision"


def test_only_base_and_unedited_experts_are_kept(backend: Backend) -> None:
    kept, sizes = Outputs(), dict.fromkeys(PAIRS, N)
    for recipe in (
        BASE,
        EXPERT,
        Recipe("tiny", ("shapes",), schedule=constant(1.0)),
        Recipe("tiny", ALL, schedule=constant(0)),
    ):
        assert kept.recorder(recipe, sizes) is not None
    for recipe in (MERGE, Recipe("tiny", ("shapes",), schedule=constant(0.9)), Recipe("tiny", ("shapes",), "ties")):
        assert kept.recorder(recipe, sizes) is None


def test_nothing_is_foretold_before_all_is_known(backend: Backend) -> None:
    evaluator, edit = Evaluator(backend, batch=25), Recipe("tiny", ("shapes",), schedule=constant(0.5))
    scored(evaluator, BASE)
    assert evaluator.outputs.foretold(edit, 0.5, ALL, SPLIT) is None
    next(evaluator.run(EXPERT, PAIRS))
    assert evaluator.outputs.foretold(edit, 0.5, ALL, SPLIT) is None, "only the first images are known"
    scored(evaluator, EXPERT)
    assert evaluator.outputs.foretold(edit, 0.5, ALL, SPLIT) is not None
    assert evaluator.outputs.foretold(edit, 0.5, ALL, "test") is None
    assert evaluator.outputs.foretold(BASE, 0.0, ALL, SPLIT) is None, "of nothing there is no sum"


def test_the_longest_unused_give_way(backend: Backend) -> None:
    classes = sum(len(backend.suite.tasks[task].classes) for task in ALL)
    evaluator, edit = Evaluator(backend), Recipe("tiny", ("shapes",), schedule=constant(0.5))
    evaluator.outputs = Outputs(2 * N * classes * 2)
    scored(evaluator, BASE, EXPERT)
    assert evaluator.outputs.foretold(edit, 0.5, ALL, SPLIT) is not None
    scored(evaluator, Recipe("tiny", ("colours",)))
    assert evaluator.outputs.foretold(edit, 0.5, ALL, SPLIT) is None
    evaluator.outputs = Outputs(0)
    scored(evaluator, BASE, EXPERT)
    assert evaluator.outputs.foretold(edit, 0.5, ALL, SPLIT) is None


def test_they_help_only_where_no_stored_point_is_near(suite: Suite) -> None:
    engine = Engine(suite, "cpu", Store(":memory:"), shipped=False)
    engine.evaluate(BASE), engine.evaluate(EXPERT)

    def basis(recipe: Recipe):
        return engine.nearest.basis(recipe, {}, ALL, SPLIT)

    edit = Recipe("tiny", ("shapes",), schedule=lines(0.45, 0.1))
    assert basis(edit).foretold is not None
    once = basis(edit)
    assert once.predictors("shapes").shape == (2 + 3, N)
    assert once.predictors("shapes") is once.predictors("shapes"), "not formed again for every state"
    engine.evaluate(Recipe("tiny", ("shapes",), schedule=lines(0.4, 0.1)))
    assert basis(edit).foretold is None
    assert basis(edit).predictors("shapes").shape == (1, N)
    later = Engine(suite, "cpu", engine.store, shipped=False)
    assert later.nearest.basis(Recipe("tiny", ("places",), schedule=constant(0.5)), {}, ALL, SPLIT).foretold is None


TARGETS = ("fashion", "scripts")
SCHEDULES = (lines(0.33, 0.42), lines(0.0, 1.0), constant(0.5), constant(0.3))
ORDERS = 40


@pytest.fixture(scope="module")
def pocket() -> Engine:
    """The embedded suite's engine, which knows the outputs of the base and of two experts."""
    engine = Engine(open_suite("pocket"), "cpu", Store(":memory:"), shipped=False)
    engine.zero_shot()
    for target in TARGETS:
        engine.evaluate(Recipe("pocket", (target,)))
    return engine


@pytest.mark.parametrize("target", TARGETS)
def test_intervals_cover_and_are_narrow_after_a_tenth(pocket: Engine, target: str) -> None:
    """Real answers of a tenth of the images, other ones each time: ±3 points, the truth in 95 of 100 intervals."""
    covered, halves, tasks = [], [], tuple(pocket.suite.tasks)
    recipes = [Recipe("pocket", (target,), schedule=schedule) for schedule in SCHEDULES]
    bases = [pocket.nearest.basis(recipe, {}, tasks, SPLIT) for recipe in recipes]
    for recipe, basis in zip(recipes, bases, strict=True):
        assert basis.foretold is not None
        known = {task: basis.predictors(task) for task in tasks}
        pocket.evaluate(recipe)
        right = pocket.stored_answers(recipe)
        weights, sizes = importance((target,), tasks), [len(basis.labels[task]) for task in tasks]
        images = dict(zip(tasks, allocation(sizes, sum(sizes) // 10, [weights[task] for task in tasks]), strict=True))
        for seed in range(ORDERS):
            samples = {}
            for task, labels in basis.labels.items():
                seen = stratified_order(labels, seed)[: images[task]]
                samples[task] = Sample(labels, seen, right[task][seen], known[task])
            found = estimate_accuracies(samples)
            for group in ([target], [task for task in tasks if task != target]):
                mean, truth = found.mean(group), np.mean([right[task].mean() for task in group])
                covered.append(mean.low <= truth <= mean.high)
                halves.append((mean.high - mean.low) / 2)
    share, half = np.mean(covered), 100 * np.mean(halves)
    print(f"{target}: {share:.3f} of {len(covered)} covered, half widths ±{half:.2f} points on average")
    assert 0.93 <= share <= 0.985
    assert half <= 3.0
