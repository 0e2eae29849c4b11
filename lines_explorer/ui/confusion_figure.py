"""True class against predicted class as Plotly figures: pure functions of counts."""

from collections.abc import Sequence
from typing import Any

from lines_explorer.analysis.flips import largest, row_shares
from lines_explorer.ui import style
from lines_explorer.ui.figures import Figure, axis, layout, small
from lines_explorer.ui.picture_texts import AFTER, BEFORE, CONFUSION, DIFFERENCE, mistakes

RAMP = [[0, style.PAPER], [1, "@high"]]
SIGNED = [[0, "@warn"], [0.5, style.PAPER], [1, "@accent"]]
LONGEST, NUMBERED, TOLD = 16, 17, 5


def confusions(before: Any, after: Any, classes: Sequence[str], pictures: str) -> dict[str, dict[str, Any]]:
    """``before``, ``after`` and ``difference``: each a ``figure`` and ``said``, its largest mistakes in a sentence.

    ``before`` and ``after`` are int arrays (classes, classes) of ``analysis.flips.confusion``;
    ``pictures`` says of which pictures.
    """
    change = after - before
    parts = {BEFORE: before, AFTER: after, DIFFERENCE: change}
    return {
        name: {
            "figure": heatmap(counts, classes, name == DIFFERENCE, int(after.sum()), pictures),
            "said": mistakes(largest(counts, TOLD), classes, name == DIFFERENCE),
        }
        for name, counts in parts.items()
    }


def heatmap(counts: Any, classes: Sequence[str], change: bool, n: int, pictures: str) -> Figure:
    """One square: the true class up, the predicted class across; colour is the share of the class, or the change."""
    rows = counts.tolist()
    shares = counts.tolist() if change else _percent(counts)
    most = max([1, *(abs(value) for row in rows for value in row)]) if change else 100
    trace: dict[str, Any] = {
        "type": "heatmap", "x": list(classes), "y": list(classes), "z": shares, "customdata": _signed(rows, change),
        "zmin": -most if change else 0, "zmax": most, "colorscale": SIGNED if change else RAMP, "showscale": False,
        "xgap": 1, "ygap": 1, "meta": "confusion", "hovertemplate": CONFUSION["change" if change else "share"],
    }  # fmt: skip
    if len(classes) <= NUMBERED:
        trace |= {"text": _shown(rows, change), "texttemplate": "%{text}", "textfont": {"size": 11}}
    size = 11 if len(classes) <= NUMBERED else 9
    ticks = {"tickvals": list(classes), "ticktext": [_short(name) for name in classes], "type": "category"}
    ticks |= {"automargin": True, "showgrid": False, "tickfont": {"size": size, "color": style.INK}}
    look = layout(max(300, min(760, 150 + 22 * len(classes))), hovermode="closest", dragmode=False, clickanywhere=False)
    look["margin"] = look["margin"] | {"t": 8, "l": 40}
    below = small(CONFUSION["n"].format(pictures=pictures, n=f"{n:,}"))
    look["xaxis"] = axis(f"<b>{CONFUSION['across']}</b>{below}", **ticks, tickangle=-60)
    look["yaxis"] = axis(f"<b>{CONFUSION['up']}</b>", **ticks, autorange="reversed")
    return {"data": [trace], "layout": look}


def _percent(counts: Any) -> list[list[float | None]]:
    return [[None if share != share else 100 * share for share in row] for row in row_shares(counts).tolist()]


def _signed(rows: list[list[int]], change: bool) -> list[list[str]]:
    return [[f"{value:+d}".replace("-", "−") if change else str(value) for value in row] for row in rows]


def _shown(rows: list[list[int]], change: bool) -> list[list[str]]:
    """The numbers in the cells; nothing for 0."""
    told = _signed(rows, change)
    return [[text if value else "" for value, text in zip(*pair, strict=True)] for pair in zip(rows, told, strict=True)]


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1].rstrip()}…"
