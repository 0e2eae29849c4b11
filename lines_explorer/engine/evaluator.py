"""Right answers counted by METHOD's protocol, in an order in which partial counts already mean something."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from lines_explorer.engine.backend import Backend
from lines_explorer.engine.results import TaskScore
from lines_explorer.recipe import Recipe

BATCH = 512
Pair = tuple[str, str]


@dataclass(frozen=True)
class Progress:
    """Counts after one more batch.

    ``scores``: one per (task, split), growing; ``bits``: for the pairs completed so far, a bool array (n,) in the
    file's order, True where the answer is right; ``seconds`` since the start.
    """

    scores: tuple[TaskScore, ...]
    bits: dict[Pair, np.ndarray]
    seconds: float
    complete: bool


class _Walk:
    """One task's images in a fixed stratified order, taken piece by piece."""

    def __init__(self, backend: Backend, task: str, split: str) -> None:
        self.task, self.split = task, split
        self.images, labels = backend.suite.images(task, split)
        self.labels = labels.numpy()
        self.order = stratified_order(self.labels)
        self.right = np.zeros(len(self.labels), dtype=bool)
        self.seen = 0

    def piece(self, batch: int, batches: int) -> np.ndarray:
        """Rows of this task in batch ``batch`` of ``batches``: the same share of every task in each batch."""
        first, last = (-(-len(self.order) * b // batches) for b in (batch, batch + 1))
        return self.order[first:last]

    def take(self, rows: np.ndarray, predicted: np.ndarray) -> None:
        self.right[rows] = predicted == self.labels[rows]
        self.seen += len(rows)

    def score(self) -> TaskScore:
        return TaskScore(self.task, self.split, int(self.right.sum()), self.seen, len(self.labels))


class Evaluator:
    """Walks a backend's model over tasks; ``batch`` images go through it at once."""

    def __init__(self, backend: Backend, batch: int = BATCH) -> None:
        self.backend, self.batch = backend, batch

    def run(
        self, recipe: Recipe, pairs: Sequence[Pair], stop: Callable[[], bool] = lambda: False
    ) -> Iterator[Progress]:
        """Loads the recipe and scores the (task, split) pairs, yielding after every batch.

        Each batch holds the same share of every task, and of every class within a task.  ``stop`` is asked before each
        batch; when it says True the run ends without a complete Progress.
        """
        started = time.perf_counter()
        walks = [_Walk(self.backend, task, split) for task, split in pairs]
        self.backend.load(recipe)
        batches = -(-sum(len(walk.labels) for walk in walks) // self.batch)
        for batch in range(batches):
            if stop():
                return
            pieces = [(walk, rows) for walk in walks if len(rows := walk.piece(batch, batches))]
            images = torch.cat([walk.images[torch.from_numpy(rows)] for walk, rows in pieces])
            predicted = self.backend.predict(images, [(walk.task, len(rows)) for walk, rows in pieces])
            for (walk, rows), answer in zip(pieces, predicted, strict=True):
                walk.take(rows, answer)
            yield _progress(walks, time.perf_counter() - started)


def _progress(walks: Sequence[_Walk], seconds: float) -> Progress:
    scores = tuple(walk.score() for walk in walks)
    done = [walk for walk, score in zip(walks, scores, strict=True) if score.complete]
    bits = {(walk.task, walk.split): walk.right.copy() for walk in done}
    return Progress(scores, bits, seconds, len(done) == len(walks))


def stratified_order(labels: np.ndarray) -> np.ndarray:
    """A fixed order of rows int64 (n,) in which every prefix holds the classes in about the split's proportions."""
    shuffled = np.random.default_rng(0).permutation(len(labels))
    place = np.empty(len(labels))
    for label in np.unique(labels):
        rows = shuffled[labels[shuffled] == label]
        place[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
    return shuffled[np.argsort(place[shuffled], kind="stable")]
