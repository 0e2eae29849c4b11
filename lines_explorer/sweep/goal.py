"""What makes one point of a family the best on validation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lines_explorer.analysis.choice import constrained_choice, multi_task_choice, single_task_choice
from lines_explorer.analysis.sensitivity import Rule
from lines_explorer.errors import ExplorerError

WEIGHT, FLOOR = 2.0, 0.95
KINDS = ("weighted", "mean", "constrained", "forget", "gentle")
LARGER, SMALLER = "larger", "smaller"


@dataclass(frozen=True)
class Goal:
    """A rule of METHOD's evaluation protocol, or a constraint.

    Attributes:
        kind: ``weighted``: the largest weight·target + control (single task); ``mean``: the largest target
            (multi-task); ``constrained``: the largest target among the points with control ≥ floor; ``forget``: the
            smallest of those; ``gentle``: the smallest coefficient whose target is at least floor times the largest.
            Target and control are mean normalized accuracies.
        tie: which coefficient is kept among equals, ``larger`` or ``smaller``.
        weight: of the target, above 0; ``weighted`` only.
        floor: least control, as a share of zero-shot, between 0 and 2; ``gentle``: least target, as a share of the
            largest.

    Raises:
        ExplorerError: an unknown kind or tie, a weight or floor out of range.
    """

    kind: str
    tie: str
    weight: float = WEIGHT
    floor: float = FLOOR

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ExplorerError(f"Unknown goal {self.kind!r}; choose one of {', '.join(KINDS)}.")
        if self.tie not in (LARGER, SMALLER):
            raise ExplorerError(f"The tie rule must be {LARGER} or {SMALLER}, not {self.tie!r}.")
        if not 0 < self.weight <= 1000:
            raise ExplorerError(f"The target's weight must be a number above 0 and at most 1000, not {self.weight}.")
        if not 0 <= self.floor <= 2:
            raise ExplorerError(
                f"The constraint on control must lie between 0 and 2 (0.95 is 95 % of zero-shot), not {self.floor}."
            )

    @property
    def needs_control(self) -> bool:
        """Whether points without control tasks cannot be ranked."""
        return self.kind in ("weighted", "constrained", "forget")

    def choose(self, points: Sequence[tuple[float, float, float]]) -> int:
        """Index of the best of (coefficient, target, control).

        Raises:
            ExplorerError: no point has the numbers needed, or none fulfils the constraint.
        """
        liked = [(self._liked(c), target, control) for c, target, control in points]
        if self.kind == "mean":
            return multi_task_choice([(-like, target) for like, target, _ in liked])
        if self.kind == "weighted":
            return single_task_choice(liked, self.weight)
        if self.kind == "gentle":
            least = self.floor * max((target for _, target, _ in points if not math.isnan(target)), default=math.nan)
            return multi_task_choice([(c, 1.0 if target >= least - 1e-12 else math.nan) for c, target, _ in points])
        return constrained_choice(liked, self.floor, self.kind == "forget")

    def score(self, target: float, control: float) -> float:
        """The number that is made as large as possible, whether or not a constraint is fulfilled."""
        if self.kind == "weighted":
            return self.weight * target + control
        return -target if self.kind == "forget" else target

    def allows(self, control: float) -> bool:
        """Whether a point with this control may be chosen."""
        return self.kind not in ("constrained", "forget") or round(control - self.floor, 12) >= 0

    def rule(self, coefficients: Sequence[float], target: Sequence[str]) -> Rule:
        """The same choice for ``analysis.choice_sensitivity``; tasks outside ``target`` are control."""

        def choose(scores: Mapping[str, np.ndarray]) -> int:
            none = np.full(len(coefficients), math.nan)
            shares = [[row for task, row in scores.items() if (task in target) is own] for own in (True, False)]
            means = [np.mean(rows, axis=0) if rows else none for rows in shares]
            return self.choose(list(zip(coefficients, *means, strict=True)))

        return choose

    def words(self) -> str:
        """The rule in one line."""
        tie = f"ties keep the {self.tie} coefficient"
        kept = f"with control at least {self.floor:.4g} of zero-shot (normalized)"
        return {
            "weighted": f"largest {self.weight:g}·target + control (normalized); {tie}",
            "mean": f"largest mean normalized accuracy; {tie}",
            "constrained": f"largest target {kept}; {tie}",
            "forget": f"smallest target {kept}; {tie}",
            "gentle": f"smallest coefficient that keeps {self.floor:.4g} of the largest target",
        }[self.kind]

    def _liked(self, coefficient: float) -> float:
        return coefficient if self.tie == LARGER else -coefficient
