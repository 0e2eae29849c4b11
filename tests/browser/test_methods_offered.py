"""Methods that merge two experts are offered for two, in a real Chromium."""

from __future__ import annotations


def test_slerp_is_offered_for_two_experts_only(open_page):
    visit = open_page("#mode=many&tasks=shapes,colours,places&method=sum&schedule=lines&norms=0&alpha=0.3&beta=0.3")
    slerp, stock = ('#lx-method input[value="slerp"]', '#lx-method input[value="stock"]')
    visit.page.wait_for_selector(f"{slerp}:disabled", state="attached")
    assert not visit.page.is_disabled(stock)
    title = f"document.querySelector('{slerp}').closest('label').title"
    assert visit.page.evaluate(title) == "Merges exactly 2 experts."
    visit.page.click('#lx-tasks-choice label:has-text("Places")')
    visit.page.wait_for_selector(f"{slerp}:enabled", state="attached")
    visit.choose("method", "slerp")
    visit.rest("method=slerp", "tasks=shapes,colours&")
    visit.page.click('#lx-tasks-choice label:has-text("Places")')
    refused = "SLERP (two experts) merges exactly 2 experts, not 3"
    visit.until(f"document.querySelector('[data-lx=notice]').textContent.includes({refused!r})")
    visit.page.click('#lx-tasks-choice label:has-text("Places")')
    visit.page.click('#lx-tasks-choice label:has-text("Colours")')
    visit.choose("method", "sum")
    visit.page.wait_for_selector(f"{stock}:disabled", state="attached")
