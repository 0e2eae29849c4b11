"""Icon sets of ``@iconify/json``: loading, SVG text, rendering, licences."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import resvg_py
from PIL import Image

from lines_explorer.training.sources import SourceError, fetch
from lines_explorer.training.tasks.common import WORK, Colour, Notice

PERMISSIVE = frozenset(
    ["Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC-BY-3.0", "CC-BY-4.0", "CC0-1.0", "ISC", "MIT", "Unlicense"]
)
"""SPDX names of the licences under which derived pictures may be committed with a notice."""


@dataclass(frozen=True)
class IconSet:
    """One set: its ``prefix`` and its icon, alias, character and category tables as iconify stores them."""

    prefix: str
    data: Mapping[str, Any]

    @property
    def icons(self) -> Mapping[str, Mapping[str, Any]]:
        """Icon records by name; each has a ``body`` of SVG elements."""
        return self.data["icons"]

    def visible(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Name and record of every icon that its authors have not withdrawn."""
        return ((name, icon) for name, icon in self.icons.items() if not icon.get("hidden"))

    def aliases(self) -> dict[str, str]:
        """Other name → icon name, for aliases that are the same drawing (not turned or mirrored)."""
        rows = ((name, row) for name, row in self.data.get("aliases", {}).items() if set(row) == {"parent"})
        return {name: row["parent"] for name, row in rows if row["parent"] in self.icons}

    def svg(self, name: str, ink: Colour = (34, 34, 34)) -> str:
        """The icon as a complete SVG document; ``ink`` (0–255 each) replaces ``currentColor``."""
        if name not in self.icons:
            raise SourceError(f"iconify set {self.prefix!r} has no icon {name!r}; was its pin changed?")
        icon = self.icons[name]
        side = {key: icon.get(key, self.data.get(key, start)) for key, start in DEFAULTS.items()}
        box = f"{side['left']} {side['top']} {side['width']} {side['height']}"
        body = icon["body"].replace("currentColor", "#{:02x}{:02x}{:02x}".format(*ink))
        spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        return f'<svg {spaces} width="{side["width"]}" height="{side["height"]}" viewBox="{box}">{body}</svg>'


DEFAULTS = {"left": 0, "top": 0, "width": 16, "height": 16}
"""Geometry that iconify assumes where neither the icon nor its set states one."""


@functools.lru_cache(maxsize=24)
def load(prefix: str) -> IconSet:
    """The set with that prefix (``noto``); ``SourceError`` when the pinned package has none."""
    path = fetch("npm", "@iconify/json") / "package" / "json" / f"{prefix}.json"
    if not path.is_file():
        raise SourceError(f"@iconify/json has no set {prefix!r}: {path} is missing")
    return IconSet(prefix, json.loads(path.read_text(encoding="utf-8")))


@functools.lru_cache(maxsize=1)
def collections() -> dict[str, dict[str, Any]]:
    """What iconify states about every set: name, author, licence, category, palette (true: coloured)."""
    path = fetch("npm", "@iconify/json") / "package" / "collections.json"
    return json.loads(path.read_text(encoding="utf-8"))


def render(svg: str, side: int = WORK) -> Image.Image:
    """An SVG document as an RGBA picture whose longer side has ``side`` pixels; system fonts are not used."""
    picture = resvg_py.svg_to_bytes(svg_string=svg, width=side, height=side, skip_system_fonts=True)
    return Image.open(io.BytesIO(bytes(picture))).convert("RGBA")


def trimmed(picture: Image.Image, threshold: int = 24) -> Image.Image | None:
    """The part of an RGBA picture whose alpha (0–255) exceeds ``threshold``; None when there is none."""
    box = picture.getchannel("A").point(lambda alpha: 255 * (alpha > threshold)).getbbox()
    return picture.crop(box) if box else None


def notice(prefix: str, use: str) -> Notice:
    """Author, licence and address of a set as ``collections.json`` states them.

    Raises ``SourceError`` for a set that is unknown or not under a permissive licence.
    """
    row = collections().get(prefix)
    licence = row["license"].get("spdx") if row else None
    if licence not in PERMISSIVE:
        raise SourceError(f"iconify set {prefix!r} has licence {licence!r}, which is not permissive: leave it out")
    author = row["author"]
    url = author.get("url") or row["license"].get("url", "")
    return Notice(f"{row['name']} (iconify {prefix})", author["name"], licence, url, use)
