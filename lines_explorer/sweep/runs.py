"""Which runs a task has, and what is scored when one of them is edited or merged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lines_explorer.recipe import task_of

if TYPE_CHECKING:
    from lines_explorer.suites import Suite
    from lines_explorer.suites.task import Run


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
    """Experts by run: the first run of every task that has several, then the second, …

    Only runs that differ from the expert in the seed alone count (the rate of the first further run is the expert's).
    The sets are as many as at least two tasks can fill, over the tasks that fill them all; empty where there are no
    two.
    """
    alike = {}
    for task, names in runs(suite).items():
        further = suite.runs.get(task, ())
        same = [run.name for run in further if _training(run) == _training(further[0])]
        alike[task] = (names[0], *same)
    counts = sorted((len(names) for names in alike.values()), reverse=True)
    if len(counts) < 2 or counts[1] < 2:
        return []
    several = [names for names in alike.values() if len(names) >= counts[1]]
    return [tuple(names[number] for names in several) for number in range(counts[1])]


def _training(run: Run) -> dict[str, int | float]:
    """How a run was made, but for its seed."""
    return {name: value for name, value in run.facts.items() if name != "seed"}
