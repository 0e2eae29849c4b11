"""A file on disk that may be anything: opened without blocking, recognised by its first bytes, mapped, hashed."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from lines_explorer.errors import ExplorerError

if TYPE_CHECKING:
    import torch

LFS_POINTER = b"version https://git-lfs"
CHUNK = 1 << 20
START = 512  # bytes that tell the kind of a file; a tar archive shows itself at 257

KINDS = ((b"PK\x03\x04", "zip"), (b"\x93NUMPY", "npy"))
OTHERS = (
    (b"PK\x05\x06", "an empty zip archive", "save the checkpoint again"),
    (b"GGUF", "a GGUF file of llama.cpp", "use the safetensors it was made from"),
    (b"\x89HDF", "an HDF5 file", "convert it to safetensors"),
    (b"PAR1", "a parquet table, not a checkpoint", "give it to a suite as data"),
    (b"\x1f\x8b", "compressed with gzip", "unpack it first"),
    (b"BZh", "compressed with bzip2", "unpack it first"),
    (b"\xfd7zXZ", "compressed with xz", "unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "unpack it first"),
    (b"7z\xbc\xaf", "a 7z archive", "unpack it first"),
    (b"Rar!", "a rar archive", "unpack it first"),
    (b"\x89PNG", "a PNG picture", "give the checkpoint instead"),
    (b"\xff\xd8\xff", "a JPEG picture", "give the checkpoint instead"),
    (b"%PDF", "a PDF document", "give the checkpoint instead"),
    (b"\x7fELF", "a program", "give the checkpoint instead"),
    (b"MZ", "a program", "give the checkpoint instead"),
    (b"#!", "a script", "give the checkpoint instead"),
)


def escaped(text: str) -> str:
    """``text`` with control characters and broken code points escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown(text: object) -> str:
    """``text`` fit for a message: escaped, at most 160 characters."""
    plain = escaped(str(text)[:400])
    return plain if len(plain) <= 160 else f"{plain[:100]}…{plain[-50:]}"


def damaged(path: Path, what: str, why: str) -> ExplorerError:
    """The error of a file that is not what it seems to be."""
    return ExplorerError(
        f"{path} is truncated or damaged and cannot be read as {what} ({shown(why)}); download or copy it again."
    )


def unreadable(path: Path, fault: OSError) -> ExplorerError:
    """The error of a file that the system does not let us read."""
    return ExplorerError(f"{path} cannot be read ({fault.strerror}).")


@dataclass(frozen=True)
class Stamp:
    """What a file's content may be remembered by as long as it stays the same."""

    device: int
    inode: int
    size: int
    changed: int

    @staticmethod
    def of(status: os.stat_result) -> Stamp:
        """The stamp in a file's status."""
        return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


_hashes: dict[tuple[Path, Stamp], str] = {}


class SourceFile:
    """A regular file as it was when first seen.

    Attributes: ``path``, ``stamp``, ``size`` in bytes (never 0).
    Raises ExplorerError when the path is missing, a directory, a pipe, a device, empty or unreadable.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.stamp = Stamp.of(require_regular(self.path))
        self.size = self.stamp.size
        if not self.size:
            raise ExplorerError(f"{self.path} is truncated or damaged: it is empty; download or copy it again.")

    def open(self) -> BinaryIO:
        """The file, open for reading; the caller closes it.

        Raises ExplorerError when it cannot be opened, or was exchanged since it was first seen.
        """
        file = opened(self.path)
        if Stamp.of(os.fstat(file.fileno())) != self.stamp:
            file.close()
            raise ExplorerError(f"{self.path} changed while it was being read; open it again when it is complete.")
        return file

    def read(self, offset: int, size: int) -> bytes:
        """``size`` bytes from ``offset``. Raises ExplorerError when they are not all there."""
        try:
            with self.open() as file:
                file.seek(offset)
                content = file.read(size)
        except OSError as fault:
            raise unreadable(self.path, fault) from fault
        if len(content) < size:
            raise damaged(self.path, "a checkpoint", f"it ends at byte {self.size}")
        return content

    @cached_property
    def mapped(self) -> torch.UntypedStorage:
        """All bytes, mapped copy-on-write: pages are read when touched, and writing never reaches the file."""
        import torch

        self.open().close()
        return torch.UntypedStorage.from_file(str(self.path), shared=False, nbytes=self.size)

    @property
    def sha256(self) -> str:
        """Hex sha256 of the content, computed once as long as path, size and time of change stay the same."""
        key = (self.path.absolute(), self.stamp)
        if key not in _hashes:
            digest = hashlib.sha256()
            try:
                with self.open() as file:
                    while chunk := file.read(CHUNK):
                        digest.update(chunk)
            except OSError as fault:
                raise unreadable(self.path, fault) from fault
            _hashes[key] = digest.hexdigest()
        return _hashes[key]


def require_regular(path: Path) -> os.stat_result:
    """The status of a regular file. Raises ExplorerError for everything else, without opening it."""
    try:
        status = path.stat()
    except FileNotFoundError as fault:
        link = "points to a file that is missing" if path.is_symlink() else "is missing"
        raise ExplorerError(f"{path} {link}; check the path.") from fault
    except (OSError, ValueError) as fault:
        raise ExplorerError(f"{shown(path)} cannot be read ({getattr(fault, 'strerror', fault)}).") from fault
    if stat.S_ISDIR(status.st_mode):
        raise ExplorerError(f"{path} is a directory; a file is needed.")
    if not stat.S_ISREG(status.st_mode):
        kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
        kind = kinds.get(stat.S_IFMT(status.st_mode), "a special file")
        raise ExplorerError(f"{path} is {kind}, not a file on disk; save the checkpoint to a file first.")
    return status


def opened(path: Path) -> BinaryIO:
    """A file open for reading, even if it was exchanged for a pipe meanwhile. Raises ExplorerError."""

    def without_waiting(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

    try:
        return open(path, "rb", opener=without_waiting)
    except OSError as fault:
        raise unreadable(path, fault) from fault


def kind_of(file: SourceFile) -> str:
    """``safetensors``, ``zip``, ``tar``, ``pickle`` or ``npy``, by content, or by name where the content is unclear.

    Raises ExplorerError for everything else, saying what it is where that is recognisable.
    """
    start = file.read(0, min(START, file.size))
    refuse_other_kinds(file.path, start)
    for magic, kind in KINDS:
        if start.startswith(magic):
            return kind
    if start[8:9] == b"{" or file.path.suffix == ".safetensors":
        return "safetensors"
    if start[257:262] == b"ustar":
        return "tar"
    if start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "pickle"
    if start.lstrip()[:1] in (b"{", b"["):
        raise ExplorerError(f"{file.path} is a JSON text, not a checkpoint; give the file or folder with the weights.")
    if all(byte in b"\t\n\r\f" or 32 <= byte < 127 for byte in start):
        raise ExplorerError(f"{file.path} is a text, not a checkpoint; give the file or folder with the weights.")
    raise ExplorerError(
        f"{file.path} begins with the bytes {start[:4].hex(' ')}, which no known kind of checkpoint does; "
        "use safetensors, a file of torch.save or a TALL-mask .npy."
    )


def refuse_other_kinds(path: Path, start: bytes) -> None:
    """Raises ExplorerError when the first bytes are those of something that is known and not a checkpoint."""
    if start.startswith(LFS_POINTER):
        raise ExplorerError(f"{path} is a Git LFS pointer, not the file itself; fetch it with `git lfs pull`.")
    if start.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        raise ExplorerError(f"{path} is an HTML page (a failed download?), not a checkpoint; download it again.")
    for magic, what, remedy in OTHERS:
        if start.startswith(magic):
            raise ExplorerError(f"{path} is {what}; {remedy}.")
