"""`bench` on the tiny suite: its figures are there, are right where they can be wrong, and none is an absolute time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from lines_explorer.commands import bench as benchmark
from lines_explorer.commands.bench import GOALS, Effort, bench
from lines_explorer.commands.plain_loop import plain_point
from lines_explorer.engine import Engine
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import lines
from lines_explorer.suites import Suite

LITTLE = Effort(repeats=1, points=2, moves=5, floats=100_000, batches=(8, 16), visitors=4)


def test_every_figure_is_there(suite: Suite, fresh_cache: Path) -> None:
    report = bench(suite, "cpu", LITTLE)
    data = json.loads(report.as_json())
    assert data["reached"].keys() == GOALS.keys() and all(data[name] is not None for name in GOALS)
    assert (data["images"], data["points"], data["moves"], data["visitors"]) == (120, 2, 5, 4)
    assert data["different_answers"] == 0 and data["weights_bit_equal"] and data["evaluated_once"]
    assert all(data[name] > 0 for name in ("merge_vs_triad", "forward_vs_gemm", "exact_vs_forward", "edit_vs_exact"))
    assert data["speedup"] == pytest.approx(data["reference_loop_seconds"] / data["curve_seconds"])
    assert all(name in report.text for name in GOALS)
    assert not (fresh_cache / "results.sqlite").exists()


def test_the_plain_loop_has_the_engines_answers(engine: Engine, suite: Suite, tmp_path: Path) -> None:
    for recipe in (Recipe("tiny", ("places", "shapes"), schedule=lines(0.4, 0.5)), Recipe.base("tiny")):
        engine.evaluate(recipe)
        answers, plain = engine.stored_answers(recipe), plain_point(suite, recipe, "validation", tmp_path)
        assert plain.keys() == answers.keys()
        assert all(np.array_equal(plain[task], answers[task]) for task in plain)


def test_products_are_those_of_the_forward_pass(engine: Engine) -> None:
    shapes = [tuple(product().shape) for product in benchmark.products(engine, 2)]
    block = [(10, 48), (10, 16), (10, 32), (10, 16)]
    assert shapes[:2] == [(8, 16), (2, 12)] and shapes[2:14] == block * 3
    assert shapes[14:] == [(4, 5, 5), (4, 5, 8)] * 3


def test_bit_equality_notices_one_bit(engine: Engine) -> None:
    recipe = Recipe("tiny", ("places", "shapes"), schedule=lines(0.4, 0.5))
    engine.backend.load(recipe)
    assert benchmark.bit_equal(engine, recipe)
    engine.backend._resident[:1].view(torch.int32).bitwise_xor_(1)
    assert not benchmark.bit_equal(engine, recipe)


def test_goals_percentile_and_loads(engine: Engine) -> None:
    assert benchmark.reached("speedup", 30.0) and not benchmark.reached("speedup", 29.9)
    assert benchmark.reached("stored_ms", 3.0) and not benchmark.reached("stored_ms", 3.1)
    assert benchmark.percentile95(range(100)) == 95 and benchmark.percentile95([7.0]) == 7.0
    with benchmark.counted_loads(engine) as loads:
        engine.evaluate(Recipe.base("tiny"), ["shapes"])
    engine.evaluate(Recipe.base("tiny"), ["places"])
    assert loads == [Recipe.base("tiny")]
