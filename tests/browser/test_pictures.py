"""Evidence and Draw in a real Chromium: closed at first, linked to the sliders, by keyboard, narrow and dark."""

from __future__ import annotations

import pytest

PREDICTED = """() => {
    const told = [...document.querySelectorAll('.lx-answer')];
    const fresh = !document.querySelector('.lx-gallery.lx-stale');
    return fresh && told.length > 0 && told.every((one) => one.textContent.includes('%'));
}"""
SHARE = "document.querySelector('[data-lx=draw-shares] tbody tr td[data-role={0}] i').style.getPropertyValue('--share')"
OPEN = "document.querySelector('[data-lx={0}]').open"


def opened(visit, name: str):
    """Opens a view by keyboard, as its summary can be reached."""
    visit.page.focus(f'[data-lx="{name}"] > summary')
    visit.page.keyboard.press("Enter")
    visit.until(OPEN.format(name))
    return visit


def changes(engine, visit) -> tuple[int, int]:
    """(lost, gained) from the expert to the page's model, over all tasks."""
    from lines_explorer.recipe import Recipe
    from lines_explorer.schedule import lines

    now = Recipe("tiny", ("shapes",), schedule=lines(visit.value("alpha"), visit.value("beta")))
    pairs = [
        (before, engine.stored_answers(now)[task])
        for task, before in engine.stored_answers(Recipe("tiny", ("shapes",))).items()
    ]
    return sum(int((a & ~b).sum()) for a, b in pairs), sum(int((b & ~a).sum()) for a, b in pairs)


def row(visit, place: int) -> list[str]:
    return visit.page.locator(f'[data-lx="ev-tasks"] tr:nth-child({place}) > *').all_inner_texts()


def test_evidence_costs_nothing_until_opened(visit, engine):
    assert visit.page.locator(".lx-card").count() == 0
    assert not visit.page.is_visible(".lx-evidence")
    opened(visit, "evidence")
    visit.page.wait_for_function(PREDICTED)
    assert engine.evaluated == []
    assert row(visit, 1)[:3] == ["All tasks", *map(str, changes(engine, visit))]
    assert visit.page.is_checked('input[name="lx-against"][value="expert"]')
    assert visit.page.is_disabled('input[name="lx-against"][value="pinned"]')
    sources = visit.page.eval_on_selector_all(".lx-card img", "(all) => all.map((one) => one.src)")
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    for card in visit.page.locator(".lx-card").all():
        marks = card.locator("em").all_inner_texts()
        assert sorted(marks) == ["✓", "✗"]
        label, right = card.locator("b").inner_text(), marks.index("✓")
        assert card.locator(".lx-answer").nth(right).inner_text().startswith(label)


def test_evidence_follows_the_sliders_and_what_is_chosen(visit, engine):
    opened(visit, "evidence")
    visit.page.wait_for_function(PREDICTED)
    visit.set("alpha", 0.9)
    visit.rest("alpha=0.9&")
    lost, gained = changes(engine, visit)
    counts = (
        "[...document.querySelector('[data-lx=ev-tasks] tr').cells].slice(1, 3).map((one) => one.textContent).join()"
    )
    visit.until(f"{counts} === '{lost},{gained}'")
    visit.page.check('input[name="lx-against"][value="base"]')
    visit.page.check('input[name="lx-direction"][value="lost"]')
    visit.page.focus('[data-lx="ev-tasks"] [data-task="colours"]')
    visit.page.keyboard.press("Enter")
    visit.until("document.querySelector('[data-lx=ev-class]').options.length === 5")
    assert visit.page.evaluate("document.activeElement.dataset.task") == "colours"
    visit.page.wait_for_function(PREDICTED)
    total = int(visit.page.inner_text('[data-lx="ev-tasks"] tr:nth-child(3) td:nth-child(2)'))
    assert visit.page.inner_text('[data-lx="ev-pages"]').endswith(f" of {total} pictures")
    visit.page.select_option('[data-lx="ev-class"]', "1")
    visit.until("[...document.querySelectorAll('.lx-card b')].every((one) => one.textContent === 'green')")


def test_pages_and_the_pinned_point(visit):
    visit.press("pin")
    visit.rest("pin=mode")
    visit.set("gamma", 0.9)
    visit.rest("alpha=0.9&")
    opened(visit, "evidence")
    visit.until("document.querySelector('input[name=lx-against][value=pinned]').checked")
    visit.page.check('input[name="lx-against"][value="base"]')
    visit.until("/^1–12 of /.test(document.querySelector('[data-lx=ev-pages]').textContent)")
    visit.page.click('[data-do="next"]')
    visit.until("/^13–/.test(document.querySelector('[data-lx=ev-pages]').textContent)")
    visit.page.click('[data-do="previous"]')
    visit.until("/^1–12 of /.test(document.querySelector('[data-lx=ev-pages]').textContent)")
    visit.press("unpin")
    visit.until("document.querySelector('input[name=lx-against][value=pinned]').disabled")


def test_confusion_is_counted_on_request(visit):
    opened(visit, "evidence")
    visit.page.wait_for_function(PREDICTED)
    opened(visit, "confusion")
    visit.until("document.querySelector('[data-lx=ev-confused]').textContent.startsWith('Choose one task')")
    visit.page.click('[data-lx="ev-tasks"] [data-task="places"]')
    visit.page.wait_for_selector('[data-lx="ev-square"] .main-svg')
    cells = "document.querySelector('[data-lx=ev-square]').data[0].customdata.flat().map(Number)"
    assert sum(visit.page.evaluate(cells)) == 40
    visit.page.check('input[name="lx-confusion"][value="difference"]')
    visit.until(
        "/^(No mistake becomes|Mistakes that change)/.test(document.querySelector('[data-lx=ev-confused]').textContent)"
    )
    visit.set("gamma", 0.2)
    visit.rest("alpha=0.2&")
    visit.until("!document.querySelector('[data-lx=ev-square]').classList.contains('lx-stale')")
    visit.page.wait_for_selector('[data-lx="ev-progress"]', state="hidden")


def test_evidence_of_a_shifted_set(open_page):
    visit = open_page("#mode=robustness&target=shapes&alpha=0.4&beta=0.4")
    opened(visit, "evidence")
    visit.page.wait_for_function(PREDICTED)
    assert [row(visit, place)[0] for place in (1, 2)] == ["All sets", "Shapes"]
    assert row(visit, 3)[0].split("\n") == ["Noisy shapes", "test set, shown for the eye only"]
    visit.page.check('input[name="lx-against"][value="base"]')
    visit.page.click('[data-lx="ev-tasks"] [data-task="shapes@noisy"]')
    visit.until("document.querySelector('[data-lx=ev-said]').textContent.startsWith('Noisy shapes (test set')")
    visit.page.wait_for_function(PREDICTED)
    pictures = "[...document.querySelectorAll('.lx-card img')]"
    visit.until(f"{pictures}.length > 0 && {pictures}.every((one) => one.naturalWidth > 0)")
    assert all(text.startswith("Noisy shapes, ") for text in visit.page.evaluate(f"{pictures}.map((one) => one.alt)"))
    opened(visit, "confusion")
    visit.page.wait_for_selector('[data-lx="ev-square"] .main-svg')
    visit.choose("mode", "edit")
    visit.rest("mode=edit&")
    visit.until("document.querySelector('[data-lx=ev-kind]').textContent === 'Task'")
    assert visit.page.get_attribute('[data-lx="ev-tasks"] [data-task=""]', "aria-pressed") == "true"
    assert not visit.page.is_visible('[data-lx="ev-notice"]')


def test_a_drawing_is_classified_and_follows_the_sliders(visit, engine):
    opened(visit, "draw")
    assert visit.page.input_value('[data-lx="draw-task"]') == "shapes"
    assert not visit.page.is_visible('[data-lx="draw-shares"]')
    visit.page.focus('[data-draw="ring"]')
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_selector('[data-lx="draw-shares"]', state="visible")
    names = visit.page.locator('[data-lx="draw-shares"] tbody th').all_inner_texts()
    assert names == ["circle", "square", "triangle", "bar"]
    before = {role: float(visit.page.evaluate(SHARE.format(role))) for role in ("base", "expert", "current")}
    visit.set("gamma", 1.0)
    visit.until(f"{SHARE.format('current')} !== '{before['current']}'")
    visit.rest("alpha=1&beta=0&")
    visit.until(f"{SHARE.format('current')} === {SHARE.format('expert')}")
    assert float(visit.page.evaluate(SHARE.format("base"))) == before["base"]
    assert engine.evaluated == []
    visit.page.select_option('[data-lx="draw-task"]', "colours")
    visit.until("document.querySelector('[data-lx=draw-shares] tbody th').textContent === 'red'")
    visit.page.click('[data-draw="clear"]')
    visit.page.wait_for_selector('[data-lx="draw-shares"]', state="hidden")


def test_drawing_with_the_mouse(visit):
    opened(visit, "draw")
    visit.page.locator('[data-lx="canvas"]').scroll_into_view_if_needed()
    visit.page.check('input[name="lx-ground"][value="white"]', force=True)
    visit.page.check('input[name="lx-ink"][value="red"]', force=True)
    box = visit.page.locator('[data-lx="canvas"]').bounding_box()
    visit.page.mouse.move(box["x"] + 40, box["y"] + 128)
    visit.page.mouse.down()
    visit.page.mouse.move(box["x"] + 200, box["y"] + 128, steps=5)
    visit.page.mouse.up()
    pixel = (
        """([x, y]) => [...document.querySelector('[data-lx=canvas]').getContext('2d').getImageData(x, y, 1, 1).data]"""
    )
    assert visit.page.evaluate(pixel, [120, 128]) == [214, 40, 40, 255]
    assert visit.page.evaluate(pixel, [120, 20]) == [255, 255, 255, 255]
    visit.page.wait_for_selector('[data-lx="draw-shares"]', state="visible")
    visit.page.click('[data-draw="undo"]')
    assert visit.page.evaluate(pixel, [120, 128]) == [255, 255, 255, 255]
    visit.page.wait_for_selector('[data-lx="draw-shares"]', state="hidden")


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_both_views_fit(open_page, width, scheme):
    visit = open_page(width=width, scheme=scheme)
    opened(visit, "evidence")
    visit.page.wait_for_function(PREDICTED)
    opened(visit, "draw")
    visit.page.click('[data-draw="stripes"]')
    visit.page.wait_for_selector('[data-lx="draw-shares"]', state="visible")
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    hidden = open_page("#hide=evidence,draw")
    assert not hidden.page.is_visible("#lx-evidence-panel") and not hidden.page.is_visible("#lx-draw-panel")
