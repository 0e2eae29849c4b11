"""engine/: what is written is θ₀ + λτ to the bit, what is counted follows METHOD, and asking at once is safe."""

from __future__ import annotations

import gc
import json
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import TASKS, N

from lines_explorer import merging
from lines_explorer.engine import (
    Backend,
    Engine,
    Evaluation,
    Evaluator,
    Store,
    multi_task_recipes,
    single_task_recipes,
)
from lines_explorer.engine.evaluator import stratified_order
from lines_explorer.errors import ExplorerError
from lines_explorer.layers import layout_of, tensor_factors
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant, free, lines
from lines_explorer.suites import Suite, open_suite

ALL = tuple(TASKS)
RECIPES = [
    Recipe("tiny", ("shapes",), schedule=lines(0.3, 0.7)),
    Recipe("tiny", ("shapes",), schedule=lines(0.3, 0.4), rule="depth"),
    Recipe("tiny", ALL, schedule=constant(0.4)),
    Recipe("tiny", ALL, "average", schedule=lines(-0.5, 1.7)),
    Recipe("tiny", ("colours", "places"), schedule=free((0.0, 1.0, 0.25), rest=0.5)),
]


def from_scratch(suite: Suite, recipe: Recipe) -> dict[str, torch.Tensor]:
    base = suite.visual_base()
    merged = merging.METHODS[recipe.method].merge([suite.task_vector(task) for task in recipe.tasks])
    return merging.apply(base, merged, tensor_factors(layout_of(base), recipe.schedule, recipe.rule))


def assert_holds(backend: Backend, expected: dict[str, torch.Tensor]) -> None:
    state = backend.state_dict()
    assert torch.equal(state.pop("logit_scale"), backend.suite.base()["logit_scale"])
    assert state.keys() == expected.keys()
    for key, tensor in expected.items():
        assert torch.equal(state[key], tensor) and torch.equal(state[key].signbit(), tensor.signbit()), key


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_loading_is_merging_apply_to_the_bit(backend: Backend, suite: Suite, recipe: Recipe) -> None:
    backend.load(recipe)
    assert_holds(backend, from_scratch(suite, recipe))
    for key, tensor in backend._model.state_dict().items():
        if key.startswith("visual."):
            assert torch.equal(tensor, backend.state_dict()[key])


def test_a_thousand_loads_neither_drift_nor_grow(backend: Backend, suite: Suite) -> None:
    random = np.random.default_rng(0)
    tensors = 0
    for number in range(1000):
        alpha, beta = (round(float(value), 3) for value in random.uniform(-2, 2, 2))
        backend.load(Recipe("tiny", [("shapes",), ("places", "shapes")][number % 2], schedule=lines(alpha, beta)))
        if number in (50, 999):
            gc.collect()
            alive = sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())
            assert not tensors or alive <= tensors
            tensors = alive
    backend.load(RECIPES[0])
    assert_holds(backend, from_scratch(suite, RECIPES[0]))
    backend.load(Recipe.base("tiny"))
    assert_holds(backend, suite.visual_base())


def test_only_a_few_merged_vectors_are_kept(backend: Backend) -> None:
    for method in ("sum", "average"):
        for tasks in (("shapes",), ("places",), ("colours",), ALL):
            backend.load(Recipe("tiny", tasks, method, schedule=constant(0.5)))
    assert len(backend._merged) <= 4


@pytest.mark.parametrize("method", ["sum", "average"])
def test_end_points_are_exact(full_suite_folder: Path, method: str) -> None:
    suite = open_suite(full_suite_folder)
    backend = Backend(suite, "cpu")
    expert, base = suite.expert("shapes"), suite.visual_base()
    backend.load(Recipe("tiny", ("shapes",), method, schedule=constant(1.0)))
    assert_holds(backend, expert)
    backend.load(Recipe("tiny", ("shapes",), method, schedule=constant(0.0)))
    assert_holds(backend, base)
    backend.load(Recipe("tiny", ("shapes",), method, schedule=free((0.0, 1.0, 0.0), rest=0.0)))
    block = "visual.transformer.resblocks.1."
    assert_holds(backend, {key: expert[key] if key.startswith(block) else base[key] for key in base})


def test_features_are_open_clips(backend: Backend, suite: Suite) -> None:
    model = suite.build_model()
    model.load_state_dict(from_scratch(suite, RECIPES[0]), strict=False)
    images, _ = suite.images("shapes", "test")
    pixels = (images.float() / 255 - 0.5) / 0.5
    with torch.inference_mode():
        expected = model.encode_image(pixels, normalize=True)
    backend.load(RECIPES[0])
    assert torch.allclose(backend.features(images), expected, atol=1e-5)
    assert torch.allclose(backend.features(images).norm(dim=1), torch.ones(N))


def test_alpha_from_norms(backend: Backend, suite: Suite) -> None:
    assert backend.alpha_from_norms(ALL, "sum") == pytest.approx(1 / 3, rel=1e-6)
    assert backend.alpha_from_norms(ALL, "average") == pytest.approx(1, rel=1e-6)
    taus = [suite.task_vector(task) for task in ALL]
    merged = merging.METHODS["sum"].merge(taus)
    assert backend.alpha_from_norms(ALL[::-1], "sum") == merging.norm_ratio(taus, merged)


def test_counts_are_those_of_one_plain_pass(engine: Engine, suite: Suite) -> None:
    evaluation = engine.evaluate(RECIPES[2])
    engine.backend.load(RECIPES[2])
    assert list(evaluation.scores) == list(ALL)
    for task, score in evaluation.scores.items():
        images, labels = suite.images(task, "validation")
        right = (engine.backend.features(images) @ suite.head(task).T).argmax(1) == labels
        assert (score.correct, score.n, score.total, score.complete) == (int(right.sum()), N, N, True)
        row = engine.store.get(suite.hash, RECIPES[2].hash(), task, "validation")
        assert np.array_equal(row.right(), right.numpy())


def test_partial_counts_are_spread_over_tasks_and_classes(backend: Backend) -> None:
    evaluator = Evaluator(backend, batch=30)
    pairs = [(task, "validation") for task in ALL]
    steps = list(evaluator.run(RECIPES[0], pairs))
    assert [[score.n for score in step.scores] for step in steps] == [[10] * 3, [20] * 3, [30] * 3, [40] * 3]
    assert [step.complete for step in steps] == [False, False, False, True]
    assert [len(step.bits) for step in steps] == [0, 0, 0, 3]
    whole = next(iter(Evaluator(backend, batch=1000).run(RECIPES[0], pairs)))
    assert whole.scores == steps[-1].scores


def test_stratified_order_is_a_fixed_permutation() -> None:
    labels = np.repeat([0, 1, 2], [100, 50, 10])
    order = stratified_order(labels)
    assert sorted(order) == list(range(160)) and np.array_equal(order, stratified_order(labels))
    for size in (16, 32, 80, 144):
        counts = np.bincount(labels[order[:size]], minlength=3)
        assert np.abs(counts - size * np.array([100, 50, 10]) / 160).max() <= 1.5


def test_what_is_stored_comes_at_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine.peek(RECIPES[0]) is None
    first = engine.evaluate(RECIPES[0])
    assert first.source == "evaluated" and first.complete and first.seconds > 0
    monkeypatch.setattr(engine.backend, "load", None)
    second = list(engine.stream(RECIPES[0]))
    assert len(second) == 1 and second[0].source == "stored"
    assert second[0].scores == first.scores == engine.peek(RECIPES[0]).scores
    assert engine.peek(RECIPES[0], ["shapes"]).scores.keys() == {"shapes"}


def test_only_missing_tasks_are_evaluated(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.evaluate(RECIPES[0], ["shapes"])
    asked: list[list] = []
    run = engine.evaluator.run
    monkeypatch.setattr(engine.evaluator, "run", lambda *a, **k: (asked.append(list(a[1])), run(*a, **k))[1])
    evaluation = engine.evaluate(RECIPES[0])
    assert asked == [[("colours", "validation"), ("places", "validation")]]
    assert evaluation.complete and list(evaluation.scores) == list(ALL)


def test_a_stream_grows_and_ends_complete(slow: Engine) -> None:
    steps = list(slow.stream(RECIPES[0]))
    seen = [sum(score.n for score in step.scores.values()) for step in steps]
    assert len(steps) > 3 and seen == sorted(seen) and seen[-1] == 3 * N
    assert [step.complete for step in steps] == [False] * (len(steps) - 1) + [True]


def test_a_stopped_stream_stores_nothing_partial_and_does_not_block_the_next(slow: Engine) -> None:
    steps = []
    for step in slow.stream(RECIPES[0], stop=lambda: bool(steps)):
        steps.append(step)
    assert steps and not steps[-1].complete
    assert len(slow.store) == 0 and slow.peek(RECIPES[0]) is None
    assert slow.evaluate(RECIPES[1]).complete
    assert len(slow.store) == 3 and slow.peek(RECIPES[0]) is None
    assert slow.evaluate(RECIPES[0]).complete


def test_a_closed_stream_stops_the_device(slow: Engine) -> None:
    stream = slow.stream(RECIPES[0])
    next(stream)
    stream.close()
    deadline = time.monotonic() + 10
    while slow.worker.busy and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not slow.worker.busy and len(slow.store) == 0


def test_stop_before_the_turn_leaves_the_queue(slow: Engine) -> None:
    first = slow.stream(RECIPES[0])
    next(first)
    assert list(slow.stream(RECIPES[1], stop=lambda: True)) == []
    assert list(first)[-1].complete
    assert slow.peek(RECIPES[1]) is None


def together(engine: Engine, recipes: list[Recipe]) -> list[Evaluation | Exception]:
    """Evaluates all recipes at once, a thread each."""
    results: list = [None] * len(recipes)
    barrier = threading.Barrier(len(recipes))

    def ask(place: int) -> None:
        barrier.wait()
        try:
            results[place] = engine.evaluate(recipes[place])
        except Exception as fault:
            results[place] = fault

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(recipes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def test_identical_requests_share_one_evaluation(slow: Engine, loads: list[Recipe]) -> None:
    same = [Recipe("tiny", ("shapes",), schedule=lines(0.7, 0.0)), Recipe("tiny", ("shapes",), schedule=constant(0.7))]
    results = together(slow, same * 4)
    assert len(loads) == 1
    assert len({json.dumps([vars(score) for score in result.scores.values()]) for result in results}) == 1
    assert [result.recipe for result in results] == same * 4


def test_different_requests_take_turns(slow: Engine, loads: list[Recipe], suite: Suite) -> None:
    results = together(slow, RECIPES)
    assert sorted(map(str, loads)) == sorted(map(str, RECIPES))
    alone = Engine(suite, "cpu", Store(":memory:"))
    for recipe, result in zip(RECIPES, results, strict=True):
        assert result.scores == alone.evaluate(recipe).scores


def test_one_who_leaves_does_not_stop_the_others(slow: Engine, loads: list[Recipe]) -> None:
    stayer, leaver = slow.stream(RECIPES[0]), slow.stream(RECIPES[0])
    next(stayer), next(leaver)
    leaver.close()
    assert list(stayer)[-1].complete and len(loads) == 1


def test_a_failed_evaluation_is_told_and_does_not_harm_the_next(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(engine.backend, "predict", lambda *a: (_ for _ in ()).throw(RuntimeError("broken")))
        with pytest.raises(RuntimeError, match="broken"):
            engine.evaluate(RECIPES[0])
    assert len(engine.store) == 0
    assert engine.evaluate(RECIPES[0]).complete


def test_zero_shot_experts_and_shifts(engine: Engine) -> None:
    zero, experts = engine.zero_shot("validation"), engine.experts("validation")
    assert list(experts) == list(ALL)
    assert all(experts[task].correct > zero.scores[task].correct for task in ALL)
    shifted = engine.evaluate(RECIPES[0], None, "noisy")
    assert list(shifted.scores) == ["shapes"] and shifted.scores["shapes"].split == "noisy"
    assert list(engine.experts("noisy")) == ["shapes"]


def test_summary_divides_by_expert_and_by_zero_shot(engine: Engine) -> None:
    evaluation = engine.evaluate(RECIPES[0])
    summary = engine.summary(evaluation, ["shapes"])
    zero, expert = engine.zero_shot(), engine.experts()
    own = summary.tasks["shapes"]
    assert (own.role, own.reference, own.denominator) == ("target", "expert", expert["shapes"].value)
    assert own.normalized == own.accuracy / expert["shapes"].value == summary.target_normalized
    assert summary.target.value == own.accuracy == evaluation.scores["shapes"].correct / N
    others = [summary.tasks[task] for task in ("colours", "places")]
    assert {(other.role, other.reference) for other in others} == {("control", "zero-shot")}
    assert [other.denominator for other in others] == [zero.scores[o.task].accuracy.value for o in others]
    assert summary.control_normalized == pytest.approx(np.mean([o.accuracy / o.denominator for o in others]))
    assert (summary.control.n, summary.control.tasks) == (2 * N, 2)


def test_summary_of_all_tasks_of_none_and_of_partial_counts(slow: Engine) -> None:
    merged = slow.summary(slow.evaluate(RECIPES[2]), ALL)
    assert merged.control is None and np.isnan(merged.control_normalized) and merged.target.tasks == 3
    base = slow.summary(slow.zero_shot(), ())
    assert base.target is None and base.control_normalized == pytest.approx(1)
    partial = next(slow.stream(RECIPES[4]))
    assert slow.summary(partial, ["colours"]).target.n == partial.scores["colours"].n < N


def test_curves_follow_the_protocol(engine: Engine) -> None:
    curve = engine.single_task_curve("places", points=3)
    schedules = [(e.recipe.schedule.alpha, e.recipe.schedule.beta) for e in curve]
    assert schedules == [(1, 0), (0.5, 0.5), (0, 1)]
    line = engine.constant_curve("places", points=3)
    assert line[0].scores == curve[0].scores
    assert line[-1].scores == {task: score for task, score in engine.zero_shot().scores.items()}
    many = engine.multi_task_curve(ALL, "sum")
    assert [e.recipe.schedule.beta for e in many] == list(merging.METHODS["sum"].grid)
    assert {e.recipe.schedule.alpha for e in many} == {engine.alpha_from_norms(ALL)}
    constant_grid = multi_task_recipes("tiny", ALL, "sum", None)
    assert [e.recipe for e in engine.multi_task_curve(ALL, "sum", lines=False)] == constant_grid
    with pytest.raises(ExplorerError, match="at least 2 points"):
        single_task_recipes("tiny", "places", points=1)
    with pytest.raises(ExplorerError, match="no merge method nonsense"):
        multi_task_recipes("tiny", ALL, "nonsense", 0.5)


BAD = {
    "another suite": (Recipe("other", ("shapes",)), {}, "is for suite other"),
    "no such expert": (Recipe("tiny", ("cars",)), {}, "no expert cars"),
    "no such method": (Recipe("tiny", ALL, "magic"), {}, "no merge method magic"),
    "parameters": (Recipe("tiny", ALL, "sum", (("trim", 20),)), {}, "does not take these parameters"),
    "factors": (Recipe("tiny", ALL, schedule=free((1.0, 1.0), rest=0.0)), {}, "3"),
    "no such task": (RECIPES[0], {"score_on": ["cars"]}, "no task cars"),
    "no such split": (RECIPES[0], {"split": "training"}, "split training"),
    "not this task's split": (RECIPES[0], {"score_on": ["places"], "split": "noisy"}, "Task places has no split noisy"),
    "no task": (RECIPES[0], {"score_on": []}, "none was asked for"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_requests_fail_at_once(engine: Engine, kind: str) -> None:
    recipe, options, message = BAD[kind]
    with pytest.raises(ExplorerError, match=message):
        engine.stream(recipe, **options)
    assert not engine.worker.busy


def test_an_unknown_device(suite: Suite) -> None:
    for name in ("abacus", "meta-cpu"):
        with pytest.raises(ExplorerError, match=f"device {name} cannot be used"):
            Backend(suite, name)
