"""The evidence view's answers: which pictures change, their predictions, confusion, and what is refused."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from lines_explorer.analysis import paired
from lines_explorer.engine import Engine, Evidence, Store
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import lines
from lines_explorer.suites import open_suite
from lines_explorer.ui import confusion_figure
from lines_explorer.ui.evidence import SIZE, EvidenceDesk, thumbnail
from lines_explorer.ui.handlers import Desk
from lines_explorer.ui.links import Page
from lines_explorer.ui.picture_texts import mistakes
from lines_explorer.ui.view import Catalogue, View

EDIT = Catalogue(("shapes", "colours", "places"), ("sum", "average"), 3).default()
CURRENT = Recipe("tiny", ("shapes",), schedule=lines(0.3, 0.7))
EXPERT, BASE = Recipe("tiny", ("shapes",)), Recipe.base("tiny")
ROBUST = View(**vars(EDIT) | {"mode": "robustness", "alpha": 0.3, "beta": 0.3})
ROBUST_MODEL = Recipe("tiny", ("shapes",), schedule=lines(0.3, 0.3))
NOISY = "shapes@noisy"
SETS = {"shapes": "validation", NOISY: "noisy"}


def wanted(**changes) -> dict:
    """What of the evidence the page asks for."""
    return {"against": None, "task": "", "label": None, "direction": "both", "start": 0} | changes


@pytest.fixture
def desk_(desk: Desk) -> EvidenceDesk:
    return EvidenceDesk(desk, Evidence(desk.engine))


@pytest.fixture
def sent(ask: Callable) -> Callable[..., dict]:
    """A request of the view's, as the page sends it."""

    def asked(view: View = EDIT, page: Page | None = None, number: int = 1, run: int = 0, **changes) -> dict:
        more = {"what": changes.pop("what")} if "what" in changes else {}
        return ask(view, page, number) | {"run": run, "evidence": wanted(**changes)} | more

    return asked


def flipped(engine: Engine, first: Recipe, second: Recipe, task: str) -> tuple[set[int], set[int]]:
    before, after = (engine.stored_answers(recipe)[task] for recipe in (first, second))
    return set(np.flatnonzero(before & ~after).tolist()), set(np.flatnonzero(after & ~before).tolist())


def test_counts_are_those_of_the_stored_answers(desk_, sent, monkeypatch):
    monkeypatch.setattr(desk_.engine.backend, "load", lambda recipe: pytest.fail("the device was used"))
    answer = desk_.changes(sent())
    assert (answer["against"], answer["unknown"], answer["number"]) == ("expert", None, 1)
    together, *rows = answer["tasks"]
    assert [row["task"] for row in rows] == ["shapes", "colours", "places"] and together["task"] == ""
    for row in rows:
        lost, gained = flipped(desk_.engine, EXPERT, CURRENT, row["task"])
        assert (row["lost"], row["gained"], row["n"]) == (len(lost), len(gained), 40)
        before, after = (desk_.engine.stored_answers(recipe)[row["task"]] for recipe in (EXPERT, CURRENT))
        found = paired.paired_difference(before, after)
        assert (row["value"], row["within"]) == (pytest.approx(found.value), found.within_noise)
        assert ("Within noise" in row["said"]) == found.within_noise and f"{len(gained)} won" in row["said"]
    assert together["lost"] == sum(row["lost"] for row in rows) and together["n"] == 120
    json.dumps(answer, allow_nan=False)


@pytest.mark.parametrize("direction", ["both", "lost", "gained"])
def test_pictures_are_all_that_change_page_by_page(desk_, sent, direction):
    for task in ("", "colours"):
        seen, start = [], 0
        while True:
            answer = desk_.changes(sent(task=task, direction=direction, start=start))
            assert len(answer["items"]) == min(SIZE, answer["total"] - start)
            seen += [(one["task"], one["row"], one["direction"]) for one in answer["items"]]
            start += SIZE
            if start >= answer["total"]:
                break
        expected = set()
        for name in [task] if task else ["shapes", "colours", "places"]:
            for way, rows in zip(("lost", "gained"), flipped(desk_.engine, EXPERT, CURRENT, name), strict=True):
                expected |= {(name, row, way) for row in rows if direction in ("both", way)}
        assert len(seen) == len(set(seen)) and set(seen) == expected
    assert desk_.changes(sent(start=10**6))["items"] == []


def test_pictures_of_a_class(desk_, sent):
    answer = desk_.changes(sent(task="colours", against="base"))
    labels = desk_.suite.images("colours", "validation")[1].numpy()
    assert sum(one["lost"] + one["gained"] for one in answer["classes"]) == answer["total"] > 0
    for one in answer["classes"]:
        found = desk_.changes(sent(task="colours", against="base", label=one["label"]))
        assert found["total"] == one["lost"] + one["gained"]
        assert all(labels[item["row"]] == one["label"] and item["label"] == one["title"] for item in found["items"])


def test_thumbnails_are_the_pictures(desk_, sent):
    for item in desk_.changes(sent())["items"]:
        head, data = item["source"].split(",")
        assert head == "data:image/png;base64"
        shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))
        pixels = desk_.suite.images(item["task"], "validation")[0][item["row"]].numpy()
        assert (shown == pixels.transpose(1, 2, 0)).all()
    large = Image.open(io.BytesIO(base64.b64decode(thumbnail(np.zeros((3, 224, 224), np.uint8)).split(",")[1])))
    assert large.size == (64, 64)


@pytest.mark.parametrize("against", ["base", "expert", "pinned"])
def test_predictions_agree_with_the_direction(desk_, sent, against):
    pin = View(**vars(EDIT) | {"schedule": "constant", "scale": 0.5})
    request = sent(page=Page(pin=pin), against=against)
    items, told = desk_.changes(request)["items"], desk_.predict(request)["predictions"]
    assert len(items) == len(told) > 0
    for item, one in zip(items, told, strict=True):
        assert (one["before"]["right"], one["after"]["right"]) == (
            item["direction"] == "lost",
            item["direction"] != "lost",
        )
        for side in one.values():
            assert (side["label"] == item["label"]) == side["right"]
            assert 0 <= side["true_share"] <= side["share"] <= 1
    json.dumps(told, allow_nan=False)


def test_what_it_compares_with_unless_told(desk_, sent):
    assert desk_.changes(sent())["against"] == "expert"
    assert desk_.changes(sent(page=Page(pin=EDIT)))["against"] == "pinned"
    assert desk_.changes(sent(page=Page(pin=EDIT)))["total"] == 0
    many = View(**vars(EDIT) | {"mode": "many"})
    assert desk_.changes(sent(many))["against"] == "base"


def test_each_task_of_several_has_its_own_expert(desk_, sent):
    view = View(**vars(EDIT) | {"mode": "many", "schedule": "constant", "scale": 0.3})
    desk_.engine.evaluate(desk_.desk.recipe(view))
    answer = desk_.changes(sent(view, against="expert"))
    assert answer["sides"]["before"] == "each task’s own expert"
    for row in answer["tasks"][1:]:
        own = desk_.engine.stored_answers(Recipe("tiny", (row["task"],)), [row["task"]])[row["task"]]
        now = desk_.engine.stored_answers(desk_.desk.recipe(view))[row["task"]]
        assert (row["lost"], row["gained"]) == ((own & ~now).sum(), (now & ~own).sum())
    assert len(desk_.predict(sent(view, against="expert"))["predictions"]) == len(answer["items"])


def test_says_which_side_is_missing_and_finds_it(ask, tiny_suite_folder):
    engine = Engine(open_suite(str(tiny_suite_folder)), "cpu", Store(":memory:"))
    empty = EvidenceDesk(Desk(engine), Evidence(engine))
    request = ask(EDIT) | {"run": 1, "evidence": wanted()}
    assert empty.changes(request)["unknown"] == "after" and empty.changes(request)["items"] == []
    engine.evaluate(CURRENT)
    assert empty.changes(request)["unknown"] == "before"
    messages = [json.loads(text) for text in empty.find(request | {"what": "answers"})]
    assert [message["kind"] for message in messages[-2:]] == ["found", "end"]
    assert any(message["kind"] == "progress" and message["total"] == 120 for message in messages)
    answer = empty.changes(request)
    assert answer["unknown"] is None and answer["tasks"][0]["known"]
    assert engine.peek(EXPERT) is not None


def test_counts_without_single_answers_are_classified_again(ask, tiny_suite_folder):
    """Shipped results may hold counts alone."""
    engine = Engine(open_suite(str(tiny_suite_folder)), "cpu", Store(":memory:"))
    for recipe in (CURRENT, EXPERT):
        engine.evaluate(recipe)
    bits = {recipe: engine.stored_answers(recipe)["places"] for recipe in (CURRENT, EXPERT)}
    engine.stored_answers = lambda *_: {}
    desk = EvidenceDesk(Desk(engine), Evidence(engine))
    request = ask(EDIT) | {"run": 1, "evidence": wanted(task="places")}
    assert desk.changes(request)["unknown"] == "after"
    list(desk.find(request | {"what": "answers"}))
    answer = desk.changes(request)
    lost, gained = ((bits[a] & ~bits[b]).sum() for a, b in ((EXPERT, CURRENT), (CURRENT, EXPERT)))
    row = next(row for row in answer["tasks"] if row["task"] == "places")
    assert (row["lost"], row["gained"], answer["unknown"]) == (lost, gained, None)
    assert not next(row for row in answer["tasks"] if row["task"] == "shapes")["known"]


def test_confusion_counts_every_picture(desk_, sent):
    request = sent(task="places", against="base", confusion=True, what="confusion", run=3)
    assert desk_.changes(request)["confusion"] is None
    messages = [json.loads(text) for text in desk_.find(request)]
    assert (messages[-2]["kind"], messages[-2]["number"]) == ("found", 1)
    told = [(message["done"], message["total"]) for message in messages[:-2]]
    assert told == sorted(told) and told[-1] == (80, 80)
    known = desk_.changes(request)["confusion"]
    counts = {name: np.array(one["figure"]["data"][0]["customdata"]) for name, one in known.items()}
    for name, recipe in (("before", BASE), ("after", CURRENT)):
        right = desk_.engine.stored_answers(recipe)["places"]
        square = counts[name].astype(int)
        assert square.sum(axis=1).tolist() == [10] * 4 and np.trace(square) == right.sum()
    change = [[int(text.replace("−", "-")) for text in row] for row in counts["difference"]]
    assert (np.array(change) == counts["after"].astype(int) - counts["before"].astype(int)).all()
    assert all(one["said"].endswith(".") for one in known.values())
    assert desk_.changes(sent(task="places", against="base"))["confusion"] is None  # not asked for
    json.dumps(known, allow_nan=False)


@pytest.fixture
def shifted(desk_) -> EvidenceDesk:
    """A desk with what Robustness compares: base, expert and current model on validation and on the shifted set."""
    for split in SETS.values():
        for recipe in (BASE, EXPERT, ROBUST_MODEL):
            desk_.engine.evaluate(recipe, ["shapes"], split)
    return desk_


def stored(engine: Engine, recipe: Recipe, split: str) -> np.ndarray:
    return engine.stored_answers(recipe, ["shapes"], split)["shapes"]


@pytest.mark.parametrize("against", ["base", "expert"])
def test_robustness_counts_are_those_of_the_stored_answers_set_by_set(shifted, sent, against):
    answer = shifted.changes(sent(ROBUST, against=against))
    together, *rows = answer["tasks"]
    assert [(row["task"], row["title"], row["role"]) for row in rows] == [
        ("shapes", "Shapes", "target"),
        (NOISY, "Noisy shapes", "control"),
    ]
    assert together["title"] == "All sets" and answer["kind"]["one"] == "Set" and answer["unknown"] is None
    assert [row["note"] for row in answer["tasks"]] == ["", "", "test set, shown for the eye only"]
    before = {"base": BASE, "expert": EXPERT}[against]
    for row in rows:
        old, new = (stored(shifted.engine, recipe, SETS[row["task"]]) for recipe in (before, ROBUST_MODEL))
        assert (row["lost"], row["gained"], row["n"]) == ((old & ~new).sum(), (new & ~old).sum(), len(old))
    assert together["lost"] == sum(row["lost"] for row in rows) and together["n"] == sum(row["n"] for row in rows)
    json.dumps(answer, allow_nan=False)


def test_pictures_and_predictions_of_a_shifted_set_are_of_its_split(shifted, sent):
    old, new = (stored(shifted.engine, recipe, "noisy") for recipe in (BASE, ROBUST_MODEL))
    request = sent(ROBUST, against="base", task=NOISY)
    answer = shifted.changes(request)
    changed = np.flatnonzero(old != new).tolist()
    assert [one["row"] for one in answer["items"]] == changed[:SIZE] and answer["total"] == len(changed) > 0
    assert [one["title"] for one in answer["classes"]] == list(shifted.suite.tasks["shapes"].classes)
    assert sum(one["lost"] + one["gained"] for one in answer["classes"]) == len(changed)
    images, labels = shifted.suite.images("shapes", "noisy")
    classes = shifted.suite.tasks["shapes"].classes
    rows = [one["row"] for one in answer["items"]]
    said = {
        side: shifted.evidence.predictions(recipe, "shapes", "noisy", rows)
        for side, recipe in (("before", BASE), ("after", ROBUST_MODEL))
    }
    told = shifted.predict(request)["predictions"]
    for place, (item, one) in enumerate(zip(answer["items"], told, strict=True)):
        assert (item["source"], item["task"]) == (thumbnail(images[item["row"]].numpy()), NOISY)
        assert item["label"] == classes[int(labels[item["row"]])]
        for side, probabilities in said.items():
            assert one[side]["label"] == classes[int(probabilities[place].argmax())]
            assert one[side]["share"] == pytest.approx(float(probabilities[place].max()), abs=1e-5)
    both = sent(ROBUST, against="base")
    assert {one["task"] for one in shifted.changes(both)["items"]} == set(SETS)
    for item, one in zip(shifted.changes(both)["items"], shifted.predict(both)["predictions"], strict=True):
        assert (one["before"]["right"], one["after"]["right"]) == (
            item["direction"] == "lost",
            item["direction"] != "lost",
        )


def test_of_a_shifted_set_no_other_split_is_read(shifted, sent, monkeypatch):
    read, images = set(), shifted.suite.images
    monkeypatch.setattr(type(shifted.suite), "images", lambda _, *which: read.add(which) or images(*which))
    request = sent(ROBUST, against="base", task=NOISY, label=0, what="confusion", confusion=True)
    assert shifted.changes(request)["classes"] and shifted.predict(request)["predictions"]
    assert json.loads(list(shifted.find(request))[-1])["kind"] == "end" and shifted.changes(request)["confusion"]
    assert read == {("shapes", "noisy")}


def test_confusion_of_a_shifted_set(shifted, sent):
    request = sent(ROBUST, task=NOISY, against="base", confusion=True, what="confusion")
    list(shifted.find(request))
    known = shifted.changes(request)["confusion"]
    square = np.array(known["after"]["figure"]["data"][0]["customdata"]).astype(int)
    right = stored(shifted.engine, ROBUST_MODEL, "noisy")
    assert (square.sum(), np.trace(square)) == (len(right), right.sum())
    assert "test set, n = " in known["after"]["figure"]["layout"]["xaxis"]["title"]["text"]
    assert shifted.changes(sent(ROBUST, task="shapes", against="base", confusion=True))["confusion"] is None


@pytest.mark.parametrize(("task", "splits"), [("", {"validation", "noisy"}), (NOISY, {"noisy"})])
def test_what_a_shifted_set_lacks_is_evaluated_in_its_split(sent, tiny_suite_folder, task, splits):
    engine = Engine(open_suite(str(tiny_suite_folder)), "cpu", Store(":memory:"))
    desk = EvidenceDesk(Desk(engine), Evidence(engine))
    request = sent(ROBUST, task=task)
    assert desk.changes(request)["unknown"] == "after"
    messages = [json.loads(text) for text in desk.find(request | {"what": "answers"})]
    assert [message["kind"] for message in messages[-2:]] == ["found", "end"]
    for split in SETS.values():
        found = [engine.peek(recipe, ["shapes"], split) is not None for recipe in (EXPERT, ROBUST_MODEL)]
        assert found == [split in splits] * 2
    assert engine.peek(EXPERT, ["colours"]) is None
    assert desk.changes(request)["unknown"] is None


@pytest.mark.parametrize(("view", "task"), [(ROBUST, "colours"), (ROBUST, "shapes@other"), (EDIT, NOISY)])
def test_a_set_that_the_mode_does_not_score_is_refused(desk_, sent, view, task):
    said = desk_.changes(sent(view, task=task))["error"]
    assert said.startswith(f"Unknown {'task' if view is EDIT else 'set'} '{task}'; choose one of shapes, ")


def test_a_newer_run_of_the_page_stops_the_older(desk_, sent):
    desk_.changes(sent(run=9))
    view = View(**vars(EDIT) | {"alpha": 0.123})
    messages = [json.loads(text) for text in desk_.find(sent(view, task="places", what="confusion", run=8))]
    assert [message["kind"] for message in messages] == ["end"]


WRONG = [
    wanted(against="test"), wanted(against=3), wanted(against="pinned"), wanted(task="nothing"), wanted(task=None),
    wanted(label=0), wanted(task="places", label=4), wanted(task="places", label=-1), wanted(task="places", label=True),
    wanted(direction="up"), wanted(start=-1), wanted(start=1.0), wanted(start=10**9), wanted(start=True), None, [], "x",
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_refuses_with_one_sentence(desk_, sent, wrong):
    request = sent() | {"evidence": wrong}
    for work in (desk_.changes, desk_.predict):
        said = work(request)["error"]
        assert said.endswith(".") and "failed while answering" not in said
    (message,) = [json.loads(text) for text in desk_.find(request | {"what": "answers"})]
    assert message["kind"] == "error"


def test_refuses_other_requests(desk_, sent):
    assert "choose one of answers, confusion" in json.loads(next(desk_.find(sent(what="all"))))["error"]
    assert "for one task" in json.loads(next(desk_.find(sent(what="confusion"))))["error"]
    for run in (None, "1", -1, True, 2**60):
        assert "error" in desk_.changes(sent(run=run))
    for request in (None, 3, {}, sent() | {"view": None}, sent() | {"tab": ""}):
        assert "error" in desk_.changes(request) and "error" in desk_.predict(request)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.dictionaries(st.sampled_from(["against", "task", "label", "direction", "start", "confusion"]), JSON, max_size=6)
)
def test_any_choice_gets_an_answer(engine, given_):
    desk_ = EvidenceDesk(Desk(engine), Evidence(engine))
    request = {"view": EDIT.as_json(), "page": Page().as_json(), "tab": "a", "number": 1, "run": 0}
    answer = desk_.changes(request | {"evidence": wanted() | given_})
    assert "tasks" in answer or answer["error"].endswith(".") and "failed while answering" not in answer["error"]


def test_confusion_figures_of_few_and_of_many_classes():
    few = confusion_figure.confusions(
        np.diag([3, 1]), np.array([[1, 2], [0, 1]]), ["a", "a very long name indeed"], "test set"
    )
    assert "test set, n = 4" in few["after"]["figure"]["layout"]["xaxis"]["title"]["text"]
    assert few["difference"]["figure"]["data"][0]["z"] == [[-2, 2], [0, 0]]
    assert few["after"]["figure"]["data"][0]["z"] == [[pytest.approx(100 / 3), pytest.approx(200 / 3)], [0, 100]]
    assert few["after"]["figure"]["layout"]["yaxis"]["ticktext"][1] == "a very long nam…"
    assert few["difference"]["said"] == "Mistakes that change most: a taken for a very long name indeed (+2)."
    assert few["before"]["said"] == "No mistake."
    many = confusion_figure.heatmap(np.zeros((40, 40), int), [str(i) for i in range(40)], False, 0, "")
    assert "text" not in many["data"][0] and many["data"][0]["z"][0] == [None] * 40
    json.dumps(many, allow_nan=False)


def test_mistakes_in_words():
    assert mistakes([], ["a", "b"], True) == "No mistake becomes more or less frequent."
    assert mistakes([(0, 1, -2)], ["a", "b"], True).endswith("a taken for b (−2).")
