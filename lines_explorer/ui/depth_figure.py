"""λ over depth, over what it scales, as a Plotly figure: a pure function of numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

from lines_explorer.ui import style
from lines_explorer.ui.figure_parts import Figure, axis, guide, layout, note, percent
from lines_explorer.ui.texts_modes import DEPTH_WORDS


def depth(numbers: Mapping[str, Any], height: int = 340) -> Figure:
    """λ per block over what it scales: how large the task vectors are there, and how much they pull apart.

    ``numbers``: ``norms`` and ``conflicts``, a number per block each (conflicts None for one expert).  Norms are drawn
    as shares of the largest.  The page fills in the factors of the current, of the pinned and of the hovered point.
    """
    norms, conflicts = numbers["norms"], numbers["conflicts"]
    blocks = list(range(1, len(norms) + 1))
    bars = {"type": "bar", "x": blocks, "y": [0] * len(blocks), "width": 0.5, "marker": {"color": "@lines"}}
    bars |= {"hovertemplate": "block %{x}: λ = %{y:.3f}<extra></extra>", "meta": "current"}
    size = {"type": "bar", "x": blocks, "y": [norm / (max(norms) or 1) for norm in norms], "width": 0.86}
    size |= {"customdata": norms, "meta": "norm", "marker": {"color": "@low"}}
    size |= {"hovertemplate": f"block %{{x}}: {DEPTH_WORDS['norm']} %{{customdata:.3g}}<extra></extra>"}
    traces = [size, bars, _factors("pinned", blocks, "A"), _factors("hovered", blocks, DEPTH_WORDS["hovered"])]
    if conflicts:
        apart = {"type": "scatter", "mode": "lines+markers", "x": blocks, "y": [percent(share) for share in conflicts]}
        apart |= {"yaxis": "y2", "meta": "conflict", "line": {"color": style.MUTED, "width": 1.5, "dash": "dot"}}
        apart |= {"marker": {"color": style.MUTED, "size": 5}}
        traces.append(apart | {"hovertemplate": f"block %{{x}}: {DEPTH_WORDS['conflict']} %{{y:.1f}} %<extra></extra>"})
    look = layout(height, shapes=[guide(1.0, True, "expert")], barmode="overlay")
    up = axis("<b>λ</b>", range=[0, 1.15], zeroline=True, zerolinecolor=style.MUTED)
    look["annotations"] = [note("whole update", xref="paper", x=0, xanchor="left", y=1, yanchor="bottom")]
    look |= {"xaxis": axis("block, from input to output", dtick=1, tickangle=0), "yaxis": up, "dragmode": False}
    if conflicts:
        right = axis(DEPTH_WORDS["conflict_axis"], range=[0, 57.5], side="right", overlaying="y", showgrid=False)
        look |= {"yaxis2": right | {"tickvals": [0, 25, 50]}, "margin": look["margin"] | {"r": 56}}
    return {"data": traces, "layout": look}


def _factors(role: str, blocks: Sequence[int], name: str) -> dict[str, Any]:
    """λ per block of another point, as a line; empty until the page fills it in."""
    colour = style.ROLES["pinned"] if role == "pinned" else style.INK
    line = {"color": colour, "width": 2 if role == "pinned" else 1.5, "dash": "solid" if role == "pinned" else "dot"}
    mark = {"size": 8 if role == "pinned" else 5, "color": colour, "symbol": style.SYMBOLS.get(role, "circle")}
    trace = {"type": "scatter", "mode": "lines+markers", "x": list(blocks), "y": [None] * len(blocks), "line": line}
    return trace | {
        "marker": mark,
        "meta": role,
        "hovertemplate": f"{name}, block %{{x}}: λ = %{{y:.3f}}<extra></extra>",
    }
