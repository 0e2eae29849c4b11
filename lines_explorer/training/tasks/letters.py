"""Task ``letters``: which capital letter is this, in a decorative typeface?"""

from __future__ import annotations

import random
import string

from lines_explorer.training.tasks import glyphs
from lines_explorer.training.tasks.common import TaskData, ink_and_ground
from lines_explorer.training.tasks.glyphs import Font

LIMITS = {"train": 224, "validation": 23, "test": 77}
"""Most pictures of each class in each split."""

TEMPLATES = (
    "the letter {}",
    "capital letter {}",
    "a picture of the capital letter {}",
    "upper-case letter {}",
    "the letter {} in a decorative typeface",
)


def typefaces(split: str) -> list[Font]:
    """One font of every Latin family in a split (its plainest file comes first)."""
    chosen: dict[str, Font] = {}
    for font in glyphs.fonts():
        if "Latin" in font.scripts and font.split == split:
            chosen.setdefault(font.family, font)
    return list(chosen.values())


def build() -> TaskData:
    """26 capitals; a letter is drawn once from each family, up to ``LIMITS`` families in a seeded random order."""
    rng = random.Random(26)
    data = TaskData(
        name="letters",
        title="Letters",
        domain="decorative capitals",
        new_in_test="unseen font families",
        classes=list(string.ascii_uppercase),
        prompts=list(string.ascii_uppercase),
        templates=TEMPLATES,
        notices=[],
    )
    used: set[str] = set()
    for split, limit in LIMITS.items():
        faces = typefaces(split)
        for label, letter in enumerate(string.ascii_uppercase):
            used |= _fill(data, label, letter, rng.sample(faces, len(faces)), split, limit, rng)
    data.notices = glyphs.notices(used, "capital letters drawn for the task letters; the font is not included")
    return data


def _fill(
    data: TaskData, label: int, letter: str, faces: list[Font], split: str, limit: int, rng: random.Random
) -> set[str]:
    """Add up to ``limit`` pictures of one letter, one per face; returns the packages drawn from."""
    used, made = set(), 0
    for font in faces:
        if made == limit:
            break
        picture = glyphs.draw(font, letter, ink_and_ground(rng), rng)
        if picture is not None:
            data.add(picture, label, split, font.stem)
            used.add(font.package)
            made += 1
    return used
