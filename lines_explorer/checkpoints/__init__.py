"""Checkpoint files to tensors and back: read with clear errors, written atomically."""

from lines_explorer.checkpoints.files import (
    Tensors,
    metadata,
    read_safetensors,
    sha256,
    write_safetensors,
    written_beside,
)

__all__ = ["Tensors", "metadata", "read_safetensors", "sha256", "write_safetensors", "written_beside"]
