"""The page without a browser: views and links, numbers, figures, sentences, handlers, and how it is served."""

import json
import math
import re
import socket
import threading
from pathlib import Path

import pytest

import app
from lines_explorer.engine import Engine, Store
from lines_explorer.errors import ExplorerError
from lines_explorer.schedule import constant, free, lines
from lines_explorer.suites import open_suite
from lines_explorer.ui import figures, layout, serving, style, texts
from lines_explorer.ui.handlers import Tickets
from lines_explorer.ui.links import Page
from lines_explorer.ui.modes import GAMMAS
from lines_explorer.ui.results import Results
from lines_explorer.ui.view import Catalogue, View

CATALOGUE = Catalogue(("shapes", "colours", "places"), ("sum", "average"), 3)
EDIT = CATALOGUE.default()
MANY = CATALOGUE.default("many")


def sent(view: View = EDIT, number: int = 1, **changes) -> dict:
    """A request as the page sends it."""
    asked = {"view": view.as_json() | changes, "page": Page().as_json()}
    return asked | {"tab": "a", "number": number, "known": None}


def spaced(text: str) -> str:
    """With ordinary spaces in place of those that keep numbers together."""
    return text.replace("\u00a0", " ")


class TestView:
    def test_reads_what_the_page_sends(self):
        assert CATALOGUE.read(sent(EDIT)["view"]) == EDIT
        assert CATALOGUE.read(sent(MANY)["view"]) == MANY

    @pytest.mark.parametrize(
        ("field", "value", "says"),
        [
            ("target", "../../etc/passwd", "choose one of shapes"),
            ("target", None, "Unknown target"),
            ("mode", "admin", "choose one of edit, many"),
            ("method", "ties", "choose one of sum"),
            ("schedule", ["lines"], "Unknown schedule"),
            ("tasks", [], "Tick at least one"),
            ("tasks", ["shapes", "nothing"], "Unknown task 'nothing'"),
            ("tasks", "shapes", "list of names"),
            ("alpha", math.nan, "α must be a number"),
            ("alpha", "0.3", "α must be a number"),
            ("alpha", True, "α must be a number"),
            ("beta", math.inf, "β must be a number"),
            ("beta", -3, "β must lie between -0.5 and 1.5"),
            ("scale", 1e300, "λ must lie between"),
            ("scale", None, "λ must be a number"),
            ("norms", 1, "ticked or not"),
            ("factors", [1, 2], "There must be 3 factors"),
            ("factors", [0, math.nan, 1], "A factor must be a number between -3 and 3"),
            ("factors", None, "There must be 3 factors"),
            ("rest", 4, "A factor must lie between"),
        ],
    )
    def test_refuses_by_name(self, field, value, says):
        with pytest.raises(ExplorerError, match=re.escape(says)):
            CATALOGUE.read(sent(**{field: value})["view"])

    @pytest.mark.parametrize("data", [None, [], "x", 3, {}])
    def test_refuses_what_is_no_view(self, data):
        with pytest.raises(ExplorerError):
            CATALOGUE.read(data)

    def test_keeps_tasks_in_the_suites_order_once(self):
        assert CATALOGUE.read(sent(tasks=["places", "shapes", "places"])["view"]).tasks == ("shapes", "places")

    def test_commands_name_the_recipe(self):
        assert EDIT.command("pocket", lines(0.3, 0.7)) == (
            "python -m lines_explorer evaluate --suite pocket --tasks shapes --alpha 0.3 --beta 0.7"
        )
        many = View("many", "shapes", ("shapes", "places"), "average", schedule="constant")
        assert many.command("my suite", constant(0.4)).endswith(
            "--suite 'my suite' --tasks shapes,places --method average --scale 0.4"
        )
        drawn = EDIT.command("pocket", free((-0.5, 0.25, 1), 0.1))
        assert drawn.endswith("--tasks shapes --factors -0.5,0.25,1 --rest 0.1")


class TestFamily:
    def test_holds_both_lines_with_exact_ends(self, engine):
        family = Results(engine).family(EDIT)
        assert family["ready"]
        assert family["missing"] == 0
        assert [point["knob"] for point in family["lines"]] == list(GAMMAS)
        assert family["lines"][0]["tasks"] == family["expert"]["tasks"] == family["constant"][0]["tasks"]
        assert family["constant"][-1]["tasks"] == family["base"]["tasks"]
        assert family["expert"]["target"]["normalized"] == 1
        assert family["base"]["control"]["normalized"] == 1

    def test_says_what_is_missing(self, engine):
        family = Results(engine).family(CATALOGUE.default("many"))
        assert family["lines"] == []
        assert family["missing"] == 20  # λ = 0 is the base, which is stored
        assert family["base"]["control"] is None
        assert len(Results(engine).unstored(MANY)) == 20

    def test_knows_when_nothing_is_stored(self, tiny_suite_folder):
        empty = Engine(open_suite(str(tiny_suite_folder)), "cpu", Store(":memory:"))
        family = Results(empty).family(EDIT)
        assert not family["ready"]
        assert family["missing"] == 22
        for figure in figures.all_figures(family, {"shapes": "S", "colours": "C", "places": "P"}).values():
            json.dumps(figure, allow_nan=False)


class TestFigures:
    @pytest.fixture
    def family(self, engine):
        return Results(engine).family(EDIT)

    @pytest.fixture
    def titles(self, desk):
        return desk.titles

    def test_same_numbers_same_picture(self, family, titles):
        first, again = (figures.all_figures(family, titles) for _ in range(2))
        assert first == again
        json.dumps(first, allow_nan=False)

    def test_plane(self, family, titles):
        plane = figures.plane(family, titles)
        by_name = {trace["meta"]: trace for trace in plane["data"]}
        assert set(by_name) == {"LiNeS", "constant λ", "base", "expert"}
        assert by_name["expert"]["y"] == [100 * family["expert"]["target"]["value"]]
        assert len(by_name["LiNeS"]["x"]) == 11
        assert [shape["y0"] for shape in plane["layout"]["shapes"]] == [by_name["expert"]["y"][0], 0]
        assert plane["layout"]["shapes"][1]["x0"] == by_name["base"]["x"][0]
        assert "n = 40" in plane["layout"]["yaxis"]["title"]["text"]
        assert "n = 80" in plane["layout"]["xaxis"]["title"]["text"]
        assert "2 other tasks" in plane["layout"]["xaxis"]["title"]["text"]

    def test_plane_without_control_shows_the_weakest_task(self, engine, titles):
        plane = figures.plane(Results(engine).family(MANY), titles)
        assert "Weakest task" in plane["layout"]["xaxis"]["title"]["text"]
        assert len(plane["layout"]["shapes"]) == 1

    @pytest.mark.parametrize("view", [EDIT, MANY])
    def test_names_stand_where_there_is_room_for_them(self, engine, titles, view):
        plane = figures.plane(Results(engine).family(view), titles)
        middle = sum(plane["layout"]["xaxis"]["range"]) / 2
        marks = [trace for trace in plane["data"] if trace["meta"] in ("base", "expert")]
        assert marks and {trace["meta"] for trace in plane["data"]} >= {"base"}
        for trace in marks:
            assert trace["textposition"] == ("bottom left" if trace["x"][0] > middle else "bottom right")

    def test_curve_has_bands_around_target_and_control(self, family):
        bands = [trace for trace in figures.curve(family, "lines")["data"] if trace.get("fill")]
        assert len(bands) == 2
        assert all(len(band["x"]) == 22 for band in bands)

    def test_tasks_begin_with_the_target(self, family, titles):
        drawn = figures.tasks(family, titles)
        assert drawn["meta"]["order"][0] == "shapes"
        assert {trace["meta"] for trace in drawn["data"]} == {"base", "expert"}

    def test_depth_has_a_bar_per_block_over_what_it_scales(self):
        norms = [1.0, 2.0, 4.0]
        one = figures.depth({"norms": norms, "conflicts": None})
        assert all(trace["x"] == [1, 2, 3] for trace in one["data"]) and "yaxis2" not in one["layout"]
        size = one["data"][0]
        assert (size["meta"], size["y"], size["customdata"]) == ("norm", [0.25, 0.5, 1.0], norms)
        several = figures.depth({"norms": norms, "conflicts": [0.1, 0.2, 0.5]})
        assert several["data"][-1]["meta"] == "conflict" and several["data"][-1]["y"] == pytest.approx([10, 20, 50])
        assert figures.depth({"norms": [0.0], "conflicts": None})["data"][0]["y"] == [0.0]


class TestStyle:
    @staticmethod
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(self, one: str, other: str) -> float:
        high, low = sorted((self.luminance(one), self.luminance(other)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    def test_contrast_in_both_themes(self):
        sheet = (layout.STATIC / "page.css").read_text(encoding="utf-8")
        themes = [dict(re.findall(r"--lx-([\w-]+): (#\w{6})", block)) for block in sheet.split("}")[:2]]
        assert len(themes[0]) == len(themes[1]) == 11
        for theme in themes:
            for ground in (theme["card"], theme["page"]):
                assert all(self.contrast(theme[text], ground) >= 4.5 for text in ("ink", "muted", "accent"))
                assert all(self.contrast(colour, ground) >= 3 for colour in style.ROLES.values())
            assert self.contrast(theme["warn"], theme["warn-paper"]) >= 4.5
            assert self.contrast(theme["ink"], theme["high"]) >= 3.0
            assert self.contrast(theme["low"], theme["high"]) >= 2

    def test_one_place_for_role_colours(self):
        assert all(f"--lx-{role}:{colour}" in style.css_variables() for role, colour in style.ROLES.items())
        sources = [path for path in layout.STATIC.iterdir()] + [Path(figures.__file__)]
        assert not [path for path in sources for colour in style.ROLES.values() if colour in path.read_text("utf-8")]


class TestSentence:
    family = {"base": {"control": {"value": 0.48}}, "expert": {"control": {"value": 0.36}}, "controls": ["b", "c"]}
    titles = {"shapes": "Shapes", "colours": "Colours", "places": "Places"}

    def say(self, control, family=None):
        point = {"target": {"normalized": 0.97}, "control": control and {"value": control}}
        return spaced(texts.sentence(EDIT, lines(0.3, 0.7), point, family or self.family, self.titles))

    @pytest.mark.parametrize(
        ("control", "says"),
        [(0.42, "wins back 50 %"), (0.3, "forgets more"), (0.5, "better than the base"), (0.36, "wins back nothing")],
    )
    def test_follows_the_numbers(self, control, says):
        assert self.say(control).startswith("LiNeS at α = 0.3, β = 0.7 keeps 97 % of the expert’s accuracy on Shapes")
        assert says in self.say(control)

    def test_an_expert_that_forgot_nothing(self):
        family = self.family | {"expert": {"control": {"value": 0.479}}}
        assert "forgot nothing measurable" in self.say(0.47, family)
        assert self.say(None).endswith("on Shapes.")

    def test_many(self):
        point = {"target": {"normalized": 0.8}, "control": None, "weakest": {"task": "places", "normalized": 0.5}}
        family = {"base": {"target": {"normalized": 0.6}}, "controls": []}
        said = spaced(texts.sentence(MANY, constant(0.3), point, family, self.titles))
        assert said.startswith("A constant λ = 0.3 on the sum of 3 experts gives one model with 80 %")
        assert "base alone has 60 %" in said
        assert "serves Places worst (50 %)" in said


class TestDesk:
    def test_live_answers_from_the_store(self, desk):
        answer = desk.live(sent())
        assert answer["number"] == 1
        assert answer["point"]["complete"]
        assert spaced(answer["sentence"]).startswith("LiNeS at α = 0.3")
        assert answer["family"]["figures"].keys() == {
            *("plane", "tasks", "depth", "trail", "difference", "curve_lines", "curve_constant"),
        }
        assert "family" not in desk.live(sent() | {"known": EDIT.family})
        json.dumps(answer, allow_nan=False)

    def test_live_never_evaluates(self, desk, monkeypatch):
        monkeypatch.setattr(desk.engine.backend, "load", lambda recipe: pytest.fail("the device was used"))
        assert desk.live(sent(alpha=0.123))["point"] is None

    @pytest.mark.parametrize(
        "request_",
        [None, 3, [], {}, sent() | {"tab": None}, sent() | {"number": "1"}, sent() | {"number": True},
         sent() | {"tab": "x" * 99}, sent(target="nothing"), sent(alpha=None), sent(tasks=[]),
         sent() | {"page": None}, sent() | {"page": Page().as_json() | {"split": "train"}},
         sent() | {"page": Page().as_json() | {"hide": ["body"]}}],
    )  # fmt: skip
    def test_bad_requests_get_one_sentence(self, desk, request_):
        assert desk.live(request_)["error"].endswith((".", "reload it."))
        assert "error" in desk.surface(request_)
        for work in (desk.settle, desk.line, desk.fill, desk.score_test):
            messages = [json.loads(text) for text in work(request_)]
            assert [message["kind"] for message in messages] == ["error"]

    def test_settle_streams_to_the_exact_result(self, desk):
        messages = [json.loads(text) for text in desk.settle(sent(alpha=0.41, beta=0.2))]
        assert messages[-1] == {"kind": "end", "number": 1}
        final = messages[-2]
        assert final["done"] == final["total"] == 120
        recipe = EDIT.recipe("tiny", lines(0.41, 0.2))
        scores = desk.engine.peek(recipe).scores
        assert {name: task["correct"] for name, task in final["point"]["tasks"].items()} == {
            name: score.correct for name, score in scores.items()
        }

    def test_a_newer_request_ends_an_older_one(self, desk):
        desk.live(sent(number=8))
        assert [json.loads(text)["kind"] for text in desk.settle(sent(number=7, alpha=0.987))] == ["end"]

    def test_line_fills_the_family(self, desk):
        messages = [json.loads(text) for text in desk.line(sent(MANY, tasks=["colours", "places"]))]
        families = [message["family"] for message in messages if message["kind"] == "family"]
        assert families[-1]["missing"] == 0
        assert len(families) > 10

    def test_test_split_only_when_asked(self, desk):
        final = [json.loads(text) for text in desk.score_test(sent())][-2]
        assert final["kind"] == "test"
        assert final["point"]["target"]["n"] == 40

    def test_faults_become_one_sentence(self, desk, monkeypatch, caplog):
        monkeypatch.setattr(desk.results, "family", lambda view: 1 / 0)
        assert desk.live(sent())["error"] == texts.FAULT
        assert "ZeroDivisionError" in caplog.text

    def test_restore_gives_a_whole_view(self, desk):
        assert desk.restore("#target=places")["view"]["target"] == "places"
        assert desk.restore(None)["view"]["mode"] == "edit"

    def test_tickets_forget_the_oldest_page(self):
        tickets = Tickets(most=2)
        for tab in "abc":
            tickets.take(tab, 5)
        assert list(tickets.newest) == ["b", "c"]
        assert tickets.stale("c", 4)
        assert not tickets.stale("a", 4)


class TestServing:
    def test_port_in_use_is_one_sentence(self, capsys):
        with socket.socket() as busy:
            busy.bind(("127.0.0.1", 0))
            busy.listen(1)
            port = busy.getsockname()[1]
            assert app.main(["--port", str(port)]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert f"Port {port}" in said
        assert "--port" in said

    @pytest.mark.parametrize(("host", "port"), [("203.0.113.7", 0), ("no such host", 0), ("127.0.0.1", 70000)])
    def test_addresses_that_cannot_be_listened_on(self, host, port):
        with pytest.raises(ExplorerError, match="--host|--port"):
            serving.check_port(host, port)

    def test_unknown_suite(self, capsys):
        assert app.main(["--suite", "nothing-here", "--port", "0"]) == 2
        assert "nothing-here" in capsys.readouterr().err

    def test_options_follow_the_environment(self, monkeypatch):
        monkeypatch.setenv("GRADIO_SERVER_NAME", "0.0.0.0")
        monkeypatch.setenv("GRADIO_SERVER_PORT", "7999")
        monkeypatch.setenv("LINES_EXPLORER_DOWNLOADS", "1")
        assert vars(app.options([])) == {
            "suite": "pocket",
            "host": "0.0.0.0",
            "port": 7999,
            "device": "auto",
            "precision": "float32",
            "downloads": True,
        }
        monkeypatch.delenv("LINES_EXPLORER_DOWNLOADS")
        asked = [app.options(words).downloads for words in ([], ["--downloads"], ["--no-downloads"])]
        assert asked == [None, True, False]

    def test_private_offline_and_forgetful(self):
        chosen = serving.launch_options("127.0.0.1", 7860)
        assert chosen["share"] is chosen["run_history"] is chosen["enable_monitoring"] is False
        assert chosen["allowed_paths"] == []
        assert chosen["strict_cors"] is True
        assert chosen["max_file_size"] == "1kb"

    def test_bundled_fonts_have_the_letters(self):
        from fontTools.ttLib import TTFont
        from gradio.themes.utils.fonts import font_file_path

        for weight in (400, 700):
            known = TTFont(font_file_path("IBM Plex Sans", weight)).getBestCmap()
            assert all(ord(letter) in known for letter in "AZaz09αβγλ−–’…")

    def test_scripts_below_a_root_path(self):
        assert 'src="gradio_api/file=' in layout.scripts()
        assert 'src="/prefix/gradio_api/file=' in layout.scripts("/prefix/")


def test_many_pages_at_once_share_one_evaluation(desk, monkeypatch):
    """Thirty people press the same preset: the device is used once."""
    loads = []
    load = desk.engine.backend.load
    monkeypatch.setattr(desk.engine.backend, "load", lambda recipe: (loads.append(recipe.hash()), load(recipe)))
    requests = [sent(alpha=0.77, beta=0.11) | {"tab": f"page{i}"} for i in range(30)]
    threads = [threading.Thread(target=lambda r=r: list(desk.settle(r))) for r in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads == [EDIT.recipe("tiny", lines(0.77, 0.11)).hash()]
