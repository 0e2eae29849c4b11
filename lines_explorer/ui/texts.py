"""Every text of the page, in plain English. Sentences are written from the current numbers, never by hand."""

from collections.abc import Mapping, Sequence

from lines_explorer.schedule import FREE, Schedule
from lines_explorer.ui import texts_modes
from lines_explorer.ui.methods import parameter_words
from lines_explorer.ui.modes import CONSTANT, EDIT, MANY, NEGATION, ROBUSTNESS, SOUP
from lines_explorer.ui.texts_modes import WORDS
from lines_explorer.ui.view import View
from lines_explorer.ui.words import percent, short

TITLE = "LiNeS Explorer"
LEDE = (
    "An expert is a model fine-tuned for one task; it forgets the others. LiNeS scales its update by depth: little in "
    "the first blocks, much in the last. Move the sliders and see what is kept and what is won back."
)
MODES = {mode: words.title for mode, words in WORDS.items()}
SCHEDULES = {"lines": "LiNeS", "constant": "Constant λ", "free": "Free"}
LABELS = {
    "mode": ("What to do", None),
    "target": ("Target: whose expert is scaled", None),
    "schedule": (
        "Scaling over depth",
        "LiNeS grows from the first block to the last, a constant is the same in all; draw Free yourself.",
    ),
    "gamma": (
        "γ, one knob for both",
        "α = γ, β = 1 − γ. 1 is the expert; towards 0 the first blocks return to the base.",
    ),
    "alpha": ("α, first block", "The share of the update that the first block keeps."),
    "beta": ("β, growth with depth", "The last block keeps α + β."),
    "scale": ("λ, every block", "0 is the base, 1 the expert."),
    "tasks": ("Tasks to merge", "The tasks left out are the control."),
    "method": ("Method", None),
    "norms": ("α from the norms", "The paper’s rule: 1/T for a sum of T experts."),
    "alpha_many": ("α, first block", "The share of the merged update that the first block keeps."),
    "beta_many": ("β, growth with depth", "The last block keeps α + β."),
    "scale_many": ("λ, every block", "Task arithmetic’s one coefficient."),
} | texts_modes.LABELS
PANELS = {
    "plane": ("Trade-off", "Trade-off plane: control accuracy across, target accuracy up"),
    "surface": ("α × β", "Accuracy over alpha, across, and beta, up; empty where nothing is evaluated"),
    "curve": ("Accuracy against the slider", "Target and control accuracy against the slider, with 95 % bands"),
    "depth": ("λ over depth", "Factor of the update in each block"),
    "tasks": ("Every task", "Accuracy per task of the base, the expert and the current model, with 95 % intervals"),
    "difference": ("From A to B, task by task", "Difference in accuracy between the pinned and the current point"),
}
HINTS = {
    "plane": WORDS[EDIT].better,
    "surface": "Click to set both sliders. Empty cells are not evaluated.",
    "curve": WORDS[EDIT].strokes,
    "depth": WORDS[EDIT].depth,
    "tasks": "Bars: base and expert. Dot: the current model.",
    "difference": "Hollow: the difference may be noise.",
}
LINE_NAMES = {
    EDIT: "α + β = 1 (γ)",
    MANY: "α from the norms",
    ROBUSTNESS: "α = β (γ)",
    SOUP: "α + β = 1 (γ)",
    NEGATION: "α = β (c)",
}
QUANTITIES = {"target": "target", "control": "control", "score": "the rule’s sum"}
SURFACE = {
    "choose": "What the surface shows",
    "bar_target": "%",
    "bar_control": "%",
    "bar_score": "sum",
    "score": "2 × target + control, both normalized: the paper’s rule for one task. For many it is the target alone.",
    "none": "nothing evaluated yet",
    "no_control": "no task is left out as control",
    "missing": "Cells still to evaluate: {missing}.",
    "fill": "Evaluate them",
}
DIFFERENCE = {
    "axis": "A is the pinned point, B the current one",
    "empty": "Pin a point, then move the sliders.",
    "mark": "within noise",
    "within": "Within noise: it may be chance.",
    "beyond": "More than noise.",
    "paired": "Same pictures for both: {gained} won, {lost} lost of {n}; 95 % {ends}, p = {p}.",
    "intervals": "The single answers are not stored for both points: judged by whether the 95 % intervals overlap.",
}
PRESETS = {"lines": "LiNeS", "step": "Step", "smooth": "Smooth step", "triangle": "Triangle", "reversed": "Reversed"}
FREE_WORDS = {
    "hint": "Drag the bars, type the factors, or start from a shape between α and α + β of the sliders.",
    "block": "λ of block {block}",
    "short": "{block}",
    "rest": "λ outside the blocks",
    "rest_short": "rest",
}
METHOD_WORDS = {
    "title": "The chosen method and its parameters",
    "number": "{summary} {low} to {high}, usually {written}.",
    "whole": "{summary} {low} to {high}, usually {written}.",
    "word": "{summary} Usually {written}.",
    "switch": "{summary} Usually off.",
    "defaults": "Back to the usual values",
    "refused": "Greyed out: {names}. {why}",
}
SPLIT_NOTE = (
    "All accuracies are on validation pictures. A setting chosen by looking at test pictures would be tuned on them, "
    "so the test split is scored only for a point that you have settled on."
)
BUTTONS = {
    "test": "Show test for this point",
    "line": "Evaluate the missing points of both lines",
    "copy": "Copy",
    "link": "Copy link",
    "pin": "Pin this point as A",
    "unpin": "Unpin A",
    "swap": "Go to A",
    "undo": "Undo",
    "redo": "Redo",
    "csv": "Table as CSV",
    "json": "Table as JSON",
    "model": "Download the merged model",
    "enlarge": "Enlarge",
    "shrink": "Show all",
}
DOWNLOAD = "{figure}: download as {format}"
SHARE_NOTE = (
    "The link holds every setting, the pinned point too. Teachers: add &hide= and names to it, such as "
    "&hide=method,beta, and those controls are not shown. Names: {names}."
)
SEARCH = {
    "title": "Search this line for",
    "rule": "the best by the paper’s rule",
    "keep": "the best that keeps 95 % of control",
    "stop": "Stop",
    "elsewhere": "Searched are the lines of one edited model and of a merge; choose one of those modes.",
    "tried": "{done} of {all} points of the grid tried",
    "finer": "{done} points tried, now finer around the best",
    "found": "{setting} was chosen on validation: {rule}, ",
    "weighted": "the largest 2 × target + control, both normalized",
    "mean": "the largest target, normalized",
    "constrained": "the largest target that keeps {floor} of the base’s control",
    "grid": "among the {grid} points of the paper’s grid.",
    "points": "among {all} points, {grid} of the paper’s grid and {finer} finer ones beside the best.",
    "target": " It has {target} of the {whose} target",
    "control": " and {control} of the base’s control.",
}
KEY = {
    "base": "base",
    "expert": "expert",
    "lines": "LiNeS",
    "constant": "constant λ",
    "solid": "current: evaluated",
    "hollow": "interpolated",
    "estimate": "estimated",
    "pinned": "pinned A",
}
ESTIMATE = {
    "counted": "Estimate, {done:,} of {total:,} pictures: target {target}",
    "control": ", control {control}",
    "helped": " Stored answers help ({points}).",
    "closes": " The 95 % intervals close when every picture is seen.",
    "base": "the base",
    "drawn": "a drawn λ",
    "outputs": "sums of outputs of base and experts",
}
SOUP_UNKNOWN = "It is not known yet which runs the greedy soup keeps; wait until its accuracy is shown."
FAULT = "Something failed while answering; the terminal that runs the page has the details."
PHRASES = {
    "evaluating": "Evaluating {setting} …",
    "references": "First the base and the experts are evaluated, for everything is compared with them …",
    "pictures": "{done} of {total} pictures",
    "offline": "The server does not answer. The page tries again by itself.",
    "copied": "Copied",
    "merging": "Merging …",
    "interpolated": "Interpolated between evaluated points; the exact result follows.",
    "trouble": "New results cannot be written to the disk: they are kept in memory, until the program ends.",
    "unknown": "Not evaluated yet.",
    "tick": "Tick at least one task to merge.",
    "run": "Tick at least one run.",
    "number": "Type a number within the slider's range.",
    "missing": "Points of the two lines still to evaluate: {missing}.",
    "pinned": "A is pinned: {setting}",
    "pinning": "A is pinned: {setting}. It is being evaluated …",
}


def needs(fewest: int, most: int | None) -> str:
    """How many experts a method takes, for a method that is not offered for as many as are ticked."""
    return f"Merges exactly {most} experts." if fewest == most else f"Merges at least {fewest} experts."


def only(sets: Sequence[Sequence[str]], experts: int) -> str:
    """Which sets of experts a method was made for that learns something for each, of so many ``experts`` in all."""
    words = [f"all {experts}" if len(one) == experts else ", ".join(one) for one in sets]
    return f"Merges only what its coefficients were learned for (`build-suite adamerging`): {'; or '.join(words)}."


def setting(schedule: Schedule) -> str:
    """``LiNeS at α = 0.3, β = 0.7``, ``A constant λ = 0.5`` or ``A drawn λ from 0.3 to 1``."""
    if schedule.kind == FREE:
        first, last = short(schedule.factors[0]), short(schedule.factors[-1])
        return f"A drawn λ from {first} in the first block to {last} in the last"
    if schedule.kind == CONSTANT:
        return f"A constant λ = {short(schedule.alpha)}"
    return f"LiNeS at α = {short(schedule.alpha)}, β = {short(schedule.beta)}"


def unbroken(text: str) -> str:
    """No line break inside ``48.7 %`` or ``α = 0.3``."""
    return text.replace(" %", "\u00a0%").replace(" = ", "\u00a0=\u00a0")


def estimate(done: int, total: int, target: Mapping, control: Mapping | None, points: Sequence[str]) -> str:
    """What is estimated after ``done`` of ``total`` pictures, and which stored points help."""

    def ends(stat: Mapping) -> str:
        return f"{percent(stat['value'])} ({100 * stat['low']:.1f} to {percent(stat['high'])})"

    text = ESTIMATE["counted"].format(done=done, total=total, target=ends(target))
    text += ESTIMATE["control"].format(control=ends(control)) if control else ""
    text += "."
    text += ESTIMATE["helped"].format(points="; ".join(points)) if points else ""
    return unbroken(text + ESTIMATE["closes"])


def recovered(current: float, expert: float, base: float) -> float | None:
    """Which share of the control accuracy that the expert lost is back; None when it lost less than half a point."""
    return (current - expert) / (base - expert) if base - expert >= 0.005 else None


def sentence(view: View, schedule: Schedule, point: Mapping, family: Mapping, titles: Mapping[str, str]) -> str:
    """One sentence or two on what the current model keeps and what it costs, against base and expert of a family."""
    return unbroken(SENTENCES[view.mode](setting(schedule), view, point, family, titles))


def _edit_sentence(what: str, view: View, point: Mapping, family: Mapping, titles: Mapping) -> str:
    kept = f"{what} keeps {percent(point['target']['normalized'], 0)} of the expert’s accuracy on {titles[view.target]}"
    control, base, expert = point["control"], family["base"], family["expert"]
    if not (control and base and expert):
        return f"{kept}."
    number = len(family["controls"])
    others = f"the {number} other tasks" if number > 1 else "the other task"
    numbers = f"({percent(control['value'])}; expert {percent(expert['control']['value'])}, "
    numbers += f"base {percent(base['control']['value'])})"
    back = recovered(control["value"], expert["control"]["value"], base["control"]["value"])
    if back is None:
        return f"{kept}. The expert forgot nothing measurable on {others} {numbers}."
    if back < -0.005:
        return f"{kept}, but forgets more of {others} than the unedited expert {numbers}."
    if back > 1.005:
        return f"{kept} and is better than the base on {others} {numbers}."
    if back < 0.005:
        return f"{kept} and wins back nothing of what it forgot on {others} {numbers}."
    return f"{kept} and wins back {percent(back, 0)} of what it forgot on {others} {numbers}."


def _many_sentence(what: str, view: View, point: Mapping, family: Mapping, titles: Mapping) -> str:
    number = len(view.tasks)
    who = titles[view.tasks[0]] if number == 1 else f"{number} experts"
    reached = percent(point["target"]["normalized"], 0)
    words = parameter_words(view.parameters, " = ", ", ")
    method = f"{view.method} ({words})" if words else view.method
    text = f"{what} on the {method} of {who} gives one model with {reached} of the experts’ accuracy"
    text += " on average" if number > 1 else ""
    if base := family["base"]:
        text += f"; the base alone has {percent(base['target']['normalized'], 0)}"
    if weakest := point["weakest"] if number > 1 else None:
        text += f". It serves {titles[weakest['task']]} worst ({percent(weakest['normalized'], 0)})"
    if point["control"] and base:
        left = len(family["controls"])
        out = f"the {left} tasks" if left > 1 else "the task"
        text += f". On {out} left out it has {percent(point['control']['value'])}, "
        text += f"the base {percent(base['control']['value'])}"
    return f"{text}."


SENTENCES = {
    EDIT: _edit_sentence,
    MANY: _many_sentence,
    ROBUSTNESS: texts_modes.robustness_sentence,
    SOUP: texts_modes.soup_sentence,
    NEGATION: texts_modes.negation_sentence,
}
