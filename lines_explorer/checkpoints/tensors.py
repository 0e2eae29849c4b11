"""A tensor that lies in a file: name of its dtype, shape and place are known; its numbers are read on demand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lines_explorer.checkpoints.sources import SourceFile

if TYPE_CHECKING:
    import torch

ITEM_SIZE = {
    **{"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "complex64": 8, "complex128": 16, "bool": 1},
    **{"int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1},
    **{"float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1},
}


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a tensor whose last dimension is dense."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


@dataclass(frozen=True)
class Region:
    """``size`` bytes of a file from ``offset``."""

    file: SourceFile = field(compare=False)
    offset: int
    size: int


@dataclass(frozen=True)
class Stored:
    """One tensor that has not been read.

    Attributes:
        dtype: as torch calls it, without ``torch.``; a key of ``ITEM_SIZE``.
        shape: its dimensions.
        place: the bytes of its storage, in a file or in memory.
        strides: steps in elements, one per dimension.
        start: its first element in the storage.
    """

    dtype: str
    shape: tuple[int, ...]
    place: Region | bytes = field(repr=False)
    strides: tuple[int, ...] = field(repr=False)
    start: int = 0

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes the tensor takes in memory when it is dense."""
        return self.numel * ITEM_SIZE[self.dtype]

    @property
    def is_floating_point(self) -> bool:
        """Whether it is a weight (True) or an integer, boolean or complex buffer (False)."""
        return self.dtype.startswith(("float", "bfloat"))

    def load(self) -> torch.Tensor:
        """The tensor, on the CPU, in its stored dtype; mapped from the file where its bytes lie aligned.

        Do not write into it: tensors of one file share its mapping.
        """
        import torch

        dtype = getattr(torch, self.dtype)
        if not self.numel:
            return torch.empty(self.shape, dtype=dtype)
        if isinstance(self.place, bytes):
            raw = torch.frombuffer(bytearray(self.place), dtype=torch.uint8)
        else:
            raw = torch.empty(0, dtype=torch.uint8).set_(self.place.file.mapped, self.place.offset, (self.place.size,))
        size = ITEM_SIZE[self.dtype]
        raw = raw[: raw.numel() // size * size]
        aligned = raw if raw.storage_offset() % size == 0 else raw.clone()
        return torch.as_strided(
            aligned.view(dtype), self.shape, self.strides, aligned.storage_offset() // size + self.start
        )


class LazyTensors(Mapping[str, "torch.Tensor"]):
    """Names → tensors, each read when it is asked for and not kept."""

    def __init__(self, entries: Mapping[str, Stored]) -> None:
        self.entries = entries

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.entries[name].load()

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)
