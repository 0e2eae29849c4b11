"""Activations kept between evaluations: an edit of deeper blocks goes on from the last block it leaves as it was."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch

from lines_explorer.engine.forward import Start, Watch

CPU_BYTES = 512 * 2**20
DEVICE_SHARE = 0.25  # of a GPU's free memory

Prefix = tuple


def activation_budget(device: torch.device) -> int:
    """Bytes of ``device`` that kept activations may take."""
    if device.type == "cuda":
        return int(DEVICE_SHARE * torch.cuda.mem_get_info(device)[0])
    return CPU_BYTES


class Activations:
    """Whole batches at block boundaries, by the weights before the boundary (`Backend.prefixes`).

    At most ``budget`` bytes are kept, ``bytes`` are at the moment.  A batch is found again only as it was (the same
    images in the same order), so that what follows is the same to the bit.
    """

    def __init__(self, budget: int) -> None:
        self.budget, self.bytes = budget, 0
        self._levels: OrderedDict[Prefix, dict[bytes, torch.Tensor]] = OrderedDict()
        self._before: tuple[Prefix, ...] = ()

    def clear(self) -> None:
        """Forgets everything."""
        self._levels.clear()
        self.bytes = 0

    def reuse(self, prefixes: Sequence[Prefix], level_bytes: int, spread: bool, keep: bool = True) -> Reuse:
        """What a run with these prefixes can start from, and where it should keep.

        It keeps at the last boundary it shares with the run before it (the next edit is probably there again) and,
        with ``spread``, at evenly spaced ones, as many as the budget has levels of ``level_bytes`` for; nowhere
        without ``keep``.
        """
        if not keep:
            return Reuse(self, tuple(prefixes), frozenset())
        shared = [b for b, pair in enumerate(zip(prefixes, self._before, strict=False)) if pair[0] == pair[1]]
        depth = len(prefixes) - 1
        levels = min(depth, self.budget // level_bytes - 1) if spread else 0
        chosen = {round(depth * (number + 1) / (levels + 1)) for number in range(levels)} | set(shared[-1:])
        self._before = tuple(prefixes)
        return Reuse(self, tuple(prefixes), frozenset(chosen - {0}))

    def find(self, prefix: Prefix, batch: bytes) -> torch.Tensor | None:
        """The activations of ``batch`` after the weights ``prefix``."""
        level = self._levels.get(prefix)
        if level is None:
            return None
        self._levels.move_to_end(prefix)
        return level.get(batch)

    def keep(self, prefix: Prefix, batch: bytes, activations: torch.Tensor, used: Sequence[Prefix]) -> None:
        """Keeps them if there is room beside the levels ``used``; others give way, the longest unused first."""
        size = activations.numel() * activations.element_size()
        if size > self.budget:
            return
        for old in [old for old in self._levels if old not in used]:
            if self.bytes + size <= self.budget:
                break
            self.bytes -= sum(tensor.numel() * tensor.element_size() for tensor in self._levels.pop(old).values())
        if self.bytes + size <= self.budget and batch not in self._levels.setdefault(prefix, {}):
            self._levels[prefix][batch] = activations
            self.bytes += size


class Reuse:
    """One run's view of the kept activations."""

    def __init__(self, kept: Activations, prefixes: tuple[Prefix, ...], boundaries: frozenset[int]) -> None:
        self._kept, self._prefixes, self.boundaries = kept, prefixes, boundaries

    def start(self, batch: bytes, embed: Callable[[], Start]) -> Start:
        """The deepest kept boundary of ``batch``, otherwise what ``embed`` gives."""
        for boundary in range(len(self._prefixes) - 1, 0, -1):
            if (found := self._kept.find(self._prefixes[boundary], batch)) is not None:
                return Start(boundary, found)
        return embed()

    def watch(self, batch: bytes) -> Watch:
        """Keeps what passes the chosen boundaries."""

        def keep(boundary: int, activations: torch.Tensor) -> None:
            if boundary in self.boundaries:
                self._kept.keep(self._prefixes[boundary], batch, activations, self._prefixes)

        return keep
