"""One evaluation in progress and those who wait for it."""

from __future__ import annotations

import threading

from lines_explorer.engine.results import Evaluation
from lines_explorer.recipe import Recipe

Key = tuple[str, str, tuple[str, ...]]


class Run:
    """A request on its way through the worker.  ``waiting``, guarded by the engine, counts its listeners."""

    def __init__(self, recipe: Recipe, tasks: tuple[str, ...], split: str) -> None:
        self.recipe, self.tasks, self.split = recipe, tasks, split
        self.key: Key = (recipe.hash(), split, tasks)
        self.waiting = 0
        self._changed = threading.Condition()
        self._newest: Evaluation | None = None
        self._version = 0
        self._ended = False
        self._fault: BaseException | None = None

    def publish(self, evaluation: Evaluation) -> None:
        """Replaces the newest evaluation and wakes all listeners."""
        with self._changed:
            self._newest, self._version = evaluation, self._version + 1
            self._changed.notify_all()

    def end(self, fault: BaseException | None = None) -> None:
        """Says that nothing more will come, and why if it failed."""
        with self._changed:
            self._ended, self._fault = True, fault
            self._changed.notify_all()

    def wait(self, seen: int, seconds: float) -> tuple[Evaluation | None, int, bool, BaseException | None]:
        """(newest evaluation, its version, ended, fault), as soon as it is newer than ``seen`` or after ``seconds``."""
        with self._changed:
            if self._version == seen and not self._ended:
                self._changed.wait(seconds)
            return self._newest, self._version, self._ended, self._fault
