"""Texts of the two views of single pictures: what changes (Evidence), and what one draws (Draw)."""

from collections.abc import Mapping
from typing import Any

BASE, EXPERT, PINNED = "base", "expert", "pinned"
LOST, GAINED, BOTH = "lost", "gained", "both"
BEFORE, AFTER, DIFFERENCE = "before", "after", "difference"

EVIDENCE = {
    "title": "Evidence: the pictures that change",
    "hint": (
        "Which validation pictures, and in Robustness pictures of shifted sets, the current model gets wrong that the "
        "other got right, and the other way round. "
        "Compared with pinned A if there is one, else with the expert that is edited, or with the base for a merge of "
        "several; choose another below."
    ),
    "against": "Compare the current model with",
    "base": "the base",
    "expert": "the expert",
    "own": "each task’s own expert",
    "pinned": "pinned A",
    "none_pinned": "No point is pinned; pin one first, or compare with the base or the expert.",
    "direction": "Show",
    "both": "both",
    "lost": "right → wrong",
    "gained": "wrong → right",
    "class": "True class",
    "any_class": "all classes",
    "verdict": "Difference, points [95 %]",
    "table": "Pictures that change, row by row; press one to see its pictures",
    "within": "within noise",
    "beyond": "more than noise",
    "unknown": "not known",
    "wait_after": "The current model is being evaluated; its pictures follow.",
    "wait_before": "The single answers of {side} are not stored.",
    "run": "Find them out",
    "stop": "Stop",
    "pictures": "{first}–{last} of {total} pictures",
    "no_pictures": "No picture changes in this way.",
    "previous": "Previous",
    "next": "Next",
    "short_base": "base",
    "short_expert": "expert",
    "short_pinned": "A",
    "short_after": "now",
    "predicting": "Predictions follow …",
    "right": "right",
    "wrong": "wrong",
    "picture": "{task}, picture {row}: {label}",
    "progress": "{done} of {total} pictures",
    "pictures_done": "Pictures classified",
    "shifted": "test set, shown for the eye only",
}
KINDS = {
    "task": {"one": "Task", "every": "All tasks", "choose": "Choose one task in the table above."},
    "set": {"one": "Set", "every": "All sets", "choose": "Choose one set in the table above."},
}
"""What the rows of the table are."""
CONFUSION = {
    "title": "What is taken for what",
    "show": "Show",
    "before": "before: {side}",
    "after": "now",
    "difference": "now − before",
    "about": "Confusion of {task}: true class up, predicted class across",
    "across": "predicted",
    "up": "true",
    "n": "{pictures}, n = {n}",
    "validation": "validation",
    "shifted": "test set",
    "share": "%{y} taken for %{x}: %{customdata} pictures, %{z:.0f} % of the class<extra></extra>",
    "change": "%{y} taken for %{x}: %{customdata} pictures<extra></extra>",
    "most": "Most frequent mistakes: {list}.",
    "most_change": "Mistakes that change most: {list}.",
    "mistake": "{true} taken for {predicted} ({count})",
    "no_mistake": "No mistake.",
    "no_change": "No mistake becomes more or less frequent.",
    "hint": "Press a cell to see the pictures of its true class.",
    "cancelled": "Stopped.",
    "again": "Count again",
}
DRAW = {
    "title": "Draw a picture",
    "hint": (
        "What you draw is classified at once by the base, the expert, the current model and pinned A. Only numbers "
        "are sent; nothing is stored."
    ),
    "canvas": "Drawing, {side} by {side} pixels. Draw with the mouse or a finger, or take a shape from the buttons.",
    "task": "Classified as",
    "seen": "what the models see",
    "ink": "Ink",
    "ground": "Ground",
    "shapes": "Or start from",
    "clear": "Clear",
    "undo": "Undo stroke",
    "table": "Probability of each class",
    "class": "Class",
    "base": "base",
    "expert": "expert",
    "current": "current",
    "pinned": "A",
    "empty": "Draw something, or take a shape.",
    "most": "The classes that some model finds likeliest; {left} others are not shown.",
    "said": "{who}: {label}, {share}",
}
INKS = {
    "white": "#ffffff",
    "black": "#000000",
    "red": "#d62828",
    "yellow": "#f4c430",
    "green": "#2f8f46",
    "blue": "#2256c4",
    "brown": "#8a5a33",
}
GROUNDS = {"black": "#000000", "white": "#ffffff"}
SHAPES = {"one": "1", "seven": "7", "ring": "Ring", "cross": "Cross", "triangle": "Triangle", "stripes": "Stripes"}


def difference(row: Mapping[str, Any]) -> tuple[str, str]:
    """``+3.6`` and ``+1.2 … +6.0`` in percentage points, from shares."""
    points = [f"{100 * row[end]:+.1f}".replace("-", "−") for end in ("value", "low", "high")]
    return points[0], f"{points[1]} … {points[2]}"


def mistakes(found: list[tuple[int, int, int]], classes: list[str] | tuple[str, ...], change: bool) -> str:
    """The most frequent mistakes, or those that change most, as a sentence."""
    if not found:
        return CONFUSION["no_change" if change else "no_mistake"]
    told = [
        CONFUSION["mistake"].format(
            true=classes[true], predicted=classes[predicted], count=f"{count:+d}".replace("-", "−") if change else count
        )
        for true, predicted, count in found
    ]
    return CONFUSION["most_change" if change else "most"].format(list=", ".join(told))
