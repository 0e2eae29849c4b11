"""What a merge method needs beside the task vectors, and whether a suite has it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lines_explorer.merging import COEFFICIENTS, METHODS
from lines_explorer.suites.coefficients import missing_coefficients, read_coefficients
from lines_explorer.suites.statistics import missing, read_statistics

if TYPE_CHECKING:
    import torch

    from lines_explorer.suites.suite import Suite


def unmet(suite: Suite, method: str, tasks: Sequence[str]) -> str | None:
    """The sentence that says what the suite lacks to merge these experts by this method; None when nothing."""
    kind = METHODS[method].statistics
    if not kind:
        return None
    return missing_coefficients(suite, tasks) if kind == COEFFICIENTS else missing(suite, tasks)


def never_met(suite: Suite, method: str) -> str | None:
    """The sentence why the suite cannot have this method, whatever the experts; None where some can be merged."""
    some = suite.coefficients if METHODS[method].statistics == COEFFICIENTS else suite.statistics
    return None if some else unmet(suite, method, list(suite.experts))


def supply(suite: Suite, method: str, tasks: Sequence[str]) -> list[dict[str, torch.Tensor]] | None:
    """What ``Method.merge`` takes as ``statistics``, one mapping per expert; None for a method that needs nothing.

    Raises:
        ExplorerError: as ``read_statistics`` and ``read_coefficients``.
    """
    kind = METHODS[method].statistics
    if kind == COEFFICIENTS:
        return read_coefficients(suite, tasks)
    return [read_statistics(suite, task, kind) for task in tasks] if kind else None


def learned_file(suite: Suite, method: str, tasks: Sequence[str]) -> Path | None:
    """The file with what the method learned for exactly these experts; None where it learns or has nothing."""
    learns = method in METHODS and METHODS[method].statistics == COEFFICIENTS
    return suite.coefficients.get(frozenset(tasks)) if learns else None


def only_sets(suite: Suite, method: str) -> list[list[str]] | None:
    """The sets of experts, each in the suite's order, that the method can be had for; None where any set will do."""
    if METHODS[method].statistics != COEFFICIENTS:
        return None
    return [[task for task in suite.experts if task in chosen] for chosen in suite.coefficients]
