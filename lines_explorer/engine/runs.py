"""Evaluations on their way through the worker, and who is next."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Hashable

from lines_explorer.engine.results import Evaluation
from lines_explorer.recipe import Recipe

Key = tuple[str, str, tuple[str, ...]]


class Run:
    """One evaluation, shared by all who asked for the same.

    The worker guards ``waiting`` (how many listen), ``started``, and ``idle`` (begun without anybody asking).
    A ``brief`` one takes so little time that it is done between two batches of another.
    """

    brief = False

    def __init__(self, recipe: Recipe, tasks: tuple[str, ...], split: str, idle: bool = False) -> None:
        self.recipe, self.tasks, self.split, self.idle = recipe, tasks, split, idle
        self.key: Key = (recipe.hash(), split, tasks)
        self.waiting = 0
        self.started = False
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

    def wake(self) -> None:
        """Makes all listeners look up."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, seen: int, seconds: float) -> tuple[Evaluation | None, int, bool, BaseException | None]:
        """(newest evaluation, its version, ended, fault), as soon as it is newer than ``seen`` or after ``seconds``."""
        with self._changed:
            if self._version == seen and not self._ended:
                self._changed.wait(seconds)
            return self._newest, self._version, self._ended, self._fault


class Ticket:
    """One listener's place; ``left`` once it does not count any more (it went, or its visitor asked for another)."""

    def __init__(self, run: Run, visitor: Hashable) -> None:
        self.run, self.visitor, self.left = run, visitor, False


class Turns:
    """Runs that wait for the device, one line per visitor; the visitors take turns.  The worker guards it."""

    def __init__(self) -> None:
        self._lines: OrderedDict[Hashable, deque[Run]] = OrderedDict()

    def add(self, visitor: Hashable, run: Run) -> None:
        """Puts the run at the end of the visitor's line; a new visitor comes after all who wait."""
        line = self._lines.setdefault(visitor, deque())
        while line and not _due(line[0]):
            line.popleft()
        line.append(run)

    def next(self) -> Run | None:
        """The next run that somebody waits for and that has not begun, or None; its visitor goes to the end."""
        while self._lines:
            visitor, line = self._lines.popitem(last=False)
            while line and not _due(line[0]):
                line.popleft()
            if line:
                run = line.popleft()
                if line:
                    self._lines[visitor] = line
                return run
        return None

    def any_due(self) -> bool:
        """Whether ``next`` would give a run."""
        return any(_due(run) for line in self._lines.values() for run in line)


def _due(run: Run) -> bool:
    return run.waiting > 0 and not run.started
