"""Where a suite's hub sources come from: repository, revision asked for, commit that was taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lines_explorer.suites.hub import commit_of
from lines_explorer.suites.task import Data, Hub

if TYPE_CHECKING:
    from lines_explorer.suites.suite import Suite


@dataclass(frozen=True)
class Revision:
    """One source on the hub.

    Attributes:
        used_for: ``base``, ``expert TASK`` or ``TASK SPLIT``.
        source: its name, ``hub:OWNER/NAME…``.
        revision: the branch, tag or commit that suite.yaml asks for; None for the repository's main branch.
        commit: the commit it was last taken from; None before the first download, and from a mirror folder.
    """

    used_for: str
    source: str
    revision: str | None
    commit: str | None


def revisions(suite: Suite) -> list[Revision]:
    """All hub sources of a suite, in the order of its suite.yaml; the network is not asked."""
    places = {"base": suite.base_place} | {f"expert {task}": place for task, place in suite.experts.items()}
    places |= {f"{task} {split}": data for task, row in suite.tasks.items() for split, data in row.splits.items()}
    return [
        Revision(used_for, str(place), place.revision, commit_of(place))
        for used_for, place in places.items()
        if isinstance(place, Hub) or (isinstance(place, Data) and place.hub)
    ]
