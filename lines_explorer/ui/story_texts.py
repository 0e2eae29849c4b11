"""The words of the stories. Every sentence is chosen by the numbers it is given, whichever way they point."""

from collections.abc import Mapping, Sequence
from typing import Any

from lines_explorer.ui.texts import percent

Change = Mapping[str, Any]

GUIDE = {
    "stories": "Stories",
    "lesson": "Lesson: twenty minutes",
    "close": "Close",
    "again": "Open this view again",
    "evaluate": "Evaluate what it needs (models: {number})",
    "telling": "Reading the stored results …",
    "untold": "Not told yet: {number} of the models it speaks of are not evaluated.",
}
TITLES = {
    "forgets": "What an expert forgets",
    "shallow": "Shallow blocks turned back",
    "level": "LiNeS against a constant λ",
    "least": "Where LiNeS helps least",
    "reversed": "Deep or shallow?",
    "chance": "Where the base guesses",
    "transfer": "Tasks it never saw",
    "sum": "All experts added up",
    "scaled": "The sum, scaled down",
    "layered": "The sum with LiNeS",
    "average": "Average against sum",
}


def points(share: float) -> str:
    """``0.018`` → ``1.8 points``, whatever the sign."""
    return f"{abs(100 * share):.1f} points"


def signed(share: float) -> str:
    """``-0.018`` → ``−1.8``; what rounds to nothing has no sign."""
    size = f"{abs(100 * share):.1f}"
    return size if size == "0.0" else f"{'−' if share < 0 else '+'}{size}"


def size(change: Change) -> str:
    """``1.8 points [0.9 to 2.7]``: how large a difference is, with its 95 % interval where there is one."""
    if change.get("low") is None:
        return points(change["value"])
    ends = sorted((change["low"], change["high"]), key=abs) if change["low"] * change["high"] > 0 else None
    if ends is None:
        return f"{points(change['value'])} [{signed(change['low'])} to {signed(change['high'])}]"
    return f"{points(change['value'])} [{abs(100 * ends[0]):.1f} to {abs(100 * ends[1]):.1f}]"


def noise(change: Change) -> str:
    """``no more than noise: +0.4 points [−0.6 to +1.4]``."""
    ends = "" if change.get("low") is None else f" [{signed(change['low'])} to {signed(change['high'])}]"
    return f"no more than noise: {signed(change['value'])} points{ends}"


def way(change: Change, up: str, down: str, same: str) -> str:
    """The one of three phrases that the difference calls for, ``{size}`` and ``{noise}`` filled in."""
    words = same if change["within"] else up if change["value"] > 0 else down
    return words.format(size=size(change), noise=noise(change))


def named(names: Sequence[str]) -> str:
    """``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def between(change: Change) -> str:
    """``38.0 % → 80.9 %``."""
    return f"{percent(change['before'])} → {percent(change['after'])}"


def others(number: int) -> str:
    """``the 9 other tasks``."""
    return "the other task" if number == 1 else f"the {number} other tasks"


def forgets(title: str, own: Change, control: Change, number: int, experts: int) -> str:
    """The expert with the lowest control: what fine-tuning gave and what it took."""
    gained = way(own, "gains {size}", "loses {size}", "gains {noise}")
    lost = way(control, "gains {size}", "loses {size}", "loses {noise}")
    text = f"Fine-tuned on {title}, the base {gained} there ({between(own)}). In the mean over {others(number)} it "
    text += f"{lost} ({between(control)})."
    if control["within"] or control["value"] >= 0:
        return text + (" No other expert of this suite has less control accuracy." if experts > 1 else "")
    return text + (f" Of all {experts} experts it is the one that forgets most." if experts > 1 else "")


def shallow(title: str, what: str, own: Change, control: Change, unedited: bool) -> str:
    """The paper's choice along γ, against the unedited expert."""
    if unedited:
        return (
            f"For {title} the paper’s rule chooses γ = 1: along this line nothing is better than the expert as it is."
        )
    won = way(control, "wins back {size}", "loses another {size}", "changes {noise}")
    cost = way(own, "gains {size} of target", "costs {size} of target", "changes the target by {noise}")
    return f"{what}, chosen by the paper’s rule, {won} of control ({between(control)}) and {cost} ({between(own)})."


def level(title: str, what: str, other: str, controls: tuple[float, float], own: Change) -> str:
    """LiNeS against the constant λ whose control is nearest."""
    kept = way(
        own,
        "LiNeS keeps {size} more of the target",
        "LiNeS keeps {size} less of the target",
        "the targets differ by {noise}",
    )
    text = f"{title}: where control is nearly the same, {percent(controls[0])} with {what} and {percent(controls[1])} "
    return text + f"with {other}, {kept} ({percent(own['after'])} against {percent(own['before'])})."


def least(told: str, counts: tuple[int, int, int]) -> str:
    """The expert that gains least from LiNeS at level control, and how it is for all of them."""
    better, same, worse = counts
    text = f"{told} That is the least of all {sum(counts)} experts: corrected for their number, LiNeS is better "
    text += f"beyond noise for {better}"
    text += f", worse for {worse}" if worse else ""
    return text + (f", and cannot be told apart for {same}." if same else ".")


def reversed_order(title: str, own: Change, control: Change | None) -> str:
    """The same factors in the other order."""
    kept = way(own, "gains {size} of target", "costs {size} of target", "changes the target by {noise}")
    text = f"{title}: the same factors in reverse order, the whole update in the first block and 0.3 of it in the last,"
    text += f" {kept} ({between(own)})"
    if control is None:
        return f"{text}."
    moved = way(control, "gains {size} of control", "costs {size} of control", "changes control by {noise}")
    return f"{text} and {moved} ({between(control)})."


def chance(found: Sequence[tuple[str, float, int]], number: int, nearest: tuple[str, float, int]) -> str:
    """Tasks on which the base may be guessing: (title, accuracy, classes)."""
    if not found:
        title, accuracy, classes = nearest
        return (
            f"On each of the {number} tasks the base is better than guessing, beyond noise; least so on {title}: "
            f"{percent(accuracy)}, where guessing among {classes} classes gives {percent(1 / classes)}."
        )
    listed = [
        f"{title} ({percent(value)}; 1 of {classes} is {percent(1 / classes)})" for title, value, classes in found
    ]
    tasks = "that task" if len(found) == 1 else "those tasks"
    return (
        f"On {len(found)} of {number} tasks the base cannot be told from guessing: {named(listed)}. There is "
        f"nothing to forget on {tasks}: as control they can hardly fall."
    )


def transfer(expert: str, task: str, change: Change, counts: tuple[int, int, int]) -> str:
    """The pair of an expert and another task with the largest gain, and how it is for all pairs."""
    better, same, worse = counts
    found = way(
        change, "gains {size} over the base", "loses {size} against the base", "differs from the base by {noise}"
    )
    pairs = "only pair" if sum(counts) == 1 else f"best of {sum(counts)} pairs"
    text = f"The {expert} expert was never trained on {task} and {found} there ({between(change)}): the {pairs} of an "
    text += (
        f"expert and another task. Corrected for their number, {better} gain beyond noise, {worse} lose, and {same} "
    )
    return f"{text}cannot be told apart from the base."


def whole_sum(number: int, own: Change, ceiling: float) -> str:
    """All task vectors added with λ = 1, against the base."""
    beside = way(own, "{size} more than the base", "{size} less than the base", "a difference from the base of {noise}")
    return (
        f"Added up whole (λ = 1), {number} experts give one model with {percent(own['after'])} in the mean, {beside}. "
        f"Each expert alone has {percent(ceiling)} on its own task: the updates interfere."
        if own["after"] < ceiling
        else f"Added up whole (λ = 1), {number} experts give one model with {percent(own['after'])} in the mean, "
        f"{beside}, no less than the experts on their own tasks ({percent(ceiling)}): they do not interfere."
    )


def scaled(number: int, knob: float, own: Change, ceiling: float) -> str:
    """The best constant λ on the sum, against λ = 1."""
    if knob == 1:
        return f"No constant λ up to 1 is better for the sum of {number} experts than λ = 1 ({percent(own['after'])})."
    moved = way(own, "gains {size} over λ = 1", "loses {size} against λ = 1", "differs from λ = 1 by {noise}")
    text = f"One constant for every block, λ = {knob:g}, is the best of the paper’s grid for the sum: it {moved} "
    return text + f"({between(own)}). The experts alone have {percent(ceiling)}."


def layered(what: str, knob: float, own: Change, counts: tuple[int, int, int]) -> str:
    """The best LiNeS on the sum against the best constant λ, and task by task."""
    better, same, worse = counts
    moved = way(own, "gains {size} over", "loses {size} against", "differs by {noise} from")
    text = f"{what}, the best of its grid, {moved} the best constant, λ = {knob:g} ({between(own)}). Task by task, "
    text += f"corrected for their number, it is better beyond noise on {better}, worse on {worse}"
    return f"{text}, and cannot be told apart on {same}."


def average(number: int, knob: float, sum_knob: float, own: Change) -> str:
    """Average and sum, each at the best constant λ of its own grid."""
    moved = way(own, "gains {size} over", "loses {size} against", "differs by {noise} from")
    text = f"An average of {number} experts is their sum divided by {number}: with λ = 1 it is the sum with "
    text += f"λ = {1 / number:.2g}. At the best λ of its own grid, {knob:g}, the average {moved} the sum at its best, "
    return text + f"λ = {sum_knob:g} ({between(own)})."
