"""What goes wrong around an evaluation: memory, processes, files, clocks, numbers."""

from __future__ import annotations

import logging
import multiprocessing
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tiny import TASKS, write_manifest

from lines_explorer.engine import Engine, Store
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant, lines
from lines_explorer.suites import Suite, open_suite

RECIPE = Recipe("tiny", ("shapes",), schedule=lines(0.3, 0.6))
OTHER = Recipe("tiny", ("places",), schedule=constant(0.7))


def refusing(work: Callable, most: int, message: str) -> Callable:
    """``predict`` on a device that has memory for ``most`` images."""

    def predict(start, parts, watch=None, heard=None):
        if len(start.activations) > most:
            raise RuntimeError(message)
        return work(start, parts, watch, heard)

    return predict


@pytest.mark.parametrize("message", ["CUDA out of memory. Tried to", "DefaultCPUAllocator: can't allocate memory"])
def test_out_of_memory_means_smaller_batches(
    engine: Engine, suite: Suite, monkeypatch: pytest.MonkeyPatch, message: str, fresh_cache: Path, caplog
) -> None:
    expected = Engine(suite, "cpu", Store(":memory:")).evaluate(RECIPE).scores
    monkeypatch.setattr(engine.backend, "predict", refusing(engine.backend.predict, 20, message))
    engine.evaluator.batch = 64
    with caplog.at_level(logging.WARNING, "lines_explorer"):
        assert engine.evaluate(RECIPE).scores == expected
    assert engine.evaluator.batch == 16 and "cpu ran out of memory; going on with 16 images" in caplog.text


def test_out_of_memory_in_the_midst_scores_every_image_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = engine.evaluate(RECIPE).scores
    calls, predict = [], engine.backend.predict

    def fails_once(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return predict(*arguments)

    monkeypatch.setattr(engine.backend, "predict", fails_once)
    engine.evaluator.batch = 30
    steps = list(engine.evaluator.run(RECIPE, [(task, "validation") for task in TASKS]))
    assert [sum(score.n for score in step.scores) for step in steps] == [30, 60, 75, 90, 105, 120]
    assert steps[-1].scores == tuple(expected.values()) and engine.evaluator.batch == 15


def test_no_memory_at_all_is_one_clear_sentence(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(engine.backend, "predict", refusing(engine.backend.predict, 0, "MPS backend out of memory"))
        with pytest.raises(ExplorerError, match="memory of cpu is too small even for 8 images at once; close other"):
            engine.evaluate(RECIPE)
    assert len(engine.store) == 0 and engine.evaluate(RECIPE).complete


def test_no_memory_for_the_experts(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    load, fails = engine.backend.load, [True]

    def short(recipe: Recipe) -> None:
        if fails.pop():
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        load(recipe)

    monkeypatch.setattr(engine.backend, "load", short)
    fails[:] = [False, True]
    assert engine.evaluate(RECIPE).complete
    fails[:] = [True, True]
    with pytest.raises(ExplorerError, match="too small for the experts of this recipe"):
        engine.evaluate(OTHER)


def test_features_that_are_not_finite_are_no_accuracy(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    load = engine.backend.load

    def break_weights(recipe: Recipe) -> None:
        load(recipe)
        engine.backend._resident[engine.backend._slices["visual.transformer.resblocks.1.mlp.c_fc.bias"]] = 3e38
        engine.backend._resident[engine.backend._slices["visual.transformer.resblocks.1.mlp.c_proj.weight"]] = 3e38

    with monkeypatch.context() as patch:
        patch.setattr(engine.backend, "load", break_weights)
        with pytest.raises(ExplorerError, match=f"{RECIPE.hash()} .*not finite.* for 120 images.*smaller factors"):
            engine.evaluate(RECIPE)
    assert len(engine.store) == 0 and engine.evaluate(RECIPE).complete


def evaluate_for_ever(folder: Path, path: Path) -> None:
    """A process of its own that evaluates one recipe after the other, until it is killed."""
    engine = Engine(open_suite(folder), "cpu", Store(path))
    engine.evaluator.batch = 10
    for number in range(10**6):
        engine.evaluate(Recipe("tiny", ("shapes",), schedule=lines(0.3, 1e-4 * number)))


def test_a_process_killed_in_the_midst_leaves_only_whole_answers(
    tiny_suite_folder: Path, suite: Suite, tmp_path: Path
) -> None:
    path = tmp_path / "results.sqlite"
    child = multiprocessing.get_context("fork").Process(target=evaluate_for_ever, args=(tiny_suite_folder, path))
    child.start()
    deadline = time.monotonic() + 240
    while (not path.exists() or len(Store(path)) < 4) and time.monotonic() < deadline:
        time.sleep(0.02)
    child.kill()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    engine, fresh = Engine(suite, "cpu", Store(path)), Engine(suite, "cpu", Store(":memory:"))
    fresh.evaluator.batch = engine.evaluator.batch = 10
    first = Recipe("tiny", ("shapes",), schedule=lines(0.3, 0.0))
    assert engine.peek(first) is not None
    assert engine.evaluate(first).scores == fresh.evaluate(first).scores
    assert engine.evaluate(OTHER).complete


def test_two_engines_on_one_file_share_their_answers(suite: Suite, tmp_path: Path, monkeypatch) -> None:
    one, two = (Engine(suite, "cpu", Store(tmp_path / "results.sqlite")) for _ in range(2))
    scores = one.evaluate(RECIPE).scores
    monkeypatch.setattr(two.backend, "load", None)
    assert two.evaluate(RECIPE).source == "stored" and two.evaluate(RECIPE).scores == scores


@pytest.fixture
def own_folder(tiny_suite_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny suite that a test may change."""
    return Path(shutil.copytree(tiny_suite_folder, tmp_path / "own"))


def test_touched_files_are_no_change(own_folder: Path) -> None:
    engine = Engine(open_suite(own_folder), "cpu", Store(":memory:"))
    for path in own_folder.rglob("*.*"):
        path.touch()
    (own_folder / "results").mkdir()
    (own_folder / "results" / "notes.txt").write_text("no part of the suite")
    assert engine.evaluate(RECIPE).complete and engine._watch._stamps == engine._watch._look()


@pytest.mark.parametrize("change", ["content", "manifest", "missing", "without manifest"])
def test_changed_files_are_noticed_and_stored_answers_still_hold(own_folder: Path, change: str) -> None:
    if change == "without manifest":
        (own_folder / "manifest.json").unlink()
    engine = Engine(open_suite(own_folder), "cpu", Store(":memory:"))
    scores = engine.evaluate(RECIPE).scores
    expert = own_folder / "experts" / "places.safetensors"
    if change == "missing":
        expert.unlink()
    else:
        expert.write_bytes((own_folder / "experts" / "colours.safetensors").read_bytes())
    if change == "manifest":
        write_manifest(own_folder)
    for _ in range(2):
        with pytest.raises(ExplorerError, match=r"suite tiny changed while it was open \(experts/places.safetensors"):
            engine.evaluate(OTHER)
    assert engine.evaluate(RECIPE).source == "stored" and engine.evaluate(RECIPE).scores == scores
    assert len(engine.store) == len(TASKS)


def test_a_clock_that_jumps_changes_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    jumps = iter(range(10**9, 0, -(10**6)))
    monkeypatch.setattr(time, "time", lambda: float(next(jumps)))
    monkeypatch.setattr(time, "time_ns", lambda: 10**9 * next(jumps))
    evaluation = engine.evaluate(RECIPE)
    assert evaluation.complete and 0 < evaluation.seconds < 600 and engine.evaluate(RECIPE).source == "stored"


def test_a_fault_in_idle_work_is_nobodys(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.idle = True
    run, asked = engine.evaluator.run, []

    def break_idle(recipe: Recipe, *arguments, keep: bool, weights: dict):
        asked.append(recipe)
        if not keep:
            raise ZeroDivisionError
        return run(recipe, *arguments, keep=keep, weights=weights)

    monkeypatch.setattr(engine.evaluator, "run", break_idle)
    assert engine.evaluate(RECIPE).complete
    deadline = time.monotonic() + 60
    while engine.worker.busy and time.monotonic() < deadline:
        time.sleep(0.005)
    assert len(asked) == 3 and not engine.worker.busy
    assert engine.evaluate(OTHER).complete
