"""Stories, lesson, glossary and search in a real Chromium, on the tiny suite."""

from __future__ import annotations

import threading
import time

import pytest

from lines_explorer.recipe import Recipe
from lines_explorer.schedule import free
from lines_explorer.ui import lesson_texts, story_texts
from lines_explorer.ui.lessons import ROWS as STEPS
from lines_explorer.ui.stories import ROWS as STORIES

SAID = "document.querySelector('[data-lx=story] > p').textContent"
MARKED = "document.querySelector('[data-lx-story=\"{0}\"]').getAttribute('aria-pressed') === '{1}'"
FOCUSED = "document.activeElement.textContent"


def evaluate_if_asked(visit) -> None:
    """Presses the story's "evaluate" if it is there now; opening its view may have told it in the meantime."""
    visit.page.evaluate("document.querySelector('[data-lx-guide=evaluate]')?.click()")


def told(visit) -> str:
    """The caption of the open story."""
    return visit.page.evaluate(SAID).replace("\u00a0", " ")


def test_a_story_is_one_click(visit, engine):
    assert visit.page.locator("[data-lx-story]").count() == len(STORIES) >= 8
    visit.page.click('[data-lx-story="forgets"]')
    visit.rest("guide=story-forgets", "pin=mode")
    visit.until(f"{SAID}.startsWith('Fine-tuned on')")
    base, expert = engine.zero_shot(), None
    for task in engine.suite.tasks:
        if f"Fine-tuned on {engine.suite.tasks[task].title}," in told(visit):
            expert = engine.peek(Recipe("tiny", (task,)))
    (task,) = expert.recipe.tasks
    before, after = (100 * one.scores[task].accuracy.value for one in (base, expert))
    assert f"({before:.1f} % → {after:.1f} %)" in told(visit)
    assert f"target={task}&" in visit.link and "alpha=1&beta=0&" in visit.link
    assert engine.evaluated == []
    assert visit.page.is_visible("#lx-difference-panel")
    visit.set("gamma", 0.5)
    visit.rest("alpha=0.5&")
    visit.page.wait_for_selector('[data-lx-guide="again"]', state="visible")
    visit.page.click('[data-lx-guide="again"]')
    visit.rest("alpha=1&beta=0&")
    visit.page.wait_for_selector('[data-lx-guide="again"]', state="hidden")
    visit.page.click('[data-lx-guide="close"]')
    visit.until("!location.hash.includes('guide=')")
    assert visit.page.is_hidden('[data-lx="story"]')


def test_every_story_opens_and_tells_once_it_is_evaluated(visit):
    for name in STORIES:
        visit.page.click(f'[data-lx-story="{name}"]')
        visit.until(MARKED.format(name, "true"))
        visit.rest(f"guide=story-{name}")
        visit.page.wait_for_selector("[data-lx=story] h3")
        assert visit.page.inner_text("[data-lx=story] h3") == story_texts.TITLES[name]
        evaluate_if_asked(visit)
        visit.until(f"{SAID}.length > 40 && !{SAID}.startsWith('Not told')")


def test_an_untold_story_is_told_when_its_point_is_there(open_page, engine):
    """The story of the reversed factors needs one model, which opening its view evaluates."""
    engine.evaluated.clear()
    visit = open_page("#guide=story-reversed&target=shapes&alpha=0.3&beta=0.7")
    visit.page.wait_for_selector("[data-lx=story] h3")
    visit.page.click('[data-lx-guide="close"]')
    visit.page.click('[data-lx-story="reversed"]')
    visit.rest("guide=story-reversed")
    evaluate_if_asked(visit)
    visit.until(f"{SAID}.includes('in reverse order')")
    visit.page.click('[data-lx-story="reversed"]')
    visit.page.click('[data-lx-story="reversed"]')
    visit.rest("guide=story-reversed", "schedule=free", "pin=mode")
    kinds = {recipe.schedule for recipe in engine.evaluated}
    assert kinds <= {free((1.0, 0.65, 0.3), 0.3)}


def press(visit, key: str, times: int = 1) -> None:
    for _ in range(times):
        visit.page.keyboard.press(key)


def tab_to(visit, selector: str) -> None:
    """Tabs forward until an element has the focus; it must be reachable."""
    for _ in range(40):
        if visit.page.evaluate("(s) => document.activeElement.matches(s)", selector):
            return
        press(visit, "Tab")
    raise AssertionError(f"{selector} cannot be reached by Tab")


def test_every_step_of_the_lesson_by_keyboard(visit):
    visit.page.focus('[data-lx-guide="lesson"]')
    press(visit, "Enter")
    for number, name in enumerate(STEPS):
        visit.page.wait_for_selector(f'[data-lx=lesson] .lx-place:text-is("Step {number + 1} of {len(STEPS)}")')
        visit.until(f"{FOCUSED} === {lesson_texts.TITLES[name]!r}")
        visit.page.wait_for_selector('[data-lx-lesson-go="predict"], [data-lx-lesson-go="evaluate"]')
        if visit.page.locator('[data-lx-lesson-go="evaluate"]').count():
            tab_to(visit, '[data-lx-lesson-go="evaluate"]')
            press(visit, "Enter")
            visit.page.wait_for_selector('[data-lx-lesson-go="predict"]')
        visit.rest(f"guide=lesson-{name}")
        assert visit.page.evaluate("getComputedStyle(document.querySelector('.lx-sentence')).visibility") == "hidden"
        tab_to(visit, ".lx-predict input")
        if visit.page.evaluate("document.activeElement.type") == "range":
            press(visit, "ArrowRight", 2)
        else:
            assert visit.page.is_disabled('[data-lx-lesson-go="predict"]')
            press(visit, "Space")
        tab_to(visit, '[data-lx-lesson-go="predict"]')
        press(visit, "Enter")
        tab_to(visit, '[data-lx-lesson-go="do"]')
        press(visit, "Enter")
        visit.page.wait_for_selector(".lx-answer")
        assert visit.page.evaluate("getComputedStyle(document.querySelector('.lx-sentence')).visibility") == "visible"
        said = visit.page.inner_text(".lx-answer")
        assert said.startswith(("You predicted it:", "You said")) and len(said) > 60 and "{" not in said
        tab_to(visit, '[data-lx-lesson-go="next"]')
        press(visit, "Enter")
    visit.page.wait_for_selector("[data-lx=lesson]", state="hidden")
    visit.until("!location.hash.includes('guide=') && !document.body.dataset.lxLesson")


def test_a_step_is_answered_when_the_visitor_moves_there(open_page):
    visit = open_page("#guide=lesson-half")
    visit.page.wait_for_selector('[data-lx-lesson-go="predict"]')
    visit.rest("guide=lesson-half", "scale=1&")
    visit.page.click('[data-lx-lesson-go="predict"]')
    visit.set("scale", 0.9, 0.6)
    visit.rest("scale=0.6&")
    assert visit.page.locator(".lx-answer").count() == 0
    visit.set("scale", 0.5)
    visit.page.wait_for_selector(".lx-answer")
    visit.page.click('[data-lx-lesson-go="back"]')
    visit.rest("guide=lesson-others")
    visit.page.click('[data-lx-lesson-go="close"]')
    visit.until("!location.hash.includes('guide=')")
    assert visit.page.is_visible(".lx-sentence")


def test_words_are_explained_on_hover_focus_and_touch(visit):
    tip, term = visit.page.locator(".lx-tip"), visit.page.locator(".lx-lede .lx-term").first
    described = visit.page.locator(f"#{term.get_attribute('aria-describedby')}")
    meaning = described.text_content()
    assert len(meaning) > 20 and tip.is_hidden()
    term.hover()
    tip.wait_for(state="visible")
    assert tip.text_content() == meaning
    tip.hover()
    visit.page.mouse.move(5, 5)
    tip.wait_for(state="hidden")
    term.focus()
    tip.wait_for(state="visible")
    press(visit, "Escape")
    tip.wait_for(state="hidden")
    term.dispatch_event("click")
    tip.wait_for(state="visible")
    visit.page.locator("h1").click()
    tip.wait_for(state="hidden")


def test_words_fit_a_narrow_page(open_page):
    visit = open_page(width=390)
    for term in visit.page.locator(".lx-lede .lx-term").all():
        term.focus()
        meaning = f"document.getElementById('{term.get_attribute('aria-describedby')}').textContent"
        visit.until(f"document.querySelector('.lx-tip:not([hidden])')?.textContent === {meaning}")
        box = visit.page.locator(".lx-tip").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390


def test_search_by_the_papers_rule(visit, engine):
    visit.page.click('[data-lx-search="rule"]')
    visit.until("document.querySelector('[data-lx=searched]').textContent.includes('was chosen on validation')")
    said = visit.page.inner_text('[data-lx="searched"]').replace("\u00a0", " ")
    assert "among the 11 points of the paper’s grid" in said
    assert engine.evaluated == []
    rings = visit.trace("plane", "searched")
    assert len(rings["x"]) == 11
    alpha = float(said.split("α = ")[1].split(",")[0])
    visit.rest(f"alpha={alpha:g}&")
    assert visit.value("alpha") == alpha
    assert visit.page.inner_text('[data-lx="test"]') == ""
    visit.choose("target", "places")
    visit.rest("target=places")
    visit.until("!document.querySelector('#lx-plane-panel .lx-figure').data.some((t) => t.meta === 'searched')")


def idle(engine) -> None:
    """Until nothing is on the device."""
    deadline = time.monotonic() + 120
    while engine.worker.busy and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not engine.worker.busy


def test_search_evaluates_what_is_missing_and_stops_when_asked(visit, engine, monkeypatch):
    """The device does three merges, and the others when the search was left."""
    gate, load = threading.Semaphore(3), engine.backend.load

    def held(recipe):
        assert gate.acquire(timeout=120)
        return load(recipe)

    visit.choose("mode", "many")
    visit.page.uncheck('#lx-tasks-choice input[name="colours"]')
    visit.rest("tasks=shapes,places")
    engine.evaluated.clear()
    monkeypatch.setattr(engine.backend, "load", held)
    visit.page.click('[data-lx-search="keep"]')
    grown = "t.meta === 'searched' && t.x.length >= 2"
    visit.until(f"document.querySelector('#lx-plane-panel .lx-figure').data.some((t) => {grown})")
    with visit.page.expect_response(lambda answer: '"fn_name":"live"' in (answer.request.post_data or "")):
        visit.page.click('[data-lx-search="stop"]')
    visit.page.wait_for_selector('[data-lx-search="stop"]', state="hidden")
    gate.release(1000)
    idle(engine)
    assert len(engine.evaluated) < 10
    visit.page.click('[data-lx-search="rule"]')
    visit.until("document.querySelector('[data-lx=searched]').textContent.includes('was chosen on validation')")
    assert len(visit.trace("plane", "searched")["x"]) == 10
    assert len(visit.trace("plane", "LiNeS")["x"]) == 10, "the line shows what was evaluated for the search"
    beta = visit.page.inner_text('[data-lx="searched"]').replace("\u00a0", " ").split("β = ")[1].split(" ")[0]
    visit.rest("mode=many", f"beta={beta}&")


def test_a_search_ends_when_its_page_is_left(open_page, engine, monkeypatch):
    load, begun = engine.backend.load, []

    def slowly(recipe):
        begun.append(recipe)
        time.sleep(1)
        return load(recipe)

    visit = open_page("#mode=many&tasks=colours,places&method=average&schedule=lines&norms=1&beta=0.1")
    visit.rest("method=average")
    monkeypatch.setattr(engine.backend, "load", slowly)
    visit.page.click('[data-lx-search="rule"]')
    visit.until("document.querySelector('.lx-search-count').textContent.startsWith('1 ')")
    visit.page.close()
    idle(engine)
    assert len(begun) < 9


@pytest.mark.parametrize("width", [1280, 390])
def test_figures_hold_still_while_dragging(open_page, width):
    """The sentence above has room for its longest form: the figures do not jump."""
    visit = open_page(width=width)
    place = "document.querySelector('#lx-plane-panel').getBoundingClientRect().top + window.scrollY"
    visit.set("gamma", 0.9, 0.1, 0.5)
    visit.rest("alpha=0.5&")
    before = visit.page.evaluate(place)
    for gamma in (0.0, 1.0, 0.35):
        visit.set("gamma", gamma)
        assert abs(visit.page.evaluate(place) - before) <= 1
        visit.rest(f"alpha={gamma:g}&")
        assert abs(visit.page.evaluate(place) - before) <= 1


def test_lesson_and_story_fit_and_respect_reduced_motion(open_page):
    visit = open_page(width=390)
    visit.page.emulate_media(reduced_motion="reduce")
    visit.page.click('[data-lx-guide="lesson"]')
    visit.page.wait_for_selector('[data-lx-lesson-go="predict"]')
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
    moving = """[...document.querySelectorAll('#lx-guide, #lx-guide *')].filter((node) =>
        getComputedStyle(node).transitionDuration !== '0s' || getComputedStyle(node).animationName !== 'none').length"""
    assert visit.page.evaluate(moving) == 0
    visit.page.click('[data-lx-lesson-go="close"]')
