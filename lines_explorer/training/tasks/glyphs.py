"""Font files of the pinned packages: which scripts they draw, which split they belong to, how a glyph is drawn.

Every font belongs to a *stem* (a family with its weights, outlines and near relatives).  A stem has one split,
shared by the tasks ``scripts`` and ``letters`` and by the glyph corpus, so no design crosses from one to another.
"""

from __future__ import annotations

import hashlib
import json
import logging
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from fontTools.ttLib import TTFont, TTLibError
from PIL import Image, ImageDraw, ImageFont

from lines_explorer.training.sources import PINS, SourceError, fetch
from lines_explorer.training.tasks.common import WORK, Colour, Notice

PROBE = 48
"""Size in pixels at which a glyph is measured before it is drawn to fit."""

MISSING = "\U0010fffd"
"""A private character that no font here has: it draws as the font's ``.notdef`` box."""

SCRIPTS: dict[str, str] = {
    "Latin": "BDGJKQRSUVZabdefghjkmnqrstuyz",
    "Greek": "αβγδεζηθλμξπσςφψωΔΘΛΞΣΨΩ",
    "Cyrillic": "бвгджзийлпфцчшщъыьэюяБДЖЗИЛЦЧШЩЪЫЭЮЯ",
    "Arabic": "ابتثجحخدذرزسشصضطظعغفقكلمنهوي",
    "Hebrew": "אבגדהוזחטיכלמנסעפצקרשת",
    "Devanagari": "अआइईउऊएकखगघचछजझटठडढणतथदधनपफबभमयरलवशषसह",
    "Bengali": "অআইঈউঊএকখগঘচছজঝটঠডঢণতথদধনপফবভমযরলশষসহ",
    "Tamil": "அஆஇஈஉஊஎஏஐஒஓகஙசஞடணதநபமயரலவழளறன",
    "Telugu": "అఆఇఈఉఊఎఏఐఒఓకఖగఘచఛజటఠడఢణతథదధనపఫబభమయరలవశషసహ",
    "Malayalam": "അആഇഈഉഊഎഏഐഒഓകഖഗഘചഛജടഠഡഢണതഥദധനപഫബഭമയരലവശഷസഹ",
    "Thai": "กขคฆงจฉชซฌญฎฏฐฑฒณดตถทธนบปผฝพฟภมยรลวศษสหฬอฮ",
    "Khmer": "កខគឃងចឆជឈញដឋឌឍណតថទធនបផពភមយរលវសហឡអ",
    "Georgian": "აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ",
    "Ethiopic": "ሀለሐመሠረሰሸቀበተቸኀነኘአከኸወዐዘዠየደጀገጠጨጰጸፀፈፐሁሊላሌልሎሙሚማሜምሞሩሪራሬርሮ",
    "Hangul": "가나다라마바사아자차카타파하고노도로모보소오조초코토포호"
    "구누두루무부수우주추강난달람맛밥살앙잔창콩톨풍학글한국말",
    "Hiragana": "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろわをん",
    "Han": "日月山川水火木金土人大小中上下左右南北春夏秋冬"
    "天地心手足目耳王玉石田力刀弓女犬牛羊竹米花草林森雨雪星光明白青百"
    "千立文字本名先生年早休町村男古今外多少市父母友思言新方知分切交合同回何作住使信美永和安有京高京海空正",
}
"""The script classes with the characters drawn for each: letters that other scripts share are left out."""

_LATIN = ("Latin", "Greek", "Cyrillic")
_PACKAGES: dict[str, tuple[str, ...]] = {
    r"fonts-(kacst|kacst-one|arabeyes|paktype|farsiweb|hosny-.*)": ("Arabic",),
    r"fonts-sil-(lateef|scheherazade|harmattan)": ("Arabic",),
    r"fonts-lemonada": ("Arabic", "Latin"),
    r"culmus(-fancy)?": ("Hebrew",),
    r"fonts-(lohit-deva|deva-extra|gargi|nakula|sahadeva|sarai|samyak-deva|sil-annapurna)": ("Devanagari",),
    r"fonts-(beng-extra|lohit-beng-.*)": ("Bengali",),
    r"fonts-(lohit-taml.*|samyak-taml|taml-tamu)": ("Tamil",),
    r"fonts-(lohit-telu|telu-extra|teluguvijayam)": ("Telugu",),
    r"fonts-(lohit-mlym|samyak-mlym|smc-.*|rit-sundar)": ("Malayalam",),
    r"fonts-tlwg-.*": ("Thai",),
    r"fonts-(khmeros|sil-mondulkiri)": ("Khmer",),
    r"fonts-bpg-georgian": ("Georgian",),
    r"fonts-dejavu-core": (*_LATIN, "Georgian"),
    r"fonts-(sil-abyssinica|senamirmir-washra)": ("Ethiopic",),
    r"fonts-(nanum|nanum-extra|woowa-bm|unfonts-.*|baekmuk|alee)": ("Hangul",),
    r"fonts-(arphic-.*|wqy-.*|cwtex-.*)": ("Han",),
    r"fonts-(ipafont-.*|sawarabi-.*|motoya-.*|seto|yusei-magic|kouzan-.*|aoyagi-.*)": ("Hiragana", "Han"),
    r"fonts-(rampart|reggae|rocknroll|stick|dotgothic16)": ("Hiragana", "Han"),
}
"""Scripts for which a package's fonts are used; other packages serve Latin, Greek and Cyrillic."""

_NOTO = {
    r"Noto (Kufi|Naskh|Sans) Arabic|Noto Nastaliq Urdu": "Arabic",
    r"Noto (Rashi|Sans|Serif) Hebrew": "Hebrew",
    r"Noto Looped Thai": "Thai",
} | {rf"Noto (Sans|Serif) {name}": name for name in SCRIPTS if name not in _LATIN}

_STEMS: tuple[tuple[str, str], ...] = (
    (r"(BPG )?DejaVu.*", "DejaVu"),
    (r"AR PL (Kaiti|UKai).*", "AR PL Kai"),
    (r"IPAP?(Gothic|Mincho)", r"IPA\1"),
    (r"(Kouzan|Aoyagi).*", "Aoyagi Kouzan"),
    (r"Nanum(Square|Gothic|BarunGothic|Myeongjo).*", r"Nanum\1"),
    (r"UnJamo.*", "UnJamo"),
    (r"(UnPilgi|UnPen)a?.*", r"\1"),
    (r"Eunjin.*", "Eunjin"),
    (r"BM (\w+).*", r"BM \1"),
    (r"(Tlwg|Beteckna|Nimbus|Because|PT (?:Sans|Serif|Mono)|Courier Prime|SetoFont|Balker|Lobster).*", r"\1"),
    (r"BPG (\w+).*", r"BPG \1"),
    (r"Noto (Sans|Serif)( Display)?", r"Noto \1"),
    (r"Lohit (Bengali|Assamese)", "Lohit Bengali"),
    (r"(Lohit Tamil|PakType Naskh|Khmer OS Muol|Noto Serif Tamil|Ethiopic Yigezu Bisrat).*", r"\1"),
    (r"(mry_)?Kacst(Qurn|Title).*", r"Kacst\2"),
    (r"(Al)?Hor", "AlHor"),
    (r"(Amiri|Dustismo).*", r"\1"),
    (r"Cabin ?Sketch.*", "Cabin Sketch"),
)
"""Families that share a design: pattern of the whole family name, and the stem it becomes."""

_STYLE_WORDS = r"\b(BRK|CLM|YG|TTF|Taamey|Stam|Bold|SemiBold|Italic|Light|Outline|Solid|Shadow|Inline|Condensed)\b"
_FIRST_WORD = {"fonts-aenigma", "culmus", "culmus-fancy"}
_NOT_LETTERS = "|".join(
    (
        r"D050000L|Standard Symbols.*|Amiri Quran.*|Kouzan.*(Sousyo|Gyousyo)",
        r"3D LET BRK|90 Stars BRK|Bandwidth Band.*|Binary (X )?(01s )?BRK|Bit Blocks.*|CLAW.*|Code Of Life BRK",
        r"DB Layer.*|Double Bogey BRK|Entangled Layer.*|Faux Snow BRK|Graze BRK|Head-Ding.*|Line Dings BRK",
        r"Powderworks BRK|Qbicle.*|Skull Capz BRK|Snailets BRK|Symmetry BRK|Tearful BRK|Vertigo( 2)? BRK",
        r"Weaver BRK|Zurklez.*",
    )
)
"""Families of signs, or in which the wanted characters cannot be told apart by eye (looked at, one by one)."""


@dataclass(frozen=True)
class Font:
    """One font file: where it is, whose it is, the scripts it is used for, the code points it maps."""

    path: Path
    package: str
    family: str
    stem: str
    scripts: tuple[str, ...]
    points: frozenset[int]

    @property
    def split(self) -> str:
        """``train``, ``validation`` or ``test``: that of the stem."""
        return stem_splits()[self.stem]


def stem_of(package: str, family: str) -> str:
    """The name shared by all weights and near relatives of a family."""
    for pattern, stem in _STEMS:
        if re.fullmatch(pattern, family):
            return re.sub(pattern, stem, family)
    words = re.sub(_STYLE_WORDS, " ", family).split() or [family]
    return words[0].lower() if package in _FIRST_WORD else " ".join(words)


def _allowed(package: str, family: str) -> tuple[str, ...]:
    if re.fullmatch(_NOT_LETTERS, family):
        return ()
    if family.startswith("Noto "):
        if re.fullmatch(r"Noto (Sans|Serif)( Display)?", family):
            return _LATIN
        served = (script for pattern, script in _NOTO.items() if re.fullmatch(rf"(?:{pattern})( Slanted)?", family))
        return tuple(served)
    return next((scripts for pattern, scripts in _PACKAGES.items() if re.fullmatch(pattern, package)), _LATIN)


@lru_cache
def fonts() -> tuple[Font, ...]:
    """Every usable font of the packages pinned in ``fonts.json``, one file per family and style, in a fixed order."""
    found: dict[tuple[str, str], Font] = {}
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    for row in json.loads((PINS / "fonts.json").read_text()):
        folder = fetch(row["kind"], row["name"])
        files = (path for path in folder.rglob("*") if path.suffix.lower() in (".ttf", ".otf", ".ttc"))
        for path in sorted(path for path in files if not path.is_symlink()):
            font, style = _read(path, row["name"])
            if font is not None:
                found.setdefault((font.family, style), font)
    if not found:
        raise SourceError("no font found in the packages pinned in fonts.json: fetch them with `sources all`")
    return tuple(found[key] for key in sorted(found))


def _read(path: Path, package: str) -> tuple[Font | None, str]:
    try:
        with TTFont(path, lazy=True, fontNumber=0) as file:
            family, style = (file["name"].getBestFamilyName() or "").strip(), file["name"].getBestSubFamilyName() or ""
            allowed = _allowed(package, family)
            points = frozenset(file.getBestCmap() or ()) if allowed and family else frozenset()
    except (TTLibError, KeyError):
        return None, ""
    covered = tuple(name for name in allowed if np.mean([ord(c) in points for c in SCRIPTS[name]]) > 0.8)
    return (Font(path, package, family, stem_of(package, family), covered, points) if covered else None), style


def _rank(stem: str) -> str:
    return hashlib.md5(stem.encode()).hexdigest()


@lru_cache
def stem_splits() -> dict[str, str]:
    """The split of every stem: of each script about 27 % for test (at least 2), 8 % for validation (at least 1).

    Scripts with the fewest stems are served first; within a script stems go in the order of a hash of their name.
    """
    members = {name: {font.stem for font in fonts() if name in font.scripts} for name in SCRIPTS}
    splits: dict[str, str] = {}
    for name in sorted(members, key=lambda script: (len(members[script]), script)):
        stems = members[name]
        wanted = {"test": max(2, round(0.27 * len(stems))), "validation": max(1, round(0.08 * len(stems)))}
        for stem in sorted(stems - splits.keys(), key=_rank):
            taken = [splits[other] for other in stems if other in splits]
            splits[stem] = next((split for split, count in wanted.items() if taken.count(split) < count), "train")
    return splits


@lru_cache(maxsize=512)
def _face(path: Path, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(path), size)


def _bitmap(path: Path, text: str) -> bytes:
    mask = _face(path, PROBE).getmask(text)
    return bytes(mask) if mask.getbbox() else b""


@lru_cache(maxsize=4096)
def _box(path: Path) -> bytes:
    return _bitmap(path, MISSING)


@lru_cache(maxsize=200_000)
def has_glyph(font: Font, character: str) -> bool:
    """Whether the font draws the character: mapped, not empty, not the box of missing glyphs."""
    if ord(character) not in font.points:
        return False
    try:
        bitmap = _bitmap(font.path, character)
    except (OSError, ValueError):
        return False
    return bool(bitmap) and bitmap != _box(font.path)


@lru_cache(maxsize=4096)
def has_lower_case(font: Font) -> bool:
    """Whether small Latin letters are drawn with shapes of their own, not as capitals or small capitals."""
    letters = "aegnqr"
    if not all(has_glyph(font, letter) and has_glyph(font, letter.upper()) for letter in letters):
        return False
    shapes = ((_shape(font, letter), _shape(font, letter.upper())) for letter in letters)
    return all(np.abs(small - capital).mean() > 0.1 for small, capital in shapes)


def _shape(font: Font, character: str) -> np.ndarray:
    """The glyph's own box stretched to 16×16, ink in [0, 1]."""
    face = _face(font.path, PROBE)
    left, top, right, bottom = face.getbbox(character)
    mask = Image.new("L", (max(1, int(right - left)), max(1, int(bottom - top))))
    ImageDraw.Draw(mask).text((-left, -top), character, font=face, fill=255)
    return np.asarray(mask.resize((16, 16), Image.Resampling.BOX), dtype=np.float32) / 255


def glyph_mask(font: Font, text: str, fill: float = 0.82, margin: float = 2.2) -> Image.Image | None:
    """White text on black, centred on a ``WORK``×``WORK`` canvas and filling the share ``fill`` of its side.

    ``margin`` limits how far small signs are enlarged.  ``None`` if a character is missing or nearly nothing shows.
    """
    if not all(has_glyph(font, character) for character in text):
        return None
    left, top, right, bottom = _face(font.path, PROBE).getbbox(text)
    width, height = right - left, bottom - top
    if min(width, height) < 2 or width > PROBE * 8 or height > PROBE * 5:
        return None
    size = max(6, int(PROBE * min(WORK * fill / width, WORK * fill / height, margin)))
    face = _face(font.path, size)
    left, top, right, bottom = face.getbbox(text)
    mask = Image.new("L", (WORK, WORK))
    place = ((WORK - right + left) / 2 - left, (WORK - bottom + top) / 2 - top)
    ImageDraw.Draw(mask).text(place, text, font=face, fill=255)
    return mask if 4 <= np.asarray(mask).mean() <= 215 else None


def coloured(mask: Image.Image, ink: Colour, ground: Colour) -> Image.Image:
    """The mask in ``ink`` on a plain ``ground``."""
    picture = Image.new("RGB", mask.size, ground)
    picture.paste(ink, (0, 0), mask)
    return picture


def draw(font: Font, text: str, colours: tuple[Colour, Colour], rng: random.Random) -> Image.Image | None:
    """Text in (ink, ground) colours turned by up to 6 degrees, or ``None`` where ``glyph_mask`` gives none."""
    mask = glyph_mask(font, text)
    if mask is None:
        return None
    return coloured(mask.rotate(rng.uniform(-6, 6), Image.Resampling.BICUBIC), *colours)


def notices(packages: Iterable[str], use: str) -> list[Notice]:
    """One notice per font package, read from its Debian copyright file."""
    return [_notice(package, use) for package in sorted(set(packages))]


def _notice(package: str, use: str) -> Notice:
    path = fetch("apt", package) / "usr/share/doc" / package / "copyright"
    if not path.is_file():
        raise SourceError(f"{package} has no copyright file at {path}: take the package out of fonts.json")
    text = path.read_text(encoding="utf-8", errors="replace")
    author, licence = _stated(text)
    stated = re.findall(r"(?m)^(?:Source|Upstream-Contact|Homepage):\s*<?(https?://[^\s<>]+)", text)
    links = stated + re.findall(r"https?://[^\s<>\"')]+", text)
    strangers = r"debian\.org|gnu\.org|sil\.org/(OFL|cms)|creativecommons|apache\.org|sil\.org/?$|opensource|twitter"
    url = next((link.rstrip(".,;") for link in links if not re.search(strangers, link)), "")
    return Notice(f"{package} (Debian font package)", author, licence, url, use)


def _stated(text: str) -> tuple[str, str]:
    """Author and licences of the fonts: of all files that are not the packaging, else the first found in prose."""
    parts = [part for part in re.split(r"\n\s*\n", text) if re.search(r"(?m)^Files:", part)]
    authors, licences = [], []
    for part in parts:
        files = re.search(r"(?m)^Files:((?:.*)(?:\n[ \t]+.*)*)", part)[1]
        author = re.search(r"(?m)^Copyright:((?:.*)(?:\n[ \t]+.*)*)", part)
        licence = re.search(r"(?m)^License:[ \t]*(\S.*)", part)
        if author and licence and author[1].strip() and not re.match(r"\s*(debian/|\S*(metainfo|appdata))", files):
            authors.append(author[1])
            licences.append(_spdx(licence[1]))
    if authors:
        return _one_line(authors[0]), "; ".join(dict.fromkeys(licences))
    holder = re.search(r"(?i)copyright[^\n]*?(?:\(c\)|©|:)\s*((?:[12]\d{3}|by |[A-Z])[^\n]+)", text)
    maker = re.search(r"(?i)(?:upstream )?authors?(?:\(s\))?:\s*([^\n]+)", text)
    found = holder or maker
    return (_one_line(found[1]) if found else "see the package's copyright file"), _spdx(text)


def _one_line(text: str) -> str:
    """Names in one line, without years, mail addresses and repeated signs."""
    text = re.sub(r",?\s*with Reserved Font Name[^\n]*|(?i:all rights reserved)|\b[Bb]y (?=[A-Z])", " ", text)
    text = re.sub(r"<[^>]*>|\S+@\S+|(?i:copyright)|\([cC]\)|©|\|", " ", text)
    text = re.sub(r"\b[12]\d{3}\b([ ,–-]+(?=[12]\d{3}\b))?", " ", text)
    lines = (re.sub(r"\s+", " ", line).strip(" ,.;:-–") for line in text.splitlines())
    names = [name for name in dict.fromkeys(lines) if name]
    return ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")


def _spdx(text: str) -> str:
    short = text.strip()
    if "\n" not in short and len(short) < 60 and not re.search(r"(?i)SIL|madduck|^OFL$|special", short):
        return short
    rules = (
        (r"madduck", "redistribution and change allowed by the author"),
        (r"(?i)SIL[ _-]?Open|SIL[ -]?OFL|^OFL|SIL-1\.1", "OFL-1.1"),
        (r"(?i)Arphic Public Licen", "Arphic-1999"),
        (r"(?i)bitstream", "Bitstream-Vera"),
        (r"(?i)Lesser General Public|Library General Public", "LGPL-2.0-or-later"),
        (r"(?i)General Public Licen[sc]e|\bGPL\b", "GPL-2.0-or-later"),
        (r"(?i)public domain", "public domain"),
    )
    named = (name for pattern, name in rules if re.search(pattern, short))
    return next(named, "as stated in the package's copyright file")
