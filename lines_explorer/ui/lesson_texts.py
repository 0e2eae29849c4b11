"""The words of the lesson: a question, what to move, and an answer written from the current numbers."""

from collections.abc import Mapping
from typing import Any

from lines_explorer.ui.story_texts import between, noise, others, way
from lines_explorer.ui.texts import percent

Change = Mapping[str, Any]

WORDS = {
    "title": "Predict, move, see",
    "step": "Step {step} of {steps}",
    "intro": "Predict first; the figures come back with the answer.",
    "predict": "That is my prediction",
    "move": "Now {move}, or let the page do it.",
    "do": "Move it for me",
    "next": "Next",
    "back": "Back",
    "finish": "Finish",
    "right": "You predicted it: {said}.",
    "wrong": "You said {said}.",
    "untold": "This step speaks of {number} models that are not evaluated.",
    "answer": "Your prediction",
    "over": "That was all. Stories, sliders and the search buttons lead on.",
    "leave": "Close the lesson",
}
BETTER = ("It rises", "It stays, within noise", "It falls")
TITLES = {
    "zero": "The base alone",
    "expert": "Its expert",
    "others": "Everything else",
    "half": "Half of the update",
    "order": "Which end of the network?",
    "level": "Scaling by depth, or by one constant?",
    "rule": "Choosing a point",
    "keep": "A promise to keep",
    "noise": "One step further",
    "sum": "Adding experts up",
    "scale": "How much of the sum?",
    "layered": "The sum with LiNeS",
    "split": "What may be quoted",
}
MOVES = {
    "zero": "move λ to 0: that is the base",
    "expert": "move λ to 1: that is the expert",
    "others": "move λ from 0 to 1 and watch the points that are not the target",
    "half": "move λ to 0.5",
    "order": "choose Free and press Reversed",
    "level": "choose LiNeS and move γ to {knob:g}",
    "rule": "move γ to {knob:g}",
    "keep": "move γ to {knob:g}",
    "noise": "pin the point, then move γ to {knob:g}",
    "sum": "move λ from 0 to 1",
    "scale": "move λ to {knob:g}",
    "layered": "choose LiNeS and move β to {knob:g}",
    "split": "choose LiNeS and move γ to 1, and look for the button below the table",
}
SPLIT_CHOICES = (
    "On validation, where it was chosen",
    "On test, once, for the chosen point",
    "On test, while moving the slider",
)


def zero_question(title: str, n: int, classes: int) -> str:
    """Step ``zero``."""
    return (
        f"The base was never fine-tuned on {title}. It sees {n} pictures of it and picks one of {classes} classes by "
        "their names alone. How many does it get right?"
    )


def zero_answer(title: str, value: str, ends: str, classes: int) -> str:
    """Step ``zero``."""
    text = f"It gets {value} of {title} right, with a 95 % interval of {ends}; guessing gives {percent(1 / classes)}. "
    return f"{text}This is its zero-shot accuracy."


def expert_question(title: str, base: str) -> str:
    """Step ``expert``."""
    return f"The base has {base} on {title}. Now it is fine-tuned on it. How many pictures does the expert get right?"


def expert_answer(own: Change) -> str:
    """Step ``expert``."""
    moved = way(own, "{size} more than the base", "{size} less than the base", "a difference from the base of {noise}")
    return f"The expert gets {percent(own['after'])}: {moved}."


def others_question(title: str, number: int) -> str:
    """Step ``others``."""
    return f"The {title} expert was trained on nothing else. What happens to its mean accuracy on {others(number)}?"


def others_answer(control: Change) -> str:
    """Step ``others``."""
    moved = way(control, "It rises by {size}", "It falls by {size}", "It changes by {noise}")
    told = " That is called forgetting." if not control["within"] and control["value"] < 0 else ""
    return f"{moved}: {between(control)}.{told}"


def half_question(title: str) -> str:
    """Step ``half``."""
    return f"Keep half of the update in every block: λ = 0.5. What share of the expert’s accuracy on {title} is left?"


def half_answer(normalized: str, value: str, expert: str, base: str) -> str:
    """Step ``half``."""
    return f"{normalized} of it: {value}, between the base’s {base} and the expert’s {expert} on the axis of λ."


def order_question(title: str) -> str:
    """Step ``order``."""
    return (
        "LiNeS keeps 0.3 of the update in the first block and all of it in the last. Turn that round: all in the "
        f"first, 0.3 in the last. What happens to the accuracy on {title}?"
    )


def order_answer(own: Change, control: Change | None) -> str:
    """Step ``order``."""
    text = way(own, "It rises by {size}", "It falls by {size}", "It changes by {noise}") + f" ({between(own)})."
    if control is None:
        return text
    moved = way(control, "rises by {size}", "falls by {size}", "changes by {noise}")
    return f"{text} Control {moved} ({between(control)})."


def level_question(title: str, other: str) -> str:
    """Step ``level``."""
    return (
        f"{other} is compared with the point of LiNeS that has nearly the same control. What happens to the target, "
        f"{title}, on the way from the constant to LiNeS?"
    )


def level_answer(own: Change, controls: tuple[float, float]) -> str:
    """Step ``level``."""
    text = way(own, "It rises by {size}", "It falls by {size}", "It changes by {noise}")
    return f"{text} ({between(own)}), while control is {percent(controls[1])} and {percent(controls[0])}."


def rule_question(title: str) -> str:
    """Step ``rule``."""
    return (
        "The paper chooses γ on validation: the largest 2 × target + control, both normalized. "
        f"Which γ does it choose for {title}?"
    )


def rule_answer(gamma: float, target: str, control: str) -> str:
    """Step ``rule``."""
    return f"γ = {gamma:g}: it keeps {target} of the expert’s target and {control} of the base’s control."


def keep_question(title: str) -> str:
    """Step ``keep``."""
    return (
        "Somebody needs 95 % of the base’s control accuracy to be kept. Which γ has the best target, "
        f"{title}, among those that keep it?"
    )


def keep_answer(gamma: float | None, target: str, control: str) -> str:
    """Step ``keep``."""
    if gamma is None:
        return f"None: the most that any γ keeps is {control} of the base’s control."
    return f"γ = {gamma:g}: it keeps {control} of the base’s control and {target} of the expert’s target."


def noise_question(first: float, second: float, title: str, n: int) -> str:
    """Step ``noise``."""
    return f"From γ = {first:g} to its neighbour γ = {second:g}, on {n} pictures of {title}: what does the target do?"


def noise_answer(own: Change) -> str:
    """Step ``noise``."""
    text = way(own, "It rises by {size}", "It falls by {size}", "It changes by {noise}")
    counts = ""
    if "gained" in own:
        counts = f": {own['gained']} pictures are won and {own['lost']} are lost, and only those count"
    return f"{text}{counts}."


def sum_question(number: int) -> str:
    """Step ``sum``."""
    return f"Add the whole updates of {number} experts to the base: λ = 1. What happens to the mean over their tasks?"


def sum_answer(own: Change, ceiling: float) -> str:
    """Step ``sum``."""
    moved = way(own, "It rises by {size}", "It falls by {size}", "It changes by {noise}")
    return f"{moved} ({between(own)}). Each expert alone has {percent(ceiling)} on its own task."


def scale_question() -> str:
    """Step ``scale``."""
    return "Scale the sum by one constant. Which λ of the paper’s grid is best on validation?"


def scale_answer(knob: float, own: Change) -> str:
    """Step ``scale``."""
    if knob == 1:
        return f"λ = 1, the plain sum: {percent(own['after'])}."
    moved = way(own, "{size} more than", "{size} less than", "different from")
    tail = f": {noise(own)}" if own["within"] else ""
    return f"λ = {knob:g} with {percent(own['after'])}, {moved} the plain sum{tail}."


def layered_question(knob: float) -> str:
    """Step ``layered``."""
    return (
        f"Instead of λ = {knob:g} everywhere, let λ grow with depth: α from the norms, β chosen on validation. What "
        "happens to the mean?"
    )


def layered_answer(own: Change, beta: float, alpha: float) -> str:
    """Step ``layered``."""
    text = way(own, "It rises by {size}", "It falls by {size}", "It changes by {noise}")
    return f"{text} ({between(own)}), with α = {alpha:.2g} and β = {beta:g}."


def split_question() -> str:
    """Step ``split``."""
    return "You chose a point by its validation accuracy. Where do you read how good it is?"


def split_answer(n: int) -> str:
    """Step ``split``."""
    return (
        f"On test, once. The best of several points is partly lucky on the {n:,} pictures that chose it, and a test "
        "split watched while a slider moves becomes a validation split. So the page shows test by a button only."
    )
