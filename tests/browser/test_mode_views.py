"""Each mode in a real Chromium, on a tiny suite with runs and a shifted set: its controls, its figures, its link."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lines_explorer.engine import Store
from lines_explorer.suites import open_suite
from lines_explorer.ui import layout, serving
from lines_explorer.ui.modes import MODES

MODE = "#lx-mode input[value={0}]"


@pytest.fixture(scope="module")
def engine(runs_engine: Any) -> Any:
    return runs_engine


def test_robustness(visit) -> None:
    visit.choose("mode", "robustness")
    visit.rest("mode=robustness&target=shapes&schedule=lines&alpha=0.3&beta=0.3&")
    assert "in distribution" in visit.sentence
    assert not visit.page.is_visible("#lx-target") and visit.page.is_visible("#lx-target_robustness")
    assert "WiSE-FT" in visit.page.inner_text(".lx-mode-note")
    assert visit.page.locator(".lx-search").count() == 1 and not visit.page.is_visible(".lx-search")
    assert "shifted sets" in visit.page.inner_text('[data-lx="state"]')
    visit.set("gamma_robustness", 0.5, 0.8)
    visit.rest("alpha=0.4&beta=0.4&")
    assert (visit.value("alpha_robustness"), visit.value("alpha")) == (0.4, 0.3)
    assert "--score-on shapes --shifts" in visit.page.inner_text('[data-lx="command"]')
    visit.press("run-line")
    visit.page.wait_for_selector('[data-lx="missing"]', state="hidden")
    assert len(visit.trace("plane", "LiNeS")["x"]) == len(visit.trace("plane", "constant λ")["x"]) == 11
    assert visit.trace("tasks", "base")["y"] == ["Shapes", "Noisy shapes"]
    assert len(visit.marks("tasks")) == len(visit.marks("curve")) == 2
    visit.page.click('[data-lx="details"] summary')
    visit.until("document.querySelectorAll('[data-lx=table] tr').length === 2")
    assert visit.page.inner_text("[data-lx=table] tr:nth-child(2) td").lower() == "shifted"
    visit.press("run-test")
    visit.until("document.querySelector('[data-lx=test]').textContent.startsWith('Test: in distribution')")


def test_soup(visit) -> None:
    visit.choose("mode", "soup")
    visit.rest("mode=soup&target=shapes&soup=uniform&runs=shapes,shapes%2F1,shapes%2F2&", "alpha=1&beta=0&")
    assert "uniform soup of 3 runs" in visit.sentence
    visit.page.uncheck('#lx-runs-choice-0 input[name="shapes/1"]')
    visit.rest("runs=shapes,shapes%2F2&")
    assert "uniform soup of 2 runs" in visit.sentence
    visit.choose("soup", "greedy")
    visit.rest("soup=greedy&runs=shapes,shapes%2F2&")
    assert "greedy soup of" in visit.sentence
    assert "--tasks shapes,shapes/2 --soup greedy --alpha 1 --beta 0" in visit.page.inner_text('[data-lx="command"]')
    visit.press("run-line")
    visit.page.wait_for_selector('[data-lx="missing"]', state="hidden")
    assert len(visit.trace("plane", "single run")["x"]) == 2
    for name in ("shapes", "shapes/2"):
        visit.page.uncheck(f'#lx-runs-choice-0 input[name="{name}"]')
    visit.page.wait_for_selector('[data-lx="notice"]', state="visible")
    assert "at least one run" in visit.page.inner_text('[data-lx="notice"]')


def test_negation(visit) -> None:
    visit.choose("mode", "negation")
    visit.rest("mode=negation&target=shapes&floor=0.95&", "alpha=-0.25&beta=-0.25&")
    assert "the floor of 95 %" in visit.sentence and visit.page.is_visible("#lx-floor")
    visit.set("gamma_negation", 0.4, 0.8)
    visit.rest("alpha=-0.4&beta=-0.4&")
    assert "--alpha -0.4 --beta -0.4" in visit.page.inner_text('[data-lx="command"]')
    assert visit.trace("depth", "pinned")["y"] == [None] * 3
    visit.press("run-line")
    visit.page.wait_for_selector('[data-lx="missing"]', state="hidden")
    assert len(visit.trace("plane", "LiNeS")["x"]) == len(visit.trace("plane", "constant λ")["x"]) == 16
    assert visit.trace("plane", "lowest target that keeps control")["x"]
    visit.set("floor", 0.6)
    visit.rest("floor=0.6&")
    visit.choose("schedule", "constant")
    visit.rest("schedule=constant&scale=-0.5&")
    visit.choose("mode", "edit")
    visit.rest("mode=edit&", "scale=0.5&")
    assert "Down is better" not in visit.page.inner_text("#lx-plane-panel")


def test_links_open_a_mode(open_page) -> None:
    first = open_page("#mode=soup&target=shapes&soup=uniform&runs=shapes/1,shapes/2&alpha=0.6&beta=0.4")
    first.rest("mode=soup&target=shapes&soup=uniform&runs=shapes%2F1,shapes%2F2&", "alpha=0.6&beta=0.4&")
    assert first.value("gamma_soup") == 0.6
    second = open_page(first.link)
    second.rest("mode=soup")
    assert (second.sentence, second.link) == (first.sentence, first.link)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_mode_fits_and_shows_its_figures(open_page, width: int, scheme: str) -> None:
    visit = open_page(width=width, scheme=scheme)
    for mode in MODES:
        visit.choose("mode", mode)
        visit.rest(f"mode={mode}&")
        for panel in ("plane", "surface", "curve", "depth", "tasks"):
            visit.page.wait_for_selector(f"#lx-{panel}-panel .main-svg")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        column = "document.getElementById('lx-controls')"
        assert visit.page.evaluate(f"{column}.scrollWidth <= {column}.clientWidth + 1")


@pytest.fixture(scope="module")
def bare(watched: Callable[..., Any], tiny_suite_folder: Path) -> Iterator[str]:
    """A page of the suite without runs."""
    engine = watched(open_suite(tiny_suite_folder), "cpu", Store(":memory:"))
    engine.zero_shot()
    engine.experts()
    page = layout.build_page(engine)
    page.queue(api_open=False)
    page.launch(**serving.launch_options("127.0.0.1", serving.check_port("127.0.0.1", 0)), prevent_thread_lock=True)
    yield page.local_url
    page.close()


def test_a_mode_without_runs_is_greyed_and_says_why(visiting, bare: str) -> None:
    visit = visiting(bare, "#mode=soup")
    visit.rest("mode=edit&")
    assert visit.page.is_disabled(MODE.format("soup")) and visit.page.is_enabled(MODE.format("negation"))
    assert "build-suite runs" in visit.page.inner_text("#lx-lacking")
    assert "build-suite runs" in visit.page.inner_text('[data-lx="problems"]')
    assert visit.page.is_hidden('[data-lx="model"]'), "this page's operator does not allow it"
    assert visit.complaints == []
    visit.page.close()
