"""The study's figures: SVG text from outcomes and differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lines_explorer.sweep.family import KINDS, LINES
from lines_explorer.sweep.svg import Panel, Series, Whisker, panels_svg, whiskers_svg

if TYPE_CHECKING:
    from lines_explorer.sweep.comparison import Difference
    from lines_explorer.sweep.settings import Outcome
    from lines_explorer.sweep.study import Study

WHISKERS = {
    "edit": "LiNeS − constant λ: 2·target + control, normalized, test (points of 100)",
    "merge": "LiNeS − constant λ: mean test accuracy of the merged tasks (percentage points)",
    "robustness": "LiNeS − constant λ: mean accuracy on the shifted sets (percentage points)",
    "soup": "LiNeS − constant λ: test accuracy (percentage points)",
    "negation": "LiNeS − constant λ: test accuracy taken from the task (percentage points)",
    "seeds": "LiNeS − constant λ, run by run: the setting's score, test (points of 100)",
}


def figures(study: Study) -> dict[str, str]:
    """File name → SVG, for what has come out so far."""
    made: dict[str, str] = {}
    for name in ("edit", "negation"):
        if panels := trade_offs(study, name):
            made[f"{name}-lines.svg"] = panels_svg(panels)
    if panels := robustness_panels(study):
        made["robustness-lines.svg"] = panels_svg(panels)
    for name, title in WHISKERS.items():
        if rows := [whisker(label, found.score) for label, found in study.of(name).items()]:
            made[f"{name}-differences.svg"] = whiskers_svg(rows, title)
    return made


def whisker(label: str, found: Difference, kind: str = LINES) -> Whisker:
    """A difference in points of 100."""
    return Whisker(label, 100 * found.value, 100 * found.low, 100 * found.high, kind)


def trade_offs(study: Study, name: str) -> list[Panel]:
    """Per task: target against control on validation, raw accuracies in percent, the chosen points marked."""
    panels = []
    for label, outcomes in _by_label(study, name).items():
        series = tuple(
            Series(
                kind,
                tuple(
                    (100 * point.summary.control.value, 100 * point.summary.target.value)
                    for point in outcome.search.points
                ),
                outcome.search.chosen,
            )
            for kind, outcome in outcomes.items()
        )
        panels.append(Panel(label, "control, validation %", "target, validation %", series))
    return panels


def robustness_panels(study: Study) -> list[Panel]:
    """Per task: the mean accuracy on the shifted sets against validation accuracy, in percent."""
    panels = []
    for label, outcomes in _by_label(study, "robustness").items():
        series = []
        for kind, outcome in outcomes.items():
            shifted = study.lines["robustness", label, kind]
            points = tuple(
                (100 * point.summary.target.value, 100 * sum(row.values()) / len(row))
                for point, row in zip(outcome.search.points, shifted, strict=True)
            )
            series.append(Series(kind, points, outcome.search.chosen))
        panels.append(Panel(label, "in distribution, validation %", "shifted sets, mean %", tuple(series)))
    return panels


def _by_label(study: Study, name: str) -> dict[str, dict[str, Outcome]]:
    """Label → schedule → outcome, schedules in the usual order."""
    labels = dict.fromkeys(key[1] for key in study.outcomes if key[0] == name)
    return {
        label: {kind: study.outcomes[name, label, kind] for kind in KINDS if (name, label, kind) in study.outcomes}
        for label in labels
    }
