"""Labelled pictures from a folder, from parquet or from the hub: one small interface, opened when asked for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from lines_explorer.checkpoints import sha256
from lines_explorer.errors import ExplorerError
from lines_explorer.suites.fingerprint import file_sha256, files_sha256, path_sha256
from lines_explorer.suites.hub import COMMIT, load_data, loaded_commit, mirror
from lines_explorer.suites.task import Data

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm"}
REMEDY = "reinstall it or rebuild it with `build-suite`."
SHARE, MOST = 0.1, 5000  # of the pictures of train, held out for validation (the reference's rule)
Labels = Sequence[int | str | bool]


class Source(Protocol):
    """The labelled pictures of one split, in a fixed order."""

    def digest(self) -> str:
        """What changes when a picture or a label does."""

    def names(self) -> tuple[str, ...]:
        """The class names that the data state, in the order of the labels; empty when they state none."""

    def labels(self) -> Labels:
        """Class numbers or names, (n,)."""

    def pictures(self, rows: Sequence[int]) -> Iterator[tuple[str, bytes | None]]:
        """(its name for messages, its encoded bytes) of the given rows, ascending."""


@dataclass(frozen=True)
class FolderSource:
    """``folder``/CLASS/…/picture.png; classes in the order of their names, as torchvision's ImageFolder has them."""

    folder: Path

    @cached_property
    def _files(self) -> list[tuple[str, Path]]:
        if not self.folder.is_dir():
            raise ExplorerError(f"{self.folder} is no folder; it should hold one subfolder of pictures for each class.")
        found = []
        for name in sorted(path.name for path in self.folder.iterdir() if path.is_dir() and path.name[0] != "."):
            files = sorted(path for path in (self.folder / name).rglob("*") if path.suffix.lower() in SUFFIXES)
            found += [(name, file) for file in files if file.is_file()]
        if not found:
            raise ExplorerError(f"{self.folder} has no pictures in class subfolders; put them in FOLDER/CLASS/*.png.")
        return found

    def digest(self) -> str:
        return files_sha256((file.relative_to(self.folder).as_posix(), file) for _, file in self._files)

    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name, _ in self._files))

    def labels(self) -> Labels:
        return [name for name, _ in self._files]

    def pictures(self, rows: Sequence[int]) -> Iterator[tuple[str, bytes | None]]:
        for row in rows:
            path = self._files[row][1]
            try:
                yield str(path), path.read_bytes()
            except OSError as fault:
                raise ExplorerError(f"{path} cannot be read ({fault.strerror}).") from fault


@dataclass(frozen=True)
class ParquetSource:
    """Parquet files one after the other; ``promised`` is the sha256 that a manifest states, checked before reading."""

    paths: tuple[Path, ...]
    image: str = "image"
    label: str = "label"
    promised: str | None = None

    def digest(self) -> str:
        if self.promised:
            return self.promised
        if len(self.paths) == 1:
            return file_sha256(self.paths[0])
        return files_sha256((f"{number}", path) for number, path in enumerate(self.paths))

    @cached_property
    def _files(self) -> list[Any]:  # pyarrow.parquet.ParquetFile
        import pyarrow
        import pyarrow.parquet

        opened = []
        for path in self.paths:
            if self.promised is not None and (found := sha256(path)) != self.promised:
                raise ExplorerError(
                    f"{path} is damaged or was exchanged: its sha256 is {found[:12]}…, "
                    f"expected {self.promised[:12]}…; {REMEDY}"
                )
            if path.is_dir() or not path.exists():
                sha256(path)  # says what is wrong with it
            try:
                opened.append(pyarrow.parquet.ParquetFile(path))
            except (pyarrow.ArrowException, OSError) as fault:
                raise _damaged(path, fault) from fault
            columns = opened[-1].schema_arrow.names
            for column in (self.image, self.label):
                if column not in columns:
                    raise ExplorerError(
                        f"{path} has no column {column}; it has {', '.join(columns)}; name the right one."
                    )
        return opened

    def names(self) -> tuple[str, ...]:
        stated = [_class_names(file.schema_arrow.metadata or {}, self.label) for file in self._files]
        if any(names != stated[0] for names in stated):
            raise ExplorerError(f"{self.paths[0]} and the files with it state different class names; rewrite them.")
        return stated[0]

    def labels(self) -> Labels:
        return [value.as_py() for _, batch in self._batches(self.label) for value in batch]

    def pictures(self, rows: Sequence[int]) -> Iterator[tuple[str, bytes | None]]:
        wanted, start = iter(rows), 0
        row = next(wanted, None)
        for path, batch in self._batches(self.image):
            while row is not None and row < start + len(batch):
                yield f"{path}: the image in row {row}", _encoded(batch[row - start].as_py())
                row = next(wanted, None)
            start += len(batch)

    def _batches(self, column: str) -> Iterator[tuple[Path, Any]]:
        import pyarrow

        for path, file in zip(self.paths, self._files, strict=True):
            try:
                for batch in file.iter_batches(batch_size=256, columns=[column]):
                    yield path, batch.column(0)
            except (pyarrow.ArrowException, OSError) as fault:
                raise _damaged(path, fault) from fault


@dataclass(frozen=True)
class HubSource:
    """One split of a data set on the hub."""

    data: Data

    @cached_property
    def _rows(self) -> Any:  # datasets.Dataset
        rows = load_data(self.data)
        for column in (self.data.image, self.data.label):
            if column not in rows.column_names:
                known = ", ".join(rows.column_names)
                raise ExplorerError(f"The data set {self.data} has no column {column}; it has {known}.")
        return rows

    def digest(self) -> str:
        """Follows a mirror's files, the commit that is named or was loaded, or else `datasets`' fingerprint."""
        named = [self.data.hub, self.data.config, self.data.split, self.data.image, self.data.label]
        if (local := mirror(self.data.hub)) is not None:
            pinned = path_sha256(local)
        elif COMMIT.fullmatch(self.data.revision or ""):
            pinned = self.data.revision
        else:
            pinned = loaded_commit(self._rows) or self._rows._fingerprint
        return hashlib.sha256(json.dumps([named, pinned]).encode()).hexdigest()

    def names(self) -> tuple[str, ...]:
        return tuple(getattr(self._rows.features[self.data.label], "names", None) or ())

    def labels(self) -> Labels:
        return self._rows.select_columns([self.data.label]).to_dict()[self.data.label]

    def pictures(self, rows: Sequence[int]) -> Iterator[tuple[str, bytes | None]]:
        import datasets

        column, table = self.data.image, self._rows.select_columns([self.data.image])
        if isinstance(table.features[column], datasets.Image):
            table = table.cast_column(column, datasets.Image(decode=False))
        for row in rows:
            cell = table[int(row)][column]
            name = f"{self.data}: the image in row {row}"
            if isinstance(cell, dict) and cell.get("bytes") is None and cell.get("path"):
                try:
                    cell = Path(cell["path"]).read_bytes()
                except OSError as fault:
                    raise ExplorerError(f"{name} cannot be read ({fault.strerror}); download it again.") from fault
            yield name, _encoded(cell)


@dataclass(frozen=True)
class HeldOut:
    """The part of a training split that the reference keeps for validation: a tenth, at most 5,000, seed 0.

    As in the reference, a permutation of the rows by a generator seeded with 0, of which the last part is held out.
    """

    train: Source

    @cached_property
    def rows(self) -> list[int]:
        """The held-out rows of the training split, ascending."""
        import torch

        count = len(self.train.labels())
        held = min(int(count * SHARE), MOST)
        if held == 0:
            raise ExplorerError(f"{count} training pictures are too few to hold out a tenth; name a validation split.")
        shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(0))
        return sorted(shuffled[count - held :].tolist())

    def digest(self) -> str:
        return hashlib.sha256(f"held out of {self.train.digest()}".encode()).hexdigest()

    def names(self) -> tuple[str, ...]:
        return self.train.names()

    def labels(self) -> Labels:
        labels = self.train.labels()
        return [labels[row] for row in self.rows]

    def pictures(self, rows: Sequence[int]) -> Iterator[tuple[str, bytes | None]]:
        return self.train.pictures([self.rows[row] for row in rows])


def open_source(data: Path | Data, promised: str | None = None) -> Source:
    """The pictures that a split names; nothing is read yet."""
    if isinstance(data, Path):
        return ParquetSource((data,), promised=promised)
    if data.folder:
        source: Source = FolderSource(data.folder)
    elif data.parquet:
        source = ParquetSource(data.parquet, data.image, data.label)
    else:
        source = HubSource(data)
    return HeldOut(source) if data.held_out else source


def _class_names(metadata: dict[bytes, bytes], label: str) -> tuple[str, ...]:
    """The names of a ClassLabel, as `datasets` writes them into a parquet file."""
    try:
        return tuple(json.loads(metadata[b"huggingface"])["info"]["features"][label]["names"])
    except (KeyError, TypeError, ValueError):
        return ()


def _encoded(cell: Any) -> bytes | None:
    """The encoded picture in a cell: bytes, or a mapping with them."""
    content = cell.get("bytes") if isinstance(cell, dict) else cell
    return content if isinstance(content, bytes) else None


def _damaged(path: Path, fault: Exception) -> ExplorerError:
    why = (str(fault).splitlines() or [type(fault).__name__])[0]
    return ExplorerError(f"{path} is truncated or damaged and cannot be read as parquet ({why}); {REMEDY}")
