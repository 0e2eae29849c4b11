"""One colour and one marker per role, the same in every figure and in the style sheet.

The hues are the colour-blind-safe set of Okabe and Ito, at a lightness that keeps at least 3:1 of contrast on the
light and on the dark page; the current model has the colour of the text. ``INK``, ``GRID`` … are tokens: the page
replaces them by what it computes from its own style sheet, so that one figure serves both themes.
"""

INK, MUTED, GRID, PAPER, FRONT = "@ink", "@muted", "@grid", "@paper", "@front"

ROLES: dict[str, str] = {
    "base": "#7d838c",
    "expert": "#d9640f",
    "lines": "#2277c9",
    "constant": "#0a9a72",
    "pinned": "#b5519c",
}
SYMBOLS: dict[str, str] = {
    "base": "square",
    "expert": "star",
    "lines": "circle",
    "constant": "diamond",
    "pinned": "triangle-up",
}


def translucent(colour: str, opacity: float) -> str:
    """``#rrggbb`` as ``rgba(…)``, for bands and fills."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


def css_variables() -> str:
    """The role colours as custom properties of the style sheet: ``--lx-base`` …"""
    return ":root{" + "".join(f"--lx-{role}:{colour};" for role, colour in ROLES.items()) + "}"
