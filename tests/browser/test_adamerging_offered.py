"""AdaMerging is offered for the sets of experts it learned something for, in a real Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Watched

from lines_explorer.engine import Store
from lines_explorer.suites import open_suite


@pytest.fixture(scope="module")
def engine(adaptive_suite_folder: Path) -> Watched:
    return Watched(open_suite(str(adaptive_suite_folder)), "cpu", Store(":memory:"))


def test_adamerging_is_offered_for_learned_sets_only(open_page):
    visit = open_page("#mode=many&tasks=shapes,colours,places&method=sum&schedule=constant&scale=0.5")
    choice = '#lx-method input[value="adamerging"]'
    visit.page.wait_for_selector(f"{choice}:enabled", state="attached")
    visit.page.click('#lx-tasks-choice label:has-text("Places")')
    visit.page.wait_for_selector(f"{choice}:disabled", state="attached")
    title = visit.page.evaluate(f"document.querySelector('{choice}').closest('label').title")
    assert title.startswith("Merges only what its coefficients were learned for") and "shapes, places" in title
    visit.page.click('#lx-tasks-choice label:has-text("Places")')
    visit.page.click('#lx-tasks-choice label:has-text("Colours")')
    visit.page.wait_for_selector(f"{choice}:enabled", state="attached")
    visit.choose("method", "adamerging")
    visit.rest("method=adamerging", "tasks=shapes,places&")
    assert "unlabelled validation pictures" in visit.page.inner_text(".lx-about")
    visit.page.click('#lx-tasks-choice label:has-text("Colours")')
    visit.page.click('#lx-tasks-choice label:has-text("Places")')
    refused = "no AdaMerging coefficients of exactly these experts: colours, shapes"
    visit.until(f"document.querySelector('[data-lx=notice]').textContent.includes({refused!r})")
