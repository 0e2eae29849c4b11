"""A server that goes and comes back, two tabs, the back button, and settings that cannot be, in a real Chromium."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny import write_manifest, write_tiny_suite
from wire import Wire

from lines_explorer.engine import Store
from lines_explorer.suites import open_suite
from lines_explorer.ui import layout, serving, texts

NOTICE = "[data-lx=notice]"
WARNED = "!document.querySelector('[data-lx=notice]').hidden && document.querySelector('[data-lx=notice]').textContent"
LOADED = "performance.getEntriesByType('navigation')[0].type"
OUTAGE = ("Failed to load resource", "TypeError", "Error: Could not connect to component server", "Unexpected error")


def launched(engine: Any) -> Any:
    """A new server with a new page, as a program that was started again."""
    page = layout.build_page(engine)
    page.queue(api_open=False)
    page.launch(**serving.launch_options("127.0.0.1", serving.check_port("127.0.0.1", 0)), prevent_thread_lock=True)
    return page


@pytest.fixture
def wire(address: str) -> Iterator[Wire]:
    """An address of the page whose server can be taken away."""
    wire = Wire(int(address.rstrip("/").rpartition(":")[2]))
    yield wire
    wire.cut()


@pytest.fixture
def wired(visiting: Callable[..., Any], wire: Wire) -> Iterator[Any]:
    """A page there; of an outage only what a browser itself says of it is on the console."""
    visit = visiting(wire.address)
    yield visit
    visit.page.close()
    assert [said for said in visit.complaints if not said.startswith(OUTAGE)] == []


def test_a_slider_moved_while_the_server_is_away(wired, wire: Wire, address: str) -> None:
    wire.cut()
    wired.set("alpha", 0.5, 0.62)
    wired.until(f"{WARNED} === {texts.PHRASES['offline']!r}")
    assert wired.page.is_visible(NOTICE)
    wire.mend(int(address.rstrip("/").rpartition(":")[2]))
    wired.rest("alpha=0.62&")
    assert wired.page.is_hidden(NOTICE) and "α = 0.62" in wired.sentence
    assert wired.page.evaluate(LOADED) == "navigate", "the page went on, it was not loaded anew"
    wired.set("alpha", 0.63)
    wired.rest("alpha=0.63&")


@pytest.fixture
def gate(engine: Any, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """What the device waits for before it predicts anything."""
    gate, predict = threading.Event(), engine.backend.predict

    def held(*arguments):
        assert gate.wait(120)
        return predict(*arguments)

    monkeypatch.setattr(engine.backend, "predict", held)
    return gate


def test_the_server_goes_during_an_evaluation(wired, wire: Wire, engine, gate: threading.Event) -> None:
    """Gradio says so, and loads the page anew at its link when a server is back: the point is evaluated after all."""
    with wired.page.expect_response(lambda answer: "queue/data" in answer.url):
        wired.set("alpha", 0.41)
    wire.cut()
    wired.page.get_by_text("Connection to the server was lost").wait_for()
    gate.set()
    again = launched(engine)
    wire.mend(again.server_port)
    wired.until(f"{LOADED} === 'reload'")
    wired.rest("alpha=0.41&")
    assert wired.value("alpha") == 0.41 and "α = 0.41" in wired.sentence
    wired.set("beta", 0.31)
    wired.rest("alpha=0.41&beta=0.31&")
    again.close()


@pytest.mark.parametrize(
    ("slider", "value", "link"), [("beta", 0.77, "alpha=0.42&beta=0.77&"), ("gamma", 0.8, "alpha=0.8&beta=0.2&")]
)
def test_a_slider_moved_after_the_server_went_during_an_evaluation(
    wired, wire: Wire, engine, gate: threading.Event, slider: str, value: float, link: str
) -> None:
    """Gradio tells of no control any more: the slider tells itself, and stays where it is when a server is back."""
    with wired.page.expect_response(lambda answer: "queue/data" in answer.url):
        wired.set("alpha", 0.42 if slider == "beta" else 0.43)
    wire.cut()
    wired.page.get_by_text("Connection to the server was lost").wait_for()
    wired.set(slider, value)
    wired.until(f"{WARNED} === {texts.PHRASES['offline']!r}")
    gate.set()
    again = launched(engine)
    wire.mend(again.server_port)
    wired.until(f"{LOADED} === 'reload'")
    wired.rest(link)
    assert wired.value(slider) == value
    again.close()


def test_another_program_answers_at_the_address(wired, wire: Wire, engine) -> None:
    """Its page has other parts, so that the old page's questions are refused: the page is loaded anew."""
    wire.cut()
    wired.set("alpha", 0.52)
    wired.until(f"{WARNED} === {texts.PHRASES['offline']!r}")
    other = launched(engine)
    wire.mend(other.server_port)
    wired.until(f"{LOADED} === 'reload'")
    wired.rest("alpha=0.52&")
    assert wired.page.is_hidden(NOTICE)
    other.close()


def test_two_tabs_at_once(open_page) -> None:
    one, other = open_page(), open_page("#target=places")
    for step in range(6):
        one.set("alpha", 0.4 + step / 50)
        other.set("alpha", 0.8 + step / 50)
    one.rest("target=shapes", "alpha=0.5&")
    other.rest("target=places", "alpha=0.9&")
    assert "α = 0.5," in one.sentence and "Shapes" in one.sentence
    assert "α = 0.9," in other.sentence and "Places" in other.sentence


def test_the_back_button(open_page) -> None:
    visit = open_page()
    visit.go("#target=places&alpha=0.5&beta=0.5", "target=places", "alpha=0.5&")
    visit.go("#target=colours&alpha=0.2&beta=0.8", "target=colours", "alpha=0.2&")
    visit.set("alpha", 0.4)
    visit.rest("target=colours", "alpha=0.4&")
    said = "document.querySelector('[data-lx=sentence]')?.textContent.includes('expert’s accuracy on {0}')"
    visit.page.go_back()
    visit.until(said.format("Places"))
    visit.rest("target=places", "alpha=0.5&beta=0.5&")
    assert visit.value("alpha") == 0.5
    visit.page.go_forward()
    visit.until(said.format("Colours"))
    visit.rest("target=colours", "alpha=0.4&")
    visit.page.goto("about:blank")
    visit.page.go_back()
    visit.until(said.format("Colours"))
    visit.rest("target=colours", "alpha=0.4&")


def test_a_hash_is_read_though_the_page_is_about_to_write_its_own(visit) -> None:
    """The page writes its link a moment after a slider moved; a hash that came in between is not lost."""
    visit.page.evaluate(
        """async () => {
            const write = history.replaceState.bind(history);
            const slider = document.querySelector('#lx-alpha input[type=range]');
            const written = new Promise((done) => {
                history.replaceState = (...given) => { write(...given); done(); };
            });
            slider.value = 0.61;
            slider.dispatchEvent(new Event('input', { bubbles: true }));
            await written;
            slider.value = 0.66;
            slider.dispatchEvent(new Event('input', { bubbles: true }));
            await new Promise((done) => document.addEventListener('lx:moved', done, { once: true }));
            history.replaceState = write;
            location.hash = '#target=places&alpha=0.2&beta=0.2';
        }"""
    )
    visit.rest("#suite=", "target=places", "alpha=0.2&beta=0.2&")


def test_no_task_to_merge(open_page) -> None:
    visit = open_page("#mode=many&tasks=shapes,places&schedule=constant&scale=0.4")
    visit.rest("tasks=shapes,places&")
    visit.page.uncheck('#lx-tasks-choice input[name="places"]')
    visit.rest("tasks=shapes&")
    assert "of Shapes gives one model" in visit.sentence
    assert visit.page.is_enabled('[data-lx="pin"]')
    visit.page.uncheck('#lx-tasks-choice input[name="shapes"]')
    visit.until(f"{WARNED} === {texts.PHRASES['tick']!r}")
    assert visit.page.is_disabled('[data-lx="pin"]'), "nothing can be pinned"
    assert visit.page.inner_text('[data-lx="state"]') == texts.PHRASES["unknown"]
    visit.press("undo")
    visit.rest("tasks=shapes&")
    assert visit.page.is_checked('#lx-tasks-choice input[name="shapes"]') and visit.page.is_hidden(NOTICE)
    visit.press("undo")
    visit.rest("tasks=shapes,places&")


def test_numbers_that_cannot_be(visit) -> None:
    """They are said to be none while they are typed; left behind, the box takes the nearest that can be."""
    typed = visit.page.locator("#lx-alpha input[type=number]")
    for text in ("", "1e300", "-7", "999999999999999999999", "1e999"):
        typed.fill(text)
        visit.until(f"{WARNED} === {texts.PHRASES['number']!r}")
        typed.fill("0.25")
        visit.until(f"!({WARNED})")
    visit.rest("alpha=0.25&")
    typed.fill("1e300")
    visit.until(f"{WARNED} === {texts.PHRASES['number']!r}")
    typed.press("Tab")
    visit.rest("alpha=1.5&")
    assert visit.value("alpha") == 1.5 and float(typed.input_value()) == 1.5
    typed.fill("")
    visit.until(f"{WARNED} === {texts.PHRASES['number']!r}")
    visit.press("undo")
    visit.rest("alpha=1.5&")
    assert visit.page.is_hidden(NOTICE)


def test_a_knob_that_cannot_be(visit) -> None:
    """γ stands for α and β: beyond its ends it is at them, and an emptied box moves nothing."""
    typed = visit.page.locator("#lx-gamma input[type=number]")
    for text, reached in (("1e300", "alpha=1&beta=0&"), ("", "alpha=1&beta=0&"), ("-7", "alpha=0&beta=1&")):
        typed.fill(text)
        visit.rest(reached)


@pytest.fixture(scope="module")
def lone(watched: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page of a suite with one task: there is no control task."""
    folder = write_tiny_suite(tmp_path_factory.mktemp("lone") / "tiny")
    file: Path = folder / "suite.yaml"
    told = yaml.safe_load(file.read_text(encoding="utf-8"))
    for part in ("tasks", "experts"):
        told[part] = {"places": told[part]["places"]}
    file.write_text(yaml.safe_dump(told, sort_keys=False), encoding="utf-8")
    write_manifest(folder)
    page = launched(watched(open_suite(folder), "cpu", Store(":memory:")))
    yield page.local_url
    page.close()


def test_a_suite_without_control_tasks(visiting: Callable[..., Any], lone: str) -> None:
    visit = visiting(lone)
    assert "1 task," in visit.page.inner_text(".lx-suite")
    assert visit.sentence.endswith("of the expert’s accuracy on Places.")
    assert "one task only" in visit.page.inner_text("#lx-lacking")
    assert visit.trace("tasks", "base")["y"] == ["Places"]
    for link in ("#mode=many", "#mode=edit&schedule=free", "#mode=edit&schedule=constant&scale=0.4"):
        visit.go(link)
        assert "Places" in visit.sentence
    visit.press("pin")
    visit.rest("pin=mode")
    visit.set("scale", 0.7)
    visit.rest("scale=0.7&")
    visit.press("run-test")
    visit.until("document.querySelector('[data-lx=test]').textContent.startsWith('Test: target')")
    assert "control" not in visit.page.inner_text('[data-lx="test"]')
    visit.page.click('[data-lx="details"] summary')
    visit.until("document.querySelectorAll('[data-lx=table] tr').length === 1")
    assert visit.page.is_hidden('[data-lx-search="keep"]'), "there is no control to keep"
    assert visit.complaints == []
    visit.page.close()
