"""What another schedule changes on the same test images, and whether that is more than noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from lines_explorer.analysis.accuracy import Z
from lines_explorer.analysis.paired import LEVEL, PairedDifference, holm, mean_paired_difference
from lines_explorer.sweep.measuring import answers
from lines_explorer.sweep.search import TEST
from lines_explorer.sweep.settings import Edit, Negation, Outcome, Robustness

if TYPE_CHECKING:
    from lines_explorer.engine import Engine

HELPS, HURTS, NOISE = "helps", "hurts", "noise is larger"


@dataclass(frozen=True)
class Difference:
    """Second minus first, with a 95 % interval for the images drawn and a two-sided p value; ``n`` images."""

    value: float
    low: float
    high: float
    p: float
    n: int

    @classmethod
    def of(cls, paired: PairedDifference) -> Difference:
        """The same of accuracies."""
        return cls(paired.value, paired.low, paired.high, paired.p, paired.n)


@dataclass(frozen=True)
class Part:
    """One task's images in a weighted sum of accuracies: ``second`` − ``first`` (bool (n,)) counts ``weight``."""

    images: str
    weight: float
    first: np.ndarray = field(repr=False)
    second: np.ndarray = field(repr=False)


def weighted_difference(parts: Iterable[Part]) -> Difference:
    """Σ weight·(accuracy of the second − accuracy of the first), images with one name being the same images.

    An image that stands in several parts is drawn with all of them, so what they share is not counted as certainty.
    The interval is the normal one of a stratified sample, Var = Σₜ var(dₜ)/nₜ, with one gained and one lost image
    shared out among the sets (as in ``analysis.paired``).  Weights count as known numbers.
    """
    changes: dict[str, np.ndarray] = {}
    largest: dict[str, float] = {}
    for part in parts:
        change = part.weight * (part.second.astype(np.float64) - part.first)
        changes[part.images] = changes[part.images] + change if part.images in changes else change
        largest[part.images] = largest.get(part.images, 0.0) + abs(part.weight)
    value = math.fsum(change.mean() for change in changes.values())
    more = 2 / len(changes)
    variance = math.fsum(
        (((change - change.mean()) ** 2).sum() + more * largest[images] ** 2) / len(change) ** 2
        for images, change in changes.items()
    )
    spread = math.sqrt(variance)
    p = 2 * NormalDist().cdf(-abs(value) / spread)
    return Difference(value, value - Z * spread, value + Z * spread, p, sum(map(len, changes.values())))


@dataclass(frozen=True)
class Comparison:
    """Two outcomes that differ in the schedule alone, on the test split (``second`` − ``first``).

    ``score``: the difference in what the setting is about: the protocol's score for edits (weight·target + control,
    normalized), the accuracy lost for negation, the mean over shifted sets for robustness, otherwise target accuracy;
    larger is better.  ``shifts``: per shifted set.
    """

    first: Outcome
    second: Outcome
    target: Difference
    control: Difference | None
    score: Difference
    shifts: Mapping[str, Difference] = field(default_factory=dict)

    @property
    def same_model(self) -> bool:
        """Whether both schedules chose the very same model."""
        return self.first.search.best.recipe.hash() == self.second.search.best.recipe.hash()


def compare(engine: Engine, first: Outcome, second: Outcome) -> Comparison:
    """The differences on the same images; scored again where only counts are stored."""
    pairs = paired_answers(engine, first, second)
    roles = {task: summary.role for task, summary in first.summary.tasks.items()}
    target = [pair for task, pair in pairs.items() if roles[task] == "target"]
    control = [pair for task, pair in pairs.items() if roles[task] == "control"]
    on_target = Difference.of(mean_paired_difference(target))
    shifts = {shift: paired_answers(engine, first, second, shift) for shift in first.shifts}
    score = on_target
    if isinstance(first.setting, Edit):
        score = weighted_difference(score_parts(first, pairs))
    elif isinstance(first.setting, Negation):
        score = Difference(-on_target.value, -on_target.high, -on_target.low, on_target.p, on_target.n)
    elif isinstance(first.setting, Robustness):
        score = Difference.of(mean_paired_difference([pair for found in shifts.values() for pair in found.values()]))
    return Comparison(
        first, second, on_target, Difference.of(mean_paired_difference(control)) if control else None, score,
        {shift: Difference.of(mean_paired_difference(list(found.values()))) for shift, found in shifts.items()},
    )  # fmt: skip


def paired_answers(
    engine: Engine, first: Outcome, second: Outcome, split: str = TEST
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Task → the right answers of both chosen points, bool (n,) each, on the same images."""
    scored = first.test if split == TEST else first.shifts[split]
    both = [answers(engine, outcome.search.best.recipe, list(scored.scores), split) for outcome in (first, second)]
    return {task: (both[0][task], both[1][task]) for task in scored.scores}


def score_parts(outcome: Outcome, pairs: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> list[Part]:
    """The parts of weight·target + control (normalized means) of an edit, with the test denominators."""
    tasks = outcome.summary.tasks
    counts = {role: sum(row.role == role for row in tasks.values()) for role in ("target", "control")}
    weights = {"target": outcome.setting.goal.weight, "control": 1.0}
    return [
        Part(task, weights[row.role] / counts[row.role] / row.denominator, *pairs[task])
        for task, row in tasks.items()
        if row.denominator
    ]


def mean_over_edits(engine: Engine, comparisons: Sequence[Comparison]) -> dict[str, Difference]:
    """Means over several edits of Δtarget, Δcontrol and Δscore; images that several edits share are drawn together."""
    parts: dict[str, list[Part]] = {"target": [], "control": [], "score": []}
    edits = len(comparisons)
    for comparison in comparisons:
        pairs = paired_answers(engine, comparison.first, comparison.second)
        tasks = comparison.first.summary.tasks
        for role in ("target", "control"):
            own = [task for task, row in tasks.items() if row.role == role]
            parts[role] += [Part(task, 1 / len(own) / edits, *pairs[task]) for task in own]
        parts["score"] += [
            Part(part.images, part.weight / edits, part.first, part.second)
            for part in score_parts(comparison.first, pairs)
        ]
    return {name: weighted_difference(rows) for name, rows in parts.items() if rows}


def verdicts(comparisons: Sequence[Comparison]) -> list[str]:
    """For each comparison of one table: helps, hurts, or that noise is larger; p values corrected by Holm's rule."""
    corrected = holm([comparison.score.p for comparison in comparisons])
    return [
        NOISE if p >= LEVEL or comparison.score.low <= 0 <= comparison.score.high
        else HELPS if comparison.score.value > 0 else HURTS
        for comparison, p in zip(comparisons, corrected, strict=True)
    ]  # fmt: skip
