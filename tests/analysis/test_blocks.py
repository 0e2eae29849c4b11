from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lines_explorer.analysis import blocks
from lines_explorer.analysis.blocks import block_cosines, block_norms, block_sign_conflicts, knockout
from lines_explorer.errors import ExplorerError

quick = settings(max_examples=20, deadline=None)
POSITION = {"stem": 0, "one.a": 1, "one.b": 1, "two": 2, "end": 3}
FIRST = {
    "stem": np.array([2.0, 0.0]),
    "one.a": np.array([[3.0, 0.0], [0.0, 0.0]]),
    "one.b": np.array([4.0]),
    "two": np.zeros(3),
    "end": np.array([1.0, -1.0, 2.0]),
}
SECOND = {
    "stem": np.array([0.0, 5.0]),
    "one.a": np.array([[-3.0, 0.0], [1.0, 0.0]]),
    "one.b": np.array([4.0]),
    "two": np.ones(3),
    "end": np.array([-2.0, 2.0, -4.0]),
}


def random_vectors(seed: int, tasks: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [
        {name: rng.normal(size=np.shape(tensor)).astype(np.float32) for name, tensor in FIRST.items()}
        for _ in range(tasks)
    ]


def test_by_hand():
    assert block_norms(FIRST, POSITION, 2) == pytest.approx([2, 5, 0, 6**0.5])
    cosines = block_cosines([FIRST, SECOND], POSITION, 2)[:, 0, 1]
    assert cosines == pytest.approx([0, 7 / (5 * 26**0.5), np.nan, -1], nan_ok=True)
    conflicts = block_sign_conflicts([FIRST, SECOND], POSITION, 2)[:, 0, 1]
    assert conflicts == pytest.approx([np.nan, 1 / 2, np.nan, 1], nan_ok=True)


@quick
@given(st.integers(0, 99), st.integers(1, 4), st.floats(0.1, 10))
def test_scale_changes_norms_alone(seed, tasks, scale):
    vectors = random_vectors(seed, tasks)
    scaled = [{name: scale * tensor for name, tensor in vector.items()} for vector in vectors]
    assert block_norms(scaled[0], POSITION, 2) == pytest.approx(scale * block_norms(vectors[0], POSITION, 2), rel=1e-5)
    for table in (block_cosines, block_sign_conflicts):
        before, after = table(vectors, POSITION, 2), table(scaled, POSITION, 2)
        assert before == pytest.approx(after, abs=1e-5)
        assert before == pytest.approx(before.transpose(0, 2, 1))
    assert np.einsum("ltt->lt", block_cosines(vectors, POSITION, 2)) == pytest.approx(np.ones((4, tasks)))
    assert np.einsum("ltt->lt", block_sign_conflicts(vectors, POSITION, 2)) == pytest.approx(np.zeros((4, tasks)))


def test_chunks_do_not_show(monkeypatch):
    vectors = random_vectors(0, 3)
    whole = [table(vectors, POSITION, 2) for table in (block_cosines, block_sign_conflicts)]
    monkeypatch.setattr(blocks, "CHUNK", 2)
    for before, table in zip(whole, (block_cosines, block_sign_conflicts), strict=True):
        assert table(vectors, POSITION, 2) == pytest.approx(before)


def test_squares_beyond_single_precision_are_summed():
    assert block_norms({"x": np.full(4, 1e30, dtype=np.float32)}, {"x": 1}, 1) == pytest.approx([0, 2e30, 0])


def test_what_has_no_place_is_refused():
    with pytest.raises(ExplorerError, match="at least one task"):
        block_cosines([], POSITION, 2)
    with pytest.raises(ExplorerError, match="differ in tensor two"):
        block_cosines([FIRST, {**FIRST, "two": np.zeros(2)}], POSITION, 2)
    with pytest.raises(ExplorerError, match="differ in tensor extra"):
        block_sign_conflicts([FIRST, {**FIRST, "extra": np.zeros(2)}], POSITION, 2)
    with pytest.raises(ExplorerError, match="Tensor x has no position"):
        block_norms({"x": np.zeros(1)}, POSITION, 2)
    with pytest.raises(ExplorerError, match="Tensor end has no position between 0 and 1"):
        block_norms(FIRST, {**POSITION, "two": 1}, 0)


def answers(right: int, n: int = 100) -> np.ndarray:
    return np.arange(n) < right


def test_a_block_can_be_scaled_down_until_accuracy_drops():
    rows = [(1.0, answers(90)), (0.75, answers(91)), (0.5, answers(88)), (0.25, answers(70)), (0.0, answers(89))]
    found = knockout(rows)
    assert found.lowest == 0.5, "what is regained below a loss does not count"
    assert found.scales == (1.0, 0.75, 0.5, 0.25, 0.0)
    assert [difference.value for difference in found.differences] == pytest.approx([0, 0.01, -0.02, -0.2, -0.01])
    assert knockout([(1.0, answers(90)), (0.0, answers(90))]).lowest == 0
    assert knockout([(1.0, answers(90)), (0.0, answers(50))]).lowest == 1
    assert knockout([(1.0, answers(50)), (0.0, answers(90))]).lowest == 0, "more is no loss"


@quick
@given(st.lists(st.integers(0, 60), min_size=1, max_size=6))
def test_everything_down_to_the_lowest_scale_is_harmless(counts):
    scales = np.linspace(1, 0, len(counts) + 1).tolist()
    found = knockout(list(zip(scales, [answers(60, 80), *(answers(count, 80) for count in counts)], strict=True)))
    for scale, difference in zip(found.scales, found.differences, strict=True):
        if scale >= found.lowest:
            assert difference.value >= 0 or difference.within_noise


@pytest.mark.parametrize("scales", [[], [0.5, 0.0], [1.0, 1.0], [1.0, 0.2, 0.4]])
def test_scales_that_do_not_fall_from_one_are_refused(scales):
    with pytest.raises(ExplorerError, match="must fall from 1"):
        knockout([(scale, answers(5)) for scale in scales])


def test_blocks_must_be_seen_on_the_same_images():
    with pytest.raises(ExplorerError, match="same images"):
        knockout([(1.0, answers(5)), (0.0, answers(5, 99))])
