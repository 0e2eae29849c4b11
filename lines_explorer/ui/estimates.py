"""What a growing evaluation already says, as numbers and words for the page: estimates, never measurements."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lines_explorer.schedule import FREE
from lines_explorer.ui import texts
from lines_explorer.ui.modes import CONSTANT
from lines_explorer.ui.results import Numbers, number, weakest
from lines_explorer.ui.view import View

if TYPE_CHECKING:
    from lines_explorer.analysis import Estimate
    from lines_explorer.engine import Engine, Evaluation
    from lines_explorer.recipe import Recipe


def estimated_point(
    engine: "Engine", view: View, evaluations: Sequence["Evaluation"], splits: int = 1
) -> Numbers | None:
    """The estimated point of a view whose evaluation is not complete; None when it carries no estimates.

    A view that scores several splits is evaluated one split after the other: its means cannot be estimated before the
    last split has begun, so None.

    It has the keys of ``Results.point``, each accuracy with ``total`` as well (of which ``n`` are seen), and
    ``estimate``: ``done`` of ``total`` pictures, ``said`` in a sentence or two, with the stored points that help.
    """
    evaluation = evaluations[-1]
    if splits > 1 or evaluation.estimated is None:
        return None
    summary = engine.estimated_summary(evaluation, view.targets)
    tasks = {}
    for name, own in summary.tasks.items():
        tasks[name] = _interval(own.estimate, own.normalized) | {"correct": own.estimate.correct}
        tasks[name] |= {"denominator": number(own.denominator), "reference": own.reference}
    control = summary.control and _interval(summary.control, summary.control_normalized)
    target = _interval(summary.target, summary.target_normalized)
    point: Numbers = {"target": target, "control": control, "tasks": tasks, "complete": False}
    done, total = (sum(getattr(score, part) for score in evaluation.scores.values()) for part in ("n", "total"))
    helping = [_named(near) for near in summary.points] + [texts.ESTIMATE["outputs"]] * summary.foretold
    said = texts.estimate(done, total, target, control, helping)
    estimate = {"done": done, "total": total, "said": said}
    return point | {"weakest": weakest(tasks, view.targets), "estimate": estimate}


def _interval(estimate: "Estimate", normalized: float) -> dict[str, Any]:
    ends = {"value": number(estimate.value), "low": number(estimate.low), "high": number(estimate.high)}
    return ends | {"n": estimate.n, "total": estimate.total, "normalized": number(normalized)}


def _named(recipe: "Recipe") -> str:
    """``α = 0.3, β = 0.7``, ``λ = 0.4``, ``the base`` or ``a drawn λ``."""
    schedule = recipe.schedule
    if not recipe.tasks:
        return texts.ESTIMATE["base"]
    if schedule.kind == FREE:
        return texts.ESTIMATE["drawn"]
    if schedule.kind == CONSTANT:
        return f"λ = {schedule.alpha:.3g}"
    return f"α = {schedule.alpha:.3g}, β = {schedule.beta:.3g}"
