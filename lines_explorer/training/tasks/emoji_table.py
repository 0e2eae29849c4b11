"""Which picture of which emoji vendor shows which code point."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from pathlib import Path

from lines_explorer.training.sources import fetch
from lines_explorer.training.tasks import iconify

VENDORS = ("noto", "noto-v1", "twemoji", "emojione", "fxemoji", "emojione-monotone")
"""Iconify's emoji sets under permissive licences, without the vendors kept for shifts."""

_COMPONENT = 2
"""Emojibase's group of skin tones and hair styles, which are no pictures of their own."""


@dataclass(frozen=True)
class Emoji:
    """One emoji without skin tone: ``code`` (lower-case hex, no variation selector), names, Unicode subgroup."""

    code: str
    label: str
    tags: tuple[str, ...]
    subgroup: str

    @property
    def slug(self) -> str:
        """The label as vendors write it: ``cat-with-wry-smile``."""
        return slug(self.label)


def plain_code(code: str) -> str:
    """A code point sequence in one spelling: lower case, no leading zeros, no variation selector FE0F."""
    parts = (part.lstrip("0") or "0" for part in code.lower().split("-"))
    return "-".join(part for part in parts if part != "fe0f")


def slug(label: str) -> str:
    """Lower-case words joined by hyphens; apostrophes vanish, ``&`` becomes ``and``."""
    text = re.sub("[’']", "", label.lower()).replace("&", "and").replace("ñ", "n")
    return re.sub(r"[^a-z0-9]+", "-", text).strip("-")


@functools.lru_cache(maxsize=1)
def table() -> dict[str, Emoji]:
    """Every emoji without skin tone by code, in Unicode's order."""
    folder = fetch("npm", "emojibase-data") / "package"
    subgroups = json.loads((folder / "meta" / "groups.json").read_text(encoding="utf-8"))["subgroups"]
    found: dict[str, Emoji] = {}
    for row in json.loads((folder / "en" / "data.json").read_text(encoding="utf-8")):
        if row.get("group") in (None, _COMPONENT):
            continue
        code = plain_code(row["hexcode"])
        found[code] = Emoji(code, row["label"], tuple(row.get("tags", ())), subgroups[str(row["subgroup"])])
    return found


@functools.lru_cache(maxsize=16)
def _stated(vendor: str) -> dict[str, str]:
    """Icon name → code, where the set itself lists characters."""
    icons = iconify.load(vendor)
    rows = ((name, plain_code(code)) for code, name in icons.data.get("chars", {}).items())
    return {name: code for name, code in rows if code in table() and name in icons.icons}


@functools.lru_cache(maxsize=1)
def _spellings() -> dict[str, str]:
    """Names without hyphens → code: Unicode labels first, then the names (and aliases) noto and twemoji use."""
    codes: dict[str, str] = {}
    for emoji in table().values():
        codes.setdefault(emoji.slug.replace("-", ""), emoji.code)
    for vendor in ("noto", "twemoji"):
        for name, code in _stated(vendor).items():
            codes.setdefault(name.replace("-", ""), code)
    for vendor in ("noto", "twemoji", "emojione", "noto-v1"):
        for alias, parent in iconify.load(vendor).aliases().items():
            code = codes.get(parent.replace("-", ""))
            if code:
                codes.setdefault(alias.replace("-", ""), code)
    return codes


@functools.lru_cache(maxsize=16)
def codes(vendor: str) -> dict[str, str]:
    """Icon name → code for one vendor; icons whose code is not known (skin tones, extras) are absent."""
    icons, spellings = iconify.load(vendor), _spellings()
    found = dict(_stated(vendor))
    for name, _ in icons.visible():
        if name not in found and name.replace("-", "") in spellings:
            found[name] = spellings[name.replace("-", "")]
    for alias, parent in icons.aliases().items():
        if parent not in found and alias.replace("-", "") in spellings:
            found[parent] = spellings[alias.replace("-", "")]
    return found


@functools.lru_cache(maxsize=16)
def names(vendor: str) -> dict[str, str]:
    """Code → icon name for one vendor; the name that equals the Unicode label wins over others."""
    found: dict[str, str] = {}
    for name, code in codes(vendor).items():
        if code not in found or name == table()[code].slug:
            found[code] = name
    return found


@functools.lru_cache(maxsize=1)
def renders() -> dict[str, Path]:
    """Code → picture of Microsoft's Fluent 3D renders."""
    folder = fetch("npm", "@lobehub/fluent-emoji-3d") / "package" / "assets"
    found = {plain_code(path.stem): path for path in sorted(folder.glob("*.webp"))}
    return {code: path for code, path in found.items() if code in table()}
