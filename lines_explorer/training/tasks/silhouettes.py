"""Animal silhouettes; no near-twin of a training picture, mirrored or not, is in validation or test."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import numpy as np

from ..sources import fetch
from .common import Notice, TaskData, capped, grouped_split

TWIN_IOU = 0.9
"""Two silhouettes are twins when intersection over union, with or without mirroring, is above this."""

ROWS_AT_ONCE = 1000
CLASSES = ("bear", "bird", "cat", "cow", "dog", "elephant", "giraffe", "horse", "sheep", "zebra")
TEMPLATES = ("a picture of {}.", "a silhouette of {}.", "a shape of {}, an animal.", "an icon of {}.")


class ArrayUnpickler(pickle.Unpickler):
    """Reads pickled numpy arrays and nothing else: any other name in the file is refused."""

    ALLOWED = frozenset({("multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype")})

    def find_class(self, module: str, name: str) -> object:
        """The numpy constructor of that name; ``pickle.UnpicklingError`` for all others."""
        root, _, leaf = module.rpartition(".")
        if (leaf, name) not in self.ALLOWED or root not in ("", "numpy.core", "numpy._core"):
            raise pickle.UnpicklingError(f"refused {module}.{name}: the file must hold numpy arrays only")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def read_array(path: Path) -> np.ndarray:
    """The array in a gzipped pickle."""
    with gzip.open(path) as stream:
        return np.asarray(ArrayUnpickler(stream).load())


def without_copies(masks: np.ndarray) -> np.ndarray:
    """Indices of the first of each set of equal or mirrored masks; ``masks``: bool of shape (n, h, w)."""
    keys = [min(mask.tobytes(), mask[:, ::-1].tobytes()) for mask in masks]
    first: dict[bytes, int] = {}
    for index, key in enumerate(keys):
        first.setdefault(key, index)
    return np.array(sorted(first.values()))


def twin_groups(masks: np.ndarray, threshold: float = TWIN_IOU) -> np.ndarray:
    """The group of each mask: the lowest index that a chain of twins leads to (union-find).

    ``masks``: bool of shape (n, h, w), of any class.  ``threshold``: IoU in [0, 1].
    """
    flat = masks.reshape(len(masks), -1).astype(np.float32)
    mirrored = masks[:, :, ::-1].reshape(len(masks), -1).astype(np.float32)
    area = flat.sum(1)
    parent = np.arange(len(masks))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = index = parent[parent[index]]
        return index

    for start in range(0, len(masks), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        for other in (flat, mirrored):
            both = flat[rows] @ other.T
            either = area[rows, None] + area[None] - both
            for row, column in zip(*np.nonzero(both > threshold * either), strict=True):
                low, high = sorted((root(start + row), root(column)))
                parent[high] = low
    return np.array([root(index) for index in range(len(masks))])


def build() -> TaskData:
    """About 6,800 training, 600 validation and 2,000 test pictures, 28×28 padded to 32×32."""
    folder = fetch("pip", "animal-mnist") / "animal_mnist/data/Animal_MNIST"
    pictures = read_array(folder / "animal_data_version_3.gz")
    labels = read_array(folder / "animal_label_version_3.gz")
    data = TaskData(
        name="silhouettes",
        title="Silhouettes",
        domain="animal silhouettes",
        new_in_test="shapes without a near-twin in training",
        classes=CLASSES,
        prompts=[("an " if name[0] in "aeiou" else "a ") + name for name in CLASSES],
        templates=TEMPLATES,
        notices=[
            Notice(
                source="Animal-MNIST (animal_mnist 0.4, Python package)",
                author="Sina Mohammadi (SinaSR-6)",
                licence="MIT",
                url="https://github.com/SinaSR-6/Animal-MNIST",
                use="pictures padded to 32×32; exact copies left out",
            )
        ],
    )
    masks = pictures > 127
    kept = without_copies(masks)
    for index, group in zip(kept, kept[twin_groups(masks[kept])], strict=True):
        item = f"group {group}"
        data.add(np.pad(pictures[index], 2), labels[index], grouped_split(item, 0.70, 0.80), item)
    return capped(data, {"validation": 60, "test": 200})
