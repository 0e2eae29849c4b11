"""Links: whatever a view and page are, the hash keeps them; whatever a hash is, it opens a page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lines_explorer.errors import ExplorerError
from lines_explorer.ui.links import FIGURES, HIDEABLE, LONGEST, QUANTITIES, SPLITS, Links, Page
from lines_explorer.ui.modes import MODES
from lines_explorer.ui.view import LIMITS, Catalogue, View

RUNS = {"shapes": ("shapes", "shapes/1", "shapes/2"), "places": ("places", "places/1")}
CATALOGUE = Catalogue(("shapes", "colours", "places"), ("sum", "average"), 3, ("shapes", "places"), RUNS)
BARE = Catalogue(("shapes",), ("sum",), 3, control=False)
LINKS = Links("tiny", CATALOGUE)


def within(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high).map(lambda x: round(x, 4) + 0.0)


@st.composite
def views(draw: st.DrawFn) -> View:
    """Any view that a page can send: what a mode does not use is the catalogue's own."""
    mode = draw(st.sampled_from(CATALOGUE.modes))
    target = draw(st.sampled_from(CATALOGUE.targets(mode)))
    runs = st.sets(st.sampled_from(RUNS[target]), min_size=1) if mode == "soup" else st.just(())
    chosen = draw(runs)
    return View(
        mode,
        target,
        draw(st.sampled_from([("shapes", "places"), ("colours",), CATALOGUE.tasks])),
        draw(st.sampled_from(CATALOGUE.methods)),
        draw(st.sampled_from(["lines", "constant", "free"])),
        *(draw(within(*MODES[mode].limits[name])) for name in ("alpha", "beta", "scale")),
        draw(st.booleans()),
        draw(st.tuples(*[within(*LIMITS["factor"])] * 3)),
        draw(within(*LIMITS["factor"])),
        tuple(name for name in RUNS.get(target, ()) if name in chosen),
        draw(st.sampled_from(["uniform", "greedy"])),
        draw(within(*LIMITS["floor"])),
    )


VIEWS = views()
HIDDEN = st.sets(st.sampled_from(list(HIDEABLE))).map(lambda names: tuple(name for name in HIDEABLE if name in names))
PAGES = st.builds(
    Page,
    st.sampled_from(SPLITS),
    st.sampled_from(FIGURES),
    st.sampled_from(QUANTITIES),
    HIDDEN,
    st.none() | VIEWS,
    st.sampled_from(["", "story-forgets", "lesson-rule"]),
)


def recipe(view: View):
    return view.recipe("tiny", view.curve(0.25))


@settings(deadline=None)
@given(VIEWS, PAGES)
def test_round_trip_keeps_recipe_and_page(view, page):
    link = LINKS.write(view, page)
    opened = LINKS.read("#" + link)
    assert opened.problems == ()
    assert LINKS.write(opened.view, opened.page) == link
    assert recipe(opened.view) == recipe(view)
    assert opened.view.family == view.family
    assert CATALOGUE.read(view.as_json()) == view
    assert replace(opened.page, pin=None) == replace(page, pin=None)
    assert (opened.page.pin and recipe(opened.page.pin)) == (page.pin and recipe(page.pin))
    assert len(link) < LONGEST


@settings(max_examples=300, deadline=None)
@given(
    st.text()
    | st.builds(
        lambda name, value, mode: f"#{name}={value}&mode={mode}&x=%ff",
        st.sampled_from([*vars(CATALOGUE.default()), "suite", "split", "view", "surface", "hide", "pin"]),
        st.text() | st.sampled_from(["places", "shapes/1", "shapes/1,places/1", "greedy", "0.7", "-0.3"]),
        st.sampled_from(list(MODES)),
    )
)
def test_any_text_opens_a_valid_page(link):
    assert Links("tiny", BARE).read(link).view.mode in ("edit", "many")
    opened = LINKS.read(link)
    assert CATALOGUE.read(opened.view.as_json()) == opened.view
    assert LINKS.read_page(opened.page.as_json()) == opened.page
    assert all(problem.endswith(".") and "\n" not in problem for problem in opened.problems)
    for problem in opened.problems:
        problem.encode("utf-8")


@pytest.mark.parametrize(
    ("link", "says"),
    [
        (
            "target=evil",
            "Unknown target 'evil'; choose one of shapes, colours, places. The page shows target = shapes.",
        ),
        ("alpha=nan", "α must be a number between 0 and 1.5. The page shows alpha = 0.3."),
        ("beta=abc", "β must be a number between -0.5 and 1.5. The page shows beta = 0.7."),
        ("scale=1e9", "λ must lie between 0 and 1.5"),
        ("mode=many&tasks=,,", "Tick at least one task to merge. The page shows tasks = shapes,colours,places."),
        ("norms=yes", "either ticked or not"),
        (
            "schedule=free&factors=1,2",
            "There must be 3 factors, one per block. The page shows factors = those of LiNeS.",
        ),
        (
            "mode=soup&target=places&runs=shapes/1",
            "Unknown run 'shapes/1'; choose among places, places/1. The page shows runs = places,places/1.",
        ),
        ("mode=negation&alpha=0.3", "α must lie between -1.5 and 0; 0.3 does not. The page shows alpha = -0.25."),
        ("mode=negation&floor=2", "The floor of control must lie between 0.5 and 1"),
        ("mode=robustness&target=colours", "Unknown target 'colours'; choose one of shapes, places."),
        ("mode=soup&soup=thick", "Unknown soup 'thick'; choose one of uniform, greedy. The page shows soup = uniform."),
        ("split=train", "Unknown split 'train'; choose one of validation, test. The page shows split = validation."),
        ("view=x", "The page shows view = all."),
        ("surface=x", "The page shows surface = target."),
        ("hide=gamma,body", "there is nothing named 'body' to hide."),
        ("suite=other", "The link was made for the suite 'other'; this page shows tiny."),
        ("pin=mode%3Dedit%26target%3Dx", "pinned point cannot be read, so nothing is pinned."),
        ("pin=%25%25", "pinned point cannot be read, so nothing is pinned."),
    ],
)
def test_an_unknown_value_is_told_and_gives_the_default(link, says):
    opened = LINKS.read(link)
    assert len(opened.problems) == 1
    assert says in opened.problems[0]
    assert opened.page.pin is None


@pytest.mark.parametrize("link", [None, 3, b"#mode=many", "", "#", "#unknown=1&constructor=2"])
def test_nothing_to_tell_where_nothing_is_asked(link):
    assert LINKS.read(link).problems == ()
    assert LINKS.read(link).view == CATALOGUE.default()


def test_takes_each_valid_field_beside_a_wrong_one():
    opened = LINKS.read("#mode=edit&target=places&alpha=0.77&beta=abc&unknown=1&hide=beta,nothing,mode&view=plane")
    assert (opened.view.target, opened.view.alpha, opened.view.beta) == ("places", 0.77, 0.7)
    assert (opened.page.hide, opened.page.figure) == (("mode", "beta"), "plane")
    assert not LINKS.read("#mode=many&alpha=0.2").view.norms
    assert LINKS.read("#schedule=free&factors=0,0.5,1&rest=0.2").view.factors == (0, 0.5, 1)


@pytest.mark.parametrize("guide", ["<script>", "story-", "other-x", "story-" + "a" * 99, "lesson-A b"])
def test_what_is_no_story_is_passed_over(guide):
    assert LINKS.read(f"guide={guide}").page.guide == ""
    with pytest.raises(ExplorerError):
        LINKS.read_page(Page().as_json() | {"guide": guide})


@pytest.mark.parametrize(
    ("mode", "why"),
    [("robustness", "no task of this suite has one"), ("soup", "`build-suite runs`"), ("negation", "one task only")],
)
def test_a_mode_that_the_suite_has_nothing_for_is_refused_with_the_reason(mode, why):
    opened = Links("tiny", BARE).read(f"#mode={mode}")
    assert opened.view.mode == "edit"
    assert why in opened.problems[0]
    with pytest.raises(ExplorerError, match=why):
        BARE.read(BARE.default().as_json() | {"mode": mode})


def test_a_soup_of_another_task_begins_with_all_its_runs():
    assert LINKS.read("#mode=soup&target=places").view.runs == RUNS["places"]
    assert LINKS.read("#mode=soup&target=places&runs=places/1").view.experts == ("places/1",)
