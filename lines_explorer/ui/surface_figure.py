"""The α×β surface and the Pareto front as Plotly figures: pure functions of the numbers of ``surface.Surface``."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from lines_explorer.ui import style, texts
from lines_explorer.ui.figures import Figure, axis, control_of, custom, hover_of, layout, note, percent, small
from lines_explorer.ui.modes import CONSTANT, LINES, MODES
from lines_explorer.ui.words import short

SCORE = "score"
RAMP = [[0, "@low"], [1, "@high"]]


def surfaces(numbers: Mapping[str, Any]) -> dict[str, Figure]:
    """One figure per quantity; where no rule sums target and control up, the target stands for the sum."""
    shown = {"target": "target", "control": "control", SCORE: SCORE if MODES[numbers["mode"]].rule else "target"}
    return {quantity: surface(numbers, drawn) for quantity, drawn in shown.items()}


def surface(numbers: Mapping[str, Any], quantity: str) -> Figure:
    """A quantity over α (across) and β (up), with isolines and the authors' two one-dimensional families."""
    scale = quantity == SCORE
    rows = [[value if scale else percent(value) for value in row] for row in numbers[quantity]]
    known = any(value is not None for row in rows for value in row)
    traces = [_cells(numbers, rows, quantity)] if known else []
    traces += [_isolines(numbers, rows)] if _slopes(rows) else []
    look = layout(400, hovermode="closest", dragmode=False, clickanywhere=True)
    look["margin"] = look["margin"] | {"r": 74}
    count = numbers["n"].get(quantity)
    below = f"{numbers['split']}, n = {count:,}" if count else numbers["split"]
    across, up = numbers["alphas"], numbers["betas"]
    look["xaxis"] = axis(f"<b>α</b>, first block{small(below)}", range=[across[0] - 0.06, across[-1] + 0.06])
    look["yaxis"] = axis("<b>β</b>, growth with depth", range=[up[0] - 0.06, up[-1] + 0.06])
    if not known:
        words = (
            texts.SURFACE["no_control"] if quantity == "control" and numbers["n"]["target"] else texts.SURFACE["none"]
        )
        look["annotations"] = [note(words, xref="paper", yref="paper", x=0.5, y=0.5)]
    return {"data": traces + _families(numbers), "layout": look}


def _cells(numbers: Mapping[str, Any], rows: list[list[float | None]], quantity: str) -> dict[str, Any]:
    unit = "%{z:.2f}" if quantity == SCORE else "%{z:.1f} %"
    bar = {"thickness": 10, "outlinewidth": 0, "tickfont": {"color": style.MUTED, "size": 12}, "len": 1}
    bar["title"] = {"text": texts.SURFACE[f"bar_{quantity}"], "font": {"color": style.INK, "size": 12}}
    trace = {"type": "heatmap", "x": numbers["alphas"], "y": numbers["betas"], "z": rows, "hoverongaps": False}
    trace |= {"colorscale": RAMP, "xgap": 1, "ygap": 1, "colorbar": bar, "meta": quantity}
    return trace | {
        "hovertemplate": f"α = %{{x:.3g}}, β = %{{y:.3g}}<br>{texts.QUANTITIES[quantity]} {unit}<extra></extra>"
    }


def _slopes(rows: list[list[float | None]]) -> bool:
    """Whether some four neighbouring cells are known and not all equal: otherwise there is no isoline to draw."""
    for low, high in pairwise(rows):
        for corners in zip(low, low[1:], high, high[1:], strict=False):
            if None not in corners and len(set(corners)) > 1:
                return True
    return False


def _isolines(numbers: Mapping[str, Any], rows: list[list[float | None]]) -> dict[str, Any]:
    """Lines of equal value, only where all four cells around are known."""
    look = {"coloring": "none", "showlabels": True, "labelfont": {"size": 11, "color": style.INK}}
    trace = {"type": "contour", "x": numbers["alphas"], "y": numbers["betas"], "z": rows, "connectgaps": False}
    trace |= {"contours": look, "line": {"color": style.INK, "width": 1}, "ncontours": 8, "meta": "isolines"}
    return trace | {"showscale": False, "hoverinfo": "skip"}


def _families(numbers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """LiNeS along its one knob, and the constant λ (β = 0), each over a border of the page's colour."""
    alphas, top, alpha = numbers["alphas"], numbers["betas"][-1], numbers["alpha_norms"]
    nodes = [node[1:] for node in MODES[numbers["mode"]].nodes] or [(alpha, 0), (alpha, top)]
    nodes = [(a, b) for a, b in nodes if numbers["betas"][0] <= b <= top and alphas[0] <= a <= alphas[-1]]
    words = {LINES: texts.LINE_NAMES[numbers["mode"]], CONSTANT: "β = 0, constant λ"}
    places = {CONSTANT: ([alphas[0], alphas[-1]], [0, 0]), LINES: tuple(map(list, zip(*nodes, strict=True)))}
    traces = []
    for kind, (x, y) in places.items():
        line = {"type": "scatter", "mode": "lines", "x": x, "y": y, "hoverinfo": "skip", "cliponaxis": False}
        dash = "solid" if kind == LINES else "dot"
        traces.append(line | {"line": {"color": style.PAPER, "width": 6}, "meta": "border"})
        traces.append(line | {"line": {"color": style.ROLES[kind], "width": 3, "dash": dash}, "meta": words[kind]})
    return traces


def front(points: list[Mapping[str, Any]], family: Mapping[str, Any]) -> dict[str, Any]:
    """The plane's trace of the points that no other evaluated point beats."""
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [control_of(point) for point in points],
        "y": [percent(point["target"]["value"]) for point in points],
        "customdata": [custom(_setting(point), point, family) for point in points],
        "meta": "Pareto front",
        "line": {"color": style.FRONT, "width": 9},
        "marker": {"size": 6, "color": style.MUTED, "symbol": "circle-open"},
        "hovertemplate": hover_of(family),
    }


def _setting(point: Mapping[str, Any]) -> str:
    return f"α = {short(point['alpha'])}, β = {short(point['beta'])}"
