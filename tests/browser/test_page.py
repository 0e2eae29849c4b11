"""The page in a real Chromium, on the tiny suite: what a person does, and what must not happen meanwhile."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lines_explorer.engine import Engine, Store
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant, lines
from lines_explorer.suites import open_suite
from lines_explorer.ui import layout, serving

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PATIENCE = 120_000
SAID = "document.querySelector('[data-lx=sentence]').textContent.replaceAll('\\u00a0', ' ')"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not os.path.exists(CHROMIUM), reason="Chromium is not installed"),
]


class Watched(Engine):
    """An engine that notes each recipe the device had to evaluate for the page."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.evaluated: list[Recipe] = []

    def stream(self, recipe, score_on=None, split="validation", stop=None):
        if self.peek(recipe, score_on, split) is None:
            self.evaluated.append(recipe)
        return super().stream(recipe, score_on, split, stop)


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
def address(engine: Watched) -> Iterator[str]:
    page = layout.build_page(engine)
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
        yield chromium.new_context()
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

    def rest(self) -> None:
        """Until what the sliders say is evaluated, drawn, and in the address."""
        self.page.wait_for_selector('[data-lx="sentence"][data-state="known"]')
        self.page.wait_for_function("location.hash.length > 1")
        self.page.wait_for_timeout(400)
        self.page.wait_for_selector('[data-lx="sentence"][data-state="known"]')

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

    def marks(self, panel: str) -> list[str]:
        """Fill colours of "you are here" in a figure."""
        return self.page.evaluate(
            """(panel) => document.querySelector(`#lx-${panel}-panel .lx-figure`).layout.shapes
                .filter((shape) => shape.type === 'circle').map((shape) => shape.fillcolor)""",
            panel,
        )


@pytest.fixture
def visit(browser, address, engine) -> Iterator[Visit]:
    engine.evaluated.clear()
    visit = Visit(browser, address)
    yield visit
    own = [url for url in visit.requests if not url.startswith((address, "data:", "blob:"))]
    visit.page.close()
    assert not own, "the page asked another host"
    assert not visit.complaints


def kept(engine: Engine, task: str, schedule) -> str:
    """The share of its own expert's accuracy that an edited expert keeps, as the sentence says it."""
    summary = engine.summary(engine.peek(Recipe("tiny", (task,), schedule=schedule)), (task,))
    return f"keeps {100 * summary.target_normalized:.0f} %"


def test_first_picture_needs_no_evaluation(visit, engine):
    assert "keeps" in visit.sentence
    assert visit.page.locator("h1").count() == 1
    assert visit.page.locator('.lx-figure[role="group"][aria-label]').count() == 4
    assert all(
        visit.page.locator(f"#lx-{name}-panel .main-svg").count() for name in ("plane", "curve", "tasks", "depth")
    )
    assert engine.evaluated == []


def test_drag_ends_in_one_exact_evaluation(visit, engine):
    visit.set("alpha", *[0.2 + i / 100 for i in range(60)])
    visit.rest()
    assert engine.evaluated == [Recipe("tiny", ("shapes",), schedule=lines(0.79, 0.7))]
    assert "α = 0.79, β = 0.7" in visit.sentence
    assert kept(engine, "shapes", lines(0.79, 0.7)) in visit.sentence
    assert visit.page.evaluate("location.hash").endswith("alpha=0.79&beta=0.7")
    assert "--alpha 0.79 --beta 0.7" in visit.page.inner_text('[data-lx="command"]')


def test_gamma_moves_both_and_stored_points_cost_nothing(visit, engine):
    visit.set("gamma", 0.5, 0.6, 0.8)
    visit.rest()
    assert (visit.value("alpha"), visit.value("beta")) == (0.8, 0.2)
    assert engine.evaluated == []
    assert kept(engine, "shapes", lines(0.8, 0.2)) in visit.sentence
    visit.set("alpha", 0.4)
    visit.set("beta", 0.6)
    visit.rest()
    assert visit.value("gamma") == 0.4


def test_preview_is_hollow_then_solid(visit):
    solid = visit.marks("plane")
    visit.set("gamma", 0.75, pause=60)
    assert visit.marks("plane") != solid
    assert visit.page.inner_text('[data-lx="state"]').startswith("Interpolated")
    visit.rest()
    assert visit.marks("plane") == solid
    assert len(visit.marks("tasks")) == 3


def test_arrow_keys_and_back_to_zero(visit, engine):
    visit.page.focus("#lx-alpha input[type=range]")
    for _ in range(5):
        visit.page.keyboard.press("ArrowRight")
    visit.rest()
    assert visit.value("alpha") == 0.35
    assert "α = 0.35" in visit.sentence
    visit.set("alpha", 0.2, 0.1, 0)
    visit.set("beta", 0.3, 0)
    visit.rest()
    assert "α = 0, β = 0" in visit.sentence
    assert kept(engine, "shapes", constant(0)) in visit.sentence


def test_click_on_the_plane_sets_the_sliders(visit):
    loneliest = """() => {
        const host = document.querySelector('#lx-plane-panel .lx-figure'), { xaxis, yaxis } = host._fullLayout;
        const places = (name) => {
            const { x, y, customdata } = host.data.find((trace) => trace.meta === name);
            return x.map((_, i) => [xaxis.l2p(x[i]), yaxis.l2p(y[i]), customdata[i][0]]);
        };
        const far = ([x, y]) => Math.min(...places('LiNeS').map(([u, v]) => Math.hypot(x - u, y - v)));
        const [x, y, setting] = places('constant λ').sort((a, b) => far(b) - far(a))[0];
        const box = host.getBoundingClientRect();
        return [box.x + xaxis._offset + x, box.y + yaxis._offset + y, setting];
    }"""
    x, y, setting = visit.page.evaluate(loneliest)
    visit.page.mouse.click(x, y)
    visit.page.wait_for_selector("#lx-scale input[type=range]", state="visible")
    visit.page.wait_for_function(f"{SAID}.includes('{setting} keeps')")
    visit.rest()
    assert visit.value("scale") == float(setting.removeprefix("λ = "))
    assert "schedule=constant" in visit.page.evaluate("location.hash")


def test_links_in_and_out(browser, address, engine):
    first = Visit(browser, address, "#mode=edit&target=places&alpha=0.77&beta=abc&evil=<b>")
    first.page.wait_for_function("document.querySelector('#lx-alpha input[type=range]').value === '0.77'")
    first.rest()
    assert first.value("beta") == 0.7
    assert "Places" in first.sentence
    link, said = first.page.evaluate("location.hash"), first.sentence
    second = Visit(browser, address, link)
    second.page.wait_for_function(f"{SAID} === {said!r}")
    assert not first.complaints + second.complaints
    first.page.close()
    second.page.close()


def test_merge_many(visit):
    visit.choose("mode", "many")
    visit.page.wait_for_selector("#lx-beta_many", state="visible")
    visit.rest()
    assert "3 experts" in visit.sentence
    assert not visit.page.is_visible("#lx-target")
    assert not visit.page.is_visible("#lx-alpha_many")
    visit.page.uncheck('#lx-tasks-choice input[name="colours"]')
    visit.page.wait_for_function(f"{SAID}.includes('2 experts')")
    visit.rest()
    assert "On the task left out" in visit.sentence
    assert "--tasks shapes,places --method sum --alpha 0.5" in visit.page.inner_text('[data-lx="command"]')
    visit.page.click('[data-lx="run-line"]')
    visit.page.wait_for_selector('[data-lx="missing"]', state="hidden")
    drawn = "document.querySelector('#lx-plane-panel .lx-figure').data.map((trace) => [trace.meta, trace.x.length])"
    visit.page.wait_for_function(f'JSON.stringify({drawn}) === \'[["constant λ",11],["LiNeS",10],["base",1]]\'')
    for name in ("shapes", "places"):
        visit.page.uncheck(f'#lx-tasks-choice input[name="{name}"]')
    visit.page.wait_for_selector('[data-lx="notice"]', state="visible")
    assert "at least one task" in visit.page.inner_text('[data-lx="notice"]')


def test_test_split_and_table(visit):
    visit.page.click('[data-lx="details"] summary')
    visit.page.wait_for_function("document.querySelectorAll('[data-lx=table] tr').length === 4")
    assert visit.page.locator("th.lx-test").is_hidden()
    visit.page.click('[data-lx="run-test"]')
    visit.page.wait_for_function("document.querySelector('[data-lx=test]').textContent.startsWith('Test: target')")
    assert visit.page.locator("th.lx-test").is_visible()
    visit.set("gamma", 0.1)
    visit.rest()
    assert visit.page.inner_text('[data-lx="test"]') == ""


def test_emptied_number_box(visit):
    box = visit.page.locator("#lx-alpha input[type=number]")
    box.fill("")
    visit.page.wait_for_timeout(500)
    box.fill("0.6")
    box.press("Tab")
    visit.page.wait_for_function(f"{SAID}.includes('α = 0.6')")
    visit.rest()
    assert visit.page.locator('[data-lx="notice"]').is_hidden()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "light"), (1280, "dark"), (390, "dark")])
def test_fits_and_is_legible(browser, address, width, scheme):
    visit = Visit(browser, address, width=width, scheme=scheme)
    for mode in ("edit", "many"):
        visit.choose("mode", mode)
        visit.rest()
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    ink = visit.page.evaluate(
        "getComputedStyle(document.querySelector('#lx-plane-panel .xtitle')).fill.match(/\\d+/g).map(Number)"
    )
    assert (min(ink) > 200) if scheme == "dark" else (max(ink) < 60)
    assert not visit.complaints
    visit.page.close()


def test_nodes_stay_flat(visit):
    count = "document.querySelectorAll('*').length"
    visit.set("gamma", 0.2, 0.9, 0.3)
    visit.rest()
    before = visit.page.evaluate(count)
    visit.set("gamma", *[(i % 20) / 20 for i in range(99)], 0.3)
    visit.rest()
    assert abs(visit.page.evaluate(count) - before) < 60


def test_zoom_is_kept(visit):
    visit.page.evaluate(
        "Plotly.relayout(document.querySelector('#lx-curve-panel .lx-figure'), {'xaxis.range': [0.1, 0.5]})"
    )
    visit.set("gamma", 0.25)
    visit.rest()
    kept_range = visit.page.evaluate("document.querySelector('#lx-curve-panel .lx-figure')._fullLayout.xaxis.range")
    assert kept_range == [0.1, 0.5]


def test_only_named_files_are_served(visit, address):
    inside = Path(layout.__file__)
    for path in (inside, inside.with_name("handlers.py"), Path("/etc/passwd")):
        assert visit.page.request.get(f"{address}gradio_api/file={path}").status in (403, 404)
    answer = visit.page.request.get(f"{address}gradio_api/file={layout.STATIC / 'page.js'}")
    assert answer.ok
    assert re.search(r"javascript", answer.headers["content-type"])
