import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import CURVES, Schedule, constant, free, lines, single_task

untimed = settings(deadline=None)
factors = st.floats(-10, 10)
schedules = st.one_of(
    st.builds(Schedule, st.sampled_from(sorted(CURVES)), factors, factors),
    st.builds(free, st.lists(factors, min_size=1, max_size=4), factors),
)
values = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(-(2.0**63), 2.0**63),
    st.text(max_size=100),
)
recipes = st.builds(
    Recipe,
    suite=st.text(min_size=1),
    tasks=st.lists(st.text(min_size=1), min_size=1, max_size=4, unique=True),
    method=st.sampled_from(["sum", "average", "ties"]),
    parameters=st.dictionaries(st.text(max_size=100), values, max_size=3),
    schedule=schedules,
    rule=st.sampled_from(["reference", "depth"]),
)


def recipe(schedule=None, tasks=("a", "b"), **more) -> Recipe:
    return Recipe("pocket", tasks, schedule=schedule or lines(0.3, 0.7), **more)


@untimed
@given(recipes)
def test_round_trip_through_json(one):
    again = Recipe.from_dict(json.loads(json.dumps(one.as_dict())))
    assert again == one
    assert again.hash() == one.hash()


@untimed
@given(recipes)
def test_canonical_is_idempotent_and_keeps_the_hash(one):
    assert one.canonical().canonical() == one.canonical()
    assert one.canonical().hash() == one.hash()
    assert len(one.hash()) == 16 and int(one.hash(), 16) >= 0


def test_the_hash_is_the_same_in_every_process_and_version():
    assert Recipe.base("pocket").hash() == "fac2b1b1dbdcb384"
    assert recipe().hash() == "f1d2180cec07e15f"
    assert recipe(method="ties", parameters={"k": 30.0, "reference": True}).hash() == "8ccd5f2a7ec81682"


def test_tasks_are_kept_sorted():
    assert recipe(tasks=["b", "a"]) == recipe(tasks=("a", "b"))
    assert recipe(tasks=["b", "a"]).tasks == ("a", "b")


def test_parameters_are_kept_sorted():
    assert recipe(parameters={"k": 1, "j": 2}) == recipe(parameters=(("j", 2), ("k", 1)))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (recipe(lines(0.5, 0)), recipe(constant(0.5))),
        (recipe(lines(0.5, 0)), recipe(Schedule("square", 0.5, 0))),
        (recipe(lines(0.5, 0)), recipe(Schedule("constant", 0.5, 0.9))),
        (recipe(lines(0.5, 0)), recipe(lines(0.5, 0), rule="depth")),
        (recipe(free([1, 2], 3)), recipe(free([1, 2], 3), rule="depth")),
        (recipe(Schedule("reversed", 0.2, 0.5)), recipe(Schedule("reversed", 0.2, 0.5), rule="depth")),
        (recipe(lines(0.0, 0.5)), recipe(lines(-0.0, 0.5))),
        (recipe(free([0.0, 1], 0.0)), recipe(free([-0.0, 1], -0.0))),
        (recipe(lines(0.7, 0.3)), recipe(single_task(0.7))),
        (recipe(lines(0.1 + 0.2, 0.5)), recipe(lines(0.3, 0.5))),
        (recipe(constant(0)), Recipe.base("pocket")),
        (recipe(tasks=["a"], method="average"), recipe(tasks=["a"])),
        (recipe(parameters={"k": 20}), recipe(parameters=[("k", 20.0)])),
        (recipe(parameters={"k": 1, "j": 2}), recipe(parameters=(("j", 2), ("k", 1)))),
    ],
)
def test_equal_mathematics_has_an_equal_hash(left, right):
    assert left.hash() == right.hash()


@pytest.mark.parametrize(
    "other",
    [
        recipe(lines(0.3, 0.70001)),
        recipe(lines(0.7, 0.3)),
        recipe(Schedule("square", 0.3, 0.7)),
        recipe(Schedule("reversed", 1.0, -0.7)),
        recipe(free([0.3, 1.0], 0.3)),
        recipe(rule="depth"),
        recipe(tasks=["a"]),
        recipe(tasks=["a", "c"]),
        recipe(method="average"),
        recipe(parameters={"k": 20}),
        Recipe("other", ("a", "b"), schedule=lines(0.3, 0.7)),
        Recipe.base("pocket"),
    ],
)
def test_different_mathematics_has_a_different_hash(other):
    assert other.hash() != recipe().hash()


def test_large_seeds_and_flags_stay_apart():
    hashes = {recipe(parameters={"seed": seed}).hash() for seed in (2**53, 2**53 + 1, 1, True, "1")}
    assert len(hashes) == 5


def test_base_has_no_tasks():
    assert Recipe.base("pocket").tasks == ()
    assert Recipe.from_dict(Recipe.base("pocket").as_dict()) == Recipe.base("pocket")


def test_absent_fields_take_their_defaults():
    assert Recipe.from_dict({"suite": "pocket", "tasks": ["a"]}) == Recipe("pocket", ("a",))
    assert Recipe("pocket", ("a",)).schedule == lines(1, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tasks": ("a", "b", "a")}, "named more than once: a"),
        ({"tasks": "digits"}, "must be a list of task names"),
        ({"tasks": ("a", "")}, "must be a list of task names"),
        ({"tasks": (), "schedule": lines(0.3, 0.7)}, "at least one task"),
        ({"tasks": (), "method": "average"}, "at least one task"),
        ({"tasks": ("a",), "rule": "deep"}, "Unknown layer rule 'deep'"),
        ({"tasks": ("a",), "suite": ""}, "suite must be a name"),
        ({"tasks": ("a",), "method": None}, "method must be a name"),
        ({"tasks": ("a",), "schedule": 0.5}, "schedule must be a Schedule"),
        ({"tasks": ("a",), "parameters": 3}, "must be .name, value. pairs"),
        ({"tasks": ("a",), "parameters": [("k", 1), ("k", 2)]}, "each given once"),
        ({"tasks": ("a",), "parameters": {"k": math.nan}}, "Parameter k must be a finite number"),
        ({"tasks": ("a",), "parameters": {"k": math.inf}}, "Parameter k must be a finite number"),
        ({"tasks": ("a",), "parameters": {"k": 1e113}}, "Parameter k must be a finite number"),
        ({"tasks": ("a",), "parameters": {"k": [1]}}, "Parameter k must be a finite number"),
        ({"tasks": ("a",), "parameters": {"k": 2**63 + 1}}, "Parameter k must be a finite number"),
        ({"tasks": ("a",), "parameters": {"k": "x" * 101}}, "Parameter k must be a finite number"),
        ({"tasks": ("a",), "parameters": {"k": None}}, "Parameter k must be a finite number"),
        ({"tasks": ("a",), "parameters": {"x" * 101: 1}}, "must have names"),
        ({"tasks": ("a",), "parameters": {str(number): 1 for number in range(17)}}, "at most 16 parameters, not 17"),
    ],
)
def test_bad_recipes_are_refused(arguments, message):
    with pytest.raises(ExplorerError, match=message):
        Recipe(**{"suite": "pocket", **arguments})


@pytest.mark.parametrize(
    ("d", "message"),
    [
        ({"tasks": ["a"]}, "recipe needs the field suite"),
        ({"suite": "pocket"}, "recipe needs the field tasks"),
        ({"suite": "pocket", "tasks": ["a"], "scale": 1}, "recipe has no field scale"),
        ({"suite": "pocket", "tasks": ["a"], "schedule": {"alpha": 1}}, "schedule needs the field kind"),
        ({"suite": "pocket", "tasks": ["a"], "schedule": {"kind": "lines", "gamma": 1}}, "schedule has no field gamma"),
        ({"suite": "pocket", "tasks": ["a"], "schedule": {"kind": "lines", "alpha": "1"}}, "alpha must be a number"),
        ({"suite": "pocket", "tasks": ["a"], "schedule": "lines"}, "schedule must be an object"),
        ("pocket", "recipe must be an object"),
    ],
)
def test_bad_dictionaries_are_refused(d, message):
    with pytest.raises(ExplorerError, match=message):
        Recipe.from_dict(d)
