"""Who waits for what: one place per visitor, visitors in turn, idle time used and given back at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from lines_explorer.engine import Engine, neighbours
from lines_explorer.engine.runs import Run, Turns
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant, free, lines, single_task


def edit(alpha: float, beta: float = 0.3) -> Recipe:
    return Recipe("tiny", ("shapes",), schedule=lines(alpha, beta))


def awaited(alpha: float) -> Run:
    run = Run(edit(alpha), ("shapes",), "validation")
    run.waiting = 1
    return run


def until(condition: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


def test_visitors_take_turns() -> None:
    turns, runs = Turns(), {name: awaited(0.1 * place) for place, name in enumerate(["a1", "a2", "a3", "b1", "c1"])}
    for name, run in runs.items():
        turns.add(name[0], run)
    served = [turns.next() for _ in range(6)]
    assert served == [runs[name] for name in ("a1", "b1", "c1", "a2", "a3")] + [None]


def test_a_visitor_who_changes_his_mind_keeps_his_turn_and_a_served_one_goes_last() -> None:
    turns, first, other, second = Turns(), awaited(0.1), awaited(0.2), awaited(0.3)
    turns.add("a", first)
    turns.add("b", other)
    first.waiting = 0
    turns.add("a", second)
    assert turns.any_due() and turns.next() is second
    turns.add("a", again := awaited(0.4))
    assert [turns.next(), turns.next(), turns.next()] == [other, again, None]


def test_a_run_of_several_visitors_is_served_once() -> None:
    turns, shared = Turns(), awaited(0.1)
    for visitor in "ab":
        turns.add(visitor, shared)
    assert turns.next() is shared
    shared.started = True
    assert not turns.any_due() and turns.next() is None


def test_the_newest_request_of_a_visitor_replaces_the_older_one(slow: Engine, loads: list[Recipe]) -> None:
    older = slow.stream(edit(0.1), visitor="a")
    seen = [next(older)]
    newer = list(slow.stream(edit(0.2), visitor="a"))
    seen += older
    assert newer[-1].complete and not any(step.complete for step in seen)
    assert loads == [edit(0.1), edit(0.2)] and slow.peek(edit(0.1)) is None
    assert slow.worker._newest == {} and slow.worker._runs == {}


def test_a_stored_answer_replaces_the_older_request_too(slow: Engine) -> None:
    slow.evaluate(edit(0.2))
    older = slow.stream(edit(0.1), visitor="a")
    next(older)
    assert [step.source for step in slow.stream(edit(0.2), visitor="a")] == ["stored"]
    assert not any(step.complete for step in older) and slow.peek(edit(0.1)) is None


def test_a_replaced_request_that_waits_never_reaches_the_device(slow: Engine, loads: list[Recipe]) -> None:
    busy = slow.stream(edit(0.1), visitor="b")
    next(busy)
    waiting = slow.stream(edit(0.2), visitor="a")
    left = threading.Thread(target=lambda: list(waiting))
    left.start()
    assert until(lambda: "a" in slow.worker._newest)
    assert list(slow.stream(edit(0.3), visitor="a"))[-1].complete
    left.join(60)
    assert list(busy)[-1].complete and loads == [edit(0.1), edit(0.3)]


def test_replacing_stops_nobody_else_and_nothing_that_is_asked_again(slow: Engine, loads: list[Recipe]) -> None:
    mine, yours = slow.stream(edit(0.1), visitor="a"), slow.stream(edit(0.1), visitor="b")
    next(mine), next(yours)
    again = slow.stream(edit(0.1), visitor="a")
    next(again)
    assert not any(step.complete for step in mine)
    assert list(yours)[-1].complete and list(again)[-1].complete and loads == [edit(0.1)]


def test_stored_answers_do_not_wait_for_the_device(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.evaluate(edit(0.1))
    gate, inside = threading.Event(), threading.Event()
    predict = engine.backend.predict

    def held(*arguments):
        inside.set()
        gate.wait(60)
        return predict(*arguments)

    monkeypatch.setattr(engine.backend, "predict", held)
    work = threading.Thread(target=lambda: engine.evaluate(edit(0.2)))
    work.start()
    assert inside.wait(60)
    stored = [engine.evaluate(edit(0.1)), engine.peek(edit(0.1))]
    assert [one.source for one in stored] == ["stored"] * 2 and engine.peek(edit(0.2)) is None
    gate.set()
    work.join(60)
    assert engine.peek(edit(0.2)).complete


def test_thirty_visitors_evaluate_each_point_once(slow: Engine, loads: list[Recipe]) -> None:
    points = [edit(0.1 * number) for number in range(1, 5)]
    ends: list[bool] = []

    def look(visitor: int) -> None:
        for move in range(3):
            *_, last = slow.stream(points[(visitor + move) % 4], visitor=visitor)
            ends.append(last.complete)

    threads = [threading.Thread(target=look, args=(visitor,)) for visitor in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert ends == [True] * 90 and sorted(map(str, loads)) == sorted(map(str, points))


NEIGHBOURS = {
    "gamma and beta": (single_task(0.35), [(0.3, 0.7), (0.4, 0.6), (0.35, 0.6), (0.35, 0.7)]),
    "the expert": (single_task(1.0), [(0.9, 0.1), (1.0, 0.1)]),
    "the other end": (single_task(0.0), [(0.1, 0.9), (0.0, 0.9)]),
    "beta alone": (lines(0.2, 0.3), [(0.2, 0.2), (0.2, 0.4)]),
    "constant": (constant(0.5), [(0.4, 0.0), (0.6, 0.0)]),
    "free": (free((1.0, 0.5, 0.0), 1.0), []),
}


@pytest.mark.parametrize("kind", NEIGHBOURS)
def test_neighbours_are_the_tenths_beside(kind: str) -> None:
    schedule, expected = NEIGHBOURS[kind]
    near = [recipe.schedule for recipe in neighbours(Recipe("tiny", ("shapes",), schedule=schedule))]
    assert [(other.alpha, pytest.approx(other.beta)) for other in near] == expected
    assert neighbours(Recipe.base("tiny")) == []


def test_idle_time_is_spent_on_the_neighbours(engine: Engine, loads: list[Recipe]) -> None:
    engine.idle = True
    point = Recipe("tiny", ("shapes",), schedule=single_task(0.5))
    engine.evaluate(point)
    assert until(lambda: not engine.worker.busy)
    assert loads == [point, *neighbours(point)] and all(engine.peek(other) for other in neighbours(point))
    engine.evaluate(edit(0.5, 0.6))
    assert until(lambda: not engine.worker.busy)
    assert loads[5:] == [edit(0.5, 0.7)]


def test_idle_work_is_given_up_within_a_batch(slow: Engine, loads: list[Recipe]) -> None:
    slow.idle = True
    slow.evaluate(edit(0.5))
    assert until(lambda: len(loads) == 2)
    batches, predict = [], slow.backend.predict
    slow.backend.predict = lambda *a: (batches.append(len(loads)), predict(*a))[1]
    assert slow.evaluate(edit(0.9, 0.9)).complete
    assert loads[2] == edit(0.9, 0.9) and batches.count(2) <= 2
    assert slow.peek(neighbours(edit(0.5))[0]) is None
    assert until(lambda: not slow.worker.busy)
    assert all(slow.peek(other) for other in neighbours(edit(0.9, 0.9)))


def test_who_asks_for_what_is_done_idly_joins_it(slow: Engine, loads: list[Recipe]) -> None:
    slow.idle = True
    slow.evaluate(edit(0.5))
    first = neighbours(edit(0.5))[0]
    assert until(lambda: loads[-1] == first)
    assert slow.evaluate(first).complete
    assert loads.count(first) == 1
    assert until(lambda: not slow.worker.busy)
