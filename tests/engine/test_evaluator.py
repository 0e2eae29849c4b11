"""The evaluator: any order of images, answers image by image, one stream of batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny import TASKS, N

from lines_explorer.engine import Backend, Engine, Evaluator
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant
from lines_explorer.suites import Suite

PAIRS = [(task, "validation") for task in TASKS]
RECIPE = Recipe("tiny", ("colours", "shapes"), schedule=constant(0.4))


def last(evaluator: Evaluator, orders: dict | None = None):
    *_, progress = evaluator.run(RECIPE, PAIRS, orders=orders)
    return progress


def test_a_given_order_is_followed_and_stored_rows_stay_in_the_files(backend: Backend) -> None:
    plain = last(Evaluator(backend))
    orders = {pair: np.random.default_rng(0).permutation(N) for pair in PAIRS}
    other = last(Evaluator(backend, batch=25), orders)
    assert other.complete and other.scores == plain.scores
    for pair in PAIRS:
        assert np.array_equal(other.answers[pair].rows, orders[pair])
        assert np.array_equal(other.bits[pair], plain.bits[pair])
        assert np.array_equal(other.answers[pair].right, plain.bits[pair][orders[pair]])


def test_a_subset_is_scored_alone_and_is_no_complete_answer(backend: Backend) -> None:
    whole = last(Evaluator(backend)).bits
    rows = np.array([31, 4, 17])
    progress = last(Evaluator(backend), dict.fromkeys(PAIRS, rows))
    assert not progress.complete and progress.bits == {}
    for pair, score in zip(PAIRS, progress.scores, strict=True):
        assert (score.n, score.total, score.correct) == (3, N, int(whole[pair][rows].sum()))
        assert np.array_equal(progress.answers[pair].right, whole[pair][rows])


def test_answers_handed_out_do_not_change(backend: Backend) -> None:
    steps = list(Evaluator(backend, batch=30).run(RECIPE, PAIRS))
    whole = steps[-1].bits
    for number, step in enumerate(steps, start=1):
        for pair, answers in step.answers.items():
            assert len(answers.rows) == len(answers.right) == 10 * number
            assert np.array_equal(answers.right, whole[pair][answers.rows])


def test_an_evaluation_tells_image_by_image_and_the_store_remembers(engine: Engine) -> None:
    evaluation = engine.evaluate(RECIPE)
    stored = engine.stored_answers(RECIPE)
    for task, answers in evaluation.answers.items():
        assert sorted(answers.rows) == list(range(N)) and answers.right.sum() == evaluation.scores[task].correct
        assert np.array_equal(stored[task][answers.rows], answers.right)
    assert engine.evaluate(RECIPE).answers == {} and engine.stored_answers(Recipe.base("tiny")) == {}


def test_one_head_product_per_task_and_batch(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    head = backend.head
    monkeypatch.setattr(backend, "head", lambda task: (asked.append(task), head(task))[1])
    last(Evaluator(backend, batch=60))
    assert asked == [*TASKS] * 2


def test_predictions_stay_on_the_device_and_say_where_there_is_none(backend: Backend, suite: Suite) -> None:
    backend.load(RECIPE)
    images = suite.images("shapes", "validation")[0][:4]
    start = backend.embed(images)
    expected = (backend.features(images) @ backend.head("shapes").T).argmax(dim=1)
    predicted = backend.predict(start, [("shapes", 4)])
    assert isinstance(predicted, torch.Tensor) and torch.equal(predicted, expected)
    with torch.inference_mode():
        start.activations[2] = float("nan")
    assert backend.predict(start, [("shapes", 4)]).tolist() == [*expected[:2].tolist(), -1, int(expected[3])]


def test_weights_share_out_the_images_and_leave_none_out(backend: Backend) -> None:
    weights = dict(zip(PAIRS, (2.0, 1.0, 1.0), strict=True))
    steps = list(Evaluator(backend, batch=20).run(RECIPE, PAIRS, weights=weights))
    counts = [[score.n for score in step.scores] for step in steps]
    assert counts[0] == [10, 5, 5] and counts[-1] == [N] * 3 and steps[-1].complete
    assert (np.diff(counts, axis=0) >= 0).all()
    assert steps[-1].scores == last(Evaluator(backend)).scores


def test_the_first_batch_is_short_so_that_something_is_known_soon(backend: Backend, monkeypatch) -> None:
    monkeypatch.setattr("lines_explorer.engine.evaluator.SHORTEST_FIRST", 10)
    counts = [sum(score.n for score in step.scores) for step in Evaluator(backend, batch=60).run(RECIPE, PAIRS)]
    assert counts == [15, 60, 120]


def test_the_order_of_a_split_is_computed_once(backend: Backend, monkeypatch) -> None:
    evaluator, made = Evaluator(backend), []
    monkeypatch.setattr(
        "lines_explorer.engine.evaluator.stratified_order",
        lambda labels: (made.append(len(labels)), np.arange(len(labels)))[1],
    )
    for _ in range(2):
        last(evaluator)
    assert made == [N] * 3
