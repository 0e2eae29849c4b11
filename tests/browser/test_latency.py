"""How long a page takes, told and not judged: ``pytest -s`` prints it. Only the order of things is tested.

A machine that is busy with something else is slow, so that no time of its own can be wrong here.
"""

from __future__ import annotations

from statistics import median

import pytest

from lines_explorer.ui import handlers

MOVE = """async ([name, value]) => {
    const slider = document.querySelector(`#lx-${name} input[type=range]`);
    const sentence = document.querySelector('[data-lx=sentence]'), state = document.querySelector('[data-lx=state]');
    const before = sentence.textContent, begun = performance.now(), times = {};
    const seen = (what) => { times[what] ??= performance.now() - begun; };
    return new Promise((done) => {
        const look = () => {
            if (state.textContent.startsWith('Estimate')) seen('estimate');
            if (sentence.dataset.state !== 'known' || sentence.textContent === before || !times.preview) return;
            seen('exact');
            observer.disconnect();
            done(times);
        };
        const observer = new MutationObserver(look);
        const parts = { subtree: true, childList: true, characterData: true, attributes: true };
        for (const node of [sentence, state]) observer.observe(node, parts);
        document.addEventListener('lx:moved', () => { seen('preview'); look(); }, { once: true });
        slider.value = value;
        slider.dispatchEvent(new Event('input', { bubbles: true }));
    });
}"""


def moved(visit, name: str, value: float) -> dict[str, float]:
    """Milliseconds from a slider's move to its preview, to a first estimate if there was one, and to the number."""
    visit.rest()
    return visit.page.evaluate(MOVE, [name, value])


def test_first_picture(open_page) -> None:
    visit = open_page()
    first = visit.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    rested = visit.page.evaluate("performance.now()")
    print(f"first paint after {first:.0f} ms, figures and their sentence at rest after {rested:.0f} ms at most")
    assert 0 < first < rested


@pytest.fixture
def batches(engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches, each of which the page is told of: an evaluation here is too short for an estimate otherwise."""
    monkeypatch.setattr(engine.evaluator, "batch", 12)
    monkeypatch.setattr(handlers, "PACE", 0)


def test_latency_of_the_tiers(visit, engine, batches) -> None:
    stored = [moved(visit, "gamma", value) for value in (0.5, 0.9, 0.1, 0.6, 0.2, 0.8, 0.4, 1.0, 0.7)]
    assert engine.evaluated == []
    new = [moved(visit, "alpha", 0.905 + step / 20) for step in range(7)]
    assert len(engine.evaluated) == 7
    told = {
        "tier 0, preview": [times["preview"] for times in stored + new],
        "tier 1, a stored point's number": [times["exact"] for times in stored],
        "tier 2, first estimate": [times["estimate"] for times in new],
        "tier 2, exact": [times["exact"] for times in new],
    }
    for what, times in told.items():
        print(f"{what}: median {median(times):.0f} ms of {len(times)}, {min(times):.0f} to {max(times):.0f}")
    assert all(times["preview"] <= times["exact"] for times in stored)
    assert all(times["preview"] <= times["estimate"] <= times["exact"] for times in new)
    assert all("estimate" not in times for times in stored)
