"""An estimate in a real Chromium: hollow, broad and named so while pictures come in, solid when it is exact."""

from __future__ import annotations

import threading

import pytest

from lines_explorer.ui import handlers, texts, texts_modes

STATE = "document.querySelector('[data-lx=state]').textContent.replaceAll('\\u00a0', ' ')"
ESTIMATES = """document.querySelector('#lx-plane-panel .lx-figure').layout.shapes
    .filter((shape) => shape.name === 'estimate')"""
BROAD = f"{ESTIMATES}.length"


@pytest.fixture
def gate(engine, monkeypatch):
    """The device stops before every batch of 12 pictures until it is let go on."""
    gate, predict = threading.Semaphore(0), engine.backend.predict

    def held(*arguments):
        assert gate.acquire(timeout=120)
        return predict(*arguments)

    monkeypatch.setattr(engine.backend, "predict", held)
    monkeypatch.setattr(engine.evaluator, "batch", 12)
    monkeypatch.setattr(handlers, "PACE", 0)  # the state before a stop is told, too
    yield gate
    gate.release(1000)


def test_an_estimate_is_hollow_and_turns_exact(visit, gate):
    visit.page.evaluate("document.querySelector('[data-lx=details]').open = true")
    (solid,) = visit.marks("plane")
    gate.release(2)
    visit.set("alpha", 0.47)
    visit.until(f"{STATE}.startsWith('Estimate, ')")
    visit.until(f"{BROAD} === 2")
    visit.until_marks("plane", 1, differ_from=solid)
    state = visit.page.evaluate(STATE)
    assert "of 120 pictures: target" in state and "control" in state and "Stored answers help" in state
    assert not visit.page.is_enabled("[data-lx=pin]"), "an estimate cannot be pinned"
    assert "estimate, " in visit.page.inner_text("[data-lx=table]")
    wide = visit.page.evaluate(f"JSON.stringify({ESTIMATES})")
    gate.release(4)
    visit.until(f"parseInt({STATE}.split(' ')[1]) >= 48")
    visit.until(f"{BROAD} === 2 && JSON.stringify({ESTIMATES}) !== {wide!r}")
    gate.release(1000)
    visit.rest("alpha=0.47&")
    visit.until(f"{BROAD} === 0")
    visit.until_marks("plane", 1, equal=solid)
    assert visit.page.evaluate(STATE) == texts_modes.WORDS["edit"].evaluated
    assert visit.page.is_enabled("[data-lx=pin]")
    assert "estimate, " not in visit.page.inner_text("[data-lx=table]")


def test_a_full_disk_is_one_visible_notice(visit, engine, monkeypatch):
    notice = "[data-lx=trouble]"
    assert not visit.page.is_visible(notice)
    monkeypatch.setattr(engine.store, "trouble", "Results cannot be kept.")
    visit.set("gamma", 0.6)
    visit.page.wait_for_selector(notice, state="visible")
    visit.rest("alpha=0.6&")
    assert visit.page.is_visible(notice) and visit.page.inner_text(notice) == texts.PHRASES["trouble"]
    assert visit.page.locator(notice).count() == 1
