"""What is drawn: validated numbers, classified by every model as the evaluator would."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lines_explorer.engine import Evidence
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant
from lines_explorer.ui.drawing import MOST_CLASSES, DrawingDesk, pixels
from lines_explorer.ui.handlers import Desk
from lines_explorer.ui.links import Page
from lines_explorer.ui.view import Catalogue, View

EDIT = Catalogue(("shapes", "colours", "places"), ("sum", "average"), 3).default()
SIDE = 16


@pytest.fixture
def drawing(desk: Desk) -> DrawingDesk:
    return DrawingDesk(desk, Evidence(desk.engine))


@pytest.fixture
def sent(ask: Callable) -> Callable[..., dict]:
    def asked(view: View = EDIT, page: Page | None = None, **more) -> dict:
        return ask(view, page) | {"task": None, "pixels": [0] * SIDE * SIDE} | more

    return asked


@given(st.lists(st.integers(0, 255), min_size=12, max_size=12))
def test_colours_are_read_pixel_by_pixel(values: list[int]) -> None:
    image = pixels(values, 2)
    assert image.shape == (3, 2, 2) and image.dtype == np.uint8
    assert [int(image[channel, row, column]) for row in (0, 1) for column in (0, 1) for channel in range(3)] == values


@given(st.lists(st.integers(0, 255), min_size=4, max_size=4))
def test_grey_is_the_same_in_every_channel(values: list[int]) -> None:
    assert (pixels(values, 2) == pixels([value for value in values for _ in range(3)], 2)).all()


ANY = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.lists(st.none(), max_size=2)


@given(st.lists(ANY, min_size=4, max_size=4) | st.lists(st.integers(0, 255), max_size=30) | ANY | st.binary())
def test_anything_else_is_refused_in_a_sentence(value) -> None:
    whole = isinstance(value, list) and all(type(one) is int and 0 <= one <= 255 for one in value)
    if whole and len(value) in (4, 12):
        assert pixels(value, 2).shape == (3, 2, 2)
    else:
        with pytest.raises(ExplorerError, match="A drawing"):
            pixels(value, 2)


@pytest.mark.parametrize(
    "wrong",
    [[0] * 255, [0] * 257, [0] * 767, [], None, "0" * 256, {"0": 0}, [0] * 255 + [256], [0] * 255 + [-1],
     [0] * 255 + [0.5], [0] * 255 + [True], [0] * 255 + [None], [0] * 255 + ["1"], [[0] * 16] * 16],
)  # fmt: skip
def test_refused_drawings_reach_no_device(drawing, sent, wrong, monkeypatch) -> None:
    monkeypatch.setattr(drawing.desk.engine.backend, "load", lambda recipe: pytest.fail("the device was used"))
    assert drawing.classify(sent(pixels=wrong))["error"].startswith("A drawing")


def test_every_model_classifies_as_the_evaluator_does(drawing, sent) -> None:
    images = drawing.suite.images("shapes", "validation")[0].numpy()
    pin = View(**vars(EDIT) | {"schedule": "constant", "scale": 0.5})
    recipes = {"base": Recipe.base("tiny"), "expert": Recipe("tiny", ("shapes",)), "current": drawing.desk.recipe(EDIT)}
    recipes["pinned"] = Recipe("tiny", ("shapes",), schedule=constant(0.5))
    for row in (0, 5, 18):
        values = images[row].transpose(1, 2, 0).reshape(-1).tolist()
        answer = drawing.classify(sent(page=Page(pin=pin), pixels=values))
        assert answer["task"] == "shapes" and answer["left"] == 0
        assert [one["label"] for one in answer["classes"]] == list(drawing.suite.tasks["shapes"].classes)
        for role, recipe in recipes.items():
            (wanted,) = drawing.evidence.predictions(recipe, "shapes", "validation", [row])
            found = [one["shares"][role] for one in answer["classes"]]
            assert found == pytest.approx(wanted.tolist(), abs=1e-4)
            assert answer["best"][role] == drawing.suite.tasks["shapes"].classes[int(wanted.argmax())]
    json.dumps(answer, allow_nan=False)


def test_another_head_and_several_tasks(drawing, sent) -> None:
    answer = drawing.classify(sent(task="colours"))
    assert [one["label"] for one in answer["classes"]] == ["red", "green", "blue", "grey"]
    assert set(answer["best"]) == {"base", "expert", "current"}
    many = View(**vars(EDIT) | {"mode": "many"})
    own = drawing.classify(sent(many, task="places"))
    part = drawing.evidence.drawn("places", pixels([0] * SIDE * SIDE, SIDE))
    (wanted,) = drawing.evidence.answers([(Recipe("tiny", ("places",)), [part])])
    assert [one["shares"]["expert"] for one in own["classes"]] == pytest.approx(wanted[0][0].tolist(), abs=1e-4)


@pytest.mark.parametrize("task", ["nothing", "../shapes", 3, ["shapes"], ""])
def test_unknown_tasks_are_refused(drawing, sent, task) -> None:
    assert "Unknown task" in drawing.classify(sent(task=task))["error"]


def test_bad_requests_get_one_sentence(drawing, sent) -> None:
    for request in (None, [], {}, sent() | {"view": None}, sent() | {"number": None}, sent() | {"page": 3}):
        assert drawing.classify(request)["error"].endswith(".")


def test_of_many_classes_the_likeliest_are_told_in_their_order(drawing, monkeypatch) -> None:
    classes = tuple(f"class {i}" for i in range(30))
    task = drawing.suite.tasks["shapes"]
    monkeypatch.setattr(drawing.suite, "tasks", {"shapes": type(task)(**vars(task) | {"classes": classes})})
    shares = np.zeros(30, np.float32)
    shares[[28, 3]] = 0.9, 0.1
    told = drawing._told("shapes", {"base": shares, "current": shares[::-1]})
    names = [one["label"] for one in told["classes"]]
    assert len(names) == MOST_CLASSES and names == sorted(names, key=classes.index)
    assert {"class 28", "class 3", "class 1", "class 26"} <= set(names)
    assert (told["best"], told["left"]) == ({"base": "class 28", "current": "class 1"}, 20)
