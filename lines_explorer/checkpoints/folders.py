"""Folders as Hugging Face saves them: one file, shards with an index, an adapter, or an open_clip model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lines_explorer.checkpoints.sources import SourceFile, shown
from lines_explorer.errors import ExplorerError

MOST_TEXT = 32 << 20
SINGLE = (
    *("model.safetensors", "pytorch_model.bin", "open_clip_model.safetensors", "open_clip_pytorch_model.bin"),
    *("adapter_model.safetensors", "adapter_model.bin"),
)
INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
CONFIGS = ("adapter_config.json", "config.json", "open_clip_config.json")
PLAIN_NAME = re.compile(r"[^/\\:\0.][^/\\:\0]*")
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".npy")


@dataclass(frozen=True)
class Folder:
    """What a folder's files say.

    Attributes:
        what: ``Hugging Face``, ``open_clip`` or ``adapter``.
        files: the weights, in the index's order.
        shard_of: tensor name → file name, for shards; empty for a single file.
        config: the content of its config file ({} when it has none).
    """

    what: str
    files: tuple[Path, ...]
    shard_of: Mapping[str, str]
    config: Mapping[str, Any]


def read_folder(folder: Path) -> Folder:
    """Finds the weights of a model in a folder; none of them is opened.

    Raises ExplorerError when the folder holds no model, a suite, or an index that is damaged or leads outside.
    """
    if (folder / "suite.yaml").is_file():
        raise ExplorerError(f"{folder} is a suite, not a checkpoint; open it with --suite, or give one of its files.")
    named = next((name for name in CONFIGS if (folder / name).is_file()), None)
    config = read_json(folder / named) if named else {}
    kinds = {"adapter_config.json": "adapter", "open_clip_config.json": "open_clip"}
    what = kinds.get(named or "", "Hugging Face")
    singles = [name for name in SINGLE if name.startswith("adapter") == (what == "adapter")]
    for name in (*INDEXES, *singles):
        if (folder / name).exists() or (folder / name).is_symlink():
            if name in INDEXES:
                shard_of = _shards(folder, folder / name)
                files = tuple(_inside(folder, shard) for shard in dict.fromkeys(shard_of.values()))
                return Folder(what, files, shard_of, config)
            return Folder(what, (_inside(folder, name),), {}, config)
    raise _no_model(folder)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object in a file of at most 32 MiB. Raises ExplorerError when it is none."""
    file = SourceFile(path)
    if file.size > MOST_TEXT:
        raise ExplorerError(f"{path} has {file.size:,} bytes, too many for such a file; download it again.")
    try:
        content = json.loads(file.read(0, file.size).decode("utf-8"))
    except (ValueError, RecursionError) as fault:
        raise ExplorerError(f"{path} is damaged: it is not JSON; download it again.") from fault
    if not isinstance(content, dict):
        raise ExplorerError(f"{path} is damaged: it is not a JSON object; download it again.")
    return content


def _shards(folder: Path, index: Path) -> dict[str, str]:
    """Tensor name → file name in the folder, of an index."""
    shard_of = read_json(index).get("weight_map")
    if not isinstance(shard_of, dict) or not shard_of:
        raise ExplorerError(f"{index} has no weight_map from tensors to files; download it again.")
    for name, shard in shard_of.items():
        if not isinstance(shard, str) or not PLAIN_NAME.fullmatch(shard):
            raise ExplorerError(
                f"{index}: tensor '{shown(name)}' is said to lie in {shown(repr(shard))}, which is no file of this "
                "folder; do not use it, or download it again from a source you trust."
            )
    return shard_of


def _inside(folder: Path, name: str) -> Path:
    """A file of the folder. A link out of it is followed only as a cache of the hub makes it (to ``blobs``)."""
    path = folder / name
    home, target = folder.resolve(), path.resolve()
    allowed = [home]
    if home.parent.name == "snapshots":
        allowed.append(home.parents[1] / "blobs")
    if not any(target.is_relative_to(place) for place in allowed):
        raise ExplorerError(f"{path} is a link out of its folder, to {target}; copy the file into the folder.")
    if not path.exists():
        raise ExplorerError(f"{path} is missing, but the folder's index names it; download it again.")
    return path


def _no_model(folder: Path) -> ExplorerError:
    try:
        found = sorted(entry.name for entry in folder.iterdir() if entry.suffix in WEIGHTS)
    except OSError as fault:
        return ExplorerError(f"{folder} cannot be read ({fault.strerror}).")
    if not found:
        return ExplorerError(f"{folder} is a directory without a checkpoint; give the file or folder with the weights.")
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    listed = ", ".join(map(shown, found[:3]))
    return ExplorerError(f"{folder} is a directory with {listed}{more}; give one of these files.")
