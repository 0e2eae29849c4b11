"""Which runs a task has, and what is scored when one of them is edited or merged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lines_explorer.recipe import task_of

if TYPE_CHECKING:
    from lines_explorer.suites import Suite


def runs(suite: Suite) -> dict[str, tuple[str, ...]]:
    """Task → everything fine-tuned on it: its expert, then the suite's further runs. Only tasks with an expert."""
    return {
        task: (task, *(run.name for run in suite.runs.get(task, ()))) for task in suite.tasks if task in suite.experts
    }


def scored_with(suite: Suite, experts: Iterable[str], split: str = "validation") -> tuple[str, ...]:
    """The tasks to score when ``experts`` (or runs) are the target: their own, and all others that have ``split``."""
    own = set(map(task_of, experts))
    return tuple(name for name, task in suite.tasks.items() if name in own or split in task.splits)


def seed_sets(suite: Suite) -> list[tuple[str, ...]]:
    """Experts by run: the first run of every task that has several, then the second, … as far as all of them go.

    Empty unless at least two tasks have several runs.
    """
    several = [names for names in runs(suite).values() if len(names) > 1]
    if len(several) < 2:
        return []
    return [tuple(names[number] for names in several) for number in range(min(map(len, several)))]
