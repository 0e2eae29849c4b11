"""The images of tasks, batch by batch: resident on the device when they fit, streamed from the memory map if not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from lines_explorer.suites import Suite

Pair = tuple[str, str]
RESIDENT_SHARE = 0.4  # of a GPU's free memory


@dataclass(frozen=True)
class Piece:
    """Some rows of one (task, split), on the host and on the device."""

    pair: Pair
    rows: np.ndarray
    index: torch.Tensor


class Pictures:
    """Mixed batches of a suite's images and labels for ``device``."""

    def __init__(self, suite: Suite, device: torch.device) -> None:
        self._suite, self._device = suite, device
        self._resident: dict[Pair, torch.Tensor] = {}
        self._labels: dict[Pair, torch.Tensor] = {}
        self._room = 0
        if device.type == "cuda":
            self._room = int(RESIDENT_SHARE * torch.cuda.mem_get_info(device)[0])

    def images(self, pieces: Sequence[Piece]) -> torch.Tensor:
        """The pieces' images, one after the other: uint8 (b, 3, H, W)."""
        return torch.cat([self._images(piece) for piece in pieces])

    def labels(self, pieces: Sequence[Piece]) -> torch.Tensor:
        """The pieces' labels int64 (b,), on the device."""
        for piece in pieces:
            if piece.pair not in self._labels:
                self._labels[piece.pair] = self._suite.images(*piece.pair)[1].to(self._device)
        return torch.cat([self._labels[piece.pair][piece.index] for piece in pieces])

    def make_room(self) -> None:
        """Gives the resident images back: from now on they are streamed."""
        self._resident.clear()
        self._room = 0

    def _images(self, piece: Piece) -> torch.Tensor:
        if piece.pair in self._resident:
            return self._resident[piece.pair][piece.index]
        images = self._suite.images(*piece.pair)[0]
        if images.numel() <= self._room:
            self._room -= images.numel()
            self._resident[piece.pair] = images.to(self._device)
            return self._resident[piece.pair][piece.index]
        return images[torch.from_numpy(piece.rows)].to(self._device)
