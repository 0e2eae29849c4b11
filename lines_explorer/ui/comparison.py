"""Current point B against pinned point A, task by task: by the same pictures where their answers are stored."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lines_explorer.analysis import paired
from lines_explorer.ui.results import Numbers, Results, number

if TYPE_CHECKING:
    import numpy as np

    from lines_explorer.engine import Evaluation

PAIRED, INTERVALS = "paired", "intervals"
Answers = Mapping[str, "np.ndarray"]


def compare(results: Results, first: "Evaluation", second: "Evaluation", targets: Sequence[str]) -> Numbers:
    """Accuracy of ``second`` minus that of ``first``, both complete on all tasks.

    Keys: ``tasks`` (name → difference), ``target`` and ``control`` (difference of the means over ``targets`` and over
    the other tasks; control None without such tasks). A difference has ``value``, ``within`` (noise cannot be ruled
    out) and ``how``: ``paired``, then with ``low``, ``high`` (95 %), ``p``, ``gained``, ``lost``, or ``intervals``
    where the single answers of a point are not stored: ``within`` then says whether the two intervals overlap.
    """
    before, after = (results.engine.stored_answers(point.recipe, split=results.split) for point in (first, second))
    means = [results.engine.summary(point, targets) for point in (first, second)]
    names = list(second.scores)
    tasks = {
        name: difference([name], before, after, first.scores[name].accuracy, second.scores[name].accuracy)
        for name in names
    }
    answer: Numbers = {"tasks": tasks, "control": None}
    groups = {"target": [name for name in names if name in targets]}
    groups["control"] = [name for name in names if name not in targets]
    for role, members in groups.items():
        if members:
            ends = [getattr(summary, role) for summary in means]
            answer[role] = difference(members, before, after, *ends)
    return answer


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
