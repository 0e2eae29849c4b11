"""Captioned pictures for pre-training: icons under permissive licences and clip art, without anything held out.

Left out are logos, country flags, skin tones, copies, sets under other licences, the vendors of shifted test
sets, and every emoji of the emoji task's validation and test sets, whoever drew it.
"""

from __future__ import annotations

import collections
import functools
import random
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from lines_explorer.training.tasks import emoji, emoji_table, iconify, openclipart
from lines_explorer.training.tasks.common import SIZE, Colour, Notice, ink_and_ground, light_colour, on_ground

WHITE: Colour = (255, 255, 255)
BLACK: Colour = (0, 0, 0)

LEFT_OUT = re.compile(
    r"^(fluent-emoji.*|streamline-emojis|circle-flags|flag|flagpack|cif|svg-spinners|dinkie-icons|bitcoin-icons|"
    r"ginetex|nonicons)$"
)
"""Vendors of shifts and of the flags task, animations, letters in pixels, currencies."""

STYLES = frozenset(
    """outline outlined filled fill bold light thin duotone regular solid round rounded sharp linear broken line
    twotone two tone color colour flat baseline remix alt low small large mini micro duo variant o rtl ltr stroke
    fade off2 poly lg sm xs xl sharpish solid2 24px 20px 16px 12px 32px 48px normal rounded2 thick dotted""".split()
)
"""Words of icon names that tell the drawing style, not the thing drawn."""

PICTURED = frozenset({"game-icons", "healthicons", "pinhead", "temaki", "maki"})
"""Sets that draw things, not user interfaces: their concepts need no second author."""

LEADING_STYLES = frozenset("outline baseline round sharp twotone bold light duotone".split())

CLIPART_LEFT_OUT = re.compile(
    r"^(computer/icons|shapes/(stars|flowchart|jigsaw)|special|unsorted|logos|buttons|signs_and_symbols/(flags|led)|"
    r"recreation/games/cards)(/|$)|nude|naked|stripper|sexy|pantyhose|swastika"
)
"""Openclipart pictures that name nothing (stars by number of points, test patterns), flags, logos, unsuitable ones."""

VAGUE_TITLES = re.compile(r"clip ?art|gramastar|untitled|^aiga|^map symbols?$|icons?$|blueman|^smiley$", re.I)
"""Titles shared by whole series; the file name then tells more."""

VAGUE_WORDS = frozenset(
    """interface|interface essential|interfaceessential|new icons|newicons|ui actions|general|abstract|other|others|
    misc|unsorted|hash|shape|shapes|sign|signs|symbol|symbols|signs and symbols|clip art|clipart|mapsym|actions|
    action|icon|icons|basic|base|black and white|color|silhouette|sketch|cartoon|ui""".replace("\n    ", "").split("|")
)
"""Category names and keywords that say nothing about the picture."""


ORDINARY = frozenset(
    """wallet tablet terminal bluetooth chat rss usb eraser add cursor layout flask ban scan sync radar cast route files
    task drone safe campfire vector layer lighthouse swap git blur meteor polygon vault node sketch sphere thumbtack
    pocket prism start voice audio shift connect flood storm flare perspective socket dock progress spotlight matrix
    flow fold belt thermostat dome drizzle gravity sail hive meter spectrum atlas toll greenhouse rake bean lens
    billboard boots lever racket arch channel horizon treehouse spaceship valve shortcut auction maps periscope beam
    brave boost buffer composer element discover harbor helm infinity iris katana leaflet less abstract aqua
    arc""".split()
)
"""Everyday words that are also names of products."""


@dataclass(frozen=True)
class Entry:
    """One picture to be drawn: where from (set and icon, or clip), its concept, synonyms, author, colours."""

    source: str
    name: str
    concept: str
    synonyms: tuple[str, ...]
    author: str
    coloured: bool


def words(text: str) -> str:
    """Lower-case English words of a name or title: letters, digits and apostrophes, CamelCase split, single spaces."""
    return " ".join(re.findall(r"[a-z0-9']+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower()))


def concept(name: str) -> str:
    """The thing an icon name tells, without style words and numbers: ``garbage-truck-24-filled``: garbage truck."""
    parts = [part for part in name.split("-") if part]
    while parts and (parts[-1] in STYLES or parts[-1].isdigit()):
        parts.pop()
    while parts and parts[0] in LEADING_STYLES:
        parts.pop(0)
    return words(" ".join(parts))


def sets() -> list[str]:
    """Prefixes of the iconify sets that are used, in alphabetical order."""
    return [
        prefix
        for prefix, row in sorted(iconify.collections().items())
        if row["license"].get("spdx") in iconify.PERMISSIVE
        and row.get("category") != "Logos"
        and (row.get("category") != "Programming" or prefix == "codicon")
        and not prefix.endswith("brands")
        and not LEFT_OUT.match(prefix)
    ]


def notices() -> list[Notice]:
    """Origins of every set a corpus picture may come from."""
    use = "pre-training pictures"
    return [*(iconify.notice(prefix, use) for prefix in sets()), openclipart.notice(use)]


@functools.lru_cache(maxsize=2)
def _brands(sets: int) -> frozenset[str]:
    """Names found in at least ``sets`` sets of logos that are neither ``ORDINARY`` nor in the emoji vocabulary."""
    counts: collections.Counter[str] = collections.Counter()
    for prefix, row in iconify.collections().items():
        if row.get("category") == "Logos":
            counts.update({concept(name) for name in iconify.load(prefix).icons})
    rows = emoji_table.table().values()
    plain = {word for row in rows for text in (row.label, *row.tags) for word in (words(text), *words(text).split())}
    plain |= ORDINARY
    return frozenset(name for name, count in counts.items() if count >= sets and name not in plain)


@functools.lru_cache(maxsize=1)
def _countries() -> frozenset[str]:
    labels = (row.label for row in emoji_table.table().values() if row.subgroup in ("country-flag", "subdivision-flag"))
    return frozenset(words(label.split(":")[-1]) for label in labels) | {"usa", "uk", "cymru"}


def _nameable(name: str) -> bool:
    """Whether a concept is one to five words with letters, and neither a logo nor a country's flag."""
    parts = name.split()
    if not 1 <= len(parts) <= 5 or not re.search(r"[a-z]{3}", name) or parts[0] in ("brand", "logo", "letter"):
        return False
    if parts[-1] in ("logo", "brand") or name in _brands(2) or parts[0] in _brands(5):
        return False
    return not ({"flag", "flags"} & set(parts) and any(re.search(rf"\b{country}\b", name) for country in _countries()))


def _emoji_entries(prefix: str, author: str, coloured: bool) -> Iterator[Entry]:
    held, codes = emoji.held_out(), emoji_table.codes(prefix)
    for name, _ in iconify.load(prefix).visible():
        row = emoji_table.table().get(codes.get(name, ""))
        if row and row.code not in held and row.subgroup not in ("country-flag", "subdivision-flag"):
            yield Entry(prefix, name, words(row.label), tuple(words(tag) for tag in row.tags), author, coloured)


def _icon_entries(prefix: str, author: str, coloured: bool) -> Iterator[Entry]:
    icons = iconify.load(prefix)
    others: dict[str, list[str]] = {}
    for alias, parent in icons.aliases().items():
        others.setdefault(parent, []).append(concept(alias))
    kinds = {name: words(kind) for kind, names in icons.data.get("categories", {}).items() for name in names}
    for name, icon in icons.visible():
        thing, kind = concept(name), kinds.get(name, "")
        if "<animate" not in icon["body"] and _nameable(thing) and not re.search(r"\b(brands?|logos?)\b", kind):
            known = {thing, *VAGUE_WORDS}
            synonyms = dict.fromkeys(word for word in (*others.get(name, ()), kind) if word and word not in known)
            yield Entry(prefix, name, thing, tuple(synonyms), author, coloured)


def _icons() -> list[Entry]:
    """Every usable icon once (equal bodies are copies), sets in alphabetical order."""
    found, bodies = [], set()
    for prefix in sets():
        row = iconify.collections()[prefix]
        listed = _emoji_entries if row.get("category") == "Emoji" else _icon_entries
        for entry in listed(prefix, row["author"]["name"], bool(row.get("palette"))):
            body = hash("".join(iconify.load(prefix).icons[entry.name]["body"].split()))
            if body not in bodies:
                bodies.add(body)
                found.append(entry)
    return found


def _spread(icons: Sequence[Entry], limit: int, rng: random.Random) -> list[Entry]:
    """At most ``limit`` one-colour icons of each concept, from different sets where possible.

    A concept counts if two authors drew it or a set of ``PICTURED`` has it.
    """
    by_concept: dict[str, list[Entry]] = {}
    for entry in icons:
        by_concept.setdefault(entry.concept, []).append(entry)
    chosen = []
    for name in sorted(by_concept):
        entries = by_concept[name]
        if len({entry.author for entry in entries}) < 2 and entries[0].source not in PICTURED:
            continue
        plain = [entry for entry in entries if not entry.coloured]
        rng.shuffle(plain)
        turn: collections.Counter[str] = collections.Counter()
        ranked = []
        for entry in plain:
            ranked.append((turn[entry.source], entry))
            turn[entry.source] += 1
        chosen += [entry for _, entry in sorted(ranked, key=lambda pair: pair[0])[:limit]]
    return chosen


def _clips() -> Iterator[tuple[openclipart.Clip, Entry]]:
    """Openclipart pictures that the shift ``clipart`` does not show, in no category of it and no copy of one."""
    folders = emoji.clipart_folders()
    shifted = {clip.digest for folder in folders for clip in openclipart.clips(folder)}
    for clip in openclipart.clips():
        above = {"/".join(clip.name.split("/")[:depth]) for depth in range(1, clip.name.count("/") + 1)}
        if above & folders or CLIPART_LEFT_OUT.search(clip.name) or clip.digest in shifted or not clip.public_domain():
            continue
        title, keywords = clip.words()
        if not title or VAGUE_TITLES.search(title):
            title = re.sub(r"[_\d]+|aiga", " ", clip.name.rpartition("/")[2])
        named = words(re.sub(r"\d+", " ", title))
        tags = (words(keyword) for keyword in keywords if keyword.count(" ") < 2)
        tags = (tag for tag in tags if tag and tag not in VAGUE_WORDS and "architetto" not in tag)
        flag = re.search(r"\bflags?\b", " ".join([named, *(words(keyword) for keyword in keywords)]))
        if re.search("[a-z]{3}", named) and named.count(" ") < 6 and not flag:
            yield clip, Entry("openclipart", clip.name, named, tuple(dict.fromkeys(tags)), "", True)


def caption(entry: Entry, rng: random.Random) -> str:
    """The concept, in two of five draws (always for clip art) followed by one to three synonyms."""
    extra: list[str] = []
    if entry.synonyms and (entry.source == "openclipart" or rng.random() < 0.4):
        extra = rng.sample(entry.synonyms, min(len(entry.synonyms), rng.randint(1, 3)))
    return ", ".join(dict.fromkeys([entry.concept, *extra]))


def _draw(entry: Entry, rng: random.Random) -> np.ndarray:
    """The icon at 32 × 32: coloured on white (60 %) or pastel, one-colour in black on white (half) or any ink."""
    if entry.coloured:
        ink, ground = (34, 34, 34), WHITE if rng.random() < 0.6 else light_colour(rng)
    else:
        ink, ground = (BLACK, WHITE) if rng.random() < 0.5 else ink_and_ground(rng)
    picture = iconify.render(iconify.load(entry.source).svg(entry.name, ink))
    return _reduced(on_ground(picture, ground, rng, rng.uniform(0.78, 1.0)))


def _reduced(picture: Image.Image) -> np.ndarray:
    return np.asarray(picture.resize((SIZE, SIZE), Image.Resampling.LANCZOS), dtype=np.uint8)


def build(limit_per_concept: int = 5, total: int = 90000, seed: int = 0) -> tuple[np.ndarray, list[str], list[str]]:
    """Pictures uint8 [n, 32, 32, 3], captions and source names (iconify prefix or ``openclipart``), n ≤ ``total``.

    All clip art and coloured icons come first; the rest of ``total`` is filled with one-colour icons, at most
    ``limit_per_concept`` of a concept (``_spread``).  Blank drawings are left out.
    """
    rng = random.Random(seed)
    icons = _icons()
    clips = list(_clips())
    coloured = [entry for entry in icons if entry.coloured]
    plain = _spread(icons, limit_per_concept, rng)
    rng.shuffle(coloured)
    rng.shuffle(plain)
    chosen = [*coloured, *plain][: max(0, total - len(clips))]
    chosen.sort(key=lambda entry: (entry.source, entry.name))
    _say(f"{len(clips)} clips, {len(coloured)} coloured and {len(plain)} one-colour icons; drawing {len(chosen)} icons")
    rows: list[tuple[np.ndarray, str, str]] = []
    for clip, entry in clips[:total]:
        picture = clip.picture()
        if picture:
            ground = WHITE if rng.random() < 0.6 else light_colour(rng)
            rows.append((_reduced(on_ground(picture, ground, rng)), caption(entry, rng), entry.source))
    for count, entry in enumerate(chosen):
        rows.append((_draw(entry, rng), caption(entry, rng), entry.source))
        if count % 5000 == 0:
            _say(f"{count} of {len(chosen)} icons drawn")
    rows = [row for row in rows if row[0].std(axis=(0, 1)).max() > 4]
    pixels, captions, sources = zip(*rows, strict=True)
    return np.stack(pixels), list(captions), list(sources)


def _say(message: str) -> None:
    print(f"icon corpus: {message}", file=sys.stderr, flush=True)
