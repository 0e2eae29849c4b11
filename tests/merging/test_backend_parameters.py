"""A recipe's method parameters reach the method, with the tasks' names; bad ones are refused before anything loads."""

from pathlib import Path

import pytest
import torch
from tiny import TASKS

from lines_explorer import merging
from lines_explorer.engine import Backend
from lines_explorer.errors import ExplorerError
from lines_explorer.layers import layout_of, tensor_factors
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import lines
from lines_explorer.suites import open_suite

ALL = tuple(sorted(TASKS))
EXPLICIT = {"ties": {"k": 35, "combine": "sum"}, "dare": {"p": 0.3, "seed": 9}, "consensus": {"agree": 3}}


@pytest.fixture(scope="module")
def backend(tiny_suite_folder: Path) -> Backend:
    return Backend(open_suite(tiny_suite_folder), "cpu")


@pytest.mark.parametrize("method", [name for name, row in merging.METHODS.items() if not row.statistics])
def test_what_is_loaded_is_the_methods_merge(backend: Backend, method: str) -> None:
    tasks = ALL[:2] if method == "slerp" else ALL
    parameters = EXPLICIT.get(method, {})
    taus = [backend.suite.task_vector(task) for task in tasks]
    merged = merging.METHODS[method].merge(taus, tasks=tasks, **parameters)
    alpha = backend.alpha_from_norms(tasks, method, tuple(parameters.items()))
    assert alpha == merging.norm_ratio(taus, merged)
    recipe = Recipe("tiny", tasks, method, parameters, lines(0.2, 0.5))
    backend.load(recipe)
    base, state = backend.suite.visual_base(), backend.state_dict()
    expected = merging.apply(base, merged, tensor_factors(layout_of(base), recipe.schedule, recipe.rule))
    assert all(torch.equal(state[key], tensor) for key, tensor in expected.items())


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (Recipe("tiny", ALL, "slerp"), "SLERP .two experts. merges exactly 2 experts, not 3"),
        (Recipe("tiny", ALL[:1], "stock"), "Model stock merges at least 2 experts, not 1"),
        (Recipe("tiny", ALL[:1], "consensus"), "what 2 experts use, but 1 would be merged"),
        (Recipe("tiny", ALL, "ties", {"k": 120}), "Parameter k must be a number from 0 to 100, not 120"),
        (Recipe("tiny", ALL, "dare", {"p": 1}), "Parameter p must be a number from 0 to 0.99, not 1"),
        (Recipe("tiny", ALL, "ties", {"tasks": "x"}), "does not take these parameters: tasks"),
        (Recipe("tiny", ALL, "della", {"p": 0.05}), "choose epsilon at most 0.1"),
        (Recipe("tiny", ALL, "fisher"), "has no statistics of any expert.*run `python -m lines_explorer build-suite"),
        (Recipe("tiny", ALL, "regmean", {"scale": 0.5}), "has no statistics of any expert"),
        (
            Recipe("tiny", ALL, "adamerging"),
            "no AdaMerging coefficients of exactly these experts.*adamerging --tasks all",
        ),
        (Recipe("tiny", ALL[:1], "adamerging"), "AdaMerging merges at least 2 experts, not 1"),
    ],
)
def test_bad_recipes_are_refused_and_leave_the_model_alone(backend: Backend, recipe: Recipe, message: str) -> None:
    backend.load(Recipe.base("tiny"))
    with pytest.raises(ExplorerError, match=message):
        backend.load(recipe)
    state = backend.state_dict()
    assert all(torch.equal(state[key], tensor) for key, tensor in backend.suite.visual_base().items())
