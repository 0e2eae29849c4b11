"""Captioned glyphs of training fonts for the base model: "the letter q", "digit 3", "Thai script", "question mark".

Only fonts of the split ``train`` are drawn (``glyphs.stem_splits``), so the tasks' unseen families stay unseen.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from PIL import Image, ImageFilter

from lines_explorer.training.tasks import glyphs
from lines_explorer.training.tasks.common import SIZE, WORK, Colour, Notice, dark_colour, light_colour
from lines_explorer.training.tasks.glyphs import SCRIPTS, Font
from lines_explorer.training.tasks.scripts import PROMPTS, families, sample

PER_CAPITAL, PER_SMALL, PER_DIGIT, PER_SCRIPT, PER_GREEK, PER_SIGN = 100, 95, 300, 295, 14, 28
"""Pictures of each capital, small letter, digit, script, Greek letter and punctuation sign."""

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
GREEK = dict(
    zip(
        "αβγδεζηθλμξπσφψωΔΘΛΞΣΨΩ",
        "alpha beta gamma delta epsilon zeta eta theta lambda mu xi pi sigma phi psi omega "
        "Delta Theta Lambda Xi Sigma Psi Omega".split(),
        strict=True,
    )
)
SIGNS = {
    "?": "question mark",
    "!": "exclamation mark",
    "&": "ampersand",
    "@": "at sign",
    "#": "number sign, hash",
    "%": "percent sign",
    "+": "plus sign",
    "=": "equals sign",
    "*": "asterisk",
    "$": "dollar sign",
    "€": "euro sign",
    "£": "pound sign",
    "(": "opening parenthesis",
    ")": "closing parenthesis",
    "[": "opening square bracket",
    "{": "opening curly bracket",
    "/": "slash",
    "<": "less-than sign",
    ">": "greater-than sign",
    ";": "semicolon",
    ":": "colon",
    "§": "section sign",
    "©": "copyright sign",
    "~": "tilde",
}
HANDWRITTEN = (
    "fonts-bwht fonts-breip fonts-dkg-handwriting fonts-rufscript fonts-humor-sans fonts-tomsontalks fonts-sjfonts "
    "fonts-kristi fonts-dancingscript fonts-kaushanscript fonts-ecolier-court fonts-comic-neue fonts-joscelyn "
    "fonts-leckerli-one fonts-lobster fonts-staypuft fonts-dustin fonts-radisnoir fonts-cabinsketch fonts-junction"
).split()
"""Packages with handwritten and informal faces: half of all digits are drawn from them."""


@dataclass
class _Corpus:
    """The pictures, captions and packages gathered so far, and the random stream that all steps share."""

    rng: random.Random
    pixels: list[np.ndarray] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)
    packages: set[str] = field(default_factory=set)

    def fill(
        self, count: int, choose: Callable[[], tuple[Font, str]], captions: tuple[str, ...], pen: bool = False
    ) -> None:
        """Add ``count`` pictures of what ``choose`` returns (``RuntimeError`` if glyphs fail too often)."""
        made = 0
        for _ in range(count * 20):
            if made == count:
                return
            font, text = choose()
            picture = _picture(font, text, self.rng, pen)
            if picture is not None:
                self.pixels.append(picture)
                self.captions.append(self.rng.choice(captions))
                self.packages.add(font.package)
                made += 1
        if made < count:
            raise RuntimeError(f"only {made} of {count} glyphs drawn for {captions[0]!r}; pin another font package")


def build(seed: int = 0) -> tuple[np.ndarray, list[str]]:
    """About 14,000 pictures, uint8 (N, 32, 32, 3), and their N captions; the same for the same seed and pins."""
    corpus = _gather(seed)
    order = list(range(len(corpus.captions)))
    corpus.rng.shuffle(order)
    return np.stack([corpus.pixels[i] for i in order]), [corpus.captions[i] for i in order]


def notices(seed: int = 0) -> list[Notice]:
    """One notice per font package drawn from by ``build(seed)``."""
    return glyphs.notices(_gather(seed).packages, "captioned glyphs for the base model; the font is not included")


def _gather(seed: int) -> _Corpus:
    corpus = _Corpus(random.Random(seed))
    _letters(corpus)
    _digits(corpus)
    _scripts(corpus)
    _greek_and_signs(corpus)
    return corpus


def _latin() -> list[Font]:
    return [font for font in glyphs.fonts() if "Latin" in font.scripts and font.split == "train"]


def _letters(corpus: _Corpus) -> None:
    fonts, rng = _latin(), corpus.rng
    both_cases = [font for font in fonts if glyphs.has_lower_case(font)]
    for capital in string.ascii_uppercase:
        small = capital.lower()
        names = (f"capital letter {capital}", f"the letter {capital}", f"upper-case letter {capital}")
        corpus.fill(PER_CAPITAL, lambda: (rng.choice(fonts), capital), names)  # noqa: B023 (called at once)
        names = (f"the letter {small}", f"small letter {small}", f"lower-case letter {small}")
        corpus.fill(PER_SMALL, lambda: (rng.choice(both_cases), small), names)  # noqa: B023


def _digits(corpus: _Corpus) -> None:
    rng, printed = corpus.rng, _latin()
    written = [font for font in printed if font.package in HANDWRITTEN]
    for digit, name in enumerate(NUMBERS):
        names = (f"the digit {name}", f"digit {digit}", f"the number {name}", f"the numeral {digit}")
        for fonts in (written, printed):
            corpus.fill(PER_DIGIT // 2, lambda: (rng.choice(fonts), str(digit)), names, pen=True)  # noqa: B023


def _scripts(corpus: _Corpus) -> None:
    rng = corpus.rng
    for script in SCRIPTS:
        stems, name = families(script, "train"), PROMPTS.get(script, script)
        unit = {"Hangul": "Hangul syllables", "Han": "Chinese characters"}.get(script, f"{name} letters")
        names = (f"a {name} letter", f"{name} script", f"{name} writing", unit)
        corpus.fill(PER_SCRIPT, lambda: (rng.choice(rng.choice(stems)), sample(script, rng)), names)  # noqa: B023


def _greek_and_signs(corpus: _Corpus) -> None:
    rng, greek = corpus.rng, families("Greek", "train")
    latin = [font for font in _latin() if font.package != "fonts-aenigma"]  # its signs are often other signs
    for letter, name in GREEK.items():
        names = (f"the Greek letter {name}", f"Greek {name}")
        corpus.fill(PER_GREEK, lambda: (rng.choice(rng.choice(greek)), letter), names)  # noqa: B023
    for sign, name in SIGNS.items():
        corpus.fill(PER_SIGN, lambda: (rng.choice(latin), sign), (name, f"a {name}", f"{name}, punctuation"))  # noqa: B023


def _colours(rng: random.Random) -> tuple[Colour, Colour]:
    """(Ink, ground): light on dark as often as dark on light; every fifth pair is plain black and white."""
    dark, light = ((0, 0, 0), (255, 255, 255)) if rng.random() < 0.2 else (dark_colour(rng), light_colour(rng))
    return (dark, light) if rng.random() < 0.5 else (light, dark)


def _picture(font: Font, text: str, rng: random.Random, pen: bool) -> np.ndarray | None:
    """One 32×32 picture with a light turn, slant and change of size; ``pen`` widens the spread and the strokes vary."""
    mask = glyphs.glyph_mask(font, text, fill=rng.uniform(0.55, 0.85))
    if mask is None:
        return None
    turn, slant = (14, 0.3) if pen else (8, 0.12)
    mask = mask.rotate(rng.uniform(-turn, turn), Image.Resampling.BICUBIC)
    shear, squeeze = rng.uniform(-slant, slant), rng.uniform(0.9, 1.25 if pen else 1.1)
    half, shift = WORK / 2, rng.uniform(-3, 3)
    matrix = (squeeze, shear, half - squeeze * half - shear * half + shift, 0, 1, rng.uniform(-3, 3))
    mask = mask.transform(mask.size, Image.Transform.AFFINE, matrix, Image.Resampling.BICUBIC)
    if pen and rng.random() < 0.5:
        mask = mask.filter(ImageFilter.MaxFilter(rng.choice((3, 5)))).filter(ImageFilter.GaussianBlur(0.8))
    picture = glyphs.coloured(mask, *_colours(rng)).resize((SIZE, SIZE), Image.Resampling.LANCZOS)
    return np.asarray(picture, dtype=np.uint8)
