"""What the modes are called, what they compute, and how their figures and sentences speak of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from lines_explorer.ui.modes import EDIT, GREEDY, MANY, NEGATION, ROBUSTNESS, SOUP
from lines_explorer.ui.view import View
from lines_explorer.ui.words import percent


@dataclass(frozen=True)
class Words:
    """One mode's words.

    Attributes:
        title: on its button.
        note: what is computed, and which part of the paper it is.
        guides: of the dashed lines: across, up.
        target, control: axis titles; ``{what}`` stands for the task or the number of tasks.
        roles: what a row's two roles are called.
        means: what the two means are called.
        by: whose accuracy the two normalized ones are shares of.
        better: the hint of the plane.
        strokes: the hint of the figure against the slider.
        depth: the hint of the figure of λ over depth.
        evaluated: the state of an exact point.
        kind: what a row of the figures is, a key of ``picture_texts.KINDS``.
    """

    title: str
    note: str
    guides: tuple[str, str] = ("expert’s target", "base’s control")
    target: str = "<b>Target</b>: {what}, %"
    control: str = "<b>Control</b>: {what}, %"
    roles: tuple[str, str] = ("target", "control")
    means: tuple[str, str] = ("Mean of target tasks", "Mean of control tasks")
    by: tuple[str, str] = ("its expert’s", "the base’s")
    better: str = "Up and right is better. Click anywhere to take the nearest evaluated setting."
    strokes: str = "Solid: target. Dashed: control. Bands: 95 % intervals."
    depth: str = "How much of the update each block keeps. Pale: how large the update is there."
    evaluated: str = "Evaluated on every validation picture."
    kind: str = "task"


WORDS: dict[str, Words] = {
    EDIT: Words(
        "Edit one model",
        "θ₀ + λ⁽ˡ⁾·τ: the base plus one expert’s scaled update. The paper’s single-task setting, α = γ and β = 1 − γ; "
        "without LiNeS it is the WiSE-FT line, one λ for all blocks.",
    ),
    MANY: Words(
        "Merge many",
        "θ₀ + λ⁽ˡ⁾·g(τ₁ … τ_T): several updates merged into one, then scaled. The paper’s multi-task setting, α from "
        "the norms and β on the method’s grid; without LiNeS one λ.",
        guides=("mean of the experts", "base’s control"),
        by=("the experts’", "the base’s"),
        depth="How much of the update each block keeps. Pale: how large the updates are there. Dotted: the share of "
        "weights that two experts change in opposite directions; 50 % is chance.",
    ),
    ROBUSTNESS: Words(
        "Robustness",
        "One expert on pictures like its own and on shifted ones. The paper’s robust fine-tuning: LiNeS with α = β = ½ "
        "on the update, then the WiSE-FT line, so α = β = γ/2; without LiNeS λ = γ. Shifted sets are test sets: choose "
        "nothing by them.",
        guides=("expert, in distribution", "base, shifted"),
        target="<b>In distribution</b>: {what}, %",
        control="<b>Shifted</b>: {what}, %",
        roles=("in distribution", "shifted"),
        means=("Mean in distribution", "Mean of shifted sets"),
        by=("its expert’s", "its expert’s"),
        better="Up: in distribution. Right: shifted sets. Click to take the nearest evaluated setting.",
        strokes="Solid: in distribution. Dashed: mean of the shifted sets. Bands: 95 % intervals.",
        evaluated="Evaluated on every validation picture and on every picture of the shifted sets.",
        kind="set",
    ),
    SOUP: Words(
        "Soup",
        "θ₀ + λ⁽ˡ⁾·τ with τ the mean over fine-tuning runs of one task. The paper’s model soups: all runs (uniform) or "
        "those that help on validation (greedy, Wortsman et al. 2022), LiNeS on the mean; the plain soup is λ = 1.",
    ),
    NEGATION: Words(
        "Negation",
        "θ₀ − c·τ: one expert’s update is subtracted, so that its task is forgotten and the others are kept. Task "
        "arithmetic’s negation (Ilharco et al. 2023); with LiNeS α = β = −c/2, deep blocks move most.",
        guides=("base’s target", "base’s control"),
        target="<b>Target, subtracted</b>: {what}, %",
        better="Down is better, as far right as control is kept. Pale points keep less than the floor; rings mark the "
        "lowest target that keeps it.",
        depth="How much of the update is subtracted from each block. Pale: how large the update is there.",
    ),
}
SOUPS = {"uniform": "Uniform", "greedy": "Greedy"}
SETS = {
    "other": "the other task",
    "others": "mean of {count} other tasks",
    "merged": "mean of {count} merged tasks",
    "shift": "its shifted set",
    "shifts": "mean of {count} shifted sets",
    "shifted": "shifted test sets",
}
RUN = "{number}: seed {seed}, rate {rate:g}"
EXPERT_RUN = "the expert"
DEPTH_WORDS = {
    "norm": "size of the update, ‖τ‖ =",
    "conflict": "experts pull apart in",
    "conflict_axis": "experts pull apart, %",
    "hovered": "pointed at",
}
MARKS = {"run": "single run", "kept": "lowest target that keeps control"}
LABELS = {
    "target_robustness": ("Target: a task with shifted sets", None),
    "gamma_robustness": (
        "γ, one knob for both",
        "α = β = γ/2. 0 is the base; at 1 the last block has the whole update.",
    ),
    "alpha_robustness": ("α, first block", "The share of the update that the first block keeps."),
    "beta_robustness": ("β, growth with depth", "The last block keeps α + β."),
    "scale_robustness": ("λ, every block", "The WiSE-FT line: 0 is the base, 1 the expert."),
    "target_soup": ("Target: a task with several runs", None),
    "soup": ("Which of the ticked runs", "Greedy adds run by run what does not harm validation accuracy."),
    "runs": ("Runs", "Fine-tuned on the same task with other seeds and learning rates."),
    "gamma_soup": ("γ, one knob for both", "α = γ, β = 1 − γ; above 1 α = 1 and β = γ − 1. 1 is the plain soup."),
    "alpha_soup": ("α, first block", "The share of the mean update that the first block keeps."),
    "beta_soup": ("β, growth with depth", "The last block keeps α + β."),
    "scale_soup": ("λ, every block", "0 is the base, 1 the plain soup."),
    "floor": ("Floor of control", "The share of zero-shot control accuracy (normalized, mean) that must be kept."),
    "gamma_negation": ("c, one knob for both", "α = β = −c/2. 0 is the base."),
    "alpha_negation": ("α, first block", "Negative: so much of the update is subtracted."),
    "beta_negation": ("β, growth with depth", "The last block has α + β."),
    "scale_negation": ("λ, every block", "−1 subtracts the whole update."),
}


def what_is_scored(mode: str, count: int, target: bool) -> str:
    """``mean of 9 other tasks``: what an axis shows when it is of ``count`` rows."""
    if target:
        return SETS["merged"].format(count=count)
    one, several = ("shift", "shifts") if mode == ROBUSTNESS else ("other", "others")
    return SETS[one] if count == 1 else SETS[several].format(count=count)


def _change(points: float) -> str:
    """A difference of accuracies in points, told as more, less or the same."""
    size = f"{abs(100 * points):.1f} points"
    return "as much as" if abs(points) < 0.0005 else f"{size} {'more' if points > 0 else 'less'} than"


def robustness_sentence(what: str, view: View, point: Mapping, family: Mapping, titles: Mapping) -> str:
    """In distribution and shifted, each against the unedited expert."""
    text = f"{what} has {percent(point['target']['value'])} on {titles[view.target]} in distribution"
    expert, base = family["expert"], family["base"]
    if not (expert and base and point["control"]):
        return f"{text}."
    number = len(family["controls"])
    shifted = f"its {number} shifted sets" if number > 1 else "its shifted set"
    text += f", {_change(point['target']['value'] - expert['target']['value'])} the expert, and "
    text += f"{percent(point['control']['value'])} on {shifted}, "
    text += f"{_change(point['control']['value'] - expert['control']['value'])} the expert"
    return f"{text} (expert {percent(expert['control']['value'])}, base {percent(base['control']['value'])})."


def soup_sentence(what: str, view: View, point: Mapping, family: Mapping, titles: Mapping) -> str:
    """The soup's target against the best and the mean of its single runs, and its control against the base's."""
    runs = family["soup"] or view.runs
    kind = "greedy" if view.soup == GREEDY else "uniform"
    many = f"{len(runs)} runs" if len(runs) > 1 else "1 run"
    of = f" of {len(view.runs)}" if view.soup == GREEDY else ""
    text = f"{what} on the {kind} soup of {many}{of} has {percent(point['target']['value'])} on {titles[view.target]}"
    alone = [found["target"]["value"] for name, found in family["runs"].items() if found and name in view.runs]
    if len(alone) == len(view.runs) > 1:
        text += f"; its single runs have {percent(min(alone))} to {percent(max(alone))}"
    if point["control"] and family["base"]:
        number = len(family["controls"])
        others = f"the {number} other tasks" if number > 1 else "the other task"
        text += f". On {others} it has {percent(point['control']['value'])}, the base "
        text += percent(family["base"]["control"]["value"])
    return f"{text}."


def negation_sentence(what: str, view: View, point: Mapping, family: Mapping, titles: Mapping) -> str:
    """How far the target falls, and whether control is above the floor."""
    base, control = family["base"], point["control"]
    text = f"{what} takes {titles[view.target]} to {percent(point['target']['value'])}"
    text += f", where the base has {percent(base['target']['value'])}" if base else ""
    if not control or control["normalized"] is None:
        return f"{text}."
    kept = control["normalized"] >= view.floor
    text += f". Control keeps {percent(control['normalized'])} of zero-shot ({percent(control['value'])}), "
    return f"{text}{'above' if kept else 'below'} the floor of {percent(view.floor, 0)}."
