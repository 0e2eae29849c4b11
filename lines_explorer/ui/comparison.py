"""Current point B against pinned point A, task by task: by the same pictures where their answers are stored."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lines_explorer.analysis import mean_accuracy, paired
from lines_explorer.ui.modes import Scored
from lines_explorer.ui.results import Numbers, Results, number
from lines_explorer.ui.view import View

if TYPE_CHECKING:
    import numpy as np

    from lines_explorer.engine import Evaluation

PAIRED, INTERVALS = "paired", "intervals"
Answers = Mapping[str, "np.ndarray"]


def compare(results: Results, view: View, first: Sequence["Evaluation"], second: Sequence["Evaluation"]) -> Numbers:
    """Accuracy of ``second`` minus that of ``first``, both complete on all that ``view`` scores.

    Keys: ``tasks`` (name of a row → difference), ``target`` and ``control`` (difference of the means over the target's
    rows and over the others; control None without such rows). A difference has ``value``, ``within`` (noise cannot be
    ruled out) and ``how``: ``paired``, then with ``low``, ``high`` (95 %), ``p``, ``gained``, ``lost``, or
    ``intervals`` where the single answers of a point are not stored: ``within`` then says whether the two intervals
    overlap.
    """
    sets = results.sets(view)
    before, after = (_answers(results, sets, point) for point in (first, second))
    ends = [_accuracies(sets, point) for point in (first, second)]
    tasks = {one.name: difference([one.name], before, after, *(end[one.name] for end in ends)) for one in sets}
    answer: Numbers = {"tasks": tasks, "control": None}
    for role, target in (("target", True), ("control", False)):
        if members := [one.name for one in sets if one.target is target]:
            means = [mean_accuracy([end[name] for name in members]) for end in ends]
            answer[role] = difference(members, before, after, *means)
    return answer


def _answers(results: Results, sets: Sequence[Scored], point: Sequence["Evaluation"]) -> dict[str, "np.ndarray"]:
    """Row → right or wrong for every picture, where that is stored."""
    found = {}
    for evaluation in point:
        known = results.engine.stored_answers(evaluation.recipe, split=evaluation.split)
        found |= {(task, evaluation.split): right for task, right in known.items()}
    return {one.name: found[one.task, one.split] for one in sets if (one.task, one.split) in found}


def _accuracies(sets: Sequence[Scored], point: Sequence["Evaluation"]) -> dict[str, Any]:
    scores = {(task, one.split): score for one in point for task, score in one.scores.items()}
    return {one.name: scores[one.task, one.split].accuracy for one in sets}


def difference(tasks: Sequence[str], before: Answers, after: Answers, first: Any, second: Any) -> Numbers:
    """One difference, of the mean over ``tasks``; ``first`` and ``second`` are its accuracies, with their intervals.

    ``before`` and ``after`` are the single answers of both settings, as far as they are stored.
    """
    if all(task in before and task in after for task in tasks):
        found = paired.mean_paired_difference([(before[task], after[task]) for task in tasks])
        ends = {"value": number(found.value), "low": number(found.low), "high": number(found.high)}
        counts = {"p": number(found.p), "gained": found.gained, "lost": found.lost}
        return ends | counts | {"n": found.n, "within": bool(found.within_noise), "how": PAIRED}
    overlap = first.low <= second.high and second.low <= first.high
    value = number(second.value - first.value)
    return {"value": value, "low": None, "high": None, "n": second.n, "within": overlap, "how": INTERVALS}
