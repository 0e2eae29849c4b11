"""A split's images: decoded once from parquet to uint8, then memory-mapped from the cache folder."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lines_explorer.checkpoints.files import written_beside
from lines_explorer.errors import ExplorerError
from lines_explorer.suites.cache import cache_folder, notice
from lines_explorer.suites.task import Task

if TYPE_CHECKING:
    from PIL import Image

REMEDY = "reinstall it or rebuild it with `build-suite`."
Arrays = tuple[np.ndarray, np.ndarray]


def cached_images(task: Task, split: str, size: int, digest: str, check: bool) -> Arrays:
    """The split's images uint8 (n, 3, size, size) and labels int64 (n,), in the file's order.

    ``digest`` is the parquet's sha256 and, with the class names, names the cache files; ``check`` says that it was
    only promised (by the manifest) and must be verified before decoding.  Raises ExplorerError for a missing or
    damaged parquet; an unusable cache folder is noticed once and the arrays then live in memory.
    """
    classes = hashlib.sha256("\0".join(task.classes).encode()).hexdigest()
    stem = cache_folder() / "images" / f"{digest[:32]}-{classes[:8]}-{size}"
    images, labels = stem.with_suffix(".images.npy"), stem.with_suffix(".labels.npy")
    if (kept := _read_cache(images, labels, size)) is not None:
        return kept
    decoded = decode(task, split, size, digest if check else None)
    try:
        for path, array in zip((images, labels), decoded, strict=True):
            with written_beside(path) as beside, beside.open("wb") as file:
                np.save(file, array)
    except OSError as fault:
        notice(
            "cache",
            f"The cache folder {cache_folder()} cannot be written ({fault.strerror}); images are kept in "
            "memory only. Set LINES_EXPLORER_CACHE to a folder you may write to.",
        )
        return decoded
    return _read_cache(images, labels, size) or decoded


def _read_cache(images: Path, labels: Path, size: int) -> Arrays | None:
    """The cached pair, the images memory-mapped copy-on-write; None when absent, truncated or of another shape."""
    try:
        pair = np.load(images, mmap_mode="c"), np.load(labels)
    except (OSError, ValueError, EOFError):
        return None
    right = pair[0].dtype == np.uint8 and pair[0].shape == (len(pair[1]), 3, size, size) and pair[1].dtype == np.int64
    return pair if right else None


def decode(task: Task, split: str, size: int, expected_sha256: str | None = None) -> Arrays:
    """Decodes the split's parquet in one pass; shapes and errors as `cached_images`.

    The file's ClassLabel names must be the task's classes in order.  Images of another size are resized (bicubic,
    shorter side) and centre-cropped, as open_clip's preprocessing does.
    """
    path = task.splits[split]
    table = _table(path, expected_sha256)
    _check_classes(path, table.schema.metadata or {}, task)
    labels = np.asarray(table.column("label").to_pylist(), dtype=np.int64)
    if len(labels) == 0 or labels.min() < 0 or labels.max() >= len(task.classes):
        raise ExplorerError(f"{path}: labels must be 0 to {len(task.classes) - 1} and at least one; {REMEDY}")
    images = np.empty((len(labels), 3, size, size), dtype=np.uint8)
    for row, cell in enumerate(table.column("image").to_pylist()):
        images[row] = _pixels(path, row, cell, size)
    return images, labels


def _table(path: Path, expected_sha256: str | None):  # -> pyarrow.Table
    import pyarrow
    import pyarrow.parquet

    from lines_explorer.checkpoints import sha256

    found = sha256(path)
    if expected_sha256 is not None and found != expected_sha256:
        raise ExplorerError(
            f"{path} is damaged or was exchanged: its sha256 is {found[:12]}…, "
            f"expected {expected_sha256[:12]}…; {REMEDY}"
        )
    try:
        return pyarrow.parquet.read_table(path, columns=["image", "label"])
    except (pyarrow.ArrowException, OSError, KeyError) as fault:
        raise ExplorerError(
            f"{path} is truncated or damaged and cannot be read as parquet ({str(fault).splitlines()[0]}); {REMEDY}"
        ) from fault


def _check_classes(path: Path, metadata: dict[bytes, bytes], task: Task) -> None:
    try:
        names = json.loads(metadata[b"huggingface"])["info"]["features"]["label"]["names"]
    except (KeyError, TypeError, ValueError):
        raise ExplorerError(f"{path} states no class names for its column label (a ClassLabel is needed).") from None
    if tuple(names) != task.classes:
        raise ExplorerError(f"{path}: its classes {names} are not those of task {task.name} in suite.yaml, in order.")


def _pixels(path: Path, row: int, cell: dict | None, size: int) -> np.ndarray:
    from PIL import Image

    try:
        image = Image.open(io.BytesIO(cell["bytes"])).convert("RGB")
    except (TypeError, KeyError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as fault:
        raise ExplorerError(f"{path}: the image in row {row} cannot be decoded ({fault}); {REMEDY}") from fault
    if image.size != (size, size):
        image = _resized(image, size)
    return np.asarray(image).transpose(2, 0, 1)


def _resized(image: Image.Image, size: int) -> Image.Image:
    scale = size / min(image.size)
    width, height = (max(size, round(side * scale)) for side in image.size)
    left, top = (width - size) // 2, (height - size) // 2
    return image.resize((width, height), resample=3).crop((left, top, left + size, top + size))
