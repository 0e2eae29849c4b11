"""merging.masks: TALL masks per task, and the consensus of all."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import tensor

from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS, apply, masked, norm_ratio, tall_mask

quick = settings(deadline=None, max_examples=30)


def task_vectors(number: int, seed: int = 0) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        {"w": torch.randn(6, 7, generator=generator), "b": torch.randn(5, generator=generator)} for _ in range(number)
    ]


def close(left, right) -> bool:
    return left.keys() == right.keys() and all(torch.allclose(left[k], right[k], atol=1e-6) for k in left)


def consensus(taus, **parameters):
    return METHODS["consensus"].merge(taus, **parameters)


BY_HAND = [
    {"w": tensor([4.0, 1.0, 0.0, 3.0])},
    {"w": tensor([2.0, -5.0, 0.1, -1.0])},
    {"w": tensor([1.0, 1.0, 0.0, 1.0])},
]
# the sum is (7, -3, 0.1, 3); |sum - tau| is (3, 4, .1, 0), (5, 2, 0, 4), (6, 4, .1, 2)


def test_tall_masks_by_hand():
    merged = METHODS["sum"].merge(BY_HAND)
    masks = [tall_mask(tau, merged, 0.4)["w"].int().tolist() for tau in BY_HAND]
    assert masks == [[1, 0, 0, 1], [0, 1, 1, 0], [0, 0, 0, 1]]
    assert masked(merged, tall_mask(BY_HAND[0], merged, 0.4))["w"].tolist() == [7.0, 0.0, 0.0, 3.0]


def test_a_mask_evaluates_a_task_as_base_plus_the_masked_vector():
    base, merged = {"w": tensor([1.0, 1.0, 1.0, 1.0])}, METHODS["sum"].merge(BY_HAND)
    theta = apply(base, masked(merged, tall_mask(BY_HAND[0], merged, 0.4)), {"w": 1.0})
    assert theta["w"].tolist() == [8.0, 1.0, 1.0, 4.0]


def test_consensus_by_hand():
    assert consensus(BY_HAND, agree=1)["w"].tolist() == pytest.approx([7.0, -3.0, 0.1, 3.0])
    assert consensus(BY_HAND, agree=2)["w"].tolist() == [0.0, 0.0, 0.0, 3.0]
    assert consensus(BY_HAND, agree=3)["w"].tolist() == [0.0] * 4
    assert consensus(BY_HAND, agree=2, threshold=0.1)["w"].tolist() == [7.0, -3.0, 0.0, 3.0]


def test_consensus_of_a_ties_sum():
    merged = METHODS["ties"].merge(BY_HAND, k=100, combine="sum")["w"]  # (7, -5, 0.1, 4)
    assert consensus(BY_HAND, agree=1, merged="ties", k=100)["w"].tolist() == merged.tolist()
    used = torch.stack([tall_mask(tau, {"w": merged}, 0.3)["w"] for tau in BY_HAND]).sum(dim=0)
    by_hand = torch.where(used >= 2, merged, 0.0)
    assert consensus(BY_HAND, agree=2, threshold=0.3, merged="ties", k=100)["w"].tolist() == by_hand.tolist()


def test_every_task_may_have_a_threshold_of_its_own():
    merged = METHODS["sum"].merge(BY_HAND)
    lengths = [int(tall_mask(BY_HAND[0], merged, value)["w"].sum()) for value in (0.2, 0.4, 1.4)]
    assert lengths == [3, 2, 1]


@quick
@given(st.integers(0, 1000), st.floats(0, 3), st.floats(0, 3))
def test_a_larger_threshold_or_more_agreement_keeps_less(seed, one, other):
    taus = task_vectors(4, seed)
    low, high = sorted((one, other))
    kept = [
        [consensus(taus, agree=agree, threshold=threshold)["w"] != 0 for agree in (1, 2, 4)]
        for threshold in (low, high)
    ]
    assert all((more | ~less).all() for more, less in zip(kept[0], kept[1], strict=True))
    assert all((more | ~less).all() for row in kept for more, less in zip(row, row[1:], strict=False))


@quick
@given(st.integers(0, 1000), st.integers(1, 4))
def test_consensus_is_the_count_of_the_masks(seed, agree):
    taus = task_vectors(4, seed)
    total = METHODS["sum"].merge(taus)
    masks = [tall_mask(tau, total, 0.4) for tau in taus]
    merged = consensus(taus, agree=agree)
    for key, t in merged.items():
        count = sum(mask[key].int() for mask in masks)
        assert torch.equal(t, torch.where(count >= agree, total[key], 0.0))


def test_limits():
    taus = task_vectors(3)
    assert close(consensus(taus, agree=1, threshold=0), METHODS["sum"].merge(taus))
    assert close(consensus(taus, agree=3, threshold=0), METHODS["sum"].merge(taus))  # no entry is exactly zero
    assert close(consensus(taus[:1], agree=1), taus[0])
    twins = [taus[0]] * 2  # |tau| > λ|2 tau - tau| for any λ below 1
    assert close(consensus(twins, agree=2, threshold=0.9), METHODS["sum"].merge(twins))


def test_an_empty_consensus_is_zero_and_says_so_where_a_ratio_is_asked_for():
    twins = task_vectors(1) * 2
    empty = consensus(twins, agree=2, threshold=1.0)
    assert not any(t.any() for t in empty.values())
    with pytest.raises(ExplorerError, match="merged task vector is zero"):
        norm_ratio(twins, empty)


def test_bad_input():
    with pytest.raises(ExplorerError, match="what 2 experts use, but 1 would be merged"):
        consensus(task_vectors(1))
    with pytest.raises(ExplorerError, match="what 4 experts use, but 3 would be merged"):
        consensus(task_vectors(3), agree=4)
    with pytest.raises(ExplorerError, match="Parameter merged must be one of sum, ties, not 'mean'"):
        consensus(task_vectors(2), merged="mean")
    with pytest.raises(ExplorerError, match="has shape"):
        tall_mask({"w": torch.ones(2)}, {"w": torch.ones(1)}, 0.4)
    with pytest.raises(ExplorerError, match="make the mask from it"):
        masked({"w": torch.ones(2)}, {"w": torch.ones(1).bool()})
