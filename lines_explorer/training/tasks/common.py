"""What every task builder returns, and the few drawing steps they share."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from PIL import Image

SIZE = 32
"""Side of every stored picture in pixels."""

WORK = 64
"""Side at which pictures are composed before they are reduced to ``SIZE``."""

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Notice:
    """Where pictures come from: source, author, licence (SPDX where there is one), address, what they became."""

    source: str
    author: str
    licence: str
    url: str
    use: str


@dataclass
class TaskData:
    """Labelled pictures of one task.

    ``classes``: class names, in label order.  ``prompts``: for each class the words that fill ``{}`` in the
    ``templates``.  ``domain``: one phrase for the page ("handwriting").  ``new_in_test``: what test pictures
    have that training pictures do not ("unseen font families").  ``shifts``: title of each shifted set, by name.
    ``size``: side of a stored picture in pixels.
    """

    name: str
    title: str
    domain: str
    new_in_test: str
    classes: Sequence[str]
    prompts: Sequence[str]
    templates: Sequence[str]
    notices: list[Notice]
    shifts: dict[str, str] = field(default_factory=dict)
    size: int = SIZE
    pixels: list[np.ndarray] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    items: list[str] = field(default_factory=list)

    def add(self, picture: Image.Image | np.ndarray, label: int, split: str, item: str) -> None:
        """Add one picture.

        ``split`` is ``train``, ``validation``, ``test`` or a key of ``shifts``.  ``item`` names the thing that
        must never be in two of the first three splits (a font family, a code point, a 3-D model, a tile).
        """
        if isinstance(picture, np.ndarray):
            picture = Image.fromarray(picture)
        picture = picture.convert("RGB")
        if picture.size != (self.size, self.size):
            picture = picture.resize((self.size, self.size), Image.Resampling.LANCZOS)
        self.pixels.append(np.asarray(picture, dtype=np.uint8))
        self.labels.append(int(label))
        self.splits.append(split)
        self.items.append(item)


def grouped_split(group: object, train: float, validation: float) -> str:
    """The split of a group of items, from a hash of its name: the same on every machine and in every order.

    ``train`` and ``validation`` are cumulative shares in [0, 1]: 0.62, 0.70 gives 62 % / 8 % / 30 %.
    """
    share = int(hashlib.md5(str(group).encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
    return "train" if share < train else "validation" if share < validation else "test"


def capped(data: TaskData, limits: dict[str, int], seed: int = 0) -> TaskData:
    """At most ``limits[split]`` pictures of each class in each named split, chosen by a seeded shuffle; order kept."""
    order = list(range(len(data.labels)))
    random.Random(seed).shuffle(order)
    kept, counts = [], {}
    for index in order:
        split, label = data.splits[index], data.labels[index]
        counts[split, label] = counts.get((split, label), 0) + 1
        if counts[split, label] <= limits.get(split, len(order)):
            kept.append(index)
    kept.sort()
    for name in ("pixels", "labels", "splits", "items"):
        column = getattr(data, name)
        setattr(data, name, [column[index] for index in kept])
    return data


def light_colour(rng: random.Random) -> Colour:
    """A pastel ground colour."""
    return tuple(rng.randint(205, 255) for _ in range(3))


def dark_colour(rng: random.Random) -> Colour:
    """A dark ink colour."""
    return tuple(rng.randint(0, 110) for _ in range(3))


def ink_and_ground(rng: random.Random) -> tuple[Colour, Colour]:
    """Dark on light in 60 % of draws, else light on dark."""
    dark, light = dark_colour(rng), light_colour(rng)
    return (dark, light) if rng.random() < 0.6 else (light, dark)


def on_ground(
    picture: Image.Image,
    ground: Colour,
    rng: random.Random,
    scale: float = 0.9,
    jitter: float = 0.05,
    rotation: float = 0.0,
) -> Image.Image:
    """A transparent picture centred on a plain ground of ``WORK``×``WORK`` pixels.

    ``scale``: longer side as a share of the canvas; ``jitter``: largest shift as a share of the canvas;
    ``rotation``: largest turn in degrees.
    """
    picture = picture.convert("RGBA")
    factor = WORK * scale / max(picture.size)
    size = tuple(max(1, int(side * factor)) for side in picture.size)
    picture = picture.resize(size, Image.Resampling.LANCZOS)
    if rotation:
        picture = picture.rotate(rng.uniform(-rotation, rotation), Image.Resampling.BICUBIC, expand=True)
    canvas = Image.new("RGBA", (WORK, WORK), (*ground, 255))
    left, top = ((WORK - side) // 2 + int(rng.uniform(-jitter, jitter) * WORK) for side in picture.size)
    canvas.alpha_composite(picture, (max(0, left), max(0, top)), (max(0, -left), max(0, -top)))
    return canvas.convert("RGB")
