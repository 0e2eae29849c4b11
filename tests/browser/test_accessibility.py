"""axe finds nothing in any mode, light or dark; what it cannot judge, the words in the figures, is measured here."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT

FIGURES = ".lx-figure .svg-container"  # Plotly lays its layers over each other: axe cannot tell what is below a word
NOT_OURS = "footer"  # Gradio's own
STALE = ".lx-stale"  # what waits for its newer self is pale on purpose
VIEWS = {
    "edit": "#mode=edit&target=shapes",
    "free": "#mode=edit&target=shapes&schedule=free",
    "many": "#mode=many&tasks=shapes,colours&method=ties",
    "robustness": "#mode=robustness",
    "soup": "#mode=soup",
    "negation": "#mode=negation",
    "pinned": "#mode=edit&alpha=1&beta=0&pin=mode%3Dedit%26target%3Dshapes%26alpha%3D0%26beta%3D1",
    "story": "#guide=story-forgets&mode=edit&target=shapes&alpha=1&beta=0",
    "lesson": "#guide=lesson-half&mode=many",
}
AXE = """async (excluded) => {
    const { violations } = await axe.run({ exclude: excluded }, { resultTypes: ['violations'] });
    return violations.flatMap(({ id, impact, nodes }) => nodes.map((node) =>
        `${id} (${impact}): ${node.target.join(' ')}: ${node.failureSummary ?? ''}`));
}"""
CONTRASTS = """() => {
    const canvas = Object.assign(document.createElement('canvas'), { width: 1, height: 1 });
    const pen = canvas.getContext('2d', { willReadFrequently: true });
    const light = (colour) => {
        pen.fillStyle = colour;
        pen.fillRect(0, 0, 1, 1);
        const linear = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
        const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].map((part) => linear(part / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const words = [...document.querySelectorAll('.lx-figure text')].filter((text) => text.textContent.trim());
    return words.filter((text) => text.checkVisibility()).map((text) => {
        const ground = getComputedStyle(text.closest('.lx-panel')).backgroundColor;
        const [b, a] = [light(getComputedStyle(text).fill), light(ground)].sort((x, y) => x - y);
        return [(a + 0.05) / (b + 0.05), text.textContent, text.closest('.lx-figure').getAttribute('aria-label')];
    });
}"""


@pytest.fixture(scope="module")
def engine(runs_engine: Any) -> Any:
    runs_engine.single_task_curve("shapes")  # its expert's answers on every task, which evidence speaks of
    return runs_engine


def found(visit) -> list[str]:
    """What axe complains of in the page's own elements."""
    return visit.page.evaluate(AXE, [[NOT_OURS], [FIGURES], [STALE]])


def opened(visit) -> None:
    """Opens all that a page can unfold, with pictures in it."""
    for name in ("evidence", "draw", "details"):
        visit.page.evaluate("(name) => { document.querySelector(`[data-lx=${name}]`).open = true; }", name)
    visit.page.evaluate("document.querySelector('.lx-glossary').open = true")
    visit.page.click('[data-draw="ring"]')
    visit.page.wait_for_selector('[data-lx="draw-shares"]', state="visible")
    visit.page.wait_for_selector(".lx-card")
    visit.page.evaluate("document.querySelector('[data-lx=confusion]').open = true")
    visit.page.click('[data-lx="ev-tasks"] [data-task="places"]')
    visit.page.wait_for_selector('[data-lx="ev-square"] .main-svg')


def shown(visit, name: str) -> None:
    visit.go(VIEWS[name])
    if name == "lesson":
        visit.page.wait_for_selector('[data-lx-lesson-go="predict"], [data-lx-lesson-go="evaluate"]')
    if name == "story":
        visit.page.wait_for_selector("[data-lx=story] h3")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(open_page, scheme: str) -> None:
    visit = open_page(scheme=scheme)
    visit.page.evaluate(AXE_SCRIPT)
    assert visit.page.evaluate("document.body.classList.contains('dark')") == (scheme == "dark")
    complaints = {}
    for number, name in enumerate(VIEWS):
        shown(visit, name)
        if number == 0:
            opened(visit)
        complaints[name] = found(visit)
        if name != "lesson":  # which hides the figures
            words = visit.page.evaluate(CONTRASTS)
            assert len(words) > 40
            complaints[name] += [f"{ratio:.2f}: {text} in {where}" for ratio, text, where in words if ratio < 4.5]
    assert {name: said for name, said in complaints.items() if said} == {}


def test_axe_and_the_measure_can_fail(open_page) -> None:
    visit = open_page()
    visit.page.evaluate(AXE_SCRIPT)
    assert not found(visit)
    visit.page.evaluate(
        """() => {
            document.querySelector('[data-lx=undo]').textContent = '';
            document.querySelector('.lx-suite').style.color = '#ddd';
            document.querySelector('#lx-plane-panel .xtitle').style.fill = '#ddd';
        }"""
    )
    said = " ".join(found(visit))
    assert "button-name (critical)" in said and "color-contrast (serious)" in said
    assert min(ratio for ratio, *_ in visit.page.evaluate(CONTRASTS)) < 2
