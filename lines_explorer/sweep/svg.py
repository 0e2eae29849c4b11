"""Small figures as SVG text: panels of lines, and differences with their intervals. Numbers in, one string out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

COLOURS = {
    "constant": "#0a9a72", "lines": "#2277c9", "square": "#b3661a", "root": "#9a5bb5", "sigmoid": "#c23b6b",
    "reversed": "#7d838c",
}  # fmt: skip
INK, MUTED, GRID = "#1f2328", "#59636e", "#d9dee3"
WIDTH, HEIGHT, ROW = 250, 210, 22
LEFT, RIGHT, TOP, BOTTOM = 44, 10, 26, 36
FONT = 'font-family="system-ui, sans-serif" font-size="11"'


@dataclass(frozen=True)
class Series:
    """A line through ``points`` (x, y); ``chosen`` is the index of the point that is marked."""

    name: str
    points: tuple[tuple[float, float], ...]
    chosen: int | None = None


@dataclass(frozen=True)
class Panel:
    """One small picture: a title, named axes, and lines."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Whisker:
    """A difference and its interval, in percentage points, in one colour of ``COLOURS``."""

    name: str
    value: float
    low: float
    high: float
    kind: str = "lines"


class _Scale:
    """A linear map from numbers to pixels."""

    def __init__(self, low: float, high: float, first: float, last: float) -> None:
        self.low, self.factor, self.first = low, (last - first) / (high - low), first

    def __call__(self, value: float) -> float:
        return self.first + (value - self.low) * self.factor


def panels_svg(panels: Sequence[Panel], columns: int = 4) -> str:
    """The panels side by side in rows, one legend below; every panel has its own axes."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    body = [_panel(panel, index % columns * WIDTH, index // columns * HEIGHT) for index, panel in enumerate(panels)]
    names = list(dict.fromkeys(series.name for panel in panels for series in panel.series))
    body.append(_legend(names, rows * HEIGHT + 14))
    return _svg(max(columns * WIDTH, 90 * len(names) + 20), rows * HEIGHT + 26, body)


def whiskers_svg(rows: Sequence[Whisker], title: str) -> str:
    """One row per difference: a dot, its 95 % interval, and the line of no difference."""
    name_width = 12 + max(6 * len(row.name) for row in rows)
    left, width = name_width, name_width + 420
    ticks = _ticks(min(0.0, *(row.low for row in rows)), max(0.0, *(row.high for row in rows)))
    at = _Scale(ticks[0], ticks[-1], left, width - 20)
    bottom = 12 + ROW * len(rows)
    body = [_line(at(tick), 8, at(tick), bottom, INK if tick == 0 else GRID) for tick in ticks]
    body += [_text(at(tick), bottom + 14, f"{tick:g}", "middle", MUTED) for tick in ticks]
    body.append(_text((left + width) / 2, bottom + 30, title, "middle", INK))
    for number, row in enumerate(rows):
        y, colour = 8 + ROW * (number + 0.5), COLOURS.get(row.kind, INK)
        body.append(_text(left - 8, y + 4, row.name, "end", INK))
        body.append(_line(at(row.low), y, at(row.high), y, colour, 2))
        body.append(f'<circle cx="{at(row.value):.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
    return _svg(width, bottom + 40, body)


def _panel(panel: Panel, x0: float, y0: float) -> str:
    xs, ys = ([p[axis] for s in panel.series for p in s.points if not any(map(math.isnan, p))] for axis in (0, 1))
    x_ticks, y_ticks = _ticks(min(xs), max(xs)), _ticks(min(ys), max(ys))
    across = _Scale(x_ticks[0], x_ticks[-1], x0 + LEFT, x0 + WIDTH - RIGHT)
    up = _Scale(y_ticks[0], y_ticks[-1], y0 + HEIGHT - BOTTOM, y0 + TOP)
    bottom, left = y0 + HEIGHT - BOTTOM, x0 + LEFT
    parts = [_text(x0 + (LEFT + WIDTH - RIGHT) / 2, y0 + 16, panel.title, "middle", INK, bold=True)]
    for tick in x_ticks:
        parts.append(_line(across(tick), y0 + TOP, across(tick), bottom, GRID))
        parts.append(_text(across(tick), bottom + 13, f"{tick:g}", "middle", MUTED))
    for tick in y_ticks:
        parts.append(_line(left, up(tick), x0 + WIDTH - RIGHT, up(tick), GRID))
        parts.append(_text(left - 4, up(tick) + 4, f"{tick:g}", "end", MUTED))
    parts.append(_text((left + x0 + WIDTH - RIGHT) / 2, bottom + 27, panel.x, "middle", MUTED))
    turned = f'transform="rotate(-90 {x0 + 12:.0f} {y0 + HEIGHT / 2:.0f})"'
    parts.append(_text(x0 + 12, y0 + HEIGHT / 2, panel.y, "middle", MUTED, more=turned))
    for series in panel.series:
        parts += _series(series, across, up)
    return "".join(parts)


def _series(series: Series, across: _Scale, up: _Scale) -> list[str]:
    colour = COLOURS.get(series.name, INK)
    known = [(across(x), up(y)) for x, y in series.points if not math.isnan(x + y)]
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in known)
    parts = [f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="1.5"/>']
    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{colour}"/>' for x, y in known]
    if series.chosen is not None and not math.isnan(sum(series.points[series.chosen])):
        x, y = series.points[series.chosen]
        place = f'cx="{across(x):.1f}" cy="{up(y):.1f}" r="5"'
        parts.append(f'<circle {place} fill="none" stroke="{colour}" stroke-width="2"/>')
    return parts


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers around [low, high], about four steps of 1, 2 or 5 times a power of ten."""
    span = max(high - low, 1e-3)
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * m for m in (1, 2, 5, 10) if span / (power * m) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * number, 10) for number in range(first, max(last, first + 1) + 1)]


def _legend(names: Sequence[str], y: float) -> str:
    parts = []
    for number, name in enumerate(names):
        x, colour = 20 + 90 * number, COLOURS.get(name, INK)
        parts.append(_line(x, y, x + 16, y, colour, 3) + _text(x + 21, y + 4, name, "start", INK))
    return "".join(parts)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:g}"/>'


def _text(x: float, y: float, words: str, anchor: str, colour: str, bold: bool = False, more: str = "") -> str:
    look = f'text-anchor="{anchor}" fill="{colour}"' + (' font-weight="600"' if bold else "")
    return f'<text x="{x:.1f}" y="{y:.1f}" {look} {more}>{escape(words)}</text>'


def _svg(width: float, height: float, body: Sequence[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {FONT}>{ground}{"".join(body)}</svg>\n'
