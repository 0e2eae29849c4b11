"""Checkpoint files to tensors and back: any format opened safely, clear errors, written atomically."""

from lines_explorer.checkpoints.files import (
    Tensors,
    metadata,
    read_safetensors,
    sha256,
    write_safetensors,
    written_beside,
)
from lines_explorer.checkpoints.fitting import require_fit
from lines_explorer.checkpoints.opening import Checkpoint, open_checkpoint

__all__ = [
    "Checkpoint",
    "Tensors",
    "metadata",
    "open_checkpoint",
    "read_safetensors",
    "require_fit",
    "sha256",
    "write_safetensors",
    "written_beside",
]
