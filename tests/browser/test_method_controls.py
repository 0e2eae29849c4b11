"""The parameters of the chosen merge method: shown, set, undone, linked; a method that cannot be had is greyed out."""

from __future__ import annotations

TIES = "#mode=many&tasks=shapes,colours&method=ties&schedule=constant&scale=0.5"
COMMAND = "document.querySelector('[data-lx=command]').textContent"
SHOWN = (
    "[...document.querySelectorAll('.lx-parameter')].map((row) => row.querySelector('legend, label').innerText.trim())"
)


def test_parameters_are_set_linked_and_undone(open_page, engine):
    visit = open_page(TIES)
    visit.rest("method=ties")
    assert visit.page.evaluate(SHOWN) == ["k", "combine", "reference"]
    assert "Trims each task vector" in visit.page.inner_text(".lx-about") and "arXiv" in visit.page.inner_text(
        ".lx-about"
    )
    visit.page.fill("#lx-set-k", "60")
    visit.page.press("#lx-set-k", "Enter")
    visit.rest("set=k:60")
    assert "--method ties --set k=60" in visit.page.evaluate(COMMAND) and "ties (k = 60)" in visit.sentence
    visit.page.check('input[name="lx-set-combine"][value="sum"]')
    visit.rest("set=combine:sum,k:60")
    assert engine.evaluated[-1].parameters == (("combine", "sum"), ("k", 60.0))

    again = open_page(visit.link)
    assert again.page.input_value("#lx-set-k") == "60" and again.page.is_checked(
        'input[value="sum"][name="lx-set-combine"]'
    )
    assert again.sentence == visit.sentence

    visit.press("undo")
    visit.rest("set=k:60&")
    assert visit.page.is_checked('input[name="lx-set-combine"][value="mean"]')
    visit.press("defaults")
    visit.until("!location.hash.includes('set=')")
    assert visit.page.input_value("#lx-set-k") == "20" and visit.page.is_hidden('[data-lx="defaults"]')


def test_a_number_out_of_range_asks_for_another(open_page):
    visit = open_page(TIES)
    visit.rest("method=ties")
    visit.page.fill("#lx-set-k", "500")
    visit.page.press("#lx-set-k", "Enter")
    visit.until("document.querySelector('[data-lx=notice]').textContent.includes('within')")
    visit.page.fill("#lx-set-k", "40")
    visit.page.press("#lx-set-k", "Enter")
    visit.rest("set=k:40")
    assert visit.page.is_hidden('[data-lx="notice"]')


def test_the_sliders_come_before_the_methods_parameters(open_page):
    """One control under the other, all within the column, however long it is."""
    visit = open_page(TIES)
    visit.rest("method=ties")
    boxes = visit.page.evaluate(
        """['mode', 'tasks-choice', 'method', 'schedule', 'scale_many', 'about', 'set-k'].map((name) => {
            const { left, right, top, bottom } = document.getElementById(`lx-${name}`).getBoundingClientRect();
            return { left, right, top, bottom };
        })"""
    )
    column = visit.page.locator("#lx-controls").bounding_box()
    assert all(column["x"] <= box["left"] and box["right"] <= column["x"] + column["width"] for box in boxes)
    about, inside = boxes[-2:]
    assert about["top"] <= inside["top"]
    assert all(above["bottom"] <= below["top"] for above, below in zip(boxes[:-2], boxes[1:-1], strict=True))


def test_methods_without_statistics_are_greyed_out(open_page):
    visit = open_page("#mode=many&tasks=shapes,colours&method=sum")
    visit.rest("mode=many")
    off = "[...document.querySelectorAll('#lx-method input:disabled')].map((input) => input.value)"
    assert visit.page.evaluate(off) == ["fisher", "regmean", "adamerging"]
    said = visit.page.inner_text('[data-lx="refused"]')
    assert said.startswith("Greyed out: Fisher merging, RegMean, AdaMerging.") and "build-suite statistics" in said
    assert "build-suite adamerging" in said
    refused = open_page("#mode=many&tasks=shapes,colours&method=fisher")
    refused.until("document.querySelector('[data-lx=problems]').textContent.includes('The page shows method = sum')")
