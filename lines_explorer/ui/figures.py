"""Results → Plotly figures, as plain dicts. Pure functions: the same numbers give the same picture.

A figure holds what stays while the sliders move. "You are here" is drawn over it by the page, as layout shapes, from
numbers alone; ``meta`` tells the page which axes carry the figure's two quantities. Accuracies are drawn in percent.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lines_explorer.ui import style
from lines_explorer.ui.depth_figure import depth
from lines_explorer.ui.figure_parts import Figure, axis, guide, layout, note, percent, small
from lines_explorer.ui.modes import CONSTANT, LINES, MODES, ROBUSTNESS
from lines_explorer.ui.texts_modes import MARKS, SETS, WORDS, what_is_scored
from lines_explorer.ui.words import short

NAMES = {LINES: "LiNeS", CONSTANT: "constant λ"}
FIGURE_HEIGHT = 300
"""The least height of a figure, in pixels, as in page.css."""
HOVER = (
    "<b>%{{meta}}</b> · %{{customdata[0]}}<br>{0} %{{y:.1f}} % (%{{customdata[1]}} of %{{customdata[3]}})"
    "<br>{1} %{{x:.1f}} % (%{{customdata[2]}} of %{{customdata[4]}})<extra></extra>"
)


def hover_of(family: Mapping[str, Any]) -> str:
    """What the hover of a point in the plane says."""
    return HOVER.format(*WORDS[family["mode"]].roles)


def control_of(point: Mapping[str, Any]) -> float | None:
    """The plane's horizontal quantity: control accuracy, or the weakest task's share where no task is left out."""
    if point["control"]:
        return percent(point["control"]["value"])
    return percent(point["weakest"]["normalized"]) if point["weakest"] else None


def plane(family: Mapping[str, Any], titles: Mapping[str, str]) -> Figure:
    """The trade-off plane: control across, target up; both lines, base, expert and the no-trade-off guides."""
    traces = [_line(family, kind) for kind in (CONSTANT, LINES) if family[kind]]
    traces += [_kept(family)] if any(index is not None for index in family["kept"].values()) else []
    traces += [_runs(family)] if family["runs"] else []
    marks = [(role, family[role]) for role in ("base", "expert") if family[role]]
    base, names = family["base"], WORDS[family["mode"]].guides
    shapes, labels = [], []
    level, role = high_guide(family)
    if level:
        shapes.append(guide(percent(level["value"]), True, role))
        place, side = (0, "left") if family["mode"] == ROBUSTNESS else (1, "right")  # there the best is on the right
        where = {"xref": "paper", "x": place, "xanchor": side, "y": percent(level["value"]), "yanchor": "bottom"}
        labels.append(note(names[0], **where))
    if base and base["control"]:
        across = control_of(base)
        shapes.append(guide(across, False, "base"))
        labels.append(note(names[1], yref="paper", y=1, yanchor="bottom", x=across, xanchor="right"))
    seen = [*family[LINES], *family[CONSTANT], *family["runs"].values(), *(point for _, point in marks)]
    across = _range([control_of(point) for point in seen])
    traces += [_mark(role, point, family, sum(across) / 2) for role, point in marks]
    up = _range([*(percent(p["target"][end]) for p in seen for end in ("low", "high")), *_ends(level)])
    look = layout(400, shapes=shapes, annotations=labels, hovermode="closest", dragmode=False, clickanywhere=True)
    look |= {"xaxis": axis(control_title(family), range=across), "yaxis": axis(target_title(family, titles), range=up)}
    return {"data": traces, "layout": look}


def high_guide(family: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str]:
    """The dashed line across, and its role: the experts' target, or the base's where its task is subtracted."""
    if not MODES[family["mode"]].falls:
        return family["ceiling"], "expert"
    return (family["base"] and family["base"]["target"]), "base"


def target_title(family: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """The title of the target axis, with n."""
    targets, count = family["targets"], _count(family, "target")
    what = titles[targets[0]] if len(targets) == 1 else what_is_scored(family["mode"], len(targets), True)
    return WORDS[family["mode"]].target.format(what=what) + small(family["split"] + count)


def control_title(family: Mapping[str, Any]) -> str:
    """The title of the control axis, with n."""
    mode, others = family["mode"], len(family["controls"])
    if not others:
        return f"<b>Weakest task</b>: % of its expert{small('no task is left out as control')}"
    split = SETS["shifted"] if mode == ROBUSTNESS else family["split"]
    words = WORDS[mode].control.format(what=what_is_scored(mode, others, False))
    return words + small(split + _count(family, "control"))


def curve(family: Mapping[str, Any], kind: str) -> Figure:
    """Target and control along one line, against its knob, with bands; the other line thin for comparison."""
    colour = style.ROLES[kind]
    traces: list[dict[str, Any]] = []
    points = sorted(family[kind], key=lambda point: point["knob"])
    for which, dash in (("target", "solid"), ("control", "dash")):
        stats = [(p["knob"], p[which]) for p in points if p[which]]
        if stats:
            role = WORDS[family["mode"]].roles[which == "control"]
            traces += _band(stats, colour) + [_knob_line(stats, which, kind, dash, role)]
    guides, labels, base = [], [], family["base"]
    high, high_role = high_guide(family)
    levels = ((high_role, high, 0, "left"), ("base", base and base["control"], 1, "right"))
    for (role, level, place, side), name in zip(levels, WORDS[family["mode"]].guides, strict=True):
        if level:
            height = percent(level["value"])
            guides.append(guide(height, True, role))
            labels.append(note(name, xref="paper", x=place, xanchor=side, y=height, yanchor="bottom"))
    knob = "λ" if kind == CONSTANT else MODES[family["mode"]].symbol
    low, top = _reach(family, kind, [point["knob"] for point in points])
    look = layout(400, shapes=guides, annotations=labels, hovermode="x unified")
    subtitle = small(f"95 % bands · {family['split']}")
    known = [p[which] for p in points for which in ("target", "control")]
    known += [high, base and base["control"]] if points else []
    # A range of its own: an axis that Plotly scales itself stays empty once a figure without points was there.
    up = _range([end for stat in known for end in _ends(stat)])
    look |= {"xaxis": axis(f"<b>{knob}</b>{subtitle}", range=[low - 0.03, top + 0.03])}
    look |= {"yaxis": axis("Accuracy, %", range=up)}
    if not points:
        look["annotations"] = labels + [note("line not evaluated yet", xref="paper", yref="paper", x=0.5, y=0.95)]
    return {"data": traces, "layout": look}


def tasks(family: Mapping[str, Any], titles: Mapping[str, str]) -> Figure:
    """Per task: base and expert as bars with intervals; the current model is drawn over them by the page."""
    names = [*family["targets"], *family["controls"]]
    experts = family["expert"]["tasks"] if family["expert"] else family["experts"]
    traces = []
    for role, values in (("expert", experts), ("base", family["base"]["tasks"] if family["base"] else {})):
        if values:
            traces.append(_bars(role, [titles[name] for name in names], [values[name] for name in names]))
    ticks = [f"<b>{titles[name]}</b>" if name in family["targets"] else titles[name] for name in names]
    places = [titles[name] for name in names]
    up = axis("", autorange="reversed", tickvals=places, ticktext=ticks, type="category", automargin=True)
    up["tickfont"] = {"size": 13, "color": style.INK}
    up["showgrid"] = False
    bold = f"{family['split']} · bold: {WORDS[family['mode']].roles[0]}"
    across = axis(f"Accuracy, %{small(bold)}", range=[0, 101], dtick=25)
    look = layout(tasks_height(len(names)), barmode="group", bargap=0.3, bargroupgap=0, hovermode="closest")
    return {"data": traces, "layout": look | {"xaxis": across, "yaxis": up}, "meta": {"order": names}}


def tasks_height(rows: int) -> int:
    """Height of the figures with one row per task, in pixels."""
    return max(FIGURE_HEIGHT, 80 + 36 * rows)


def trail(family: Mapping[str, Any]) -> dict[str, Any]:
    """The plane's trace of the points visited, in order; the page fills them in."""
    line = {"color": style.INK, "width": 1, "dash": "dot"}
    mark = {"size": 7, "color": style.PAPER, "line": {"color": style.INK, "width": 1.5}}
    words = {"meta": "visited", "hovertemplate": hover_of(family), "customdata": []}
    return {"type": "scatter", "mode": "lines+markers", "x": [], "y": [], "line": line, "marker": mark} | words


def all_figures(family: Mapping[str, Any], titles: Mapping[str, str]) -> dict[str, Figure]:
    """Every figure of a family, by panel; the slider's figure once per schedule."""
    curves = {f"curve_{kind}": curve(family, kind) for kind in (LINES, CONSTANT)}
    rows = tasks(family, titles)
    return {
        "plane": plane(family, titles),
        "tasks": rows,
        "depth": depth(family["blocks"]),
        "trail": trail(family),
    } | curves


def _line(family: Mapping[str, Any], kind: str) -> dict[str, Any]:
    points = sorted(family[kind], key=lambda point: point["knob"])
    hover = [custom(_setting(kind, point), point, family) for point in points]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [control_of(point) for point in points],
        "y": [percent(point["target"]["value"]) for point in points],
        "customdata": hover,
        "meta": NAMES[kind],
        "line": {"color": style.ROLES[kind], "width": 2.5, "dash": "solid" if kind == LINES else "dot"},
        "marker": {"color": style.ROLES[kind], "size": 7, "symbol": style.SYMBOLS[kind]} | _pale(points, family),
        "hovertemplate": hover_of(family),
    }


def _pale(points: Sequence[Mapping[str, Any]], family: Mapping[str, Any]) -> dict[str, Any]:
    """Opacity of a line's points: those that keep less than the floor of control are pale."""
    if family["floor"] is None:
        return {}
    shares = [point["control"] and point["control"]["normalized"] for point in points]
    return {"opacity": [0.3 if share is not None and share < family["floor"] else 1 for share in shares]}


def _kept(family: Mapping[str, Any]) -> dict[str, Any]:
    """Rings around the lowest target of each line that keeps control."""
    chosen = [(kind, family[kind][index]) for kind, index in family["kept"].items() if index is not None]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [control_of(point) for _, point in chosen],
        "y": [percent(point["target"]["value"]) for _, point in chosen],
        "customdata": [custom(_setting(kind, point), point, family) for kind, point in chosen],
        "meta": MARKS["kept"],
        "marker": {
            "size": 18,
            "symbol": "circle-open",
            "color": [style.ROLES[kind] for kind, _ in chosen],
            "line": {"width": 2.5},
        },
        "hovertemplate": hover_of(family),
    }


def _runs(family: Mapping[str, Any]) -> dict[str, Any]:
    """A soup's single runs; those that are in it filled."""
    names = list(family["runs"])
    points = [family["runs"][name] for name in names]
    inside = family["soup"] or ()
    symbols = [style.SYMBOLS["expert"] + ("" if name in inside else "-open") for name in names]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [control_of(point) for point in points],
        "y": [percent(point["target"]["value"]) for point in points],
        "customdata": [custom(name, point, family) for name, point in zip(names, points, strict=True)],
        "meta": MARKS["run"],
        "marker": {"size": 11, "symbol": symbols, "color": style.ROLES["expert"]},
        "hovertemplate": hover_of(family),
    }


def _mark(role: str, point: Mapping[str, Any], family: Mapping[str, Any], middle: float) -> dict[str, Any]:
    """The mark of base or expert, its name towards the ``middle`` of the axis across, where there is room for it."""
    x, y = control_of(point), percent(point["target"]["value"])
    colour, mark = style.ROLES[role], {"size": 16 if role == "expert" else 13, "symbol": style.SYMBOLS[role]}
    trace = {"type": "scatter", "mode": "markers+text", "x": [x], "y": [y], "meta": role}
    trace["hovertemplate"] = hover_of(family)
    side = "bottom left" if x is not None and x > middle else "bottom right"
    trace |= {"text": [f"<b>{role}</b>"], "textposition": side, "textfont": {"color": style.INK, "size": 13}}
    trace |= {"marker": mark | {"color": colour}, "error_y": _error(point["target"], colour)}
    if point["control"]:
        trace["error_x"] = _error(point["control"], colour)
    return trace | {"customdata": [custom("unedited", point, family)], "cliponaxis": False}


def _bars(role: str, places: list[str], values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    hover = f"%{{y}}: {role} %{{x:.1f}} % (n = %{{customdata}})<extra></extra>"
    return {
        "type": "bar",
        "orientation": "h",
        "x": [percent(value["value"]) for value in values],
        "y": places,
        "customdata": [value["n"] for value in values],
        "meta": role,
        "marker": {"color": style.ROLES[role], "opacity": 0.75},
        "error_x": _errors(values, style.MUTED),
        "hovertemplate": hover,
    }


def _band(stats: Sequence[tuple[float, Mapping[str, Any]]], colour: str) -> list[dict[str, Any]]:
    """The 95 % interval as one closed outline."""
    knobs = [knob for knob, _ in stats]
    edge = [percent(stat["high"]) for _, stat in stats] + [percent(stat["low"]) for _, stat in reversed(stats)]
    fill = {"fill": "toself", "fillcolor": style.translucent(colour, 0.16), "line": {"width": 0}}
    return [{"type": "scatter", "mode": "lines", "x": knobs + knobs[::-1], "y": edge, "hoverinfo": "skip"} | fill]


def _knob_line(stats: Sequence, which: str, kind: str, dash: str, role: str) -> dict[str, Any]:
    """Target or control along one line."""
    mark = {"color": style.ROLES[kind], "size": 6, "symbol": style.SYMBOLS[kind]}
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [knob for knob, _ in stats],
        "y": [percent(stat["value"]) for _, stat in stats],
        "customdata": [_share(stat["normalized"]) for _, stat in stats],
        "name": which,
        "line": {"color": style.ROLES[kind], "width": 2.5, "dash": dash},
        "marker": mark,
        "hovertemplate": f"{role} %{{y:.1f}} % (normalized %{{customdata}})<extra></extra>",
    }


def _setting(kind: str, point: Mapping[str, Any]) -> str:
    if kind == CONSTANT:
        return f"λ = {short(point['alpha'])}"
    return f"α = {short(point['alpha'])}, β = {short(point['beta'])}"


def custom(setting: str, point: Mapping[str, Any], family: Mapping[str, Any]) -> list[str]:
    """What the hover adds: the setting, both normalized accuracies, and what each was divided by."""
    control = point["control"]["normalized"] if point["control"] else None
    target_by, control_by = WORDS[family["mode"]].by
    return [setting, _share(point["target"]["normalized"]), _share(control), target_by, control_by if control else "–"]


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _error(stat: Mapping[str, Any], colour: str) -> dict[str, Any]:
    return _errors([stat], colour)


def _errors(stats: Sequence[Mapping[str, Any]], colour: str) -> dict[str, Any]:
    """Asymmetric 95 % whiskers."""
    above = [percent(stat["high"] - stat["value"]) for stat in stats]
    below = [percent(stat["value"] - stat["low"]) for stat in stats]
    look = {"color": colour, "thickness": 1.3, "width": 3}
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below} | look


def _reach(family: Mapping[str, Any], kind: str, knobs: Sequence[float]) -> tuple[float, float]:
    """How far the knob's axis goes: over the slider's first unit, and all points."""
    low, high = MODES[family["mode"]].limits["scale"] if kind == CONSTANT else (0.0, 1.0)
    first = (-1.0, 0.0) if high <= 0 else (0.0, 1.0)
    return min([first[0], *knobs]), max([first[1], *knobs])


def _ends(stat: Mapping[str, Any] | None) -> list[float | None]:
    return [] if not stat else [percent(stat["low"]), percent(stat["high"])]


def _range(values: Sequence[float | None], room: float = 0.06) -> list[float]:
    """From the smallest to the largest value with some room; the whole scale while nothing is known."""
    known = [value for value in values if value is not None]
    if not known:
        return [0, 100]
    low, high = min(known), max(known)
    pad = max(1.5, room * (high - low))
    return [low - pad, high + pad]


def _count(family: Mapping[str, Any], which: str) -> str:
    base = family["base"]
    return f", n = {base[which]['n']:,}" if base and base[which] else ""
