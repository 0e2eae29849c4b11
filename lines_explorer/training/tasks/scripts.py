"""Task ``scripts``: in which of 17 writing systems are these one to three characters written?"""

from __future__ import annotations

import random
from collections import defaultdict

from lines_explorer.training.tasks import glyphs
from lines_explorer.training.tasks.common import TaskData, ink_and_ground
from lines_explorer.training.tasks.glyphs import SCRIPTS, Font

COUNTS = {"train": 420, "validation": 35, "test": 100}
"""Pictures of each class in each split."""

PROMPTS = {"Han": "Chinese Han", "Hangul": "Korean Hangul", "Hiragana": "Japanese Hiragana", "Ethiopic": "Ethiopic"}
TEMPLATES = ("a {} letter", "{} script", "text in the {} script", "{} writing", "characters of the {} alphabet")


def families(script: str, split: str) -> list[list[Font]]:
    """The fonts of every stem of a script in a split; the oddest Latin faces are left to the task ``letters``."""
    stems: dict[str, list[Font]] = defaultdict(list)
    for font in glyphs.fonts():
        odd = script == "Latin" and font.package == "fonts-aenigma"
        if script in font.scripts and font.split == split and not odd:
            stems[font.stem].append(font)
    return [stems[stem] for stem in sorted(stems)]


def sample(script: str, rng: random.Random) -> str:
    """One to three characters of a script, one more often."""
    return "".join(rng.choice(SCRIPTS[script]) for _ in range(rng.choice((1, 1, 2, 3))))


def build() -> TaskData:
    """17 scripts, ``COUNTS`` pictures each; stems take turns, so that none outweighs another."""
    rng = random.Random(17)
    data = TaskData(
        name="scripts",
        title="Scripts",
        domain="writing systems",
        new_in_test="unseen font families",
        classes=list(SCRIPTS),
        prompts=[PROMPTS.get(script, script) for script in SCRIPTS],
        templates=TEMPLATES,
        notices=[],
    )
    used: set[str] = set()
    for label, script in enumerate(SCRIPTS):
        for split, count in COUNTS.items():
            used |= _fill(data, label, script, split, count, rng)
    data.notices = glyphs.notices(used, "one to three characters drawn for the task scripts; the font is not included")
    return data


def _fill(data: TaskData, label: int, script: str, split: str, count: int, rng: random.Random) -> set[str]:
    """Add ``count`` pictures of a script; returns the packages drawn from (``RuntimeError`` if fonts are lacking)."""
    stems, used, made = families(script, split), set(), 0
    for attempt in range(count * 6 if stems else 0):
        if made == count:
            break
        font = rng.choice(stems[attempt % len(stems)])
        picture = glyphs.draw(font, sample(script, rng), ink_and_ground(rng), rng)
        if picture is not None:
            data.add(picture, label, split, font.stem)
            used.add(font.package)
            made += 1
    if made < count:
        raise RuntimeError(f"{script}: only {made} of {count} {split} pictures drawn; pin another font package")
    return used
