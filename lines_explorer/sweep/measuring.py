"""Recipes scored one after the other, with what is stored at once; and the answers image by image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lines_explorer.merging import standard
from lines_explorer.recipe import Recipe

if TYPE_CHECKING:
    from lines_explorer.engine import Engine, Evaluation

Tick = Callable[[Recipe], None]


def silent(recipe: Recipe) -> None:
    """A tick that tells nobody."""


def measure(
    engine: Engine, recipes: Sequence[Recipe], score_on: Sequence[str], split: str, tick: Tick = silent
) -> list[Evaluation]:
    """The complete evaluation of every recipe, in their order; ``tick`` is called after each.

    Everything is kept in the engine's store: an interrupted call begun again only does what is missing.
    """
    evaluations = []
    for recipe in recipes:
        evaluations.append(engine.evaluate(recipe, score_on, split))
        tick(recipe)
    return evaluations


def answers(engine: Engine, recipe: Recipe, tasks: Sequence[str], split: str) -> dict[str, np.ndarray]:
    """Task → bool (n,), right or wrong for every image of the split, in the file's order.

    Scored again where only the counts are stored (a suite's shipped results), and kept.
    """
    recipe = standard(recipe)
    found = engine.stored_answers(recipe, tasks, split)
    if missing := [(task, split) for task in tasks if task not in found]:
        with engine.lock:
            *_, last = engine.evaluator.run(recipe, missing)
        for (task, _), right in last.bits.items():
            share = last.seconds * len(right) / sum(score.total for score in last.scores)
            suite = engine.suite.hash_of(recipe)
            engine.store.put(suite, recipe.hash(), task, split, right, share, engine.precision)
            found[task] = right
    return {task: found[task] for task in tasks}


def alpha_from_norms(
    engine: Engine, tasks: Sequence[str], method: str = "sum", parameters: tuple[tuple[str, object], ...] = ()
) -> float:
    """α = (1/T)·‖Στₜ‖₁ / ‖τ_MTL‖₁ for the method with these parameters."""
    return engine.backend.alpha_from_norms(tasks, method, parameters)
