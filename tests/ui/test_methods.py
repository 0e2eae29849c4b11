"""Method parameters on the page: read from what a browser sent, in the link, the recipe, the command and the family."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_scripts import CONTROLS, FREE, run

from lines_explorer.commands.arguments import METHOD_NAMES
from lines_explorer.commands.options import parse_parameters
from lines_explorer.engine import Engine, Store
from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS, standard
from lines_explorer.suites import Suite
from lines_explorer.ui import layout, texts
from lines_explorer.ui.handlers import Desk
from lines_explorer.ui.links import Links, Page
from lines_explorer.ui.methods import method_table, read_parameters
from lines_explorer.ui.view import Catalogue

CATALOGUE = Catalogue(("shapes", "colours", "places"), tuple(METHODS), 3, refused={"fisher": "No statistics here."})
LINKS = Links("tiny", CATALOGUE)
MANY = CATALOGUE.default("many")


def values(parameter):
    """Any value of a parameter, numbers to four decimals."""
    if isinstance(parameter.default, bool):
        return st.booleans()
    if isinstance(parameter.default, str):
        return st.sampled_from(parameter.choices)
    low, high = parameter.low, parameter.high
    whole = isinstance(parameter.default, int)
    return st.integers(low, high) if whole else st.floats(low, high).map(lambda x: round(x, 4))


ANY = st.sampled_from([name for name in METHODS if name != "fisher"]).flatmap(
    lambda name: st.tuples(st.just(name), st.fixed_dictionaries({p.name: values(p) for p in METHODS[name].parameters}))
)


@settings(deadline=None, max_examples=60)
@given(ANY)
def test_link_recipe_and_command_hold_the_parameters(chosen):
    method, given_values = chosen
    view = CATALOGUE.read(MANY.as_json() | {"method": method, "parameters": given_values})
    recipe = view.recipe("tiny", view.curve(0.3))
    assert recipe.parameters == METHODS[method].canonical(given_values) and standard(recipe) == recipe
    opened = LINKS.read("#" + LINKS.write(view, Page(pin=view)))
    assert opened.problems == () and opened.view.recipe("tiny", view.curve(0.3)) == recipe
    assert opened.page.pin.parameters == view.parameters
    words = shlex.split(view.command("tiny", view.curve(0.3)))
    settings_ = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    assert parse_parameters(method, settings_) == recipe.parameters
    assert CATALOGUE.read(json.loads(json.dumps(view.as_json()))) == view


def test_usual_parameters_leave_no_trace():
    view = replace(MANY, method="ties")
    assert CATALOGUE.read(view.as_json() | {"parameters": {"k": 20, "combine": "mean"}}) == view
    assert "set=" not in LINKS.write(view, Page()) and "--set" not in view.command("tiny", view.curve(0.3))
    assert view.family == "many:shapes,colours,places:ties"


def test_editing_one_expert_ignores_them():
    view = replace(CATALOGUE.default(), method="ties", parameters=(("k", 30.0),))
    assert view.recipe("tiny", view.curve(0.3)).parameters == () and "set=" not in LINKS.write(view, Page())


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"k": 300}, "Parameter k must be a number from 0 to 100, not 300; its default is 20"),
        ({"k": None}, "Parameter k must be a number, a word"),
        ({"k": [1]}, "Parameter k must be a number, a word"),
        ({"k": 10**5000}, "Parameter k must be a number, a word"),
        ({"k": float("nan")}, "Parameter k must be a number, a word"),
        ({"combine": "x" * 101}, "Parameter combine must be a number, a word"),
        ({"combine": "max"}, "Parameter combine must be one of mean, sum"),
        ({"q": 1}, "does not take these parameters: q; its parameters are k"),
        ({"q" * 101: 1}, "has no readable name"),
        ({str(n): 1 for n in range(17)}, "names with values"),
        (["k"], "names with values"),
        (None, "names with values"),
    ],
)
def test_what_a_browser_sends_is_checked(sent, message):
    with pytest.raises(ExplorerError, match=message):
        CATALOGUE.read(MANY.as_json() | {"method": "ties", "parameters": sent})


@pytest.mark.parametrize("word", ["k:300", "k", ":3", "q:1", "k:1,k", "k:nan"])
def test_a_bad_link_shows_the_usual_method(word):
    opened = LINKS.read(f"#mode=many&method=ties&set={word}")
    assert opened.view.method == "ties" and opened.view.parameters == ()
    assert len(opened.problems) == 1 and opened.problems[0].endswith("The page shows ties as it is usual.")


def test_a_refused_method_is_refused_in_links_and_requests():
    opened = LINKS.read("#mode=many&method=fisher")
    assert opened.view.method == "sum" and "No statistics here. The page shows method = sum." in opened.problems[0]
    with pytest.raises(ExplorerError, match="No statistics here"):
        CATALOGUE.read(MANY.as_json() | {"method": "fisher"})


def test_the_table_tells_all_and_the_command_line_names_all():
    table = method_table({"fisher": "Why."})
    assert list(table) == list(METHODS) == METHOD_NAMES.split(", ")
    assert table["fisher"]["refused"] == "Why." and table["sum"]["refused"] is None
    for name, row in table.items():
        assert row["summary"] and "τ = " in row["equation"] and row["source"]
        assert [parameter["name"] for parameter in row["parameters"]] == [p.name for p in METHODS[name].parameters]
    kinds = {p["name"]: p["kind"] for p in table["ties"]["parameters"] + table["dare"]["parameters"]}
    assert kinds == {"k": "number", "combine": "word", "reference": "switch", "p": "number", "seed": "whole"}
    assert not next(p for p in table["dare"]["parameters"] if p["name"] == "seed")["slider"]


def test_the_sentence_names_them():
    view = replace(MANY, method="ties", parameters=(("k", 30.0),))
    point = {"target": {"normalized": 0.5, "value": 0.5}, "weakest": None, "control": None}
    said = texts.sentence(view, view.curve(0.3), point, {"base": None}, {})
    assert "on the ties (k\u00a0=\u00a030) of 3 experts" in said


def test_the_suite_without_statistics_is_told_on_the_page(desk):
    boot = json.loads(layout.boot(desk))
    assert "build-suite statistics" in boot["methods"]["fisher"]["refused"] and not boot["methods"]["ties"]["refused"]
    assert read_parameters("sum", {}) == ()


@settings(deadline=None, max_examples=3)
@given(st.lists(ANY, min_size=12, max_size=12))
def test_browser_and_server_name_the_same_family(many):
    views = [CATALOGUE.read(MANY.as_json() | {"method": m, "parameters": p}) for m, p in many]
    sent = [dict(p) for _, p in many]
    table = method_table({})
    found = run(
        "v.map((view, i) => { const p = LX.unusual(table[view.method], sent[i]); "
        "return [LX.familyOf({...view, parameters: p}), p]; })",
        v=[view.as_json() for view in views], sent=sent, table=table,
    )  # fmt: skip
    for view, (family, parameters) in zip(views, found, strict=True):
        assert family == view.family and list(parameters.items()) == list(view.as_json()["parameters"].items())


def test_numbers_typed_into_a_parameter():
    (k,) = (p for p in method_table({})["trim"]["parameters"] if p["name"] == "k")
    seed = next(p for p in method_table({})["dare"]["parameters"] if p["name"] == "seed")
    typed = ["30", "0.12345", "", "101", "x"]
    assert run("t.map((x) => LX.parameterOf(k, x))", k=k, t=typed) == [30, 0.1235, None, None, None]
    assert run("['7', '7.5', '-1'].map((x) => LX.parameterOf(k, x))", k=seed) == [7, None, None]
    view = run("LX.viewOf(c, f, {k: null})", c=CONTROLS, f=FREE)
    assert run("LX.complete(v)", v=view) is False and run("LX.complete(v)", v=view | {"parameters": {"k": 3}})


def test_switches_are_off_as_their_hint_says():
    assert all(p.default is False for m in METHODS.values() for p in m.parameters if isinstance(p.default, bool))


def test_adamerging_is_offered_for_the_sets_it_learned(adaptive_suite_folder, ask):
    desk = Desk(Engine(Suite(adaptive_suite_folder), "cpu", Store(":memory:")))
    boot = json.loads(layout.boot(desk))
    assert boot["methods"]["adamerging"]["refused"] is None
    row = boot["experts"]["adamerging"]
    assert row["sets"] == [["shapes", "colours", "places"], ["shapes", "places"]]
    assert row["only"].endswith("(`build-suite adamerging`): all 3; or shapes, places.")
    chosen = [["places", "shapes"], ["shapes", "colours", "places"], ["shapes", "colours"], ["shapes"]]
    said = run("c.map((tasks) => LX.unmergeable(row, tasks))", row=row, c=chosen)
    assert said == ["", "", row["only"], "Merges at least 2 experts."]
    assert run("c.map((tasks) => LX.unmergeable(row, tasks))", row=boot["experts"]["sum"], c=chosen) == [""] * 4
    view = desk.catalogue.read(MANY.as_json() | {"method": "adamerging", "tasks": ["shapes", "colours"]})
    assert "no AdaMerging coefficients of exactly these experts: colours, shapes" in json.dumps(desk.live(ask(view)))


def test_a_suite_without_coefficients_refuses_adamerging(desk):
    boot = json.loads(layout.boot(desk))
    assert "build-suite adamerging --tasks all" in boot["methods"]["adamerging"]["refused"]
    assert boot["experts"]["adamerging"]["sets"] is None and boot["experts"]["slerp"]["most"] == 2
