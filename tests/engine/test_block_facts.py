"""What a recipe scales, block by block, is counted from the experts' own weights."""

from __future__ import annotations

import pytest
import torch

from lines_explorer.engine import Engine
from lines_explorer.errors import ExplorerError


def test_norms_and_conflicts_of_each_block(engine: Engine) -> None:
    one = engine.block_facts(["shapes"])
    vector, layout = engine.suite.task_vector("shapes"), engine.backend.layout
    for block in range(1, layout.depth + 1):
        inside = [tensor.flatten() for key, tensor in vector.items() if layout.position[key] == block]
        assert one.norms[block - 1] == pytest.approx(torch.cat(inside).double().norm().item())
    assert len(one.norms) == layout.depth and one.conflicts is None

    two = engine.block_facts(["colours", "shapes"])
    other = engine.suite.task_vector("colours")
    pairs = [(vector[key], other[key]) for key in vector if layout.position[key] == 1]
    opposed = sum(int((a * b < 0).sum()) for a, b in pairs)
    moved = sum(int(((a != 0) & (b != 0)).sum()) for a, b in pairs)
    assert two.conflicts[0] == pytest.approx(opposed / moved)
    assert two.norms[0] == pytest.approx((one.norms[0] + engine.block_facts(["colours"]).norms[0]) / 2)


def test_twins_never_conflict_and_what_is_known_is_kept(engine: Engine) -> None:
    assert engine.block_facts(["shapes", "shapes"]).conflicts == (0.0,) * engine.backend.layout.depth
    assert engine.block_facts(["shapes", "colours"]) is engine.block_facts(["colours", "shapes"])


def test_an_unknown_expert_is_refused(engine: Engine) -> None:
    with pytest.raises(ExplorerError, match="no task nobody"):
        engine.block_facts(["nobody"])
