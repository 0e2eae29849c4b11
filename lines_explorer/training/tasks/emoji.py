"""Task ``emoji``: what kind of thing an emoji shows, for code points that no vendor showed in training."""

from __future__ import annotations

import collections
import functools
import random
import re

from PIL import Image

from lines_explorer.training.tasks import emoji_table, iconify, openclipart
from lines_explorer.training.tasks.common import Notice, TaskData, capped, light_colour, on_ground
from lines_explorer.training.tasks.emoji_table import Emoji
from lines_explorer.training.tasks.splitting import stratified

VENDORS = ("noto", "noto-v1", "twemoji", "emojione", "fxemoji")
"""Vendors of training, validation and test pictures."""

CLASSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "mammal": ("a mammal such as a dog, cat, horse or monkey", ("animal-mammal", "monkey-face")),
    "bird": ("a bird such as a duck, eagle or parrot", ("animal-bird",)),
    "sea animal, reptile or insect": (
        "a fish, crab, snake, spider or insect",
        ("animal-marine", "animal-bug", "animal-reptile", "animal-amphibian"),
    ),
    "plant": ("a plant such as a flower, tree or leaf", ("plant-flower", "plant-other")),
    "fruit or vegetable": ("a fruit or vegetable such as an apple or carrot", ("food-fruit", "food-vegetable")),
    "meal or drink": (
        "a dish, dessert, snack or drink",
        ("food-prepared", "food-asian", "food-sweet", "drink"),
    ),
    "face": (
        "a smiling, crying or angry face",
        tuple(
            f"face-{mood}"
            for mood in (
                *("smiling", "affection", "tongue", "hand", "neutral-skeptical", "sleepy", "unwell", "hat"),
                *("glasses", "concerned", "negative"),
            )
        ),
    ),
    "vehicle": (
        "a vehicle such as a car, train, boat or airplane",
        ("transport-ground", "transport-water", "transport-air"),
    ),
    "building": ("a building such as a house, church or castle", ("place-building", "place-religious")),
    "clothing": ("clothing such as a shirt, shoe, hat or bag", ("clothing",)),
    "sport or game": ("a sports ball, sports equipment or a game", ("sport", "game")),
    "music or sound": ("a musical instrument, music notes or a speaker", ("musical-instrument", "music", "sound")),
    "tool or office item": (
        "a tool, pencil, document or laboratory instrument",
        ("tool", "office", "writing", "lock", "science", "medical"),
    ),
    "weather or sky": ("weather, clouds, the sun, moon or stars", ("sky-weather",)),
}
"""Class → prompt words and the Unicode subgroups it is made of."""

TEMPLATES = ("{}", "an emoji of {}", "a picture of {}", "an icon showing {}", "a colourful drawing of {}")

STRAYS = frozenset(
    """pig-nose paw-prints feather wing spider-web microbe rosette empty-nest nest-with-eggs brick rock wood
    skull skull-and-crossbones station bus-stop motorway railway-track oil-drum fuel-pump wheel police-car-light
    horizontal-traffic-light vertical-traffic-light stop-sign construction anchor ring-buoy seat lipstick hair-pick
    prayer-beads gem-stone level-slider control-knobs thermometer fire""".split()
)
"""Members of those subgroups that do not show what the class says."""

VARIANTS = re.compile(
    r"\b(moon|sun|umbrella|snowman|speaker|bell|drum|microphone|musical note|calendar|pushpin|paperclip|chart|folder|"
    r"lock|key|hammer|ruler|chain|card|automobile|bus|taxi|police car|train|tram|boat|airplane|wheelchair|dragon|whale|"
    r"mushroom|leaf|clover|apple|bread|ice cream|beer|chick|monkey|dog|cat|tiger|horse|cow|pig|mouse|rabbit|camel|bear|"
    r"post office|castle|glasses|sandal|boot|helmet|cheese|pepper|football|pencil|pen|kissing face|frowning face)s?\b"
)
"""Words that make several code points forms of one picture."""

FORMS = re.compile(r"\b(man|woman|person|small|large|medium|low|high|front-facing)\b ?")
"""Words that only tell forms of one emoji apart."""

CLIPART: dict[str, tuple[str, ...]] = {
    "mammal": ("animals/mammals",),
    "bird": ("animals/birds",),
    "sea animal, reptile or insect": ("animals/fish", "animals/bugs"),
    "plant": ("plants",),
    "fruit or vegetable": ("food/fruit", "food/vegetables"),
    "meal or drink": ("food/desserts", "food/beverages", "food/meats_and_eggs", "food/breads_and_carbs", "food/dairy"),
    "face": ("people/smilies",),
    "vehicle": ("transportation",),
    "building": ("buildings",),
    "clothing": ("people/clothing",),
    "sport or game": ("recreation/sports", "recreation/games"),
    "music or sound": ("recreation/music",),
    "tool or office item": ("tools", "office"),
    "weather or sky": ("signs_and_symbols/weather", "geography/astronomy", "science/astronomy"),
}
"""Class → Openclipart categories of the shift ``clipart``."""

CLIPART_STRAYS = re.compile(
    r"/cards/|/roadsigns/|furniture|tools/toys|brick|/wall|old_sign|capitello|demolizione|hallway|bullet_hole|cross_hand_drawn|"
    r"crossbones|portrait_of|/base$|baby_tux|football_pitch|sport_(?!aerobica)|stacco|tsunami|00_moonphases|cup_rolland|"
    r"handshake|reunion|telephone_|numero_verde|pantyhose_rollandin_fra|earring|gold_chain|shoe_print|jacob_leisler|"
    r"transportation/(?!(?:\w+/)?(?:\w*(?:boat_(?!rules)|plane|aircraft|ambulan|autos|bicycle|bicicletta|truck|bmw|"
    r"chevrolet|bus_01|bus[12]_|redcar|dodge|fire_engine|formula|hummer|motorcycle|shuttle|toyota|tramway|rocket|"
    r"little_ship|trattore|trawler|vtt|cobra|skoda|blazer)|car$|car_|sailboat_illustration$|bike_))"
)
"""Pictures in those categories that do not show what the class says."""


def label(emoji: Emoji) -> int | None:
    """Index of the emoji's class; None for emoji that are not in the task."""
    if emoji.slug in STRAYS:
        return None
    for index, (_, subgroups) in enumerate(CLASSES.values()):
        if emoji.subgroup in subgroups:
            return index
    return None


def group(emoji: Emoji) -> str:
    """Name shared by the gender, size and viewpoint forms of one emoji, which stay in one split."""
    text = emoji.label.lower().split(":")[0]
    variant = VARIANTS.search(text)
    return variant[1] if variant else FORMS.sub("", text)


@functools.lru_cache(maxsize=1)
def splits() -> dict[str, str]:
    """Code → ``train`` (62 %), ``validation`` (8 %) or ``test`` (30 %) for every emoji of the task.

    A group of which two classes have members follows the first of them.
    """
    codes: dict[str, list[str]] = {}
    sizes: dict[int, collections.Counter[str]] = {}
    for code, emoji in emoji_table.table().items():
        kind = label(emoji)
        if kind is not None:
            codes.setdefault(group(emoji), []).append(code)
            sizes.setdefault(kind, collections.Counter())[group(emoji)] += 1
    chosen: dict[str, str] = {}
    for _, groups in sorted(sizes.items()):
        chosen = stratified(groups, 0.62, 0.70) | chosen
    return {code: chosen[name] for name, members in codes.items() for code in members}


def held_out() -> frozenset[str]:
    """Codes of the validation and test emoji, which nothing may train on in any vendor's drawing."""
    return frozenset(code for code, part in splits().items() if part != "train")


def clipart_folders() -> frozenset[str]:
    """Openclipart categories that the shift ``clipart`` uses."""
    return frozenset(folder for folders in CLIPART.values() for folder in folders)


def build() -> TaskData:
    """Five vendors' drawings; shifts: Fluent 3D renders of the unseen code points, and Openclipart drawings."""
    data = TaskData(
        name="emoji",
        title="Emoji",
        domain="emoji",
        new_in_test="emoji that no vendor showed in training",
        classes=tuple(CLASSES),
        prompts=tuple(prompt for prompt, _ in CLASSES.values()),
        templates=TEMPLATES,
        notices=notices(),
        shifts={"renders": "3-D renders of unseen emoji", "clipart": "clip art"},
    )
    rng = random.Random(1401)
    _add_drawings(data, rng)
    _add_renders(data, rng)
    _add_clipart(data, rng)
    return capped(data, {"validation": 60, "test": 160, "clipart": 90})


def notices() -> list[Notice]:
    """Origins of all the task's pictures."""
    address = "https://github.com/microsoft/fluentui-emoji"
    fluent = Notice("Fluent Emoji 3D", "Microsoft Corporation", "MIT", address, "emoji: shift renders")
    names = Notice("emojibase-data", "Miles Johnson", "MIT", "https://github.com/milesj/emojibase", "emoji: labels")
    clipart = openclipart.notice("emoji: shift clipart")
    return [*(iconify.notice(vendor, "emoji") for vendor in VENDORS), fluent, clipart, names]


def _add_drawings(data: TaskData, rng: random.Random) -> None:
    drawn: set[str] = set()
    for code, emoji in emoji_table.table().items():
        part = splits().get(code)
        for vendor in VENDORS if part else ():
            name = emoji_table.names(vendor).get(code)
            if name is None:
                continue
            icons = iconify.load(vendor)
            body = icons.icons[name]["body"]
            if body not in drawn:
                drawn.add(body)
                _place(data, iconify.render(icons.svg(name)), label(emoji), part, group(emoji), rng)


def _add_renders(data: TaskData, rng: random.Random) -> None:
    unseen = held_out()
    for code, path in emoji_table.renders().items():
        if code in unseen:
            emoji = emoji_table.table()[code]
            with Image.open(path) as picture:
                _place(data, picture.convert("RGBA"), label(emoji), "renders", code, rng)


def _add_clipart(data: TaskData, rng: random.Random) -> None:
    classes, seen = list(CLASSES), set()
    for name, folders in CLIPART.items():
        for clip in (clip for folder in folders for clip in openclipart.clips(folder)):
            if CLIPART_STRAYS.search(clip.name) or clip.digest in seen:
                continue
            seen.add(clip.digest)
            picture = clip.picture()
            if picture:
                _place(data, picture, classes.index(name), "clipart", clip.name, rng)


def _place(data: TaskData, picture: Image.Image, label: int, split: str, item: str, rng: random.Random) -> None:
    data.add(on_ground(picture, light_colour(rng), rng), label, split, item)
