"""Estimates of an evaluation that grows: what they rest on, that they close, and that they are never stored."""

from __future__ import annotations

import numpy as np
import pytest
from tiny import TASKS, N

from lines_explorer.engine import Engine, Evaluation, Row
from lines_explorer.engine.curves import family
from lines_explorer.engine.estimating import MOST_POINTS, importance
from lines_explorer.engine.runs import Run
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant, free, lines, single_task

ALL = tuple(TASKS)
CONTROLS = ("colours", "places")


def edit(schedule) -> Recipe:
    return Recipe("tiny", ("shapes",), schedule=schedule)


NEW = edit(lines(0.45, 0.55))


def grown(engine: Engine, recipe: Recipe = NEW, score_on: tuple[str, ...] | None = None) -> list[Evaluation]:
    """Every state of a new evaluation, batch by batch."""
    states: list[Evaluation] = []
    publish = Run.publish
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "publish", lambda run, state: (states.append(state), publish(run, state))[1])
        engine.evaluate(recipe, score_on)
    return states


def test_the_estimate_begins_wide_and_closes_on_the_counts(slow: Engine) -> None:
    states = grown(slow)
    widths = {task: [] for task in ALL}
    for state in states:
        for task, score in state.scores.items():
            estimate = state.estimated.task(task)
            assert (estimate.correct, estimate.n, estimate.total) == (score.correct, score.n, score.total)
            assert estimate.low <= estimate.value <= estimate.high
            widths[task].append(estimate.high - estimate.low)
    last = states[-1]
    assert last.complete and len(states) > 5
    for task, score in last.scores.items():
        estimate = last.estimated.task(task)
        assert estimate.exact and estimate.low == estimate.value == estimate.high == score.correct / N
        assert widths[task][0] > widths[task][2] > widths[task][-1] == 0
    assert last.estimated.mean(CONTROLS).value == slow.summary(last, ("shapes",)).control.value


def test_every_state_holds_the_truth_near_a_stored_point(slow: Engine) -> None:
    """The neighbours give the very same answers here as the point itself, but for a few pictures."""
    for gamma in (0.4, 0.5):
        slow.evaluate(edit(single_task(gamma)))
    states = grown(slow)
    truth = slow.summary(states[-1], ("shapes",))
    held = [state.estimated.mean(CONTROLS) for state in states]
    assert np.mean([mean.low <= truth.control.value <= mean.high for mean in held]) >= 0.9
    alone = Engine(slow.suite, "cpu", type(slow.store)(":memory:"), shipped=False)
    alone.evaluator.batch = 10
    plain = grown(alone)
    assert plain[0].estimated.points == ()
    assert held[0].high - held[0].low < 0.8 * width(plain[0], CONTROLS)


def width(state: Evaluation, tasks: tuple[str, ...]) -> float:
    mean = state.estimated.mean(tasks)
    return mean.high - mean.low


def test_the_nearest_stored_points_of_the_family_are_used(engine: Engine) -> None:
    near = [edit(single_task(gamma)) for gamma in (0.4, 0.5, 0.6)]
    for recipe in [*near, edit(constant(1.0)), Recipe("tiny", ("places",), schedule=lines(0.45, 0.55))]:
        engine.evaluate(recipe)
    engine.zero_shot()
    points = grown(engine)[-1].estimated.points
    assert {point.hash() for point in points[:2]} == {near[0].hash(), near[1].hash()}
    assert points[2:] == (near[2].canonical(),), "the expert, the base and other experts are too far"


def test_points_off_the_grid_help_once_they_were_evaluated(engine: Engine) -> None:
    drawn = edit(free((0.44, 0.71, 0.98), 0.44))
    engine.evaluate(drawn)
    engine.evaluate(edit(lines(0.46, 0.54)))
    points = grown(engine)[-1].estimated.points
    assert set(points) == {drawn.canonical(), edit(lines(0.46, 0.54)).canonical()}


def test_stored_points_of_an_earlier_process_help(engine: Engine) -> None:
    engine.evaluate(edit(single_task(0.5)))
    later = Engine(engine.suite, "cpu", engine.store)
    assert [point.hash() for point in grown(later)[0].estimated.points] == [edit(single_task(0.5)).hash()]


def test_far_points_help_only_where_there_is_nothing_nearer(engine: Engine) -> None:
    engine.zero_shot()
    assert grown(engine)[0].estimated.points == (Recipe.base("tiny"),)
    again = grown(engine, edit(lines(0.5, 0.5)))[0].estimated.points
    assert again == (NEW.canonical(),)


def test_counts_without_answers_predict_nothing(engine: Engine) -> None:
    recipe = edit(single_task(0.5))
    for task in ALL:
        engine.store._shipped[(engine.suite.hash, recipe.hash(), task, "validation", "float32")] = Row(N, 20)
    assert engine.peek(recipe).complete
    assert grown(engine)[0].estimated.points == ()


def test_no_more_than_some_points_are_used(engine: Engine) -> None:
    for step in range(7):
        engine.evaluate(edit(lines(0.43 + step / 100, 0.55)), ["shapes"])
    assert len(grown(engine, edit(lines(0.455, 0.55)), ("shapes",))[0].estimated.points) == MOST_POINTS


def test_tasks_stored_before_are_measured_and_the_rest_estimated(slow: Engine) -> None:
    slow.evaluate(NEW, ["colours"])
    states = grown(slow)
    stored = states[0].estimated.task("colours")
    assert stored.exact and stored.low == stored.value == stored.high == states[0].scores["colours"].correct / N
    assert not states[0].estimated.task("places").exact
    assert width(states[0], CONTROLS) > 0 and width(states[-1], CONTROLS) == 0


def test_estimates_are_never_stored(slow: Engine) -> None:
    stream = slow.stream(NEW)
    first = next(stream)
    assert first.estimated is not None and not first.complete
    assert slow.peek(NEW) is None and slow.stored_answers(NEW) == {} and len(slow.store) == 0
    assert list(stream)[-1].complete
    assert slow.peek(NEW).estimated is None
    with pytest.raises(ExplorerError, match="nothing is estimated"):
        slow.estimated_summary(slow.peek(NEW), ("shapes",))


def test_the_summary_of_estimates_divides_as_the_protocol_does(slow: Engine) -> None:
    states = grown(slow)
    for state in (states[0], states[-1]):
        summary = slow.estimated_summary(state, ("shapes",))
        own = summary.tasks["shapes"]
        assert (own.role, own.reference) == ("target", "expert")
        assert summary.target.value == own.estimate.value
        assert own.normalized == own.estimate.value / slow.experts()["shapes"].value == summary.target_normalized
        others = [summary.tasks[task] for task in CONTROLS]
        assert {(other.role, other.reference) for other in others} == {("control", "zero-shot")}
        assert summary.control.value == pytest.approx(np.mean([other.estimate.value for other in others]))
        assert summary.control_normalized == pytest.approx(np.mean([other.normalized for other in others]))
    measured = slow.summary(slow.peek(NEW), ("shapes",))
    assert (summary.target_normalized, summary.control_normalized) == pytest.approx(
        (measured.target_normalized, measured.control_normalized)
    )
    merged = slow.estimated_summary(grown(slow, Recipe("tiny", ALL, schedule=constant(0.3)))[0], ALL)
    assert merged.control is None and np.isnan(merged.control_normalized) and merged.target.total == 3 * N


def test_target_and_control_get_half_of_the_first_images_each(slow: Engine) -> None:
    first = grown(slow)[0]
    assert {task: score.n for task, score in first.scores.items()} == pytest.approx(
        {"shapes": 5, "colours": 2.5, "places": 2.5}, abs=0.5
    )
    assert importance(("a", "b"), ("a", "b", "c")) == {"a": 0.5, "b": 0.5, "c": 1.0}
    assert importance((), ("a", "b")) == {"a": 0.5, "b": 0.5}


def test_the_family_holds_the_protocols_points() -> None:
    points = {point.hash() for point in family(NEW)}
    wanted = [Recipe.base("tiny"), edit(constant(0.7)), edit(constant(1.0))]
    wanted += [edit(single_task(step / 10)) for step in range(11)] + [edit(lines(0.45, 0.3)), edit(lines(0.2, 0.55))]
    assert all(recipe.hash() in points for recipe in wanted)
    assert {point.tasks for point in family(NEW)} == {(), ("shapes",)}
    assert family(Recipe.base("tiny")) == [Recipe.base("tiny")]
