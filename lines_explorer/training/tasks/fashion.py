"""Fashion-MNIST: ten kinds of clothing, photographed on black."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from ..sources import fetch
from .common import Notice, TaskData, capped

TRAIN = 8000
VALIDATION_POOL = range(TRAIN, TRAIN + 2000)
CLASSES = ("t-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
PROMPTS = (
    "a t-shirt",
    "trousers",
    "a pullover sweater",
    "a dress",
    "a coat",
    "a sandal",
    "a button-up shirt",
    "a sneaker",
    "a handbag",
    "an ankle boot",
)
TEMPLATES = ("a picture of {}.", "a photo of {}.", "a black and white photo of {}.", "{}, clothing.")


def read_idx(path: Path) -> np.ndarray:
    """The uint8 array in a gzipped IDX file; ``ValueError`` when the file holds anything else.

    Format: two zero bytes, type code (8 is uint8), number of axes, each axis as a big-endian uint32, values.
    """
    data = gzip.decompress(path.read_bytes())
    if data[:3] != b"\x00\x00\x08":
        raise ValueError(f"{path} is not an IDX file of bytes: delete the unpacked package and fetch it again")
    axes = data[3]
    shape = np.frombuffer(data, ">u4", axes, offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def build() -> TaskData:
    """8,000 training, 600 validation and 2,000 test pictures (the official test set), 28×28 padded to 32×32."""
    folder = fetch("apt", "dataset-fashion-mnist") / "usr/share/datasets/fashion-mnist"
    data = TaskData(
        name="fashion",
        title="Fashion",
        domain="clothing photographs",
        new_in_test="other articles (the official test set)",
        classes=CLASSES,
        prompts=PROMPTS,
        templates=TEMPLATES,
        notices=[
            Notice(
                source="Fashion-MNIST",
                author="Zalando SE",
                licence="MIT",
                url="https://github.com/zalandoresearch/fashion-mnist",
                use="10,600 pictures, padded to 32×32",
            )
        ],
    )
    parts = {"train": ("train", range(TRAIN)), "validation": ("train", VALIDATION_POOL), "test": ("t10k", range(10000))}
    for split, (part, chosen) in parts.items():
        pictures = read_idx(folder / f"{part}-images-idx3-ubyte.gz")
        labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz")
        for index in chosen:
            data.add(np.pad(pictures[index], 2), labels[index], split, f"{part}:{index}")
    return capped(data, {"validation": 60, "test": 200})
