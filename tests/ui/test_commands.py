"""The page's command line, parsed by the command line's own parser, gives the page's own recipe."""

from __future__ import annotations

import json
import shlex

import pytest

from lines_explorer import cli
from lines_explorer.commands import scoring
from lines_explorer.errors import ExplorerError
from lines_explorer.suites import open_suite
from lines_explorer.ui import layout, serving
from lines_explorer.ui.discretion import openable, without_folders
from lines_explorer.ui.links import Page
from lines_explorer.ui.view import View

VIEWS = [
    View("edit", "shapes", ("shapes",), "sum", "lines", 0.3, 0.7),
    View("edit", "places", ("shapes",), "sum", "lines", 0.1234, -0.5),
    View("edit", "shapes", ("shapes",), "sum", "constant", scale=0.0),
    View("edit", "shapes", ("shapes",), "sum", "free", factors=(-1.0, 0.25, 1.5), rest=-0.25),
    View("many", "shapes", ("shapes", "colours", "places"), "sum", "lines", beta=0.3),
    View("many", "shapes", ("shapes", "colours", "places"), "average", "lines", 0.31, 0.4, norms=False),
    View("many", "shapes", ("shapes", "places"), "ties", "lines", beta=1.5),
    View("many", "shapes", ("shapes", "places"), "average", "constant", scale=1.5),
    View("many", "shapes", ("colours", "places"), "sum", "free", factors=(0.0, 0.5, 3.0), rest=0.0),
]


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: f"{view.mode}-{view.method}-{view.schedule}")
def test_the_command_line_is_valid_and_means_the_same(desk, view, monkeypatch, capsys):
    asked = []

    def note(engine, recipe, score_on, split, shifts):
        asked.append((recipe.hash(), split))
        return cli_report()

    def cli_report():
        from lines_explorer.commands.report import Report

        return Report({}, "")

    monkeypatch.setattr(scoring, "evaluate", note)
    monkeypatch.setenv("LINES_EXPLORER_SUITES", str(desk.suite.folder.parent))
    monkeypatch.setattr(desk, "suite_word", openable(desk.suite))
    words = shlex.split(desk.look(view, Page())["command"])
    assert words[:4] == ["python", "-m", "lines_explorer", "evaluate"]
    assert cli.main(words[3:]) == 0, capsys.readouterr().err
    assert asked == [(view.recipe("tiny", view.curve(desk.results.alpha(view))).hash(), "validation")]


def test_a_suite_opened_by_folder_does_not_tell_where_it_lies(desk):
    command = desk.look(VIEWS[0], Page())["command"]
    assert "--suite path/to/tiny " in command and str(desk.suite.folder.parent) not in command


@pytest.mark.parametrize("name", ["pocket", "vit-b-32-8-tanganke"])
def test_a_suite_with_a_name_is_opened_by_it(name, fresh_cache):
    assert openable(open_suite(name)) == name


def test_errors_name_files_and_no_folders(desk, ask, monkeypatch):
    suite, view = desk.suite, desk.catalogue.default()
    sentence = "{0}/experts/a.safetensors does not fit /data/public/base.pt (hub:owner/name, 1/T); see `/etc/x/y z`."
    told = "experts/a.safetensors does not fit base.pt (hub:owner/name, 1/T); see `y z`."
    assert without_folders(sentence.format(suite.folder), suite) == told

    def refuse(*_):
        raise ExplorerError(sentence.format(suite.folder))

    monkeypatch.setattr(desk.results, "alpha", refuse)
    assert desk.live(ask(view)) == {"error": told}
    messages = [json.loads(message) for message in desk.settle(ask(view, number=2))]
    assert messages[-1]["error"] == told


def test_the_log_of_a_served_page_tells_what_a_large_suite_takes(tiny_suite_folder, monkeypatch, capsys):
    class LoadedError(Exception):
        pass

    def load(*_, **__):
        raise LoadedError

    monkeypatch.setattr("lines_explorer.suites.bill_sentence", lambda suite: f"{suite.name} takes 25.54 GB.")
    monkeypatch.setattr("lines_explorer.engine.Engine", load)
    with pytest.raises(LoadedError):
        serving.serve(suite=str(tiny_suite_folder), port=0)
    assert capsys.readouterr().err == "tiny takes 25.54 GB.\n"


def test_the_page_knows_how_many_experts_a_method_takes(desk):
    experts = json.loads(layout.boot(desk))["experts"]

    def told(name):
        return [experts[name][key] for key in ("fewest", "most", "needs")]

    assert told("slerp") == [2, 2, "Merges exactly 2 experts."]
    assert told("stock") == [2, None, "Merges at least 2 experts."] and told("sum")[:2] == [1, None]
    assert experts["sum"]["sets"] is None
