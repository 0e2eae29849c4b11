"""A page of the tiny suite in a real Chromium, and what a person does with it; waits are for the page's own signs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from runs_suite import write_runs_suite

from lines_explorer.engine import Engine, Store
from lines_explorer.recipe import Recipe
from lines_explorer.suites import open_suite
from lines_explorer.ui import layout, serving

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PATIENCE = 120_000
SAID = "document.querySelector('[data-lx=sentence]').textContent.replaceAll('\\u00a0', ' ')"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here drives a browser, and is passed over where there is none."""
    missing = pytest.mark.skipif(not os.path.exists(CHROMIUM), reason="Chromium is not installed")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(missing)


class Watched(Engine):
    """An engine that notes each recipe the device had to evaluate for the page."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.evaluated: list[Recipe] = []

    def stream(self, recipe, score_on=None, split="validation", stop=None, visitor=None):
        if self.peek(recipe, score_on, split) is None:
            self.evaluated.append(recipe)
        return super().stream(recipe, score_on, split, stop, visitor)


@pytest.fixture(scope="module")
def engine(tiny_suite_folder: Path) -> Watched:
    """The tiny suite with what a shipped suite has precomputed: base, experts, both lines of every target."""
    engine = Watched(open_suite(str(tiny_suite_folder)), "cpu", Store(":memory:"))
    for task in engine.suite.tasks:
        engine.single_task_curve(task)
        engine.constant_curve(task)
    engine.evaluated.clear()
    return engine


@pytest.fixture(scope="module")
def runs_engine(runs_suite_folder: Path) -> Watched:
    """The tiny suite with several runs of its tasks; base and experts are known."""
    engine = Watched(open_suite(runs_suite_folder), "cpu", Store(":memory:"))
    engine.zero_shot()
    engine.experts()
    return engine


@pytest.fixture(scope="module")
def address(engine: Watched) -> Iterator[str]:
    page = layout.build_page(engine, downloads=True)
    page.queue(api_open=False)
    page.launch(**serving.launch_options("127.0.0.1", serving.check_port("127.0.0.1", 0)), prevent_thread_lock=True)
    yield page.local_url
    page.close()


@pytest.fixture(scope="module")
def browser():
    """One browsing session: its pages share a cache, as a person's do."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium.new_context(accept_downloads=True, permissions=["clipboard-read", "clipboard-write"])
        chromium.close()


class Visit:
    """One open page and what it complained about."""

    def __init__(self, browser, address: str, link: str = "", width: int = 1280, scheme: str = "light") -> None:
        self.page = browser.new_page()
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.emulate_media(color_scheme=scheme)
        self.page.set_default_timeout(PATIENCE)
        self.address, self.complaints, self.requests = address, [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(f"{address}{link}")
        self.page.wait_for_selector("#lx-plane-panel .main-svg")
        self.rest()

    def rest(self, *parts: str) -> None:
        """Until the sliders rest at a link with these parts, evaluated and drawn."""
        self.page.wait_for_function(
            """(parts) => document.body.dataset.lxState === 'rested' && location.hash.length > 1
                && parts.every((part) => location.hash.includes(part))
                && document.querySelector('[data-lx=sentence]').dataset.state === 'known'""",
            arg=list(parts),
        )

    def go(self, link: str, *parts: str) -> None:
        """Changes the address, as a visitor or the back button does, until the page rests and has written its own."""
        self.page.evaluate("(link) => { location.hash = link; }", link)
        self.rest("#suite=", *parts)

    def set(self, name: str, *values: float, pause: int = 16) -> None:
        """Drags a slider through values."""
        script = """async ([name, values, pause]) => {
            const slider = document.querySelector(`#lx-${name} input[type=range]`);
            for (const value of values) {
                slider.value = value;
                slider.dispatchEvent(new Event('input', { bubbles: true }));
                await new Promise((done) => setTimeout(done, pause));
            }
        }"""
        self.page.evaluate(script, [name, list(values), pause])

    def value(self, name: str) -> float:
        return float(self.page.input_value(f"#lx-{name} input[type=range]"))

    def choose(self, name: str, value: str) -> None:
        self.page.check(f'#lx-{name} input[value="{value}"]', force=True)

    @property
    def sentence(self) -> str:
        return self.page.evaluate(SAID)

    @property
    def link(self) -> str:
        return self.page.evaluate("location.hash")

    def shapes(self, panel: str) -> list[dict]:
        """What the page drew over a figure."""
        return self.page.evaluate(
            "(panel) => document.querySelector(`#lx-${panel}-panel .lx-figure`).layout.shapes ?? []", panel
        )

    def trace(self, panel: str, meta: str) -> dict | None:
        """A trace of a figure, by its meta."""
        return self.page.evaluate(
            """([panel, meta]) => {
                const found = document.querySelector(`#lx-${panel}-panel .lx-figure`).data.find((t) => t.meta === meta);
                return found ? JSON.parse(JSON.stringify(found)) : null;
            }""",
            [panel, meta],
        )

    def press(self, name: str) -> None:
        """Clicks a button of the page's own."""
        self.page.click(f'[data-lx="{name}"]')

    def until(self, condition: str) -> None:
        """Waits for a JavaScript condition."""
        self.page.wait_for_function(condition)

    def click_at(self, panel: str, x: float, y: float) -> None:
        """Clicks a figure at a place in its own units."""
        self.page.mouse.click(*self.place(panel, x, y))

    def point_at(self, panel: str, x: float, y: float) -> None:
        """Moves the mouse over a figure to a place in its own units."""
        across, down = self.place(panel, x, y)
        self.page.mouse.move(across + 3, down)
        self.page.mouse.move(across, down)

    def place(self, panel: str, x: float, y: float) -> tuple[float, float]:
        """Where a place in a figure's own units is on the screen, scrolled into view."""
        return self.page.evaluate(
            """([panel, x, y]) => {
                const host = document.querySelector(`#lx-${panel}-panel .lx-figure`);
                const { xaxis, yaxis } = host._fullLayout;
                host.scrollIntoView({ block: 'center' });
                const box = host.getBoundingClientRect();
                return [box.x + xaxis._offset + xaxis.l2p(x), box.y + yaxis._offset + yaxis.l2p(y)];
            }""",
            [panel, x, y],
        )

    def marks(self, panel: str) -> list[str]:
        """Fill colours of "you are here" in a figure."""
        return self.page.evaluate(
            """(panel) => document.querySelector(`#lx-${panel}-panel .lx-figure`).layout.shapes
                .filter((shape) => shape.type === 'circle').map((shape) => shape.fillcolor)""",
            panel,
        )

    def until_marks(self, panel: str, count: int, equal: str = "", differ_from: str = "") -> None:
        """Waits until a figure has so many marks "you are here", all filled like or all unlike a colour."""
        self.page.wait_for_function(
            """([panel, count, equal, other]) => {
                const shapes = document.querySelector(`#lx-${panel}-panel .lx-figure`).layout.shapes ?? [];
                const fills = shapes.filter((shape) => shape.type === 'circle').map((shape) => shape.fillcolor);
                return fills.length === count && fills.every((fill) => (equal ? fill === equal : fill !== other));
            }""",
            arg=[panel, count, equal, differ_from],
        )


@pytest.fixture(scope="session")
def watched() -> type[Watched]:
    """The engine of a browser test, for suites of a module's own."""
    return Watched


@pytest.fixture(scope="session")
def runs_suite_folder(tiny_suite_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny suite with three runs of one task: it has something for every mode."""
    return write_runs_suite(tiny_suite_folder, tmp_path_factory.mktemp("modes") / "tiny", {"shapes": 3})


@pytest.fixture(scope="module")
def visiting(browser) -> Callable[..., Visit]:
    """Opens a page at any address."""
    return lambda *arguments, **how: Visit(browser, *arguments, **how)


@pytest.fixture
def open_page(browser, address: str) -> Iterator[Callable[..., Visit]]:
    """Opens pages; none may have complained, nor asked another host, when the test is done."""
    visits: list[Visit] = []

    def opened(link: str = "", **how) -> Visit:
        visits.append(Visit(browser, address, link, **how))
        return visits[-1]

    yield opened
    for visit in visits:
        visit.page.close()
    foreign = [url for visit in visits for url in visit.requests if not url.startswith((address, "data:", "blob:"))]
    assert not foreign, "the page asked another host"
    assert not [complaint for visit in visits for complaint in visit.complaints]


@pytest.fixture
def visit(open_page, engine: Watched) -> Visit:
    """One open page at rest."""
    engine.evaluated.clear()
    return open_page()
