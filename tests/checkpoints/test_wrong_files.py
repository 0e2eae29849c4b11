"""Every kind of wrong file gets one sentence that names the file, the tensor where there is one, and what to do."""

from __future__ import annotations

import io
import json
import os
import socket
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from makers import (
    Call,
    Name,
    Persistent,
    header_of,
    in_npy,
    in_stream,
    in_tar,
    in_zip,
    module,
    pickled,
    refused,
    safetensors,
    safetensors_of,
    state,
    stream_of,
    tensor,
    write,
    zip_of,
)

from lines_explorer.checkpoints import metadata, open_checkpoint, read_safetensors, sha256
from lines_explorer.errors import ExplorerError

ONE = {"blocks.0.a": (2, 3)}
GOOD = safetensors_of(ONE)


def changed(name: str = "blocks.0.a", data: bytes = b"\0" * 24, **fields: object) -> bytes:
    """A safetensors file of one tensor with some fields of its header changed."""
    header = header_of(ONE)
    header = {name: header["blocks.0.a"] | fields}
    return safetensors(header, data)


def with_entry(name: str, content: bytes) -> bytes:
    """A right zip of torch.save with one more entry."""
    file = io.BytesIO(zip_of(state(ONE), ONE))
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(name, content)
    return file.getvalue()


def patched(content: bytes, old: bytes, new: bytes) -> bytes:
    """The content with ``old`` exchanged for ``new``, which must be there."""
    assert old in content
    return content.replace(old, new)


def encrypted() -> bytes:
    """A zip whose entries are marked as encrypted."""
    content = bytearray(zip_of(state(ONE), ONE))
    for magic, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = content.find(magic)
        while start >= 0:
            content[start + at] |= 1
            start = content.find(magic, start + 1)
    return bytes(content)


def plain_tar() -> bytes:
    """A tar of something else."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:") as archive:
        info = tarfile.TarInfo("notes.txt")
        archive.addfile(info)
    return file.getvalue()


def twice_named() -> bytes:
    """A safetensors header that names a tensor twice."""
    text = json.dumps(header_of(ONE))
    return safetensors((text[:-1] + ", " + text[1:]).encode(), b"\0" * 24)


def two(first: list[int], second: list[int], data: int = 48) -> bytes:
    """Two tensors of 24 bytes at these places."""
    rows = {name: {"dtype": "F32", "shape": [2, 3], "data_offsets": at} for name, at in (("a", first), ("b", second))}
    return safetensors(rows, b"\0" * data)


def rebuilt(*args: object, function: str = "_rebuild_tensor_v2", numel: int = 6, kind: str = "FloatStorage") -> bytes:
    """A zip with one tensor rebuilt from these arguments after the storage."""
    storage = Persistent(("storage", Name("torch", kind), "0", "cpu", numel))
    return in_zip(pickled({"visual.proj": Call("torch._utils", function, storage, *args)}), {"0": 6})


HOOKS = Call("collections", "OrderedDict")

CONTENT: dict[str, tuple[bytes, str]] = {
    # not a checkpoint at all
    "empty": (b"", "is empty"),
    "one byte": (b"\x80", "begins with the bytes 80"),
    "LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
    "HTML page": (b"\n<!DOCTYPE html><html><body>404</body></html>", "HTML page.*download it again"),
    "XML error of a bucket": (b"<?xml version='1.0'?><Error>AccessDenied</Error>", "HTML page.*download it again"),
    "JSON": (b'{"error": "not found"}', "is a JSON text"),
    "text": (b"Repository not found\n", "is a text"),
    "zeros": (b"\0" * 300, "begins with the bytes 00 00 00 00"),
    "random bytes": (bytes(range(256)), "begins with the bytes 00 01 02 03"),
    "gzip": (b"\x1f\x8b\x08" + b"\0" * 20, "compressed with gzip; unpack it"),
    "zstd": (b"\x28\xb5\x2f\xfd" + b"\0" * 20, "compressed with zstd"),
    "bzip2": (b"BZh91AY" + b"\0" * 20, "compressed with bzip2"),
    "xz": (b"\xfd7zXZ\0" + b"\0" * 20, "compressed with xz"),
    "7z": (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    "rar": (b"Rar!\x1a\x07\0", "rar archive"),
    "GGUF": (b"GGUF\3\0\0\0" + b"\0" * 50, "GGUF file"),
    "HDF5": (b"\x89HDF\r\n\x1a\n" + b"\0" * 50, "HDF5 file.*convert"),
    "parquet": (b"PAR1" + b"\0" * 50 + b"PAR1", "parquet table"),
    "PNG": (b"\x89PNG\r\n\x1a\n" + b"\0" * 50, "PNG picture"),
    "JPEG": (b"\xff\xd8\xff\xe0" + b"\0" * 50, "JPEG picture"),
    "PDF": (b"%PDF-1.7\n", "PDF document"),
    "program": (b"\x7fELF" + b"\0" * 50, "is a program"),
    "script": (b"#!/bin/sh\ntrue\n", "is a script"),
    "protocol 0 pickle": (b"cos\nsystem\n(S'true'\ntR.", "is a text"),
    "empty zip": (b"PK\x05\x06" + b"\0" * 18, "empty zip"),
    "zip of other things": (
        with_entry("x", b"")[:0] + in_zip(b"").replace(b"data.pkl", b"note.txt"),
        "not one of torch",
    ),
    "two models in a zip": (with_entry("other/data.pkl", b"."), "zip archive .* but not one of torch.save"),
    "tar of other things": (plain_tar(), "tar archive, but not one of torch.save"),
    # safetensors
    "header cut": (GOOD[:40], "header is longer than the file"),
    "tensors cut": (GOOD[:-5], "'blocks.0.a' is said to lie at .* truncated or damaged"),
    "bytes at the end": (GOOD + b"\0" * 8, "8 bytes at its end belong to no tensor"),
    "header of 2^63 bytes": (safetensors(header_of(ONE), b"", 2**63), "header is longer than the file"),
    "header of no bytes": (safetensors(b"", b"{" * 30), "header is not JSON"),
    "header not UTF-8": (safetensors(b'{"\xff": 1}'), "header is not JSON"),
    "header a list": (safetensors([1], b"").replace(b"[1]", b"{1]"), "header is not JSON"),
    "header too deep": (safetensors(b'{"a":' * 50_000), "header is not JSON"),
    "no tensors": (safetensors({"__metadata__": {"format": "pt"}}), "holds no tensors"),
    "metadata no text": (safetensors({"__metadata__": {"a": 1}}), "__metadata__ must map text to text"),
    "metadata a list": (safetensors({"__metadata__": []}), "__metadata__ must map text to text"),
    "row a number": (safetensors({"blocks.0.a": 7}), "'blocks.0.a' lacks dtype"),
    "row without offsets": (safetensors({"blocks.0.a": {"dtype": "F32", "shape": [1]}}), "'blocks.0.a' lacks dtype"),
    "unknown dtype": (changed(dtype="F4"), "'blocks.0.a' has the unknown dtype F4; convert"),
    "dtype a list": (changed(dtype=["F32"]), "unknown dtype"),
    "negative shape": (changed(shape=[-2, -3]), "impossible shape"),
    "fractional shape": (changed(shape=[2.0, 3]), "impossible shape"),
    "shape of truths": (changed(shape=[True, 6]), "impossible shape"),
    "shape of 65 dimensions": (changed(shape=[1] * 65), "impossible shape"),
    "shape too large": (changed(shape=[2**62, 2**62]), "needs .* bytes, but the header gives it 24"),
    "shape too small": (changed(shape=[2, 2]), "needs 16 bytes, but the header gives it 24"),
    "dtype too wide": (changed(dtype="F64"), "needs 48 bytes, but the header gives it 24"),
    "offsets huge": (changed(data_offsets=[2**62, 2**62 + 24]), "is said to lie at"),
    "offsets turned": (changed(data_offsets=[24, 0]), "is said to lie at"),
    "offsets negative": (changed(data_offsets=[-24, 0]), "is said to lie at"),
    "offsets three": (changed(data_offsets=[0, 12, 24]), "is said to lie at"),
    "offsets text": (changed(data_offsets=["0", "24"]), "is said to lie at"),
    "tensor named twice": (twice_named(), "'blocks.0.a' is named twice"),
    "tensors overlap": (two([0, 24], [12, 36], 36), "'a' and 'b' overlap"),
    "tensors in one place": (two([0, 24], [0, 24], 24), "'a' and 'b' overlap"),
    "hole between tensors": (two([0, 24], [32, 56], 56), "8 bytes before tensor 'b' belong to no tensor"),
    "endless name": (safetensors_of({"x" * 501: (1,)}), "tensor name 'x+…x+' has 501 characters"),
    "too many tensors": (safetensors_of({f"blocks.0.{n}": () for n in range(100_001)}), "100,001 tensors, more than"),
    "hole before tensors": (two([8, 32], [32, 56], 56), "8 bytes before tensor 'a' belong to no tensor"),
    # zips of torch.save
    "zip cut": (zip_of(state(ONE), ONE)[:-30], "truncated or damaged.*torch.save"),
    "zip's directory cut": (zip_of(state(ONE), ONE)[:200], "truncated or damaged.*torch.save"),
    "zip bomb": (
        in_zip(pickled(state({"a": (1 << 20,)})), {"0": 1 << 20}, compression=zipfile.ZIP_DEFLATED),
        "is compressed .* zip it again without compression",
    ),
    "zip cut at its front": (zip_of(state(ONE), ONE)[:4] + zip_of(state(ONE), ONE)[5:], "truncated or damaged"),
    "zip encrypted": (encrypted(), "is encrypted"),
    "zip with an entry twice": (
        patched(with_entry("archive/versiom", b""), b"archive/versiom", b"archive/version"),
        "two entries of one name",
    ),
    "zip without a storage": (in_zip(pickled(state(ONE))), "its entry data/0 is missing"),
    "zip, storage too short": (in_zip(pickled(state(ONE)), {"0": 5}), "'blocks.0.a' cannot be read: its shape"),
    "zip, big-endian": (with_entry("archive/byteorder", b"big"), "big-endian machine"),
    "zip, pickle empty": (in_zip(b""), "truncated or damaged"),
    "zip, header moved": (patched(zip_of(state(ONE), ONE), b"PK\x03\x04", b"PK\x03\x03"), "begins with the bytes"),
    # the tensors of a pickle
    "view beyond its storage": (rebuilt(3, (2, 3), (3, 1), False, HOOKS), "'visual.proj' cannot be read: its shape"),
    "view of huge steps": (rebuilt(0, (2, 3), (2**50, 1), False, HOOKS), "'visual.proj' cannot be read: its shape"),
    "335 GB of one number": (rebuilt(0, (2**19, 2**19), (0, 0), False, HOOKS), "repeats the 6 numbers"),
    "shape too large for its storage": (rebuilt(0, (2**40,), (1,), False, HOOKS), "needs more numbers than the 6"),
    "storage larger than its entry": (
        rebuilt(0, (600,), (1,), False, HOOKS, numel=600),
        "needs more numbers than the 6",
    ),
    "negative start": (rebuilt(-1, (2, 3), (3, 1), False, HOOKS), "holds what is no size"),
    "negative steps": (rebuilt(0, (2, 3), (-3, 1), False, HOOKS), "holds what is no size"),
    "shape and steps differ": (rebuilt(0, (2, 3), (1,), False, HOOKS), "shape and strides do not fit"),
    "no shape": (rebuilt(0), "a tensor has no storage"),
    "sparse": (rebuilt(0, (2, 3), (3, 1), function="_rebuild_sparse_tensor"), "a sparse tensor; convert it"),
    "quantised": (rebuilt(0, (2, 3), (3, 1), function="_rebuild_qtensor"), "a quantised tensor; convert it"),
    "quantised storage": (rebuilt(0, (2, 3), (3, 1), kind="QInt8Storage"), "torch.QInt8Storage is not a storage"),
    "without numbers": (rebuilt(0, (2, 3), function="_rebuild_meta_tensor_no_storage"), "device meta"),
    # what is in a pickle
    "a number": (in_zip(pickled(7)), "holds a int without named tensors.*state dict"),
    "a list of tensors": (in_zip(pickled([tensor(0, (2,))]), {"0": 2}), "holds a list without named tensors"),
    "one tensor": (in_zip(pickled(tensor(0, (2,))), {"0": 2}), "one tensor without a name"),
    "an object": (in_zip(pickled(Call("a.b", "Trainer"))), "holds an object of a.b.Trainer"),
    "numbers as names": (in_zip(pickled({3: tensor(0, (2,))}), {"0": 2}), "a tensor is named 3, which is no text"),
    "only an optimizer": (in_zip(pickled({"optimizer": {"lr": 0.1}, "epoch": 1})), "without named tensors"),
    "two models": (
        in_zip(pickled({"student": state(ONE), "teacher": state(ONE)}), {"0": 6}),
        "several models .'student' and 'teacher'.",
    ),
    "a module without parameters": (in_zip(pickled(module({}))), "has no parameters"),
    "a head whose bias is another's": (
        zip_of(state({"weight": (10, 6), "bias": (9,)}), {"weight": (10, 6), "bias": (9,)}),
        r"bias has shape \(9,\), but its weight \(10, 6\) has 10 classes",
    ),
    # the old stream and tar
    "stream cut": (stream_of(state(ONE), ONE)[:-4], "truncated or damaged"),
    "stream without its numbers": (stream_of(state(ONE), ONE)[:-32], "truncated or damaged"),
    "stream, big-endian": (in_stream(pickled(state(ONE)), little_endian=False), "unknown version or byte order"),
    "stream, list of storages missing": (stream_of(state(ONE), ONE)[:120], "truncated or damaged"),
    "stream, a storage of another size": (
        patched(stream_of(state(ONE), ONE), struct.pack("<q", 6), struct.pack("<q", 2**50)),
        "a storage of 6 numbers has",
    ),
    "tar, tensor missing": (in_tar(pickled({"a": Persistent(5)})), "tensor 5 is missing"),
    "tar, negative dimensions": (
        in_tar(pickled({}), tensors=pickled(1) + pickled((1, 1, "x")) + struct.pack("<i4x", -3)),
        "truncated or damaged",
    ),
    # masks
    "npy of numbers": (in_npy(b"\0" * 8, b"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }"), "one array"),
    "npy, header is code": (in_npy(b"N.", b"{'descr': __import__('os').system('true')}"), "header is not one of numpy"),
    "npy of a list": (in_npy(pickled([1, 2])), "does not hold one dictionary"),
    "npy cut": (in_npy(pickled({}))[:-3], "truncated or damaged"),
}


@pytest.mark.parametrize("kind", CONTENT)
def test_wrong_content(tmp_path: Path, kind: str) -> None:
    content, expected = CONTENT[kind]
    path = write(tmp_path, "wrong.pt", content)
    refused(lambda: open_checkpoint(path), expected, str(path))


def pipe(folder: Path) -> Path:
    """A named pipe nobody writes to: opening it would wait for ever."""
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def listening(folder: Path) -> Path:
    """A socket."""
    server = socket.socket(socket.AF_UNIX)
    os.chdir(folder)
    server.bind("socket")
    server.close()
    return folder / "socket"


def linked(folder: Path, target: str) -> Path:
    """A symbolic link."""
    (folder / "link.pt").symlink_to(target)
    return folder / "link.pt"


PLACES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing": (lambda folder: folder / "no.pt", "is missing"),
    "missing below a file": (lambda folder: write(folder, "a", b"x") / "b.pt", "cannot be read|is missing"),
    "pipe": (pipe, "is a pipe"),
    "socket": (listening, "is a socket"),
    "device": (lambda folder: Path("/dev/zero"), "is a device"),
    "link to a device": (lambda folder: linked(folder, "/dev/zero"), "is a device"),
    "link to nothing": (lambda folder: linked(folder, "nowhere"), "points to a file that is missing"),
    "link to itself": (lambda folder: linked(folder, "link.pt"), "cannot be read"),
    "name too long": (lambda folder: folder / ("x" * 3000), "cannot be read"),
    "name with a zero byte": (lambda folder: folder / "a\0b", "cannot be read"),
    "empty folder": (lambda folder: folder, "is a directory without a checkpoint"),
}


@pytest.mark.parametrize("kind", PLACES)
def test_wrong_places(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make, expected = PLACES[kind]
    path = make(tmp_path)
    refused(lambda: open_checkpoint(path), expected)
    if kind != "name with a zero byte":
        for read in (read_safetensors, metadata, sha256):
            with pytest.raises(ExplorerError):
                read(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path: Path) -> None:
    path = write(tmp_path, "a.safetensors", GOOD)
    path.chmod(0)
    refused(lambda: open_checkpoint(path), "cannot be read", str(path))


def test_names_cannot_break_a_message(tmp_path: Path) -> None:
    """Control characters, terminal commands, broken text and endless names are shown escaped and cut."""
    for name in ("\x1b[2J\r\n\0", "\ud800", "x" * 100_000, "\u202eabc", "%s{}"):
        path = write(tmp_path, "a.safetensors", changed(name, dtype="F4"))
        refused(lambda path=path: open_checkpoint(path), "unknown dtype", str(path))


def test_there_are_more_than_a_hundred_kinds() -> None:
    assert len(CONTENT) + len(PLACES) >= 100
