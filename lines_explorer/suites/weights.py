"""A suite's checkpoints: the one place where suites open weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lines_explorer.checkpoints import Checkpoint, Tensors, open_checkpoint
from lines_explorer.checkpoints.adapters import adapter_task_vector, read_adapter
from lines_explorer.checkpoints.huggingface import to_hugging_face, to_open_clip
from lines_explorer.errors import ExplorerError
from lines_explorer.suites.hub import snapshot
from lines_explorer.suites.naming import text_tower
from lines_explorer.suites.task import Hub, Place

if TYPE_CHECKING:
    import torch

FLOAT32 = 4  # bytes
VISUAL = "visual."
SCALE = "logit_scale"
TOKENS, HUGGING_FACE = "token_embedding.weight", "embeddings.class_embedding"
CLIP_SCALE = 4.605170185988092  # ln 100, where CLIP's own training ends


@dataclass(frozen=True)
class Weights:
    """A CLIP checkpoint of any format, opened: its tensors under open_clip's names, read when asked for."""

    checkpoint: Checkpoint

    @property
    def facts(self) -> dict[str, str]:
        """What the file says of itself (content: delta or weights; base_sha256)."""
        return {"content": "delta"} if self.is_adapter else dict(self.checkpoint.metadata)

    @property
    def is_adapter(self) -> bool:
        """Whether this is an adapter of peft: a difference to a base, not a model."""
        return self.checkpoint.kind == "adapter"

    @property
    def hugging_face(self) -> bool:
        """Whether the image tower is named as in transformers."""
        return any(name.endswith(HUGGING_FACE) for name in self.checkpoint.canonical_entries)

    @property
    def image_bytes(self) -> int:
        """What the image tower takes in float32; nothing is read."""
        entries = self.checkpoint.canonical_entries
        kept = [entry for name, entry in entries.items() if entry.is_floating_point and name != SCALE]
        return FLOAT32 * sum(entry.numel for entry in kept)

    def image_tower(self, projection: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """``visual.*`` and, where it is there, ``logit_scale``, in their stored dtypes.

        ``projection``: ``visual.proj`` (width, D) of the base, for a transformers model that was saved without it.
        Raises ExplorerError when the checkpoint is no model, or a tensor is missing, foreign or not finite.
        """
        checkpoint = self.checkpoint
        if checkpoint.kind != "weights":
            raise ExplorerError(f"{checkpoint.path} holds {checkpoint.what}, not a model; give the model's weights.")
        tensors = dict(checkpoint.canonical)
        scale = [name for name in checkpoint.entries if name == SCALE or name.endswith(f".{SCALE}")]
        if scale and SCALE not in tensors:
            tensors[SCALE] = checkpoint.tensors[scale[0]]
        if self.hugging_face:
            try:
                tensors = to_open_clip(tensors, projection.T if projection is not None else None)
            except ExplorerError as fault:
                raise ExplorerError(f"{checkpoint.path}: {fault}") from fault
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
                raise ExplorerError(f"{checkpoint.path}: tensor {name} holds NaN or infinite values; use another file.")
        return {name: tensor for name, tensor in tensors.items() if name.startswith(VISUAL) or name == SCALE}

    def difference(self, base: Tensors) -> dict[str, torch.Tensor]:
        """An adapter's dense difference to ``base`` (its ``visual.*``), under the same names, float32.

        Raises ExplorerError when the adapter was made for another base.
        """
        folder = self.checkpoint.path
        if any("resblocks" in str(module) for module in read_adapter(folder).parts):
            return adapter_task_vector(folder, base)
        return to_open_clip(adapter_task_vector(folder, to_hugging_face(base)))

    def both_towers(self) -> dict[str, torch.Tensor]:
        """`image_tower` and the text tower under open_clip's names, where there is one."""
        tensors = self.checkpoint.tensors
        if self.hugging_face:
            return self.image_tower() | text_tower(tensors)
        stored = [name for name in tensors if name.endswith(TOKENS)]
        prefix = stored[0].removesuffix(TOKENS) if stored else ""
        bare = {name.removeprefix(prefix): name for name in tensors if name.startswith(prefix)}
        text = {name: tensors[old] for name, old in bare.items() if not name.startswith(VISUAL)}
        return text | self.image_tower()


def local(place: Place) -> Path:
    """Where a checkpoint lies on this machine; one on the hub is downloaded first."""
    return snapshot(place) if isinstance(place, Hub) else place


def open_weights(place: Place) -> Weights:
    """Opens a checkpoint by its headers: the one place where suites do.  Raises ExplorerError when it is none."""
    return Weights(open_checkpoint(local(place)))


def read_head(path: Path) -> torch.Tensor:
    """The weight (classes, D), float32, of a classifier's file; a bias must be zero.

    Raises ExplorerError when the file holds no such matrix, or a classifier that does not normalize its input.
    """
    opened = open_checkpoint(path)
    tensors = dict(opened.tensors)
    matrices = {name: tensor for name, tensor in tensors.items() if tensor.ndim == 2 and tensor.is_floating_point()}
    named = [name for name in matrices if name.rpartition(".")[2] == "weight"] or list(matrices)
    if len(named) != 1:
        raise ExplorerError(f"{path} should hold one matrix (classes, D) named weight; it has {', '.join(tensors)}.")
    if any(bool((tensor != 0).any()) for name, tensor in tensors.items() if name.rpartition(".")[2] == "bias"):
        raise ExplorerError(f"{path} has a bias that is not zero; heads here are matrices only.")
    if opened.normalize is False:
        raise ExplorerError(f"{path} is a head for features that are not normalized; heads here are for unit features.")
    return matrices[named[0]].float()


def without_frozen(vector: Tensors) -> dict[str, torch.Tensor]:
    """The same task vector, what was frozen dropped: an all-zero tensor becomes a view of one zero.

    Such a view has the tensor's shape and takes four bytes: do not write into it.
    """
    import torch

    zero = torch.zeros(())
    return {key: tensor if bool(tensor.any()) else zero.expand(tensor.shape) for key, tensor in vector.items()}
