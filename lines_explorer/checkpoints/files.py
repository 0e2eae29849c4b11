"""Safetensors files: every way a file can be wrong gets one sentence that names it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lines_explorer.checkpoints.headers import read_header
from lines_explorer.checkpoints.sources import CHUNK, SourceFile, opened, require_regular
from lines_explorer.errors import ExplorerError

if TYPE_CHECKING:
    import torch

    Tensors = Mapping[str, torch.Tensor]
else:
    Tensors = Mapping


def sha256(path: str | Path) -> str:
    """Hex sha256 of a file's bytes, read in 1 MiB chunks.

    Raises ExplorerError when ``path`` is missing, a directory or unreadable.
    """
    path = _existing(path)
    digest = hashlib.sha256()
    try:
        with opened(path) as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except OSError as fault:
        raise ExplorerError(f"{path} cannot be read ({fault.strerror}).") from fault
    return digest.hexdigest()


def read_safetensors(path: str | Path, expected_sha256: str | None = None) -> dict[str, torch.Tensor]:
    """All tensors of a safetensors file, on the CPU, in their stored dtypes.

    Raises ExplorerError, naming the file, when it is missing, a directory, a Git LFS pointer, an HTML page,
    truncated or damaged, when its sha256 is not ``expected_sha256``, or when a tensor holds NaN or infinity.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = _existing(path)
    read_header(SourceFile(path))
    if expected_sha256 is not None and (found := sha256(path)) != expected_sha256:
        raise ExplorerError(
            f"{path} is damaged or was exchanged: its sha256 is {found[:12]}…, expected {expected_sha256[:12]}…; "
            "reinstall it or rebuild it with `build-suite`."
        )
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError, ValueError) as fault:
        raise _damaged(path, str(fault)) from fault
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise ExplorerError(f"{path}: tensor {name} holds NaN or infinite values; the file cannot be used.")
    return tensors


def metadata(path: str | Path) -> dict[str, str]:
    """The text metadata in a safetensors header (empty when it has none), without reading a tensor.

    Raises ExplorerError as `read_safetensors` does, except for what only the tensors can show.
    """
    return dict(read_header(SourceFile(_existing(path))).metadata)


def write_safetensors(path: str | Path, tensors: Tensors, metadata: Mapping[str, str] | None = None) -> str:
    """Writes ``tensors`` with ``metadata`` and returns the file's sha256.

    The file is written beside ``path``, synced and renamed: a reader sees the old file or the whole new one.  Equal
    tensors and metadata give equal bytes.  Raises ExplorerError when the folder cannot be written.
    """
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content = _sorted_header(save(plain, {str(key): str(value) for key, value in (metadata or {}).items()}))
    path = Path(path)
    try:
        with written_beside(path) as beside:
            beside.write_bytes(content)
    except OSError as fault:
        raise ExplorerError(
            f"{path} cannot be written ({fault.strerror}); choose a folder you may write to."
        ) from fault
    return hashlib.sha256(content).hexdigest()


def _sorted_header(content: bytes) -> bytes:
    """The same safetensors content with its header's keys sorted (the library writes metadata in random order)."""
    length = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + length]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # tensors stay aligned to 8 bytes
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


@contextlib.contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """A temporary path in ``path``'s folder; on success it is synced and renamed to ``path``, otherwise removed.

    Raises OSError when the folder cannot be made or written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    beside = Path(name)
    try:
        yield beside
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        beside.chmod(0o644)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _existing(path: str | Path) -> Path:
    path = Path(path)
    if not os.path.exists(path):
        raise ExplorerError(f"{path} is missing; reinstall it or rebuild it with `build-suite`.")
    require_regular(path)
    return path


def _damaged(path: Path, why: str) -> ExplorerError:
    return ExplorerError(
        f"{path} is truncated or damaged and cannot be read as safetensors ({why}); "
        "reinstall it or rebuild it with `build-suite`."
    )
