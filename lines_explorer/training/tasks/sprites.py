"""Task ``sprites``: the kind of thing a dungeon-game tile shows, for things not seen in training."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from lines_explorer.training.sources import fetch
from lines_explorer.training.tasks.common import Notice, TaskData, capped, dark_colour, light_colour, on_ground
from lines_explorer.training.tasks.splitting import stratified

CLASSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "weapon": ("a weapon such as a sword, axe or bow", ("item/weapon",)),
    "armour": ("armour such as a helmet, shield or chain mail", ("item/armour",)),
    "jewellery": ("jewellery such as a ring or amulet", ("item/ring", "item/amulet")),
    "wand or staff": ("a magic wand, staff or rod", ("item/wand", "item/staff", "item/rod")),
    "potion or food": ("a potion bottle or food", ("item/potion", "item/food")),
    "book or scroll": ("a book or scroll", ("item/book", "item/scroll")),
    "humanoid": ("a person, elf, orc or giant", ("mon/humanoids", "mon/demihumanoids", "mon/unique")),
    "beast": ("an animal, dragon or beast", ("mon/animals", "mon/dragons", "mon/draco", "mon/aquatic")),
    "undead": ("a zombie, skeleton or ghost", ("mon/undead",)),
    "demon or angel": ("a demon, devil or angel", ("mon/demons", "mon/holy", "mon/abyss")),
    "wall": ("a brick or stone wall", ("dngn/wall",)),
    "floor": ("a floor, ground or grass texture", ("dngn/floor",)),
    "door or gate": ("a door, gate, portal or stairs", ("dngn/doors", "dngn/gateways")),
    "altar or statue": ("an altar or statue", ("dngn/altars", "dngn/statues", "mon/statues")),
    "plant": ("a tree, bush or mushroom", ("dngn/trees", "mon/fungi_plants")),
    "spell icon": ("a magic spell icon", ("gui/spells", "gui/invocations")),
}
"""Class → prompt words and the folders of ``rltiles`` it is made of."""

TEMPLATES = ("{}", "a game sprite of {}", "pixel art of {}", "a dungeon tile showing {}", "a picture of {}")

OVERLAYS = re.compile(r"^(\.|i-|overlay|draco-job|bg$|bone)|(^|/)old|_overlay")
"""Files that are drawn over others and show nothing of their own."""

FRAME = re.compile(
    r"[_-]?(\d+|old|new|[nsew]|[ns][ew]|left|right|middle|open|closed|broken|runed|sealed|clear|up|down|top|bottom|"
    r"water|male|female)$",
    re.I,
)
"""Endings of file names that tell animation frames, directions and states of one thing apart."""

COLOUR = re.compile(
    r"[_-](blue|red|green|black|white|gold|gr[ae]y|yellow|brown|cyan|purple|magenta|pale|dark\w*|light\w*)$", re.I
)
"""Endings that tell colours apart; among items (potions, scrolls, rings) the colour is all there is."""

NUMBERED = ("staff", "rod")
"""Folders whose numbers are different things, not frames of one."""

TEXTURES = ("wall", "floor")
"""Classes whose tiles fill the picture."""

SAME_TEXTURE = 4
"""At most so many frames of one texture are used."""


def build() -> TaskData:
    """Tiles by class; all frames and colours of one thing are in one split (62 % / 8 % / 30 % of things)."""
    data = TaskData(
        name="sprites",
        title="Game sprites",
        domain="dungeon-game sprites",
        new_in_test="things not seen in training",
        classes=tuple(CLASSES),
        prompts=tuple(prompt for prompt, _ in CLASSES.values()),
        templates=TEMPLATES,
        notices=notices(),
    )
    rng = random.Random(1601)
    for label, (name, (_, folders)) in enumerate(CLASSES.items()):
        tiles: dict[str, list[Image.Image]] = {}
        for item, picture in _tiles(folders, 0.6 if name in TEXTURES else 0.06):
            tiles.setdefault(item, []).append(picture)
        if name in TEXTURES:
            tiles = {item: pictures[:SAME_TEXTURE] for item, pictures in tiles.items()}
        parts = stratified({item: len(pictures) for item, pictures in tiles.items()}, 0.62, 0.70)
        for item, picture in ((item, picture) for item, pictures in tiles.items() for picture in pictures):
            ground = dark_colour(rng) if rng.random() < 0.5 else light_colour(rng)
            data.add(on_ground(picture, ground, rng, 1.0, 0.0), label, parts[item], item)
    return capped(data, {"train": 170, "validation": 40, "test": 125})


def notices() -> list[Notice]:
    """Origin of the tiles."""
    source = "Dungeon Crawl Stone Soup 0.28.0, rltiles"
    authors = "the RLTiles and Dungeon Crawl Stone Soup artists"
    return [Notice(source, authors, "CC0-1.0 / public domain", "https://github.com/crawl/tiles", "sprites")]


def stem(name: str, colours: bool) -> str:
    """The thing a file name tells: ``vgate_open_up`` → ``vgate``; a name of nothing but a frame stays.

    ``colours``: whether colours tell things apart and are kept.
    """
    while True:
        shorter = FRAME.sub("", name)
        shorter = shorter if colours else COLOUR.sub("", shorter)
        if shorter in ("", name):
            return name
        name = shorter


def _tiles(folders: tuple[str, ...], covered: float) -> Iterator[tuple[str, Image.Image]]:
    """Item (folder and stem) and RGBA picture of each tile that covers a share ``covered``, copies left out."""
    root = fetch("apt-source", "crawl") / "stone_soup-0.28.0" / "source" / "rltiles"
    seen: set[str] = set()
    for path in (path for folder in folders for path in sorted((root / folder).glob("**/*.png"))):
        relative = path.relative_to(root)
        if OVERLAYS.search(path.stem) or "brands" in relative.as_posix():
            continue
        with Image.open(path) as image:
            picture = image.convert("RGBA")
        pixels = np.asarray(picture)
        digest = hashlib.md5(pixels.tobytes()).hexdigest()
        if digest not in seen and (pixels[..., 3] > 40).mean() > covered:
            seen.add(digest)
            yield _item(relative), picture


def _item(relative: Path) -> str:
    kind, folder = relative.parts[:2]
    if folder in NUMBERED:
        return f"{kind}/{folder}/{relative.stem}"
    return f"{kind}/{folder}/{stem(relative.stem, colours=kind == 'item')}"
