"""Checkpoint files to tensors and back: read with clear errors, written atomically."""

from .files import Tensors, metadata, read_safetensors, sha256, write_safetensors, written_beside

__all__ = ["Tensors", "metadata", "read_safetensors", "sha256", "write_safetensors", "written_beside"]
