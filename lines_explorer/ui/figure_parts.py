"""What all figures are made of: axes, layout, guides and labels in the page's colours, as plain dicts."""

from typing import Any

from lines_explorer.ui import style

Figure = dict[str, Any]


def percent(share: float | None) -> float | None:
    """A share in percent."""
    return None if share is None else 100 * share


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis in the page's colours."""
    title_font = {"size": 13, "color": style.INK}
    look = {"gridcolor": style.GRID, "zeroline": False, "ticks": "", "linecolor": style.GRID, "showline": False}
    tick_font = {"color": style.MUTED, "size": 12}
    return look | {"title": {"text": title, "font": title_font, "standoff": 8}, "tickfont": tick_font} | more


def layout(height: int, **more: Any) -> dict[str, Any]:
    """What all figures share."""
    base = {
        "height": height,
        "margin": {"l": 58, "r": 14, "t": 22, "b": 60},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "@font", "size": 13, "color": style.INK},
        "hoverlabel": {"bgcolor": style.PAPER, "bordercolor": style.GRID, "font": {"color": style.INK}},
        "showlegend": False,
        "uirevision": "kept",
        "shapes": [],
        "annotations": [],
    }
    return base | more


def guide(level: float, across: bool, role: str) -> dict[str, Any]:
    """A dashed line over the whole figure: across at a height, or up at a position."""
    ends = {"xref": "paper", "x0": 0, "x1": 1, "y0": level, "y1": level}
    if not across:
        ends = {"yref": "paper", "y0": 0, "y1": 1, "x0": level, "x1": level}
    line = {"color": style.ROLES[role], "width": 1.2, "dash": "dash"}
    return {"type": "line", "layer": "below", "line": line, "opacity": 0.8} | ends


def note(text: str, **where: Any) -> dict[str, Any]:
    """A small label without an arrow."""
    return {"text": text, "showarrow": False, "font": {"size": 12, "color": style.MUTED}} | where


def small(text: str) -> str:
    """A second, smaller line of an axis title."""
    return f"<br><span style='font-size:12px;color:{style.MUTED}'>{text}</span>"
