"""What an evaluation already says while it grows: an estimate of every task, helped by the stored points nearest to it.

Nothing here is stored, and nothing is computed before somebody asks: the device does not wait for statistics.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lines_explorer.analysis import Accuracy, Estimate, Estimates, Sample, estimate_accuracies
from lines_explorer.engine.curves import family
from lines_explorer.engine.outputs import Foretold, Outputs
from lines_explorer.engine.precision import FLOAT32
from lines_explorer.recipe import Recipe

if TYPE_CHECKING:
    from lines_explorer.engine.results import Answers
    from lines_explorer.engine.store import Row, Store
    from lines_explorer.suites import Suite

MOST_POINTS = 4
BESIDE = 0.15  # points farther than the nearest one by more (root mean square of the factors) do not help
MOST_REMEMBERED = 500

Key = tuple
Place = tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Basis:
    """What the estimates of one evaluation rest on besides the images seen.

    Attributes:
        labels: by task to be scored, int (N,).
        known: by the same tasks, bool (K, N), the right answers of the ``points``.
        measured: tasks that are not scored again, as they are stored.
        points: the K nearest stored points of the same family, nearest first.
        foretold: what sums of outputs of base and experts say, where no stored point is near enough to say more.
    """

    labels: Mapping[str, np.ndarray]
    known: Mapping[str, np.ndarray]
    measured: Mapping[str, Accuracy]
    points: tuple[Recipe, ...]
    foretold: Foretold | None = None
    _predictors: dict[str, np.ndarray] = field(default_factory=dict, init=False, repr=False)

    def predictors(self, task: str) -> np.ndarray:
        """Bool, one row per point and per sum of outputs, (K, N); formed once for all states of the evaluation."""
        if self.foretold is None:
            return self.known[task]
        if task not in self._predictors:
            foretold = self.foretold.right(task, self.labels[task])
            self._predictors[task] = np.concatenate([self.known[task], foretold])
        return self._predictors[task]


class Estimated:
    """An evaluation's estimates: of the accuracies on all images, from those ``answers``; never a measurement.

    Computed when first asked for.  Every interval closes when the last image is seen (see ``analysis.estimate``).
    """

    def __init__(self, basis: Basis, answers: Mapping[str, Answers]) -> None:
        self._basis, self._answers = basis, answers

    @property
    def points(self) -> tuple[Recipe, ...]:
        """The stored points whose answers predicted the images not seen yet; none means that only images seen count."""
        return self._basis.points

    @property
    def foretold(self) -> bool:
        """Whether sums of outputs of base and experts predicted them, too."""
        return self._basis.foretold is not None

    def task(self, task: str) -> Estimate:
        """The accuracy of one task of the evaluation."""
        return self._found.task(task)

    def mean(self, tasks: Sequence[str] | None = None) -> Estimate:
        """The mean accuracy over ``tasks`` (all when left out), every task with the same weight."""
        return self._found.mean(tasks)

    @cached_property
    def _found(self) -> Estimates:
        basis, samples = self._basis, {}
        for task, labels in basis.labels.items():
            answers = self._answers[task]
            samples[task] = Sample(labels, answers.rows, answers.right, basis.predictors(task))
        return estimate_accuracies(samples, basis.measured)


@dataclass(frozen=True)
class EstimatedTask:
    """One task's estimate and estimate / ``denominator``; ``reference`` says whose accuracy the denominator is."""

    task: str
    role: str
    estimate: Estimate
    normalized: float
    denominator: float
    reference: str


@dataclass(frozen=True)
class EstimatedSummary:
    """Estimated means over target and over control tasks, raw and normalized, and every task; as ``Summary``."""

    target: Estimate | None
    control: Estimate | None
    target_normalized: float
    control_normalized: float
    tasks: Mapping[str, EstimatedTask]
    points: tuple[Recipe, ...]
    foretold: bool


class Nearest:
    """Finds the stored points that lie nearest to a new one in its own family: same tasks, method and layer rule.

    Looked for are the points of the protocol's curves and of the α×β surface, and those ``remember`` was told of;
    ``depth`` is L, the number of blocks.  Where none lies near, the ``outputs`` of base and experts help, which the
    caller must guard; all else is thread-safe.
    """

    def __init__(
        self, suite: Suite, depth: int, store: Store, precision: str = FLOAT32, outputs: Outputs | None = None
    ) -> None:
        self._suite, self._depth, self._store, self._precision = suite, depth, store, precision
        self._outputs = outputs if outputs is not None else Outputs()
        self._guard = threading.Lock()
        self._remembered: OrderedDict[Recipe, None] = OrderedDict()

    def remember(self, recipe: Recipe) -> None:
        """Notes a point that is stored now, wherever it lies."""
        point = recipe.canonical()
        with self._guard:
            self._remembered[point] = None
            self._remembered.move_to_end(point)
            while len(self._remembered) > MOST_REMEMBERED:
                self._remembered.popitem(last=False)

    def basis(self, recipe: Recipe, rows: Mapping[str, Row], missing: Sequence[str], split: str) -> Basis:
        """What estimates of the ``missing`` tasks can rest on; ``rows`` holds the tasks stored already."""
        labels = {task: self._suite.images(task, split)[1].numpy() for task in missing}
        found = self._stored(recipe, {task: len(label) for task, label in labels.items()}, split)
        known = {
            task: np.array([bits[task] for _, _, bits in found], dtype=bool).reshape(len(found), len(label))
            for task, label in labels.items()
        }
        measured = {task: Accuracy(row.correct, row.n) for task, row in rows.items()}
        foretold = None
        if not found or found[0][0] > BESIDE:
            factors = self._factors(recipe)
            foretold = self._outputs.foretold(recipe, sum(factors) / len(factors), missing, split)
        return Basis(labels, known, measured, tuple(point for _, point, _ in found), foretold)

    def _stored(
        self, recipe: Recipe, sizes: Mapping[str, int], split: str
    ) -> list[tuple[float, Recipe, Mapping[str, np.ndarray]]]:
        """Up to MOST_POINTS (distance, point, its right answers on all tasks of ``sizes``), the nearest first."""
        found: list[tuple[float, Recipe, Mapping[str, np.ndarray]]] = []
        reach = math.inf
        for far, point in self._around(recipe):
            if far > reach or len(found) == MOST_POINTS:
                break
            if (bits := self._bits(point, sizes, split)) is not None:
                found.append((far, point, bits))
                reach = min(reach, far + BESIDE)
        return found

    def _around(self, recipe: Recipe) -> Iterator[tuple[float, Recipe]]:
        """(distance, point) for all points of the family, the nearest first; the recipe itself is none of them."""
        own, here = recipe.canonical(), self._factors(recipe)
        points = {point.canonical(): None for point in family(recipe)}
        with self._guard:
            points |= {point: None for point in self._remembered if _family(point) == _family(own)}
        points.pop(own, None)
        placed = [
            (math.dist(here, self._factors(point)) / len(here) ** 0.5, place) for place, point in enumerate(points)
        ]
        ordered = list(points)
        yield from ((far, ordered[place]) for far, place in sorted(placed))

    def _factors(self, recipe: Recipe) -> Place:
        """λ before, in, and after the blocks; (L + 2,)."""
        if not recipe.tasks:
            return (0.0,) * (self._depth + 2)
        before, after = recipe.schedule.outer_factors(self._depth, recipe.rule)
        return (before, *recipe.schedule.block_factors(self._depth), after)

    def _bits(self, point: Recipe, sizes: Mapping[str, int], split: str) -> Mapping[str, np.ndarray] | None:
        """The point's right answers on every task, or None where one of them is not known image by image."""
        suite, digest, bits = self._suite.hash_of(point), point.hash(), {}
        for task, size in sizes.items():
            row = self._store.get(suite, digest, task, split, self._precision)
            right = None if row is None else row.right()
            if right is None or len(right) != size:
                return None
            bits[task] = right
        return bits


def importance(targets: Sequence[str], tasks: Sequence[str]) -> dict[str, float]:
    """How many images of each task to look at, in proportion, so that both means are known equally well.

    Target and control tasks get half of the images each, the tasks of one mean equally many (Neyman's allocation for
    equal spreads); where there is but one of the two, all tasks equally many.
    """
    groups = [[task for task in tasks if (task in targets) is role] for role in (True, False)]
    return {task: 1 / len(group) for group in groups for task in group}


def _family(recipe: Recipe) -> Key:
    return recipe.tasks, recipe.method, recipe.parameters, recipe.rule
