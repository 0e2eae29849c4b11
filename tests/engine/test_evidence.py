"""Probabilities of single pictures: those of the evaluator, validated, served between batches, kept."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from lines_explorer.engine import Engine, Evidence
from lines_explorer.engine.evidence import MOST_BRIEF_PICTURES
from lines_explorer.engine.runs import Run
from lines_explorer.engine.worker import MOST_BRIEF, Worker
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant, lines

EDIT = Recipe("tiny", ("shapes",), schedule=lines(0.3, 0.7))
BASE = Recipe.base("tiny")


@pytest.fixture
def evidence(engine: Engine) -> Evidence:
    return Evidence(engine)


@pytest.mark.parametrize("recipe", [BASE, EDIT, Recipe("tiny", ("shapes", "places"), schedule=constant(0.5))])
def test_predictions_are_what_the_evaluator_scores(evidence: Evidence, recipe: Recipe) -> None:
    evidence.engine.evaluate(recipe)
    stored = evidence.engine.stored_answers(recipe)
    for task, right in stored.items():
        labels = evidence.suite.images(task, "validation")[1].numpy()
        rows = [7, 0, 39, 12]
        found = evidence.predictions(recipe, task, "validation", rows)
        assert found.shape == (4, 4) and found.dtype == np.float32
        assert np.allclose(found.sum(axis=1), 1, atol=1e-6)
        assert ((found.argmax(axis=1) == labels[rows]) == right[rows]).all()
        (whole,) = evidence.answers([(recipe, [evidence.part(task, "validation")])])[0]
        assert ((whole.argmax(axis=1) == labels) == right).all()
        assert np.allclose(whole[rows], found, atol=1e-5)


def test_probabilities_are_the_softmax_of_the_head(evidence: Evidence) -> None:
    found = evidence.predictions(EDIT, "places", "test", [3, 5])
    backend = evidence.engine.backend
    backend.load(EDIT)
    features = backend.features(evidence.suite.images("places", "test")[0][[3, 5]])
    wanted = (features @ evidence.suite.head("places").T).softmax(dim=1)
    assert np.allclose(found, wanted.numpy(), atol=1e-5)


def test_several_models_and_tasks_at_once(evidence: Evidence) -> None:
    parts = [evidence.part("shapes", "validation", [1]), evidence.part("places", "validation", [2, 3])]
    found = evidence.answers([(EDIT, parts), (BASE, parts[:1])])
    assert [[len(part) for part in row] for row in found] == [[1, 2], [1]]
    assert np.allclose(found[1][0], evidence.predictions(BASE, "shapes", "validation", [1]))
    assert not np.allclose(found[0][0], found[1][0])


@pytest.mark.parametrize("rows", [[], [40], [-1], [0.5], [[0]], ["0"], [True]])
def test_rows_that_are_not_there_are_refused(evidence: Evidence, rows: list) -> None:
    with pytest.raises(ExplorerError, match="places in the split|pictures 0 to 39"):
        evidence.predictions(BASE, "shapes", "validation", rows)


def test_other_bad_requests_are_refused(evidence: Evidence) -> None:
    with pytest.raises(ExplorerError, match="no split train"):
        evidence.predictions(BASE, "shapes", "train", [0])
    with pytest.raises(ExplorerError, match="no expert nothing"):
        evidence.predictions(Recipe("tiny", ("nothing",)), "shapes", "validation", [0])
    for pixels in (np.zeros((3, 16, 15), np.uint8), np.zeros((3, 16, 16), np.float32), np.zeros((16, 16), np.uint8)):
        with pytest.raises(ExplorerError, match="uint8"):
            evidence.drawn("shapes", pixels)
    with pytest.raises(ExplorerError, match="no task nothing"):
        evidence.drawn("nothing", np.zeros((3, 16, 16), np.uint8))


def test_a_drawn_copy_of_a_picture_has_its_probabilities(evidence: Evidence) -> None:
    pixels = evidence.suite.images("shapes", "validation")[0][4].numpy()
    (drawn,) = evidence.answers([(EDIT, [evidence.drawn("shapes", pixels)])])[0]
    assert np.allclose(drawn, evidence.predictions(EDIT, "shapes", "validation", [4]), atol=1e-6)


def test_what_was_computed_is_kept_within_the_budget(evidence: Evidence, loads: list[Recipe]) -> None:
    first = evidence.predictions(EDIT, "shapes", "validation", [1, 2])
    assert evidence.predictions(EDIT, "shapes", "validation", [1, 2]) is first and loads == [EDIT]
    small = Evidence(evidence.engine, kept_bytes=first.nbytes)
    small.predictions(EDIT, "shapes", "validation", [1, 2])
    small.predictions(EDIT, "shapes", "validation", [3, 4])
    loads.clear()
    small.predictions(EDIT, "shapes", "validation", [1, 2])
    assert loads == [EDIT] and small._bytes <= first.nbytes


def test_brief_looks_pass_between_the_batches_of_an_evaluation(slow: Engine) -> None:
    """The evaluation under way answers as if nothing had come between."""
    evidence, seen = Evidence(slow), []
    for step in slow.stream(EDIT):
        if len(seen) == 1:
            evidence.predictions(BASE, "shapes", "validation", [0])
            during = slow.peek(EDIT)
        seen.append(step)
    assert seen[-1].complete and during is None
    other = Engine(slow.suite, "cpu", type(slow.store)(":memory:"))
    assert seen[-1].scores == other.evaluate(EDIT).scores


def test_long_looks_report_their_progress_and_stop(evidence: Evidence, monkeypatch: pytest.MonkeyPatch) -> None:
    evidence.engine.evaluator.batch = 8
    asked = [(EDIT, [evidence.part("shapes", "validation")]), (BASE, [evidence.part("shapes", "validation")])]
    assert 2 * 40 > MOST_BRIEF_PICTURES
    entered, on = threading.Event(), threading.Event()
    features = evidence.engine.backend.features

    def late(images: torch.Tensor) -> torch.Tensor:
        entered.set()
        assert on.wait(60)
        return features(images)

    monkeypatch.setattr(evidence.engine.backend, "features", late)
    stopped = evidence.look(asked, stop=entered.is_set)
    assert not any(step.found for step in stopped)
    on.set()
    steps = list(evidence.look(asked))
    assert steps[-1].found is not None and steps[-1].done == steps[-1].total == 80
    done = [step.done for step in steps]
    assert done == sorted(done) and len(done) > 1
    assert evidence.engine.worker._runs == {}


def test_a_newer_look_of_a_visitor_replaces_the_older(evidence: Evidence, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, on = threading.Event(), threading.Event()
    features = evidence.engine.backend.features

    def late(images: torch.Tensor) -> torch.Tensor:
        entered.set()
        assert on.wait(60)
        return features(images)

    monkeypatch.setattr(evidence.engine.backend, "features", late)
    answers: list = []
    older = threading.Thread(target=lambda: answers.append(evidence.predictions(EDIT, "shapes", "test", [0], "a")))
    older.start()
    assert entered.wait(60)
    newer = threading.Thread(target=lambda: answers.append(evidence.predictions(BASE, "shapes", "test", [0], "a")))
    newer.start()
    older.join(60)
    assert answers == [None]
    on.set()
    newer.join(60)
    assert answers[1].shape == (1, 4)


def test_a_fault_in_a_look_spares_the_evaluation(slow: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    evidence, seen = Evidence(slow), []

    def broken(images: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("broken")

    monkeypatch.setattr(slow.backend, "features", broken)
    for step in slow.stream(EDIT):
        if not seen:
            with pytest.raises(RuntimeError, match="broken"):
                evidence.predictions(BASE, "shapes", "validation", [0])
        seen.append(step)
    assert seen[-1].complete


def test_features_that_are_not_finite_are_refused(evidence: Evidence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence.engine.backend, "features", lambda images: torch.full((len(images), 12), torch.nan))
    with pytest.raises(ExplorerError, match="not finite"):
        evidence.predictions(BASE, "shapes", "validation", [0])


def test_memory_that_runs_out_halves_the_chunk(evidence: Evidence, monkeypatch: pytest.MonkeyPatch) -> None:
    features, sizes = evidence.engine.backend.features, []

    def narrow(images: torch.Tensor) -> torch.Tensor:
        sizes.append(len(images))
        if len(images) > 16:
            raise RuntimeError("out of memory")
        return features(images)

    monkeypatch.setattr(evidence.engine.backend, "features", narrow)
    evidence.engine.evaluator.batch = 32
    assert evidence.predictions(BASE, "shapes", "validation", range(20)).shape == (20, 4)
    assert sizes == [20, 16, 4]


class Brief(Run):
    brief = True


def numbered(kind: type[Run], number: int) -> Run:
    return kind(Recipe("tiny", ("shapes",), schedule=constant(number / 100)), ("shapes",), "validation")


def test_brief_runs_and_others_take_turns() -> None:
    order, entered, go = [], threading.Event(), threading.Event()

    def drive(run: Run, stop) -> None:
        entered.set()
        assert go.wait(60)
        order.append(run)

    worker = Worker(drive)
    runs = [numbered(kind, place) for place, kind in enumerate([Run, Brief, Brief, Brief, Run])]
    worker.join(runs[0])
    assert entered.wait(60)
    for run in runs[1:]:
        worker.join(run)
    go.set()
    for run in runs:
        while not run.wait(0, 60)[2]:
            pass
    assert order == [runs[place] for place in (0, 1, 4, 2, 3)]


def test_an_interlude_does_the_waiting_brief_runs_up_to_its_limit() -> None:
    done, asked = [], []

    def drive(run: Run, stop) -> None:
        if not run.brief:
            for place in range(MOST_BRIEF + 1):
                worker.join(brief[place])
            asked.extend([worker.interlude(), len(done), worker.interlude(), worker.interlude()])
        done.append(run)

    worker = Worker(drive)
    brief, long = [numbered(Brief, place) for place in range(1, MOST_BRIEF + 2)], numbered(Run, 0)
    worker.join(long)
    while not long.wait(0, 60)[2]:
        pass
    assert asked == [True, MOST_BRIEF, True, False]
    assert done == [*brief, long]
