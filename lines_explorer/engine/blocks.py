"""What a recipe scales, block by block: how large the task vectors are there, and whether they pull apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lines_explorer.analysis.blocks import block_norms, block_sign_conflicts
from lines_explorer.layers import Layout
from lines_explorer.suites import Suite


@dataclass(frozen=True)
class BlockFacts:
    """One number per block, 1 … L.

    Attributes:
        norms: ‖τₜ⁽ˡ⁾‖₂, the mean over the experts.
        conflicts: the share (0…1) of coordinates that two experts change in opposite directions, the mean over all
            pairs of experts; None for one expert. Two unrelated task vectors have ½.
    """

    norms: tuple[float, ...]
    conflicts: tuple[float, ...] | None


def block_facts(suite: Suite, layout: Layout, experts: Sequence[str]) -> BlockFacts:
    """The facts of ``experts`` (tasks or runs), at least one.

    Raises ExplorerError for an expert that the suite does not have.
    """
    vectors = [{key: tensor.numpy() for key, tensor in suite.task_vector(name).items()} for name in experts]
    norms = np.mean([block_norms(vector, layout.position, layout.depth) for vector in vectors], axis=0)
    conflicts = None
    if len(vectors) > 1:
        pairs = np.triu_indices(len(vectors), k=1)
        table = block_sign_conflicts(vectors, layout.position, layout.depth)[1:-1]
        counted = np.nan_to_num(table[:, pairs[0], pairs[1]])  # where nothing moves nothing conflicts
        conflicts = tuple(counted.mean(axis=1).tolist())
    return BlockFacts(tuple(norms[1:-1].tolist()), conflicts)
