"""The containers torch and numpy put pickles in: zip, legacy stream, legacy tar, TorchScript, ``.npy``."""

from __future__ import annotations

import re
import struct
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

from lines_explorer.checkpoints.pickles import Damaged, Unpickler, Window
from lines_explorer.checkpoints.rebuilding import (
    BUILDS,
    CALLS,
    Array,
    PickledTensor,
    Storage,
    counts,
    storage_type,
)
from lines_explorer.checkpoints.sources import SourceFile, damaged, shown, unreadable
from lines_explorer.checkpoints.tensors import ITEM_SIZE, Region
from lines_explorer.errors import ExplorerError

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
MOST_MEMBERS = 1000
LARGEST_PICKLE = 1 << 30
NPY_HEADER = re.compile(
    rb"\{'descr': '([^']{1,20})', 'fortran_order': (?:True|False), 'shape': \([\d, ]*\),? *\}\s*", re.ASCII
)
STEPS = (ValueError, struct.error, EOFError, OverflowError)  # what a parser of the library raises on broken bytes


@dataclass(frozen=True)
class Pickled:
    """What a pickle describes, and the container it came in (``torch zip``, ``TorchScript``, ``npy``, …)."""

    container: str
    root: Any


def read_pickled(file: SourceFile, kind: str) -> Pickled:
    """The objects of a zip, tar, pickle or npy file (see ``kind_of``); no tensor is read, and nothing is run.

    Raises ExplorerError when the file is damaged, or wants to run something.
    """
    readers: dict[str, Callable[[SourceFile, BinaryIO], Pickled]] = {
        "zip": _zip,
        "tar": _tar,
        "pickle": _stream,
        "npy": _npy,
    }
    what = {"zip": "a file of torch.save", "tar": "a file of torch.save", "npy": "a TALL-mask .npy"}.get(
        kind, "a pickle"
    )
    with file.open() as handle:
        try:
            return readers[kind](file, handle)
        except (zipfile.BadZipFile, tarfile.TarError, NotImplementedError, RecursionError, *STEPS) as fault:
            raise damaged(file.path, what, str(fault) or type(fault).__name__) from fault
        except OSError as fault:
            raise unreadable(file.path, fault) from fault


def _unpickler(file: SourceFile, persistent: Callable[[Any], Any] | None = None) -> Unpickler:
    return Unpickler(str(file.path), CALLS, BUILDS, persistent)


class _Storages:
    """Storages asked for by persistent id, one for each key and dtype.

    ``place`` tells where a key's bytes lie, in a container that lists them; in a stream they follow later.
    """

    def __init__(self, place: Callable[[str], Region] | None = None) -> None:
        self._place = place
        self.by_key: dict[Any, Storage] = {}

    def __call__(self, pid: Any) -> Any:
        if isinstance(pid, tuple) and len(pid) >= 2 and pid[0] == "module":
            return pid[1]
        if (
            not isinstance(pid, tuple)
            or len(pid) not in (5, 6)
            or pid[0] != "storage"
            or type(pid[2]) not in (str, int)
        ):
            raise Damaged("a storage is not described as one")
        dtype, key, (numel,) = storage_type(pid[1]), pid[2], counts([pid[4]])
        root = self.by_key.setdefault((key, dtype), Storage(dtype, numel))
        if self._place and root.place is None:
            root.place = self._place(str(key))
        view = pid[5] if len(pid) == 6 else None
        if view is None:
            return root
        if not isinstance(view, tuple) or len(view) != 3:
            raise Damaged("a view of a storage is not described as one")
        start, size = counts(view[1:])
        if start + size > root.numel:
            raise Damaged("a view of a storage reaches beyond it")
        return Storage(dtype, size, root=root, start=start)


def _zip(file: SourceFile, handle: BinaryIO) -> Pickled:
    """A zip of torch.save (since 1.6) or torch.jit.save: ``NAME/data.pkl`` and ``NAME/data/KEY``, stored plainly."""
    with zipfile.ZipFile(handle) as archive:
        members = {member.filename: member for member in archive.infolist()}
        if len(members) < len(archive.infolist()):
            raise ExplorerError(f"{file.path} holds two entries of one name; save it again.")
        end = archive.start_dir
    roots = [name.removesuffix("data.pkl") for name in members if name.rpartition("/")[2] == "data.pkl"]
    if len(roots) != 1:
        listed = ", ".join(shown(name) for name in list(members)[:3])
        raise ExplorerError(
            f"{file.path} is a zip archive ({listed}), but not one of torch.save; unpack it and give the file inside."
        )
    root = roots[0]

    def region(name: str) -> Region:
        if root + name not in members:
            raise Damaged(f"its entry {name} is missing")
        return _member_region(file, handle, members[root + name], end)

    if root + "byteorder" in members and file.read(region("byteorder").offset, 3) == b"big":
        raise ExplorerError(f"{file.path} was written on a big-endian machine; save it as safetensors there.")
    data = region("data.pkl")
    _require_size(file, data.size)
    storages = _Storages(lambda key: region(f"data/{key}"))
    loaded = _unpickler(file, storages).load(Window(handle, data.offset, data.size))
    script = any(name.startswith(root + "code/") for name in members)
    return Pickled("TorchScript" if script else "torch zip", loaded)


def _member_region(file: SourceFile, handle: BinaryIO, member: zipfile.ZipInfo, end: int) -> Region:
    """Where an entry's bytes lie. Raises ExplorerError when it is compressed, encrypted or not wholly there."""
    name = shown(member.filename)
    if member.flag_bits & 1:
        raise ExplorerError(f"{file.path}: its entry {name} is encrypted; decrypt it first.")
    if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
        raise ExplorerError(
            f"{file.path}: its entry {name} is compressed ({member.compress_size:,} to {member.file_size:,} bytes), "
            "which torch.save never does; unpack it and zip it again without compression (zip -0)."
        )
    if member.header_offset < 0:
        raise Damaged(f"its entry {name} begins before the file")
    handle.seek(member.header_offset)
    header = handle.read(30)
    if len(header) < 30 or header[:4] != b"PK\x03\x04":
        raise Damaged(f"its entry {name} has no header")
    offset = member.header_offset + 30 + sum(struct.unpack("<HH", header[26:30]))
    if offset + member.file_size > end:
        raise Damaged(f"its entry {name} reaches beyond the end")
    return Region(file, offset, member.file_size)


def _require_size(file: SourceFile, size: int) -> None:
    if size > LARGEST_PICKLE:
        raise ExplorerError(f"{file.path}: its pickle has {size:,} bytes, too many for a checkpoint; use safetensors.")


def _stream(file: SourceFile, handle: BinaryIO) -> Pickled:
    """A stream of torch.save before 1.6: five pickles, then the numbers; or the one object of pickle.dump."""
    window, storages = Window(handle, 0, file.size), _Storages()
    unpickler = _unpickler(file, storages)
    first = unpickler.load(window)
    if first != MAGIC:
        return Pickled("pickle", first)
    version, system = unpickler.load(window), unpickler.load(window)
    if version != PROTOCOL or not isinstance(system, dict) or not system.get("little_endian", True):
        raise ExplorerError(f"{file.path} is of an unknown version or byte order; save it again with a newer torch.")
    root, keys = unpickler.load(window), unpickler.load(window)
    if not isinstance(keys, list) or not all(type(key) in (str, int) for key in keys):
        raise Damaged("the list of storages is missing")
    owners = {key: storage for (key, _), storage in storages.by_key.items()}
    for key in keys:
        if key not in owners:
            raise Damaged(f"storage {key} belongs to no tensor")
        owners[key].place = _counted_numbers(file, window, owners[key])
    return Pickled("torch legacy stream", root)


def _counted_numbers(file: SourceFile, window: Window, storage: Storage) -> Region:
    """The bytes of a storage that follow here, headed by their number as int64."""
    (numel,) = struct.unpack("<q", window.read(8))
    size = numel * ITEM_SIZE[storage.dtype]
    if numel != storage.numel or size > window.left:
        raise Damaged(f"a storage of {storage.numel} numbers has {numel}, or ends early")
    region = Region(file, window.tell(), size)
    window.skip(size)
    return region


def _tar(file: SourceFile, handle: BinaryIO) -> Pickled:
    """A tar of torch.save before 0.1.10: the members ``storages``, ``tensors`` and ``pickle``."""
    windows: dict[str, Window] = {}
    with tarfile.open(fileobj=handle, mode="r:") as archive:
        for count, member in enumerate(archive):
            if count > MOST_MEMBERS:
                raise ExplorerError(f"{file.path} is a tar archive of many files; unpack it and give the file inside.")
            if member.name in ("storages", "tensors", "pickle") and member.isreg() and not member.issparse():
                windows[member.name] = Window(handle, member.offset_data, min(member.size, file.size))
    if len(windows) < 3:
        raise ExplorerError(
            f"{file.path} is a tar archive, but not one of torch.save; unpack it and give the file inside."
        )
    _require_size(file, windows["pickle"].left)
    tensors = _tar_tensors(_unpickler(file), windows["tensors"], _tar_storages(file, windows["storages"]))

    def persistent(pid: Any) -> Any:
        if isinstance(pid, tuple) and pid:
            return pid[0]  # a class with its source
        if type(pid) not in (str, int) or str(pid) not in tensors:
            raise Damaged(f"tensor {pid} is missing" if type(pid) is int else "a tensor is missing")
        return tensors[str(pid)]

    return Pickled("torch legacy tar", _unpickler(file, persistent).load(windows["pickle"]))


def _tar_storages(file: SourceFile, window: Window) -> dict[Any, Storage]:
    unpickler, storages = _unpickler(file), {}
    for _ in range(*counts([unpickler.load(window)])):
        row = unpickler.load(window)
        if not isinstance(row, tuple) or len(row) != 3 or type(row[0]) not in (str, int):
            raise Damaged("a storage is not described as one")
        (numel,) = struct.unpack("<q", window.read(8))
        window.skip(-8)
        storages[row[0]] = Storage(storage_type(row[2]), *counts([numel]))
        storages[row[0]].place = _counted_numbers(file, window, storages[row[0]])
    views = unpickler.load(window)
    for view in views if isinstance(views, list | tuple) else ():
        if not isinstance(view, tuple) or len(view) != 4 or not {type(view[0]), type(view[1])} <= {str, int}:
            raise Damaged("a view of a storage is not described as one")
        if view[1] not in storages:
            raise Damaged("a view's storage is missing")
        (start, size), root = counts(view[2:]), storages[view[1]]
        if start + size > root.numel:
            raise Damaged("a view of a storage reaches beyond it")
        storages[view[0]] = Storage(root.dtype, size, root=root, start=start)
    return storages


def _tar_tensors(unpickler: Unpickler, window: Window, storages: dict[Any, Storage]) -> dict[str, PickledTensor]:
    tensors = {}
    for _ in range(*counts([unpickler.load(window)])):
        row = unpickler.load(window)
        if not isinstance(row, tuple) or len(row) != 3 or type(row[1]) not in (str, int) or row[1] not in storages:
            raise Damaged("a tensor is not described as one")
        (dimensions,) = struct.unpack("<i4x", window.read(8))
        if not 0 <= dimensions <= 64:
            raise Damaged(f"a tensor has {dimensions} dimensions")
        numbers = struct.unpack(f"<{2 * dimensions + 1}q", window.read(8 * (2 * dimensions + 1)))
        shape, strides, (start,) = (
            counts(list(part)) for part in (numbers[:dimensions], numbers[dimensions:-1], numbers[-1:])
        )
        storage = storages[row[1]]
        tensors[str(row[0])] = PickledTensor(storage, start, shape, strides, storage.dtype)
    return tensors


def _npy(file: SourceFile, handle: BinaryIO) -> Pickled:
    """An object array that holds a dict, as numpy.save writes TALL masks."""
    start = handle.read(12)
    offset, length = (10, start[8:10]) if start[6:7] == b"\x01" else (12, start[8:12])
    size = int.from_bytes(length, "little")
    handle.seek(offset)
    header = NPY_HEADER.fullmatch(handle.read(min(size, 10_000)))
    if not header:
        raise Damaged("its header is not one of numpy")
    if header[1] not in (b"|O", b"O"):
        raise ExplorerError(
            f"{file.path} holds one array without a name; save a dict of task to mask, as numpy.save of a dict does."
        )
    _require_size(file, file.size)
    loaded = _unpickler(file).load(Window(handle, offset + size, file.size - offset - size))
    if isinstance(loaded, Array) and isinstance(loaded.content, list) and len(loaded.content) == 1:
        return Pickled("npy", loaded.content[0])
    raise Damaged("it does not hold one dictionary")
