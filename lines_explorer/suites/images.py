"""A split's images: decoded and preprocessed once to uint8, then memory-mapped from the cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lines_explorer.checkpoints import written_beside
from lines_explorer.errors import ExplorerError
from lines_explorer.suites.cache import cache_folder, notice
from lines_explorer.suites.sources import REMEDY, Source
from lines_explorer.suites.task import Task

if TYPE_CHECKING:
    from PIL import Image

TRANSFORM = "shorter side bicubic, centre crop, RGB, uint8; 2"  # its number goes up when a pixel could change
LIMIT_GB = 20.0
DAY = 86400.0  # seconds after which a half-written file is no longer somebody's work
Arrays = tuple[np.ndarray, np.ndarray]


def cached_images(source: Source, task: Task, size: int) -> Arrays:
    """The split's images uint8 (n, 3, size, size) and labels int64 (n,), in the source's order.

    The cache files are named by the hashes of the data (`Source.digest`), the class names and the transform; they are
    renamed into place, so processes can share them.  Raises ExplorerError for missing or damaged data; an unusable
    cache folder is noticed once and the arrays then live in memory.
    """
    key = json.dumps([source.digest(), task.classes, TRANSFORM, size])
    stem = cache_folder() / "images" / hashlib.sha256(key.encode()).hexdigest()[:40]
    images, labels = stem.with_suffix(".images.npy"), stem.with_suffix(".labels.npy")
    if (kept := _read_cache(images, labels, size)) is not None:
        return kept
    numbers = class_numbers(source, task)
    try:
        _make_room(images.parent, len(numbers) * 3 * size * size)
        with written_beside(images) as beside, beside.open("wb") as file:
            _write_header(file, (len(numbers), 3, size, size))
            _decode(source, len(numbers), size, lambda _, pixels: file.write(pixels.tobytes()))
        with written_beside(labels) as beside, beside.open("wb") as file:
            np.save(file, numbers)
        if (kept := _read_cache(images, labels, size)) is not None:
            return kept
    except OSError as fault:
        notice(
            "cache",
            f"The cache folder {cache_folder()} cannot be written ({fault.strerror or fault}); images are kept in "
            "memory only. Set LINES_EXPLORER_CACHE to a folder you may write to.",
        )
    return decode(source, task, size)


def decode(source: Source, task: Task, size: int) -> Arrays:
    """Decodes the split into memory; shapes and errors as `cached_images`."""
    numbers = class_numbers(source, task)
    images = np.empty((len(numbers), 3, size, size), dtype=np.uint8)
    _decode(source, len(numbers), size, images.__setitem__)
    return images, numbers


def class_numbers(source: Source, task: Task) -> np.ndarray:
    """Labels int64 (n,) of a source, 0 … C − 1 in the order of the task's classes.

    Raises ExplorerError when the data's own class names, or their order, are not the task's, or a label is none.
    """
    names, labels = source.names(), source.labels()
    if len(labels) == 0:
        raise ExplorerError(f"{task.name}: its data hold no pictures; name a split or file that does.")
    if isinstance(labels[0], str):
        alike = _alike(task.classes)
        by_name = {alike(name): number for number, name in enumerate(task.classes)}
        if unknown := [label for label in labels if alike(str(label)) not in by_name]:
            raise ExplorerError(f"Task {task.name}: the data have the class {unknown[0]}, which suite.yaml has not.")
        return np.asarray([by_name[alike(str(label))] for label in labels], dtype=np.int64)
    check_names(names, task)
    if any(label is None for label in labels):
        raise ExplorerError(f"Task {task.name}: some pictures have no label; leave them out of the data.")
    numbers = np.asarray(labels, dtype=np.int64)
    if numbers.min() < 0 or numbers.max() >= len(task.classes):
        raise ExplorerError(f"Task {task.name}: labels must be 0 to {len(task.classes) - 1}; {REMEDY}")
    return numbers


def check_names(names: tuple[str, ...], task: Task) -> None:
    """Holds the class names that the data state against the task's.

    Where suite.yaml lists ``classes`` they must be the same, in order.  Where it lists only prompts (in other words
    than the data), the number must be the same and no name may be another class's prompt.
    """
    if not names:
        notice(
            f"names of {task.name}",
            f"Task {task.name}: the data state no class names, so their order is taken from suite.yaml unchecked.",
        )
        return
    alike = _alike(task.classes)
    ours, theirs = [alike(name) for name in task.classes], [alike(name) for name in names]
    listed = f"the data's classes {', '.join(names[:6])}{', …' if len(names) > 6 else ''}"
    if len(ours) != len(theirs):
        raise ExplorerError(f"{listed} ({len(names)}) are not those of task {task.name} in suite.yaml ({len(ours)}).")
    for number, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        if our != their and (task.names_known or (their in ours and our in theirs)):
            raise ExplorerError(
                f"{listed} are not those of task {task.name} in suite.yaml, in order: class {number} is "
                f"{names[number]} there and {task.classes[number]} here."
            )


def _alike(classes: tuple[str, ...]) -> Callable[[str], str]:
    """What is compared of two names: case and marks aside, unless the classes differ in these alone (A and a)."""

    def plain(name: str) -> str:
        return re.sub(r"[\W_]+", " ", name).strip().casefold() or name

    return plain if len(set(map(plain, classes))) == len(classes) else str


def _read_cache(images: Path, labels: Path, size: int) -> Arrays | None:
    """The cached pair, the images memory-mapped copy-on-write; None when absent, truncated or of another shape."""
    try:
        pair = np.load(images, mmap_mode="c"), np.load(labels)
    except (OSError, ValueError, EOFError):
        return None
    right = pair[0].dtype == np.uint8 and pair[0].shape == (len(pair[1]), 3, size, size) and pair[1].dtype == np.int64
    with contextlib.suppress(OSError):
        os.utime(images)  # used now: the last to be evicted
    return pair if right else None


def _write_header(file: io.BufferedWriter, shape: tuple[int, ...]) -> None:
    header = {"descr": np.dtype(np.uint8).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


def _make_room(folder: Path, needed: int) -> None:
    """Removes the least recently used images until ``needed`` bytes more stay under the limit.

    The limit is ``LINES_EXPLORER_CACHE_GB`` (20 GB).  Raises OSError when one split alone is larger.
    """
    limit = _limit()
    if needed > limit:
        raise OSError(None, f"{needed / 1e9:.1f} GB of images are over LINES_EXPLORER_CACHE_GB = {limit / 1e9:g}")
    total, found = 0, []
    for path in folder.glob("*.npy") if folder.is_dir() else ():
        with contextlib.suppress(OSError):
            state = path.stat()
            if path.name.startswith("."):
                if time.time() - state.st_mtime > DAY:
                    path.unlink()
            elif path.name.endswith(".images.npy"):
                total += state.st_size
                found.append((state.st_mtime, state.st_size, path))
    for _, size, path in sorted(found):
        if total + needed <= limit:
            break
        with contextlib.suppress(OSError):
            path.unlink()
            path.with_name(path.name.replace(".images.", ".labels.")).unlink(missing_ok=True)
        total -= size


def _limit() -> float:
    text = os.environ.get("LINES_EXPLORER_CACHE_GB", "")
    try:
        limit = float(text or LIMIT_GB)
    except ValueError:
        limit = -1.0
    if not limit >= 0:
        raise ExplorerError(f"LINES_EXPLORER_CACHE_GB is {text}; write a number of gigabytes, such as 20.")
    return limit * 1e9


def _decode(source: Source, count: int, size: int, take: Callable[[int, np.ndarray], object]) -> None:
    """Hands the pixels uint8 (3, size, size) of rows 0 … count − 1 to ``take``, one after the other."""
    done = 0
    for done, (name, content) in enumerate(source.pictures(range(count)), start=1):
        take(done - 1, pixels(name, content, size))
    if done != count:
        raise ExplorerError(f"The data have {count} labels and {done} pictures; {REMEDY}")


def pixels(name: str, content: bytes | None, size: int) -> np.ndarray:
    """uint8 (3, size, size) of an encoded picture, by open_clip's evaluation transform up to its division by 255.

    Raises ExplorerError naming the picture when it cannot be decoded.
    """
    from PIL import Image

    try:
        if content is None:
            raise ValueError("the cell holds no encoded picture")
        with Image.open(io.BytesIO(content)) as image:
            image.load()
            return np.asarray(_squared(image, size).convert("RGB")).transpose(2, 0, 1)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError, OverflowError, MemoryError) as fault:
        raise ExplorerError(f"{name} cannot be decoded ({_reason(fault)}); {REMEDY}") from fault


def _squared(image: Image.Image, size: int) -> Image.Image:
    """Shorter side to ``size`` (bicubic; the other side rounded down), then the centre: torchvision's arithmetic."""
    if image.size == (size, size):
        return image
    shorter = min(image.size)
    width, height = (size if side == shorter else int(size * side / shorter) for side in image.size)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.resize((width, height), resample=3).crop((left, top, left + size, top + size))


def _reason(fault: BaseException) -> str:
    return re.sub(r"<_io.BytesIO object at \w+>", "it", str(fault)) or type(fault).__name__
