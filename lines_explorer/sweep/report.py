"""The study as Markdown: tables with intervals, and in plain words where LiNeS helps and where it does not."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lines_explorer.sweep.comparison import HELPS, HURTS, NOISE, Comparison, Difference, verdicts
from lines_explorer.sweep.family import CONSTANT, KINDS, LINES

if TYPE_CHECKING:
    from lines_explorer.analysis import Mean
    from lines_explorer.sweep.settings import Outcome
    from lines_explorer.sweep.study import Study

NAMES = {LINES: "LiNeS", CONSTANT: "constant λ"}


@dataclass(frozen=True)
class Chapter:
    """One setting's heading, what it asks, what its score is, and what one row of its table is called."""

    title: str
    question: str
    score: str
    item: str


CHAPTERS = {
    "edit": Chapter(
        "Edit one model",
        "One expert is scaled down so that it forgets less. α = γ and β = 1 − γ for LiNeS, one λ for the baseline; 11 "
        "points each; chosen is the largest 2·target + control (normalized) on validation, ties keep the larger α.",
        "2·target + control", "task",
    ),
    "merge": Chapter(
        "Merge many",
        "All experts are merged into one model. LiNeS takes α from the norm ratio and β from the method's own grid, "
        "the baseline a constant λ from the same grid; chosen is the largest mean normalized validation accuracy, ties "
        "keep the smaller coefficient.",
        "mean accuracy", "method",
    ),
    "robustness": Chapter(
        "Robust fine-tuning",
        "The WiSE-FT line θ₀ + γτ, for LiNeS θ₀ + γ·(½ + ½x)·τ. Chosen is the smallest γ that keeps 99 % of the line's "
        "best validation accuracy in distribution; shifted sets have no validation pictures, and nothing is chosen on "
        "them.",
        "mean over shifted sets", "task",
    ),
    "soup": Chapter(
        "Soups",
        "Several fine-tuning runs of one task, averaged: all of them (uniform) or those that help on validation "
        "(greedy). The baseline's λ runs from 0.1 to 1.5 (1 is the plain soup); LiNeS gives shallow blocks less, or "
        "deep ones more. Chosen is the best validation accuracy.",
        "accuracy", "soup",
    ),
    "negation": Chapter(
        "Forget on purpose",
        "One task vector is subtracted: θ₀ − λτ, for LiNeS θ₀ − λ·(½ + ½x)·τ, λ from 0.1 to 1.5. Chosen is the lowest "
        "validation accuracy on the task among the points with control at least 95 % of zero-shot.",
        "accuracy taken from the task", "task",
    ),
    "seeds": Chapter(
        "Other fine-tuning runs of the same experts",
        "The same edits and the same merge, once per fine-tuning run of the experts: what differs between the rows of "
        "a group is the runs' doing, which the intervals for the images do not cover.",
        "the setting's score", "experts",
    ),
}  # fmt: skip
READING = """\
Every point is chosen on validation alone; the test split is scored once, at the chosen point. Differences are LiNeS
minus the constant schedule **on the same test images**, in points of 100, with 95 % intervals for the images drawn
(paired bootstrap; Tango's score interval for a single set; a normal one, with the denominators taken as known, for
the edits' weighted score). The p values of one table, or of one column of schedules, are corrected by Holm's rule: in
95 % of such tables no row is said to help or to hurt by chance alone. The rest is called noise, which does not mean
that there is no difference. The intervals do not cover the choice on validation, nor other fine-tuning runs of the
experts."""


def results_markdown(
    study: Study, suite: str, command: str, figures: Sequence[str], means: Mapping[str, Mapping[str, Difference]]
) -> str:
    """The whole page.

    Args:
        study: what has come out.
        suite: the suite in words, with its hash.
        command: what reproduces the page.
        figures: paths of the figures, relative to the page.
        means: schedule → mean over the edits of the differences in target, control and score.
    """
    names = [name for name in CHAPTERS if any(key[0] == name for key in study.outcomes)]
    parts = ["# Results", f"{suite}. Reproduce with", f"```sh\n{command}\n```"]
    if not study.complete:
        parts.append(f"**Not complete yet: {study.done} of {len(study.planned)} settings.** The command continues.")
    parts += ["## In short", "\n".join(f"- {sentence(study, name)}" for name in names)]
    parts += [words for words in (levels(study), READING) if words]
    for name in names:
        parts += chapter(study, name, [path for path in figures if path.rpartition("/")[2].startswith(f"{name}-")])
        if name == "edit" and means:
            parts += ["Mean over all edits, each schedule minus the constant one:", means_table(means)]
    if study.refused:
        parts += ["## Not possible", "\n".join(refusals(study))]
    return "\n\n".join(parts) + "\n"


def sentence(study: Study, name: str) -> str:
    """Where LiNeS helps, where it hurts, and where noise is larger, in one sentence or two."""
    found, title = study.of(name), CHAPTERS[name].title
    if not found:
        return f"**{title}**: LiNeS has not been compared yet."
    counts = Counter(words := verdicts(list(found.values())))
    lists = {word: [label for label, said in zip(found, words, strict=True) if said == word] for word in counts}
    said = []
    if counts[HELPS]:
        said.append(f"helps on {counts[HELPS]} of {len(found)} ({', '.join(lists[HELPS])})")
    if counts[HURTS]:
        said.append(f"hurts on {counts[HURTS]} ({', '.join(lists[HURTS])})")
    if counts[NOISE]:
        said.append(f"makes a difference smaller than the noise on {counts[NOISE]} ({', '.join(lists[NOISE])})")
    if name == "seeds":  # edits and merges have scores of different kinds
        return f"**{title}**: LiNeS {'; '.join(said)}."
    middle = statistics.fmean(comparison.score.value for comparison in found.values())
    return (
        f"**{title}**: LiNeS {'; '.join(said)}. Mean difference in {CHAPTERS[name].score}: {100 * middle:+.1f} points."
    )


def levels(study: Study) -> str | None:
    """Zero-shot and experts' accuracies on test, as far as the edits tell them: what lies between is to be won."""
    rows = [
        row for key, outcome in study.outcomes.items() if key[0] == "edit" for row in outcome.summary.tasks.values()
    ]
    found = {role: {row.task: row.denominator for row in rows if row.role == role} for role in ("control", "target")}
    both = [task for task in found["target"] if task in found["control"]]
    if not both:
        return None
    zero_shot, experts = (100 * statistics.fmean(found[role][task] for task in both) for role in ("control", "target"))
    return (
        f"On test the base alone (zero-shot) has {zero_shot:.1f} %, every expert on its own task {experts:.1f} %: "
        f"means over {len(both)} tasks."
    )


def chapter(study: Study, name: str, figures: Sequence[str]) -> list[str]:
    """One setting: what it asks, its table, the other schedules, its figures."""
    about, found = CHAPTERS[name], study.of(name)
    parts = [f"## {about.title}", about.question]
    if found:
        parts.append(main_table(found, about))
    if len([kind for kind in KINDS if study.of(name, kind)]) > 1:
        parts += [f"{about.score[0].upper()}{about.score[1:]}, each schedule minus the constant one:"]
        parts += [schedules_table(study, name)]
    if name == "seeds" and found:
        parts += ["By group: mean over the runs, smallest to largest.", runs_table(found)]
    return parts + [f"![{about.title}]({path})" for path in figures]


def main_table(found: Mapping[str, Comparison], about: Chapter) -> str:
    """One row per label: both chosen points on test, the differences, and the verdict."""
    shifts = any(comparison.shifts for comparison in found.values())
    apart = any(comparison.score != comparison.target for comparison in found.values())
    control = any(comparison.control for comparison in found.values())
    header = [about.item, "λ", "target %"] + (["control %"] if control else []) + ["α, β", "target %"]
    header += (["control %"] if control else []) + (["Δ target"] if apart else []) + (["Δ control"] if control else [])
    header += ["Δ by shifted set"] if shifts else []
    header += [f"Δ {about.score}", "LiNeS"]
    rows = []
    for (label, comparison), verdict in zip(found.items(), verdicts(list(found.values())), strict=True):
        row = [label]
        for outcome in (comparison.first, comparison.second):
            row += [factors(outcome), mean(outcome.summary.target)]
            row += [mean(outcome.summary.control)] if control else []
        row += [difference(comparison.target)] if apart else []
        row += [difference(comparison.control)] if control else []
        if shifts:
            row.append("; ".join(f"{shift} {100 * d.value:+.1f}" for shift, d in comparison.shifts.items()))
        rows.append([*row, difference(comparison.score), "the same model" if comparison.same_model else verdict])
    return table(header, rows)


def schedules_table(study: Study, name: str) -> str:
    """One row per label, one column per schedule: the difference in the score; bold where it is not noise."""
    kinds = [kind for kind in KINDS if study.of(name, kind)]
    found = {kind: study.of(name, kind) for kind in kinds}
    words = {kind: dict(zip(rows, verdicts(list(rows.values())), strict=True)) for kind, rows in found.items()}
    labels = list(dict.fromkeys(label for rows in found.values() for label in rows))
    rows = []
    for label in labels:
        cells = []
        for kind in kinds:
            shown = f"{100 * found[kind][label].score.value:+.1f}" if label in found[kind] else "–"
            cells.append(f"**{shown}**" if words[kind].get(label) in (HELPS, HURTS) else shown)
        rows.append([label, *cells])
    return table([CHAPTERS[name].item, *(NAMES.get(kind, kind) for kind in kinds)], rows)


def means_table(means: Mapping[str, Mapping[str, Difference]]) -> str:
    """One row per schedule: the mean differences in target, control and the protocol's score."""
    rows = [
        [NAMES.get(kind, kind), *(difference(found[name]) for name in ("target", "control", "score"))]
        for kind, found in means.items()
    ]
    return table(["schedule", "Δ target", "Δ control", "Δ 2·target + control"], rows)


def runs_table(found: Mapping[str, Comparison]) -> str:
    """How far the difference varies between fine-tuning runs of the same experts."""
    groups: dict[str, list[float]] = {}
    for comparison in found.values():
        groups.setdefault(comparison.first.setting.group, []).append(100 * comparison.score.value)
    rows = [
        [group, str(len(values)), f"{statistics.fmean(values):+.1f}", f"{min(values):+.1f} to {max(values):+.1f}"]
        for group, values in groups.items()
    ]
    return table(["experts", "runs", "mean Δ", "range"], rows)


def refusals(study: Study) -> list[str]:
    """One line per sentence, with what it is about."""
    grouped: dict[str, list[str]] = {}
    for (name, label, kind), words in study.refused.items():
        grouped.setdefault(words, []).append(f"{CHAPTERS[name].title.lower()}: {label}, {NAMES.get(kind, kind)}")
    return [f"- {'; '.join(items)}: {words}" for words, items in grouped.items()]


def factors(outcome: Outcome) -> str:
    """λ, or α and β, of the chosen point."""
    schedule = outcome.search.best.recipe.schedule
    if outcome.search.family.kind == CONSTANT:
        return f"{schedule.alpha:.3g}"
    return f"{schedule.alpha:.3g}, {schedule.beta:.3g}"


def mean(found: Mean | None) -> str:
    """``48.1``: an accuracy in percent."""
    return "–" if found is None else f"{100 * found.value:.1f}"


def difference(found: Difference | None) -> str:
    """``+1.2 [0.3, 2.1]``, in points of 100."""
    if found is None:
        return "–"
    return f"{100 * found.value:+.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, the first column left, the others right."""
    lines = [header, [":--", *["--:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
