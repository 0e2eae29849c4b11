"""Any checkpoint, opened: what it is, and its tensors by name, none of them read before it is asked for."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lines_explorer.checkpoints.archives import read_pickled
from lines_explorer.checkpoints.folders import Folder, read_folder
from lines_explorer.checkpoints.headers import read_header
from lines_explorer.checkpoints.sources import SourceFile, kind_of, shown
from lines_explorer.checkpoints.tensors import LazyTensors, Region, Stored
from lines_explorer.checkpoints.towers import Tower, tower_of
from lines_explorer.checkpoints.unwrapping import Content, as_head, content_of
from lines_explorer.errors import ExplorerError
from lines_explorer.layers import Layout, layout_of

if TYPE_CHECKING:
    import torch

CLIP_FAMILIES = ("open_clip ViT", "Hugging Face CLIP")
MOST_TENSORS, LONGEST_NAME = 100_000, 500
ADAPTER_PARTS = (".lora_", "randlora_", "vera_lambda")


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint that was understood.

    Attributes:
        path: the file or folder.
        format: the container: ``safetensors``, ``torch zip``, ``torch legacy stream``, ``torch legacy tar``,
            ``TorchScript``, ``pickle``, ``npy``, or a folder's kind.
        kind: ``weights``, ``head``, ``mask`` or ``adapter``.
        what: the layout in words: state dict, training checkpoint, whole module …
        files: the files its tensors lie in.
        entries: name in the file → tensor, not read.
        config: content of a folder's config file, otherwise {}.
        metadata: text metadata of a safetensors file.
        quick_gelu: whether the activation is QuickGELU; None where nothing says so.
        normalize: for a head, whether it normalizes its input; None where the file does not say.
        remarks: what was left out or is worth knowing.
    """

    path: Path
    format: str
    kind: str
    what: str
    files: tuple[SourceFile, ...] = field(repr=False)
    entries: Mapping[str, Stored] = field(repr=False)
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    metadata: Mapping[str, str] = field(default_factory=dict, repr=False)
    quick_gelu: bool | None = None
    normalize: bool | None = None
    remarks: tuple[str, ...] = ()

    @property
    def tensors(self) -> LazyTensors:
        """All tensors by their names in the file, each read when asked for."""
        return LazyTensors(self.entries)

    @cached_property
    def _tower(self) -> Tower:
        return tower_of(self.path, self.entries) if self.kind == "weights" else Tower({}, ())

    @property
    def canonical_names(self) -> Mapping[str, str]:
        """Canonical name → name in the file, for the tensors of the model to merge."""
        return self._tower.names

    @cached_property
    def canonical_entries(self) -> dict[str, Stored]:
        """The model to merge, by canonical names (see ``canonical``); nothing is read."""
        return {name: self.entries[old] for name, old in self._tower.names.items()}

    @property
    def canonical(self) -> LazyTensors:
        """The model to merge: the image tower of a CLIP model, without head, text and optimizer, or else all tensors.

        Names have no wrapper; open_clip towers are ``visual.*``.  Raises ExplorerError as ``tower_of`` does.
        """
        return LazyTensors(self.canonical_entries)

    def image_tower(self, projection: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """The image tower under open_clip's names ``visual.*``, read; Hugging Face's tensors are converted exactly.

        Args:
            projection: (D, width), the base's ``visual_projection.weight``, for an expert saved without it.

        Raises ExplorerError when the checkpoint is of another family, or a tensor is missing or unknown.
        """
        from lines_explorer.checkpoints.huggingface import to_open_clip

        family = self.layout.family
        if family == CLIP_FAMILIES[1]:
            return to_open_clip(self.canonical, projection)
        if family == CLIP_FAMILIES[0] and all(name.startswith("visual.") for name in self.canonical_entries):
            return dict(self.canonical)
        raise ExplorerError(f"{self.path} is a {family} model, not CLIP's image tower; give a CLIP checkpoint.")

    @cached_property
    def layout(self) -> Layout:
        """Family and blocks of the canonical tensors. Raises ExplorerError where ``layout_of`` does."""
        if self.kind != "weights":
            raise ExplorerError(f"{self.path} holds {self.what}, not a model; give the model's weights.")
        try:
            return layout_of(self._tower.names)
        except ExplorerError as fault:
            raise ExplorerError(f"{self.path}: {fault}") from fault

    @property
    def parameters(self) -> int:
        """Number of floating-point values."""
        return sum(entry.numel for entry in self.entries.values() if entry.is_floating_point)

    @property
    def nbytes(self) -> int:
        """Bytes that all tensors take in memory, in their stored dtypes."""
        return sum(entry.nbytes for entry in self.entries.values())

    @property
    def dtypes(self) -> dict[str, int]:
        """Name of a dtype → number of tensors, the most frequent first."""
        return dict(Counter(entry.dtype for entry in self.entries.values()).most_common())

    @property
    def sha256(self) -> str:
        """Hex sha256 of the file; of the sorted list of names and hashes where there are several."""
        if len(self.files) == 1:
            return self.files[0].sha256
        rows = sorted((file.path.name, file.sha256) for file in self.files)
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What was taken off, left out or shared."""
        try:
            tower = self._tower.notes
        except ExplorerError:  # ``problems`` says why there is no tower
            tower = ()
        return (*self.remarks, *tower, *_tied(self.entries))

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """Sentences on what will hinder merging; none of them keeps the tensors from being read."""
        found = []
        if self.kind == "weights":
            try:
                unsure = self.layout.family in CLIP_FAMILIES and self.quick_gelu is None
            except ExplorerError as fault:
                found.append(str(fault))
            else:
                if unsure:
                    found.append("Nothing tells QuickGELU from GELU: say which one when the model is built.")
        strange = [name for name, entry in self.entries.items() if entry.dtype.startswith("complex")]
        found += [f"Tensor '{shown(strange[0])}' is complex and cannot be merged."] if strange else []
        hollow = [name for name, entry in self.entries.items() if not entry.numel]
        found += [f"Tensor '{shown(hollow[0])}' is empty."] if hollow else []
        return tuple(found)


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Recognises a checkpoint file or folder; reads headers only, and runs nothing.

    Raises ExplorerError, in one sentence that names file, tensor and remedy, for everything that is none.
    """
    path = Path(path)
    try:
        folder = path.is_dir()
    except (OSError, ValueError):
        folder = False
    checkpoint = _open_folder(path) if folder else _open_file(SourceFile(path))
    if not checkpoint.entries:
        raise ExplorerError(f"{path} holds no tensors; save the model's weights again.")
    return checkpoint


def _open_file(file: SourceFile) -> Checkpoint:
    kind = kind_of(file)
    if kind == "safetensors":
        header = read_header(file)
        what = "task vector" if header.metadata.get("content") == "delta" else "state dict"
        content, container, metadata = (
            as_head(file.path, Content("weights", what, header.entries)),
            kind,
            header.metadata,
        )
    else:
        pickled = read_pickled(file, kind)
        content, container, metadata = content_of(file.path, pickled), pickled.container, {}
    _require_names(file, content.entries)
    if any(part in name for name in content.entries for part in ADAPTER_PARTS):
        content = replace(content, kind="adapter", what="adapter of peft")
    named = file.path.suffix == ".safetensors" and kind != "safetensors"
    remarks = content.notes + (f"named .safetensors, but it is a {container}",) * named
    facts = (content.quick_gelu, content.normalize, remarks)
    return Checkpoint(file.path, container, content.kind, content.what, (file,), content.entries, {}, metadata, *facts)


def _require_names(file: SourceFile, names: Iterable[str]) -> None:
    """Names are read by patterns: endless ones, or millions of them, would take hours."""
    names = list(names)
    if len(names) > MOST_TENSORS:
        raise ExplorerError(f"{file.path} names {len(names):,} tensors, more than any model has; do not use it.")
    longest = max(names, key=len, default="")
    if len(longest) > LONGEST_NAME:
        raise ExplorerError(
            f"{file.path}: the tensor name '{shown(longest)}' has {len(longest):,} characters; give it a shorter one."
        )


def _open_folder(path: Path) -> Checkpoint:
    folder = read_folder(path)
    parts = [_open_file(SourceFile(file)) for file in folder.files]
    entries: dict[str, Stored] = {}
    for part in parts:
        if twice := sorted(entries.keys() & part.entries.keys()):
            raise ExplorerError(
                f"{part.path}: tensor '{shown(twice[0])}' is in another shard too; download them again."
            )
        entries |= part.entries
    _require_indexed(path, folder, parts, entries)
    count = f"{len(parts)} shards" if len(parts) > 1 else parts[0].format
    kind = "adapter" if folder.what == "adapter" else parts[0].kind
    model = str(folder.config.get("model_type") or folder.config.get("peft_type") or parts[0].what)
    return Checkpoint(
        path=path,
        format=f"{folder.what} folder ({count})",
        kind=kind,
        what=shown(model),
        files=tuple(file for part in parts for file in part.files),
        entries=entries,
        config=folder.config,
        metadata=parts[0].metadata,
        quick_gelu=_configured_quick_gelu(folder.config),
        remarks=tuple(dict.fromkeys(note for part in parts for note in part.remarks)),
    )


def _require_indexed(path: Path, folder: Folder, parts: list[Checkpoint], entries: Mapping[str, Stored]) -> None:
    """Every tensor must be in the shard that the index names, and no other tensor in any."""
    if not folder.shard_of:
        return
    held = {name: part.path.name for part in parts for name in part.entries}
    for name, shard in folder.shard_of.items():
        if held.get(name) != shard:
            raise ExplorerError(
                f"{path / shard}: tensor '{shown(name)}' is missing, but the folder's index says it is there; "
                "download the shards again."
            )
    if extra := sorted(entries.keys() - folder.shard_of.keys()):
        raise ExplorerError(
            f"{path / held[extra[0]]}: tensor '{shown(extra[0])}' is not in the folder's index; "
            "download the shards again."
        )


def _configured_quick_gelu(config: Mapping[str, Any]) -> bool | None:
    """QuickGELU or not, by a config of transformers or open_clip; None when it says nothing."""
    model = config.get("model_cfg")
    if isinstance(model, dict):
        return bool(model.get("quick_gelu", False))
    vision = config.get("vision_config")
    place = vision if isinstance(vision, dict) and "hidden_act" in vision else config
    if "clip" in str(config.get("model_type")) and "hidden_act" not in place:
        return True  # transformers writes only what differs from its default, quick_gelu
    return place["hidden_act"] == "quick_gelu" if "hidden_act" in place else None


def _tied(entries: Mapping[str, Stored]) -> list[str]:
    """A note for tensors that share their numbers."""
    by_place: dict[tuple, str] = {}
    shared = []
    for name, entry in entries.items():
        if isinstance(entry.place, Region) and entry.numel:
            key = (entry.place.file.path, entry.place.offset, entry.start, entry.shape, entry.strides)
            first = by_place.setdefault(key, name)
            shared += [(first, name)] if first != name else []
    if not shared:
        return []
    more = f", and {len(shared) - 1} more pairs" if len(shared) > 1 else ""
    return [f"'{shown(shared[0][0])}' and '{shown(shared[0][1])}' are tied: they share their numbers{more}"]
