"""What a suite's weights will take in memory, told from the files' headers before any of them is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lines_explorer.suites.task import Place
from lines_explorer.suites.weights import open_weights

if TYPE_CHECKING:
    from lines_explorer.suites.suite import Suite

LARGE = 1_000_000_000  # bytes from which on the bill is worth a line


@dataclass(frozen=True)
class MemoryBill:
    """Bytes that weights take in float32: the base once, and at most one difference for each expert.

    What turns out to be frozen (all zero) in a difference is dropped, so the differences can be smaller.
    """

    base: int
    deltas: Mapping[str, int]

    @property
    def total(self) -> int:
        """Bytes of the base and all differences."""
        return self.base + sum(self.deltas.values())

    def as_dict(self) -> dict[str, Any]:
        """The bill as JSON values, in bytes."""
        return {"base": self.base, "experts": dict(self.deltas), "total": self.total}

    def __str__(self) -> str:
        count = len(self.deltas)
        each = max(self.deltas.values(), default=0)
        return (
            f"{self.total / 1e9:.2f} GB: base {self.base / 1e9:.2f} GB and {count} expert{'s' * (count != 1)} of "
            f"{each / 1e9:.2f} GB"
        )


def memory_bill(base: Place, experts: Mapping[str, Place]) -> MemoryBill:
    """What a base and its experts will take, from the files' headers alone: no tensor is read."""
    whole = open_weights(base).image_bytes
    opened = {name: open_weights(place) for name, place in experts.items()}
    return MemoryBill(whole, {name: whole if one.is_adapter else one.image_bytes for name, one in opened.items()})


def bill_sentence(suite: Suite, large: int = LARGE) -> str | None:
    """What to say before a suite is loaded; None for one that takes less than ``large`` bytes."""
    bill = suite.memory_bill()
    if bill.total < large:
        return None
    said = f"{suite.name}: merging all experts takes up to {bill}"
    if (memory := _memory()) and bill.total > memory:
        return f"{said}; this machine has {memory / 1e9:.1f} GB, so merge fewer at a time."
    return f"{said}."


def _memory() -> int | None:
    """Bytes of memory of this machine; None where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
