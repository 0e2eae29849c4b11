"""What changes from the pinned point A to the current point B, task by task, as a Plotly figure."""

from collections.abc import Mapping, Sequence
from typing import Any

from lines_explorer.ui import style, texts
from lines_explorer.ui.comparison import PAIRED
from lines_explorer.ui.figures import Figure, axis, guide, layout, note, percent, small


def difference(
    comparison: Mapping[str, Any] | None, targets: Sequence[str], titles: Mapping[str, str], height: int
) -> Figure:
    """Dots with 95 % intervals around A's zero line; hollow and named so where the difference is within noise.

    Args:
        comparison: of ``comparison.compare``, or None while there is nothing to compare.
        targets: the tasks that the edit is for, written in bold and first.
        titles: task → title.
        height: in pixels.
    """
    names = [*targets, *(task for task in titles if task not in targets)]
    places = [titles[name] for name in names]
    ticks = [f"<b>{titles[name]}</b>" if name in targets else titles[name] for name in names]
    up = axis("", tickvals=places, ticktext=ticks, type="category", automargin=True, showgrid=False)
    up |= {"range": [len(names) - 0.5, -0.5], "tickfont": {"size": 13, "color": style.INK}}
    look = layout(height, hovermode="closest", shapes=[guide(0, False, "pinned")], yaxis=up)
    look["xaxis"] = axis(f"B − A, percentage points{small(texts.DIFFERENCE['axis'])}", range=[-10, 10])
    if not comparison:
        look["annotations"] = [note(texts.DIFFERENCE["empty"], xref="paper", yref="paper", x=0.5, y=0.97)]
        return {"data": [], "layout": look}
    rows = [(titles[name], comparison["tasks"][name]) for name in names if name in comparison["tasks"]]
    look["annotations"] = [_within(place) for place, row in rows if row["within"]]
    reach = max([4.0, *(abs(percent(end)) for _, row in rows for end in _ends(row))])
    look["xaxis"]["range"] = [-1.08 * reach, 1.5 * reach]
    return {"data": [_dots(rows)], "layout": look}


def _dots(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    whiskers = [
        (percent(max(ends) - row["value"]), percent(row["value"] - min(ends)))
        for _, row in rows
        for ends in [_ends(row)]
    ]
    error = {"type": "data", "symmetric": False, "color": style.INK, "thickness": 1.4, "width": 3}
    error |= {"array": [above for above, _ in whiskers], "arrayminus": [below for _, below in whiskers]}
    fill = [style.PAPER if row["within"] else style.INK for _, row in rows]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [percent(row["value"]) for _, row in rows],
        "y": [place for place, _ in rows],
        "customdata": [explain(row) for _, row in rows],
        "error_x": error,
        "marker": {"size": 11, "color": fill, "line": {"color": style.INK, "width": 2}},
        "meta": "B − A",
        "hovertemplate": "<b>%{y}</b>: %{x:+.1f} points<br>%{customdata}<extra></extra>",
    }


def explain(row: Mapping[str, Any]) -> str:
    """How a difference was judged, in a sentence or two."""
    said = texts.DIFFERENCE["within"] if row["within"] else texts.DIFFERENCE["beyond"]
    if row["how"] != PAIRED:
        return f"{said}<br>{texts.DIFFERENCE['intervals']}"
    numbers = {"gained": row["gained"], "lost": row["lost"], "n": row["n"], "p": f"{row['p']:.2g}"}
    ends = f"{percent(row['low']):+.1f} … {percent(row['high']):+.1f}"
    return f"{said}<br>{texts.DIFFERENCE['paired'].format(**numbers, ends=ends.replace('-', '−'))}"


def explained(comparison: Mapping[str, Any]) -> dict[str, Any]:
    """The comparison with the sentence of every difference, as ``said``."""

    def told(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
        return row and {**row, "said": explain(row).replace("<br>", " ")}

    tasks = {name: told(row) for name, row in comparison["tasks"].items()}
    return {"tasks": tasks, "target": told(comparison["target"]), "control": told(comparison["control"])}


def _ends(row: Mapping[str, Any]) -> list[float]:
    return [end for end in (row["low"], row["value"], row["high"]) if end is not None]


def _within(place: str) -> dict[str, Any]:
    return note(
        texts.DIFFERENCE["mark"], xref="paper", x=1, xanchor="right", y=place, font={"size": 11, "color": style.MUTED}
    )
