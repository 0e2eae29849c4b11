"""What was measured on each expert's training pictures: one small file per task, for Fisher merging and RegMean.

``fisher/KEY`` uint8 and ``fisher.scale/KEY`` float32 (): a tensor's Fisher information in 255 steps of equal ratio, the
largest entry first; ``gram.diagonal/KEY`` float32 (n,) and ``gram.upper/KEY`` float16 (n(n − 1)/2,): a linear layer's
Gram matrix as mean squares of its inputs and their cosines above the diagonal, row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from lines_explorer.checkpoints import metadata, read_safetensors, write_safetensors
from lines_explorer.errors import ExplorerError
from lines_explorer.merging.statistics import FISHER

if TYPE_CHECKING:
    from lines_explorer.suites.suite import Suite

Tensors = Mapping[str, torch.Tensor]
CONTENT = "statistics"
DECADES = 8.0  # between the largest and the smallest Fisher information of a tensor that is told from it
STEPS = 255
FISHER_CODES, FISHER_SCALE = "fisher/", "fisher.scale/"
GRAM_DIAGONAL, GRAM_UPPER = "gram.diagonal/", "gram.upper/"
REMEDY = "run `python -m lines_explorer build-suite statistics --out FOLDER`"


def missing(suite: Suite, tasks: Sequence[str]) -> str | None:
    """The sentence that says which of the tasks' statistics the suite lacks, and what to run; None when none."""
    without = [task for task in tasks if task not in suite.statistics]
    if not without:
        return None
    whose = "any expert" if not suite.statistics else ", ".join(without)
    return (
        f"Suite {suite.name} has no statistics of {whose}, which this merge method needs; "
        f"{REMEDY} with the suite's folder."
    )


def read_statistics(suite: Suite, task: str, kind: str) -> dict[str, torch.Tensor]:
    """One expert's statistics in float32, of a kind of ``merging.statistics``: ``FISHER``, tensor name → the tensor's
    shape, or ``GRAM``, name of a linear layer's weight (m, n) → (n, n).

    Raises:
        ExplorerError: the suite has none of this task, or its file is missing, damaged, or was measured on another
            base or expert.
    """
    if (sentence := missing(suite, [task])) is not None:
        raise ExplorerError(sentence)
    path = suite.statistics[task]
    facts = metadata(path)
    if facts.get("content") != CONTENT:
        raise ExplorerError(f"{path}: its metadata must say content {CONTENT}, not {facts.get('content')}.")
    for what, now in (("base", suite.base_sha256), ("expert", suite.expert_sha256(task))):
        if facts.get(f"{what}_sha256") != now:
            raise ExplorerError(f"{path} was measured on another {what} than the suite's; {REMEDY} again.")
    stored = read_safetensors(path, suite.stated_sha256(path))
    try:
        return _fishers(stored) if kind == FISHER else _grams(stored)
    except (KeyError, RuntimeError, ValueError) as fault:
        raise ExplorerError(f"{path} is damaged ({str(fault).splitlines()[0]}); {REMEDY} again.") from fault


def write_statistics(path: Path, fisher: Tensors, grams: Tensors, facts: Mapping[str, str]) -> str:
    """Writes both kinds and ``facts`` (``base_sha256``, ``expert_sha256``, and how they were measured); its sha256."""
    stored: dict[str, torch.Tensor] = {}
    for key, tensor in fisher.items():
        stored[FISHER_CODES + key], stored[FISHER_SCALE + key] = encode_fisher(tensor)
    for key, gram in grams.items():
        stored[GRAM_DIAGONAL + key], stored[GRAM_UPPER + key] = encode_gram(gram)
    return write_safetensors(path, stored, {"content": CONTENT, **facts})


def encode_fisher(fisher: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(codes uint8, largest entry float32 ()) of F ≥ 0: code c > 0 stands for largest·10^(−8·(255 − c)/254), 0 for 0.

    An entry is off by at most 3.7 %, which is less than the noise of the pictures drawn; entries more than 8 decades
    below the largest count as 8 decades below it.
    """
    largest = fisher.max() if fisher.numel() else fisher.new_zeros(())
    if largest == 0:
        return torch.zeros_like(fisher, dtype=torch.uint8), largest.float()
    steps = STEPS + (fisher.double() / largest.double()).log10() * ((STEPS - 1) / DECADES)
    codes = steps.round().clamp(1, STEPS)
    return torch.where(fisher > 0, codes, 0.0).to(torch.uint8), largest.float()


def decode_fisher(codes: torch.Tensor, largest: torch.Tensor) -> torch.Tensor:
    """F in float32 from ``encode_fisher``'s pair."""
    exponents = (codes.double() - STEPS) * (DECADES / (STEPS - 1))
    return torch.where(codes > 0, largest.double() * 10**exponents, 0.0).float()


def encode_gram(gram: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(diagonal float32 (n,), cosines float16 (n(n − 1)/2,)) of a Gram matrix (n, n): Gᵢⱼ/√(GᵢᵢGⱼⱼ) for i < j."""
    lengths = gram.diagonal().double().sqrt()
    scale = torch.where(lengths > 0, 1 / lengths, 0.0)
    row, column = torch.triu_indices(*gram.shape, offset=1)
    cosines = gram[row, column].double() * scale[row] * scale[column]
    return gram.diagonal().float(), cosines.clamp(-1, 1).half()


def decode_gram(diagonal: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
    """G (n, n) in float32 from ``encode_gram``'s pair."""
    size, lengths = len(diagonal), diagonal.double().sqrt()
    cosines = torch.eye(size, dtype=torch.float64)
    row, column = torch.triu_indices(size, size, offset=1)
    if len(upper) != len(row):
        raise ValueError(f"{len(upper)} cosines do not fit {size} inputs")
    cosines[row, column] = cosines[column, row] = upper.double()
    return (lengths[:, None] * cosines * lengths).float()


def _fishers(stored: Tensors) -> dict[str, torch.Tensor]:
    keys = [name.removeprefix(FISHER_CODES) for name in stored if name.startswith(FISHER_CODES)]
    return {key: decode_fisher(stored[FISHER_CODES + key], stored[FISHER_SCALE + key]) for key in keys}


def _grams(stored: Tensors) -> dict[str, torch.Tensor]:
    keys = [name.removeprefix(GRAM_DIAGONAL) for name in stored if name.startswith(GRAM_DIAGONAL)]
    return {key: decode_gram(stored[GRAM_DIAGONAL + key], stored[GRAM_UPPER + key]) for key in keys}
