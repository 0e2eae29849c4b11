"""A tiny suite's engine with both lines of one target stored, its desk, and requests as the page sends them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lines_explorer.ui import handlers
from lines_explorer.ui.links import Page
from lines_explorer.ui.view import Catalogue, View

if TYPE_CHECKING:
    from lines_explorer.engine import Engine
    from lines_explorer.ui.handlers import Desk


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    runs = {"shapes": ("shapes", "shapes/1", "shapes/2"), "places": ("places", "places/1")}
    return Catalogue(("shapes", "colours", "places"), ("sum", "average"), 3, ("shapes",), runs)


@pytest.fixture(scope="module")
def engine(tiny_suite_folder: Path) -> Engine:
    """Base, all experts and both lines of ``shapes`` are stored, with their bits."""
    from lines_explorer.engine import Engine, Store
    from lines_explorer.suites import open_suite

    engine = Engine(open_suite(str(tiny_suite_folder)), "cpu", Store(":memory:"))
    engine.zero_shot()
    engine.experts()
    engine.single_task_curve("shapes")
    engine.constant_curve("shapes")
    return engine


@pytest.fixture
def desk(engine: Engine) -> Desk:
    from lines_explorer.ui.handlers import Desk

    return Desk(engine)


@pytest.fixture(scope="session")
def ask() -> Callable[..., dict]:
    """A view, a page → the request that the page sends."""

    def asked(view: View, page: Page | None = None, number: int = 1) -> dict:
        page = page or Page()
        return {"view": view.as_json(), "page": page.as_json(), "tab": "a", "number": number, "known": None}

    return asked


@pytest.fixture
def slow_desk(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Batches of 12 images that take 40 ms each, and every state told."""
    predict = desk.engine.backend.predict

    def late(*arguments):
        time.sleep(0.04)
        return predict(*arguments)

    monkeypatch.setattr(desk.engine.backend, "predict", late)
    monkeypatch.setattr(desk.engine.evaluator, "batch", 12)
    monkeypatch.setattr(handlers, "PACE", 0)
    return desk
