"""How precisely the forward pass computes: float32, or what a GPU does faster, once it has been checked against it.

Weights stay float32 in every case: they are what is merged and written.  The heads' products are float32 too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from lines_explorer.errors import ExplorerError

FLOAT32, TF32, BF16 = "float32", "tf32", "bf16"
PRECISIONS = (FLOAT32, TF32, BF16)
LEAST_AGREEMENT = 0.99


@dataclass(frozen=True)
class Agreement:
    """How many of ``n`` pictures get the same label as with float32."""

    precision: str
    same: int
    n: int

    @property
    def sentence(self) -> str:
        """For people."""
        return f"{self.precision} and float32 agree on {self.same} of {self.n} pictures."

    def require(self) -> None:
        """Raises ExplorerError when fewer than 99 % agree."""
        if self.same < LEAST_AGREEMENT * self.n:
            raise ExplorerError(f"{self.sentence} That is too few: use --precision float32.")


def check_precision(precision: str, device: torch.device) -> str:
    """The precision, checked.

    Raises ExplorerError for an unknown one, and for tf32 on a device that does not have it.
    """
    if precision not in PRECISIONS:
        raise ExplorerError(f"There is no precision {precision}; choose one of {', '.join(PRECISIONS)}.")
    if precision == TF32 and device.type != "cuda":
        raise ExplorerError(f"tf32 is a precision of CUDA devices and {device} is none; use --precision float32.")
    return precision


@contextmanager
def computing(precision: str, device: torch.device) -> Iterator[None]:
    """Within it, matrix products and convolutions on ``device`` have this precision."""
    matmul, tf32 = torch.backends.cuda.matmul, precision == TF32
    before = matmul.allow_tf32
    matmul.allow_tf32 = tf32
    try:
        with (
            torch.backends.cudnn.flags(enabled=True, allow_tf32=tf32),
            torch.autocast(device.type, torch.bfloat16, enabled=precision == BF16),
        ):
            yield
    finally:
        matmul.allow_tf32 = before
