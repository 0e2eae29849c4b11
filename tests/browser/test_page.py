"""The page in a real Chromium, on the tiny suite: what a person does, and what must not happen meanwhile."""

import os
import re
import threading
from pathlib import Path

import pytest

from lines_explorer.engine import Engine
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant, lines
from lines_explorer.ui import layout

SHOTS = os.environ.get("LINES_EXPLORER_SHOTS")  # a folder for screenshots, which take a while
SAID = "document.querySelector('[data-lx=sentence]').textContent.replaceAll('\\u00a0', ' ')"


def kept(engine: Engine, task: str, schedule) -> str:
    """The share of its own expert's accuracy that an edited expert keeps, as the sentence says it."""
    summary = engine.summary(engine.peek(Recipe("tiny", (task,), schedule=schedule)), (task,))
    return f"keeps {100 * summary.target_normalized:.0f} %"


def test_first_picture_needs_no_evaluation(visit, engine):
    assert "keeps" in visit.sentence
    assert visit.page.locator("h1").count() == 1
    assert visit.page.locator('.lx-figure[role="group"][aria-label]').count() == 6
    for name in ("plane", "surface", "curve", "depth", "tasks"):
        visit.page.wait_for_selector(f"#lx-{name}-panel .main-svg")
    assert not visit.page.is_visible("#lx-difference-panel")
    assert engine.evaluated == []


def test_drag_ends_in_one_exact_evaluation(visit, engine):
    visit.set("alpha", *[0.2 + i / 100 for i in range(60)])
    visit.rest("alpha=0.79&beta=0.7&")
    assert engine.evaluated == [Recipe("tiny", ("shapes",), schedule=lines(0.79, 0.7))]
    assert "α = 0.79, β = 0.7" in visit.sentence
    assert kept(engine, "shapes", lines(0.79, 0.7)) in visit.sentence
    assert "--alpha 0.79 --beta 0.7" in visit.page.inner_text('[data-lx="command"]')


def test_gamma_moves_both_and_stored_points_cost_nothing(visit, engine):
    visit.set("gamma", 0.5, 0.6, 0.8)
    visit.rest("alpha=0.8&beta=0.2&")
    assert (visit.value("alpha"), visit.value("beta")) == (0.8, 0.2)
    assert engine.evaluated == []
    assert kept(engine, "shapes", lines(0.8, 0.2)) in visit.sentence
    visit.set("alpha", 0.4)
    visit.set("beta", 0.6)
    visit.rest("alpha=0.4&beta=0.6&")
    visit.until("document.querySelector('#lx-gamma input[type=range]').value === '0.4'")


def test_preview_is_hollow_then_solid(visit, engine, monkeypatch):
    """The device waits until the preview was seen."""
    seen, predict = threading.Event(), engine.backend.predict

    def held(*arguments):
        assert seen.wait(120)
        return predict(*arguments)

    monkeypatch.setattr(engine.backend, "predict", held)
    (solid,) = visit.marks("plane")
    visit.set("gamma", 0.75, pause=60)
    visit.until("document.querySelector('[data-lx=state]').textContent.startsWith('Interpolated')")
    visit.until_marks("plane", 1, differ_from=solid)
    seen.set()
    visit.rest("alpha=0.75&beta=0.25&")
    visit.until_marks("plane", 1, equal=solid)
    visit.until_marks("tasks", 3, equal=solid)


def test_arrow_keys_and_back_to_zero(visit, engine):
    visit.page.focus("#lx-alpha input[type=range]")
    for _ in range(5):
        visit.page.keyboard.press("ArrowRight")
    visit.rest("alpha=0.35&")
    assert visit.value("alpha") == 0.35
    assert "α = 0.35" in visit.sentence
    visit.set("alpha", 0.2, 0.1, 0)
    visit.set("beta", 0.3, 0)
    visit.rest("alpha=0&beta=0&")
    assert "α = 0, β = 0" in visit.sentence
    assert kept(engine, "shapes", constant(0)) in visit.sentence


def test_click_on_the_plane_sets_the_sliders(visit):
    loneliest = """() => {
        const host = document.querySelector('#lx-plane-panel .lx-figure'), { xaxis, yaxis } = host._fullLayout;
        host.scrollIntoView({ block: 'center' });
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
    visit.rest("schedule=constant")
    assert visit.value("scale") == float(setting.removeprefix("λ = "))


def test_merge_many(visit):
    visit.choose("mode", "many")
    visit.page.wait_for_selector("#lx-beta_many", state="visible")
    visit.rest("mode=many")
    assert "3 experts" in visit.sentence
    assert not visit.page.is_visible("#lx-target")
    assert not visit.page.is_visible("#lx-alpha_many")
    visit.page.uncheck('#lx-tasks-choice input[name="colours"]')
    visit.page.wait_for_function(f"{SAID}.includes('2 experts')")
    visit.rest("tasks=shapes,places")
    assert "On the task left out" in visit.sentence
    assert "--tasks shapes,places --method sum --alpha 0.5" in visit.page.inner_text('[data-lx="command"]')
    visit.page.click('[data-lx="run-line"]')
    visit.page.wait_for_selector('[data-lx="missing"]', state="hidden")
    lengths = """JSON.stringify(document.querySelector('#lx-plane-panel .lx-figure').data
        .filter(({ meta }) => !['visited', 'Pareto front'].includes(meta)).map(({ meta, x }) => [meta, x.length]))"""
    visit.until(f'{lengths} === \'[["constant λ",11],["LiNeS",10],["base",1]]\'')
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
    visit.until("location.hash.includes('split=test')")
    visit.set("gamma", 0.1)
    visit.rest("alpha=0.1&", "split=validation")
    assert visit.page.inner_text('[data-lx="test"]') == ""


def test_emptied_number_box(visit):
    box = visit.page.locator("#lx-alpha input[type=number]")
    box.fill("")
    box.fill("0.6")
    box.press("Tab")
    visit.rest("alpha=0.6&")
    assert visit.page.locator('[data-lx="notice"]').is_hidden()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "light"), (1280, "dark"), (390, "dark")])
def test_fits_and_is_legible(open_page, width, scheme):
    visit = open_page(width=width, scheme=scheme)
    for mode, schedule in (("edit", "lines"), ("edit", "free"), ("many", "lines")):
        visit.choose("mode", mode)
        visit.choose("schedule", schedule)
        visit.rest(f"mode={mode}&", f"schedule={schedule}&")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        if SHOTS:
            visit.page.screenshot(path=Path(SHOTS) / f"{mode}-{schedule}-{width}-{scheme}.png", full_page=True)
    ink = visit.page.evaluate(
        "getComputedStyle(document.querySelector('#lx-plane-panel .xtitle')).fill.match(/\\d+/g).map(Number)"
    )
    assert (min(ink) > 200) if scheme == "dark" else (max(ink) < 60)


def test_nodes_stay_flat(visit):
    count = "document.querySelectorAll('*').length"
    visit.set("gamma", 0.2, 0.9, 0.3)
    visit.rest("alpha=0.3&")
    before = visit.page.evaluate(count)
    visit.set("gamma", *[(i % 20) / 20 for i in range(99)], 0.4)
    visit.rest("alpha=0.4&")
    assert abs(visit.page.evaluate(count) - before) < 60


def test_zoom_is_kept(visit):
    visit.page.evaluate(
        "Plotly.relayout(document.querySelector('#lx-curve-panel .lx-figure'), {'xaxis.range': [0.1, 0.5]})"
    )
    visit.set("gamma", 0.25)
    visit.rest("alpha=0.25&")
    kept_range = visit.page.evaluate("document.querySelector('#lx-curve-panel .lx-figure')._fullLayout.xaxis.range")
    assert kept_range == [0.1, 0.5]


def test_only_named_files_are_served(visit, address):
    inside = Path(layout.__file__)
    for path in (inside, inside.with_name("handlers.py"), Path("/etc/passwd")):
        assert visit.page.request.get(f"{address}gradio_api/file={path}").status in (403, 404)
    answer = visit.page.request.get(f"{address}gradio_api/file={layout.STATIC / 'page.js'}")
    assert answer.ok
    assert re.search(r"javascript", answer.headers["content-type"])
