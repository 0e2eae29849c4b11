"""An engine on the tiny suite, and one whose batches are small and slow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lines_explorer.engine import Backend, Engine, Store
from lines_explorer.recipe import Recipe
from lines_explorer.suites import Suite, open_suite


@pytest.fixture(scope="session")
def suite(tiny_suite_folder: Path) -> Suite:
    return open_suite(tiny_suite_folder)


@pytest.fixture(scope="module")
def backend(suite: Suite) -> Backend:
    return Backend(suite, "cpu")


@pytest.fixture
def engine(suite: Suite) -> Engine:
    return Engine(suite, "cpu", Store(":memory:"))


@pytest.fixture
def slow(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Batches of 10 images that take 20 ms each."""
    predict = engine.backend.predict

    def late(*arguments):
        time.sleep(0.02)
        return predict(*arguments)

    monkeypatch.setattr(engine.backend, "predict", late)
    engine.evaluator.batch = 10
    return engine


@pytest.fixture
def loads(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Recipe]]:
    """The recipes that reached the device."""
    seen: list[Recipe] = []
    load = engine.backend.load
    monkeypatch.setattr(engine.backend, "load", lambda recipe: (seen.append(recipe), load(recipe))[1])
    yield seen
