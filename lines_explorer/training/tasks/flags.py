"""Task ``flags``: flags of 41 countries, waved and sheared, as vendors draw them that were not seen in training."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterator

import numpy as np
from PIL import Image

from lines_explorer.training.sources import SourceError, fetch
from lines_explorer.training.tasks import emoji_table, iconify, openclipart
from lines_explorer.training.tasks.common import WORK, Notice, TaskData, on_ground

COUNTRIES: dict[str, str] = {
    **dict(ar="Argentina", au="Australia", at="Austria", bd="Bangladesh", be="Belgium", br="Brazil", ca="Canada"),
    **dict(cl="Chile", cn="China", co="Colombia", cu="Cuba", cz="Czech Republic", dk="Denmark", eg="Egypt"),
    **dict(fi="Finland", fr="France", de="Germany", gr="Greece", ie="Ireland", il="Israel", it="Italy", jm="Jamaica"),
    **dict(jp="Japan", ke="Kenya", mx="Mexico", nl="Netherlands", ng="Nigeria", no="Norway", pk="Pakistan"),
    **dict(pl="Poland", pt="Portugal", ru="Russia", za="South Africa", kr="South Korea", es="Spain", se="Sweden"),
    **dict(ch="Switzerland", tr="Turkey", gb="United Kingdom", us="United States"),
    "in": "India",
}
"""ISO code → English name of every class."""

DRAWINGS = {"train": 12, "validation": 14, "test": 25, "round": 10}
"""Waved pictures made of one vendor's flag in each split."""

VENDORS: dict[str, str] = {
    **dict.fromkeys(("flag", "flagpack", "cif", "twemoji"), "train"),
    "svg-country-flags": "validation",
    "emojione": "test",
    "openclipart": "test",
    "circle-flags": "round",
}
"""Vendor → its split."""

ICON_NAMES = {("flagpack", "gb"): "gb-ukm"}
"""Icons whose name is not the ISO code: flagpack's ``gb`` is the flag of England."""

NOT_COUNTRIES = frozenset([("circle-flags", "ar"), ("circle-flags", "ie")])
"""Icons named like a country that show the flag of a language (Arabic, Interlingue)."""

CLIP_NAMES = {"ru": "russian_federation", "ch": "suisse"}
"""Openclipart files that are not called by the country's name in ``COUNTRIES``."""

TEMPLATES = ("{}", "the {}", "a picture of the {}", "the waving {}", "an icon of the {}")


def build() -> TaskData:
    """All vendors' flags of all countries, each waved a number of times over a random plain ground."""
    codes = sorted(COUNTRIES, key=COUNTRIES.__getitem__)
    data = TaskData(
        name="flags",
        title="Flags",
        domain="flags",
        new_in_test="drawings by vendors not seen in training",
        classes=[COUNTRIES[code] for code in codes],
        prompts=[f"flag of {COUNTRIES[code]}" for code in codes],
        templates=TEMPLATES,
        notices=notices(),
        shifts={"round": "round flags"},
    )
    rng = random.Random(4101)
    for label, code in enumerate(codes):
        for vendor, picture in _drawings(code):
            split = VENDORS[vendor]
            for _ in range(DRAWINGS[split]):
                ground = tuple(rng.randint(0, 255) for _ in range(3))
                data.add(on_ground(waved(picture, rng), ground, rng, 1.0, 0.03), label, split, f"{vendor}:{code}")
    return data


def notices() -> list[Notice]:
    """Origins of all the task's pictures."""
    address = "https://github.com/hjnilsson/country-flags"
    plain = Notice("svg-country-flags", "Hampus Joakim Nilsson and others", "Public domain", address, "flags")
    icons = (vendor for vendor in VENDORS if vendor not in ("svg-country-flags", "openclipart"))
    return [*(iconify.notice(vendor, "flags") for vendor in icons), plain, openclipart.notice("flags")]


def waved(flag: Image.Image, rng: random.Random) -> Image.Image:
    """The flag (RGBA) as cloth: turned by up to 18°, sheared, rippled and shaded by the ripple; 2·WORK pixels a side.

    Each output pixel looks up the point of the flat flag (96 × 72) it shows; pixels beyond the flag are clear.
    """
    flat = np.asarray(flag.convert("RGBA").resize((96, 72), Image.Resampling.LANCZOS), dtype=np.float32)
    height, width = flat.shape[:2]
    side = 2 * WORK
    turn, zoom = math.radians(rng.uniform(-18, 18)), rng.uniform(1.0, 1.25)
    shear, ripple = rng.uniform(-0.12, 0.12), rng.uniform(0, 7)
    waves, phase = rng.uniform(0.8, 1.8), rng.uniform(0, 2 * math.pi)
    y, x = (np.indices((side, side), dtype=np.float32) - side / 2) / zoom
    along = x * math.cos(turn) + y * math.sin(turn)
    angle = 2 * math.pi * waves * (along / width + 0.5) + phase
    across = y * math.cos(turn) - x * math.sin(turn) + shear * along + ripple * np.sin(angle)
    column, row = (np.rint(value).astype(int) for value in (along + width / 2, across + height / 2))
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    cloth = np.zeros((side, side, 4), dtype=np.float32)
    cloth[inside] = flat[row[inside], column[inside]]
    cloth[..., :3] *= 1 + 0.02 * ripple * np.cos(angle)[..., None]
    return Image.fromarray(cloth.clip(0, 255).astype(np.uint8), "RGBA")


def _drawings(code: str) -> Iterator[tuple[str, Image.Image]]:
    """Vendor and cropped picture of one country's flag, for every vendor that draws it."""
    for vendor in VENDORS:
        picture = _drawing(vendor, code)
        picture = iconify.trimmed(picture, 0) if picture else None
        if picture:
            yield vendor, picture


def _drawing(vendor: str, code: str) -> Image.Image | None:
    if vendor == "svg-country-flags":
        path = fetch("npm", vendor) / "package" / "png250px" / f"{code}.png"
        if not path.is_file():
            raise SourceError(f"svg-country-flags has no picture {path}; was its pin changed?")
        with Image.open(path) as picture:
            return picture.convert("RGBA")
    if vendor == "openclipart":
        clip = _clips().get(CLIP_NAMES.get(code, COUNTRIES[code].lower().replace(" ", "_")))
        return clip.picture() if clip else None
    name = _icon_name(vendor, code)
    return iconify.render(iconify.load(vendor).svg(name), 2 * WORK) if name else None


def _icon_name(vendor: str, code: str) -> str | None:
    if (vendor, code) in NOT_COUNTRIES:
        return None
    if vendor == "flag":
        return f"{code}-4x3"
    if vendor in ("twemoji", "emojione"):
        letters = "-".join(f"{0x1F1E6 + ord(letter) - ord('a'):x}" for letter in code)
        return emoji_table.names(vendor).get(letters) or _spelled(vendor, code)
    return ICON_NAMES.get((vendor, code), code)


def _spelled(vendor: str, code: str) -> str | None:
    """The icon called ``flag-for-<country>``, where the set does not list characters."""
    country = emoji_table.slug(COUNTRIES[code])
    names = (f"flag-for-{prefix}{country}" for prefix in ("", "flag-"))
    return next((name for name in names if name in iconify.load(vendor).icons), None)


@functools.lru_cache(maxsize=1)
def _clips() -> dict[str, openclipart.Clip]:
    """Openclipart's flags by the country in their file name; the plain name wins over ``flag_of_…``."""
    named = {clip.name.rpartition("/")[2].lower(): clip for clip in openclipart.clips("signs_and_symbols/flags")}
    aliases = {name.removeprefix("flag_of_"): clip for name, clip in named.items() if name.startswith("flag_of_")}
    return aliases | named
