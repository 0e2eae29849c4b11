"""merging.coordinates: the exact k-th smallest without sorting, and rules applied piece by piece."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import tensor

from lines_explorer.merging import coordinates
from lines_explorer.merging.coordinates import by_coordinate, kth_smallest, kth_smallest_of_each, mean, total

quick = settings(deadline=None, max_examples=60)
numbers = st.one_of(
    st.floats(width=32, allow_nan=False),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, float(np.nextafter(np.float32(1), np.float32(2)))]),
)


@quick
@given(st.lists(numbers, min_size=1, max_size=40), st.integers(1, 7), st.data())
def test_kth_smallest_is_the_sorted_value(values, size, data):
    vector = tensor(values, dtype=torch.float32)
    rank = data.draw(st.integers(0, len(values) - 1))
    assert kth_smallest(lambda: vector.split(size), rank) == vector.sort().values[rank].item()


def test_kth_smallest_tells_neighbouring_floats_apart():
    close = (
        torch.arange(1000, dtype=torch.int32).add(0x3F7FFE00).view(torch.float32)
    )  # across 1.0, last bit by last bit
    shuffled = close[torch.randperm(1000, generator=torch.Generator().manual_seed(0))]
    for rank in (0, 1, 255, 256, 511, 512, 513, 999):
        assert kth_smallest(lambda: shuffled.split(97), rank) == close[rank].item()


def test_kth_smallest_of_ties():
    vector = tensor([2.0, 1.0, 2.0, 2.0, 3.0])
    assert [kth_smallest(lambda: [vector], rank) for rank in range(5)] == [1.0, 2.0, 2.0, 2.0, 3.0]


def test_several_vectors_side_by_side_each_with_its_rank_and_one_empty():
    rows = [tensor([3.0, 1.0, 2.0]), tensor([-1.0, -5.0, 7.0]), tensor([])]
    found = kth_smallest_of_each(
        lambda: zip(*(row.split(2) for row in rows[:2]), [tensor([])] * 2, strict=True), [0, 2, 0]
    )
    assert found == [1.0, 7.0, 0.0]


def test_the_vector_is_only_read():
    vector = torch.randn(10)
    before = vector.clone()
    kth_smallest(lambda: [vector], 3)
    assert torch.equal(vector, before)


def test_a_rule_sees_pieces_of_at_most_the_chunk_and_the_result_does_not_depend_on_it(monkeypatch):
    taus = [{"w": torch.arange(10.0).view(2, 5) * scale, "s": tensor(scale)} for scale in (1.0, -3.0)]
    seen = []

    def rule(rows):
        seen.append(tuple(rows.shape))
        return total(rows)

    whole = by_coordinate(taus, rule)
    monkeypatch.setattr(coordinates, "CHUNK", 4)
    assert seen == [(2, 10), (2, 1)] and not seen.clear()
    parts = by_coordinate(taus, rule)
    assert seen == [(2, 4), (2, 4), (2, 2), (2, 1)]
    assert all(torch.equal(whole[key], parts[key]) for key in whole)
    assert torch.equal(whole["w"], torch.arange(10.0).view(2, 5) * -2) and whole["s"].shape == ()


def test_sums_are_rounded_once():
    taus = [{"w": tensor([value])} for value in (1.0, 2.0**-24, 2.0**-24)]
    assert by_coordinate(taus, total)["w"].item() == 1 + 2.0**-23  # float32 steps would stay at 1
    assert by_coordinate(taus, mean)["w"].item() == pytest.approx((1 + 2.0**-23) / 3, rel=1e-7)


def test_transposed_tensors_and_halves():
    turned = torch.arange(6.0).view(2, 3).T
    merged = by_coordinate([{"w": turned}, {"w": turned.half()}], total)["w"]
    assert torch.equal(merged, turned * 2) and merged.dtype == torch.float32


def test_pruning_sees_expert_number_name_and_float32_tensor():
    taus = [{"a": torch.ones(2, 2, dtype=torch.float16), "b": torch.ones(3)} for _ in range(2)]
    seen = []

    def prune(t, key, tau):
        seen.append((t, key, tuple(tau.shape), tau.dtype))
        return tau * t

    assert by_coordinate(taus, total, prune)["b"].tolist() == [1.0] * 3
    assert seen == [(t, key, shape, torch.float32) for key, shape in (("a", (2, 2)), ("b", (3,))) for t in (0, 1)]


def test_infinite_magnitudes_are_ordered_too():
    vector = tensor([math.inf, 1.0, -math.inf])
    assert [kth_smallest(lambda: [vector], rank) for rank in range(3)] == [-math.inf, 1.0, math.inf]
