"""Activations kept between evaluations change how much is computed, never a bit of what comes out."""

from __future__ import annotations

import pytest
import torch
from tiny import BLOCKS, TASKS

from lines_explorer.engine import Backend, Engine, Evaluator
from lines_explorer.engine.activations import Activations
from lines_explorer.engine.forward import Start, Tower
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import free, lines
from lines_explorer.suites import Suite

PAIRS = [(task, "validation") for task in TASKS]


def drawn(*factors: float, tasks: tuple[str, ...] = ("shapes",), rest: float = 0.5) -> Recipe:
    return Recipe("tiny", tasks, schedule=free(factors, rest))


@pytest.fixture
def blocks(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The blocks that were computed, counted from 0."""
    ran: list[int] = []

    def counted(number: int, step):
        return lambda x: (ran.append(number), step(x))[1]

    steps = [counted(number, step) for number, step in enumerate(backend.tower._steps)]
    monkeypatch.setattr(backend.tower, "_steps", steps)
    return ran


def bits(evaluator: Evaluator, recipe: Recipe, **options: bool) -> dict:
    *_, last = evaluator.run(recipe, PAIRS, **options)
    return {pair: right.tolist() for pair, right in last.bits.items()}


def test_steps_give_encode_image_up_to_rounding_and_the_same_bits_from_every_boundary(
    backend: Backend, suite: Suite
) -> None:
    backend.load(drawn(0.3, 0.9, 0.6))
    images = suite.images("shapes", "validation")[0]
    kept: dict[int, torch.Tensor] = {}
    with torch.inference_mode():
        pixels = (images.float() - backend._mean) / backend._std
        whole = backend._model.encode_image(pixels, normalize=True)
        features = backend.tower.finish(backend.embed(images), kept.__setitem__)
        assert torch.allclose(features, whole, rtol=0, atol=2e-6)
        assert list(kept) == list(range(BLOCKS + 1))
        for boundary, activations in kept.items():
            assert torch.equal(backend.tower.finish(Start(boundary, activations)), features)


def test_a_tower_of_another_kind_runs_in_one(backend: Backend, suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, images = bits(Evaluator(backend), drawn(0.3, 0.9, 0.6)), suite.images("shapes", "validation")[0]
    features = backend.features(images)
    with monkeypatch.context() as patch:
        patch.setattr("open_clip.transformer.VisionTransformer", type("Other", (), {}))
        other = Tower(backend._model)
    assert backend.tower.steps and not other.steps and other.depth == 0
    monkeypatch.setattr(backend, "tower", other)
    assert torch.allclose(backend.features(images), features, rtol=0, atol=2e-6)
    evaluator = Evaluator(backend)
    assert bits(evaluator, drawn(0.3, 0.9, 0.6)) == expected == bits(evaluator, drawn(0.3, 0.9, 0.6))
    assert evaluator.activations.bytes == 0


def test_equal_prefixes_mean_equal_weights_before_the_boundary(backend: Backend) -> None:
    def prefixes(recipe: Recipe) -> tuple:
        backend.load(recipe)
        return backend.prefixes()

    def shared(one: Recipe, other: Recipe) -> int:
        return sum(a == b for a, b in zip(prefixes(one), prefixes(other), strict=True))

    assert len(prefixes(Recipe.base("tiny"))) == BLOCKS + 1
    assert shared(drawn(0.3, 0.9, 0.6), drawn(0.3, 0.9, 0.7)) == 3
    assert shared(drawn(0.3, 0.9, 0.6), drawn(0.4, 0.9, 0.6)) == 1
    assert shared(drawn(0.3, 0.9, 0.6), drawn(0.3, 0.9, 0.6, rest=0.4)) == 0
    assert shared(drawn(0.3, 0.9, 0.6), drawn(0.3, 0.9, 0.6, tasks=("places",))) == 0
    moved = (Recipe("tiny", ("shapes",), schedule=lines(0.4, beta)) for beta in (0.1, 0.2))
    assert shared(*moved) == 2
    untouched = (drawn(0, 0, 1, tasks=(task,), rest=0) for task in ("shapes", "places"))
    assert shared(*untouched) == 3
    assert shared(Recipe.base("tiny"), drawn(0, 0, 1, rest=0)) == 3


def test_an_edit_of_the_last_block_computes_only_that(backend: Backend, blocks: list[int]) -> None:
    evaluator = Evaluator(backend, batch=50)
    bits(evaluator, drawn(0.3, 0.9, 0.6))
    assert blocks == [0, 1, 2] * 3
    for last in (0.7, 0.1):
        blocks.clear()
        reused = bits(evaluator, drawn(0.3, 0.9, last))
        assert blocks == [2] * 3
        assert reused == bits(Evaluator(backend, batch=50, budget=0), drawn(0.3, 0.9, last))


def test_any_sequence_of_edits_gives_the_counts_of_full_evaluations(backend: Backend) -> None:
    generator = torch.Generator().manual_seed(0)
    evaluator, full = Evaluator(backend, batch=50), Evaluator(backend, batch=50, budget=0)
    factors = [1.0, 1.0, 1.0]
    for step in range(12):
        block = int(torch.randint(BLOCKS, (1,), generator=generator))
        factors[block] = float(torch.randint(-8, 9, (1,), generator=generator)) / 4
        recipe = drawn(*factors, tasks=("shapes",) if step % 4 else ("colours", "places"))
        assert bits(evaluator, recipe) == bits(full, recipe)
    assert 0 < evaluator.activations.bytes <= evaluator.activations.budget and full.activations.bytes == 0


def test_a_small_budget_keeps_some_batches_and_is_never_exceeded(backend: Backend, blocks: list[int]) -> None:
    one = 50 * backend.tower.boundary_bytes()
    evaluator = Evaluator(backend, batch=50, budget=one)
    for last in (0.6, 0.7, 0.8):
        blocks.clear()
        bits(evaluator, drawn(0.3, 0.9, last))
        assert evaluator.activations.bytes <= one
    assert blocks == [2] + [0, 1, 2] * 2


def test_another_order_or_batch_is_computed_anew(backend: Backend, blocks: list[int]) -> None:
    evaluator = Evaluator(backend, batch=50)
    bits(evaluator, drawn(0.3, 0.9, 0.6))
    evaluator.batch = 60
    blocks.clear()
    bits(evaluator, drawn(0.3, 0.9, 0.7))
    assert blocks == [0, 1, 2] * 2


def test_idle_work_reads_but_leaves_nothing(backend: Backend) -> None:
    evaluator = Evaluator(backend)
    bits(evaluator, drawn(0.3, 0.9, 0.6), keep=False)
    assert evaluator.activations.bytes == 0 and evaluator.activations._before == ()


def test_the_engine_edits_blocks_with_the_counts_of_a_full_evaluation(engine: Engine, suite: Suite) -> None:
    engine.evaluate(drawn(0.3, 0.9, 0.6))
    edited = engine.evaluate(drawn(0.3, 0.9, 1.7))
    assert engine.evaluator.activations.bytes > 0
    alone = Evaluator(Backend(suite, "cpu"), budget=0)
    assert bits(alone, drawn(0.3, 0.9, 1.7)) == {
        (task, "validation"): right.tolist() for task, right in engine.stored_answers(edited.recipe).items()
    }


def test_levels_longest_unused_give_way_first() -> None:
    kept, batch = Activations(3 * 4), torch.zeros(1)
    for name in "abc":
        kept.keep((name,), b"0", batch, [(name,)])
    assert kept.find(("a",), b"0") is not None
    kept.keep(("d",), b"0", batch, [("d",)])
    assert [kept.find((name,), b"0") is None for name in "abcd"] == [False, True, False, False]
    kept.keep(("d",), b"1", torch.zeros(9), [("d",)])
    assert kept.find(("d",), b"1") is None and kept.bytes <= 12
