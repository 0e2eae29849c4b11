"""The Open Clip Art Library as Debian packages it: public-domain pictures with titles and keywords."""

from __future__ import annotations

import functools
import hashlib
import html
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from lines_explorer.training.sources import fetch
from lines_explorer.training.tasks.common import Notice
from lines_explorer.training.tasks.iconify import trimmed

_SHARE = Path("usr", "share", "openclipart")

_LARGEST = 16_000_000
"""Pixels of the largest page that is read; the few posters beyond it are left out."""


@dataclass(frozen=True)
class Clip:
    """One picture: ``name`` is its path below the library without ending (``animals/birds/duck_01``)."""

    name: str
    path: Path

    @property
    def folder(self) -> str:
        """The category: ``animals/birds``."""
        return self.name.rpartition("/")[0]

    @property
    def digest(self) -> str:
        """Hash of the file, by which copies are found."""
        return hashlib.md5(self.path.read_bytes()).hexdigest()

    def picture(self) -> Image.Image | None:
        """The visible part as RGBA, at most 256 pixels a side; None for an empty picture or an oversized poster."""
        with open(self.path, "rb") as stream:
            width, height = struct.unpack(">II", stream.read(24)[16:])
        if width * height > _LARGEST:
            return None
        with Image.open(self.path) as image:
            image.thumbnail((512, 512))
            picture = trimmed(image.convert("RGBA"))
        if picture:
            picture.thumbnail((256, 256))
        return picture

    def words(self) -> tuple[str, tuple[str, ...]]:
        """Title and keywords as the author wrote them; the title is empty where there is none."""
        text = _source(self.name)
        title = re.search(r"<(?:dc:)?title[^>]*>(.*?)</(?:dc:)?title>", text, re.S)
        keywords = (_plain(item) for item in re.findall(r"<rdf:li[^>]*>(.*?)</rdf:li>", text, re.S))
        return _plain(title[1]) if title else "", tuple(word for word in keywords if 0 < len(word) < 40)

    def public_domain(self) -> bool:
        """Whether the drawing itself states a public-domain dedication."""
        return "publicdomain" in _source(self.name).lower()


@functools.lru_cache(maxsize=4)
def _source(name: str) -> str:
    path = fetch("apt", "openclipart-svg") / _SHARE / "svg" / f"{name}.svg"
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _plain(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", text)).split())


def clips(folder: str = "", deep: bool = True) -> Iterator[Clip]:
    """Every picture of a category, with its sub-categories if ``deep``; links and byte-equal copies are left out."""
    root = fetch("apt", "openclipart-png") / _SHARE / "png"
    seen: set[str] = set()
    for path in sorted((root / folder).glob("**/*.png" if deep else "*.png")):
        if path.is_symlink():
            continue
        clip = Clip(path.relative_to(root).with_suffix("").as_posix(), path)
        if clip.digest not in seen:
            seen.add(clip.digest)
            yield clip


def notice(use: str) -> Notice:
    """Origin of the library's pictures."""
    return Notice("Open Clip Art Library 0.18", "its contributors", "CC0-1.0", "https://openclipart.org", use)
