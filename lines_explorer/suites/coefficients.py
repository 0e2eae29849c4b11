"""AdaMerging's coefficients as a suite keeps them: one JSON file for each set of experts they were learned for.

``tasks`` names the experts, ``coefficients`` has a row for each: before the blocks, in block 1 … L, after the blocks.
``base_sha256`` and ``experts_sha256`` say what they were learned from; the rest tells how (see
``training/adamerging.py``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lines_explorer.checkpoints import sha256
from lines_explorer.errors import ExplorerError
from lines_explorer.layers import layout_of
from lines_explorer.recipe import task_of

if TYPE_CHECKING:
    from lines_explorer.suites.suite import Suite


def remedy(suite: Suite, tasks: Sequence[str]) -> str:
    """The command that learns the coefficients of exactly these experts."""
    names = "all" if set(tasks) == set(suite.experts) else ",".join(tasks)
    return f"run `python -m lines_explorer build-suite adamerging --tasks {names} --out FOLDER`"


def missing_coefficients(suite: Suite, tasks: Sequence[str]) -> str | None:
    """The sentence that says that nothing was learned for exactly these experts, and what to run; None when it was."""
    if frozenset(tasks) in suite.coefficients:
        return None
    if runs := [task for task in tasks if task not in suite.experts]:
        return f"AdaMerging learns for experts, not for further runs: merge {task_of(runs[0])} instead of {runs[0]}."
    return (
        f"Suite {suite.name} has no AdaMerging coefficients of exactly these experts: {', '.join(tasks)}; "
        f"{remedy(suite, tasks)} with the suite's folder."
    )


def read_coefficients(suite: Suite, tasks: Sequence[str]) -> list[dict[str, torch.Tensor]]:
    """Of each expert, in the order of ``tasks``: name of a tensor of the image tower → λₜ⁽ˡ⁾ () float32.

    Raises:
        ExplorerError: nothing was learned for exactly these experts, or the file is missing, damaged, of a model of
            another depth, or was learned from another base or expert.
    """
    if (sentence := missing_coefficients(suite, tasks)) is not None:
        raise ExplorerError(sentence)
    path = suite.coefficients[frozenset(tasks)]
    layout = layout_of(suite.visual_base())
    again = f"{remedy(suite, tasks)} again"
    facts = _read(path, suite.stated_sha256(path), again)
    if set(facts["tasks"]) != set(tasks):
        raise ExplorerError(
            f"{path} is of {', '.join(facts['tasks'])}, but suite.yaml says {', '.join(tasks)}; {again}."
        )
    if facts["base_sha256"] != suite.base_sha256:
        raise ExplorerError(f"{path} was learned from another base than the suite's; {again}.")
    if other := [task for task in tasks if facts["experts_sha256"].get(task) != suite.expert_sha256(task)]:
        raise ExplorerError(f"{path} was learned from another expert {other[0]} than the suite's; {again}.")
    rows = dict(zip(facts["tasks"], facts["coefficients"], strict=True))
    columns = layout.depth + 2
    if wrong := [task for task in tasks if len(rows[task]) != columns]:
        raise ExplorerError(f"{path} has {len(rows[wrong[0]])} coefficients of {wrong[0]}, not {columns}; {again}.")
    by_depth = {task: torch.tensor(rows[task], dtype=torch.float32).unbind() for task in tasks}
    return [{key: by_depth[task][place] for key, place in layout.position.items()} for task in tasks]


def _read(path: Path, stated: str | None, again: str) -> dict[str, Any]:
    """The file's content, its fields of the right kinds, and its rows as many as its tasks."""
    try:
        if stated is not None and sha256(path) != stated:
            raise ValueError("its sha256 is not the manifest's")
        facts = json.loads(path.read_text(encoding="utf-8"))
        tasks, rows = facts["tasks"], facts["coefficients"]
        if len(tasks) != len(rows) or not all(isinstance(task, str) for task in tasks):
            raise ValueError(f"{len(rows)} rows do not fit {len(tasks)} tasks")
        numbers = [value for row in rows for value in row]
        if not all(type(value) in (int, float) and math.isfinite(value) for value in numbers):
            raise ValueError("a coefficient is no finite number")
        dict(facts["experts_sha256"]), str(facts["base_sha256"])
    except FileNotFoundError as fault:
        raise ExplorerError(f"{path} is missing; {again}.") from fault
    except (OSError, KeyError, TypeError, ValueError) as fault:
        raise ExplorerError(f"{path} is damaged ({str(fault).splitlines()[0]}); {again}.") from fault
    return facts
