"""Which experts of a suite are runs of one task, and what is scored when one of them is edited or merged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lines_explorer.suites import Suite


def runs(suite: Suite) -> dict[str, tuple[str, ...]]:
    """Task → the experts fine-tuned on it, the task's own name first, the others in the suite's order.

    A suite names several runs of a task as tasks with the same validation pictures and classes, each with an expert.
    Tasks without an expert have no runs.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, task in suite.tasks.items():
        groups.setdefault((str(task.splits.get("validation", name)), task.classes), []).append(name)
    experts = {names[0]: tuple(name for name in names if name in suite.experts) for names in groups.values()}
    return {task: names for task, names in experts.items() if names}


def first_tasks(suite: Suite, split: str = "validation") -> tuple[str, ...]:
    """The suite's tasks that have ``split``, each set of pictures once."""
    groups: dict[tuple[str, tuple[str, ...]], str] = {}
    for name, task in suite.tasks.items():
        groups.setdefault((str(task.splits.get("validation", name)), task.classes), name)
    return tuple(name for name in groups.values() if split in suite.tasks[name].splits)


def scored_with(suite: Suite, experts: Iterable[str], split: str = "validation") -> tuple[str, ...]:
    """The tasks to score when ``experts`` are the target: they themselves, and every other set of pictures once."""
    wanted = tuple(experts)
    covered = {_pictures(suite, name) for name in wanted}
    others = [name for name in first_tasks(suite, split) if _pictures(suite, name) not in covered]
    return tuple(name for name in suite.tasks if name in wanted or name in others)


def seed_sets(suite: Suite) -> list[tuple[str, ...]]:
    """Experts by run: the first run of every task that has several, then the second, … as far as all of them go.

    Empty unless at least two tasks have several runs.
    """
    several = [names for names in runs(suite).values() if len(names) > 1]
    if len(several) < 2:
        return []
    return [tuple(names[number] for names in several) for number in range(min(map(len, several)))]


def _pictures(suite: Suite, name: str) -> tuple[str, tuple[str, ...]]:
    task = suite.tasks[name]
    return str(task.splits.get("validation", name)), task.classes
