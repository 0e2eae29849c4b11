"""merging.ties: trimming and sign election, by hand, against the authors' way of counting, and their laws."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import tensor

from lines_explorer.merging import METHODS
from lines_explorer.merging.ties import magnitude_floor, ties_task_vectors, trim_task_vectors

quick = settings(deadline=None, max_examples=30)
percentages = st.floats(0, 100)


def random_task_vectors(number: int, seed: int = 0) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        {"w": torch.randn(5, 8, generator=generator), "b": torch.randn(11, generator=generator)} for _ in range(number)
    ]


def close(left, right) -> bool:
    return left.keys() == right.keys() and all(torch.allclose(left[k], right[k], atol=1e-6) for k in left)


def kept_share(tensors) -> float:
    return sum(int((t != 0).sum()) for t in tensors.values()) / sum(t.numel() for t in tensors.values())


def test_trimming_by_hand():
    taus = [
        {"w": tensor([5.0, -4.0, 1.0]), "b": tensor([0.5, 3.0])},
        {"w": tensor([1.0, 2.0, -9.0]), "b": tensor([0.0, 8.0])},
    ]
    merged = trim_task_vectors(taus, 40)  # two of five entries of each, over both tensors
    assert merged["w"].tolist() == [5.0, -4.0, -9.0] and merged["b"].tolist() == [0.0, 8.0]


def test_ties_by_hand():
    taus = [
        {"w": tensor([4.0, -3.0, 2.0, 0.1])},
        {"w": tensor([-1.0, -5.0, 0.1, 0.2])},
        {"w": tensor([6.0, 2.0, 0.2, -0.1])},
    ]
    # the two largest of each: (4, -3, 0, 0), (-1, -5, 0, 0), (6, 2, 0, 0); signs elected: +, -
    assert ties_task_vectors(taus, 50)["w"].tolist() == [5.0, -4.0, 0.0, 0.0]
    assert ties_task_vectors(taus, 50, "sum")["w"].tolist() == [10.0, -8.0, 0.0, 0.0]
    assert ties_task_vectors(taus, 100)["w"].tolist() == pytest.approx([5.0, -4.0, 2.3 / 3, 0.15])


def test_the_sign_is_that_of_the_sum_not_of_the_count():
    taus = [{"w": tensor([-1.0])}, {"w": tensor([-1.0])}, {"w": tensor([5.0])}]
    assert ties_task_vectors(taus, 100)["w"].tolist() == [5.0]


def test_where_signs_cancel_nothing_is_elected_and_by_reference_the_majority_sign():
    taus = [{"w": tensor([1.0, -2.0, -3.0, 4.0])}, {"w": tensor([-1.0, -2.0, -1.0, 1.0])}]
    assert ties_task_vectors(taus, 100)["w"].tolist() == [0.0, -2.0, -2.0, 2.5]
    assert ties_task_vectors(taus, 100, reference=True)["w"].tolist() == [-1.0, -2.0, -2.0, 2.5]
    mirrored = [{"w": -tau["w"]} for tau in taus]
    assert ties_task_vectors(mirrored, 100, reference=True)["w"].tolist() == [1.0, 2.0, 2.0, -2.5]
    even = [{"w": tensor([1.0, 2.0, -2.0])}, {"w": tensor([-1.0, 2.0, -2.0])}]
    assert ties_task_vectors(even, 100, reference=True)["w"].tolist() == [0.0, 2.0, -2.0]


def test_entries_equal_to_the_last_one_kept_are_kept():
    tau = {"w": tensor([3.0, -2.0, 2.0, 2.0, 1.0])}
    assert magnitude_floor(tau, 40) == 2.0
    assert trim_task_vectors([tau], 40)["w"].tolist() == [3.0, -2.0, 2.0, 2.0, 0.0]


def test_the_reference_counts_one_more_as_kthvalue_does():
    tau = {"w": torch.arange(1.0, 11.0)}
    assert magnitude_floor(tau, 20) == 9.0
    kth = tau["w"].kthvalue(10 - int(10 * 0.2)).values.item()  # what the authors' code compares with, by >=
    assert magnitude_floor(tau, 20, reference=True) == kth == 8.0


def test_twenty_percent_of_all_is_25_8_percent_of_the_tower_that_was_trained():
    """METHOD: the frozen text tower is 22.6 % of a ViT-B/32 checkpoint."""
    generator = torch.Generator().manual_seed(0)
    tau = {"visual.w": torch.randn(774, 100, generator=generator), "text.w": torch.zeros(226, 100)}
    for reference, share in ((False, 0.200), (True, 0.258)):
        merged = trim_task_vectors([tau], 20, reference)
        assert round(kept_share({"visual.w": merged["visual.w"]}), 3) == share
        assert not merged["text.w"].any()


def test_which_tensors_count_is_decided_per_task():
    taus = [{"a": tensor([1.0, 2.0]), "b": tensor([0.0, 0.0])}, {"a": tensor([1.0, 2.0]), "b": tensor([3.0, 4.0])}]
    floors = [magnitude_floor(tau, 50) for tau in taus]
    assert floors == [2.0, 3.0]
    assert [magnitude_floor(tau, 50, reference=True) for tau in taus] == [0.0, 2.0]


@quick
@given(st.integers(0, 1000), percentages)
def test_trimming_keeps_the_share_asked_for(seed, k):
    (tau,) = random_task_vectors(1, seed)
    assert round(kept_share(trim_task_vectors([tau], k)) * 51) == math.floor(51 * k / 100 + 0.5)


@quick
@given(st.integers(0, 1000), percentages, percentages)
def test_more_percent_keep_more_and_never_other_entries(seed, one, other):
    (tau,) = random_task_vectors(1, seed)
    less, more = (trim_task_vectors([tau], k) for k in sorted((one, other)))
    assert all(torch.equal(less[key][less[key] != 0], more[key][less[key] != 0]) for key in tau)


@pytest.mark.parametrize("number", [1, 2, 5])
def test_limits(number):
    taus = random_task_vectors(number)
    assert close(trim_task_vectors(taus, 100), METHODS["sum"].merge(taus))
    for k in (0, 0.0001):
        assert not any(t.any() for t in (trim_task_vectors(taus, k) | ties_task_vectors(taus, k)).values())
    same_sign = [{key: t.abs() for key, t in tau.items()} for tau in taus]
    assert close(ties_task_vectors(same_sign, 100), METHODS["average"].merge(same_sign))
    assert close(ties_task_vectors(same_sign, 100, "sum"), METHODS["sum"].merge(same_sign))


@quick
@given(st.integers(0, 1000), percentages, st.sampled_from(["mean", "sum"]))
def test_every_entry_of_ties_lies_where_its_experts_are(seed, k, combine):
    taus = random_task_vectors(4, seed)
    for reference in (False, True):
        merged = ties_task_vectors(taus, k, combine, reference)
        for key, t in merged.items():
            rows = torch.stack([tau[key] for tau in taus])
            largest = rows.abs().max(dim=0).values * (1 if combine == "mean" else 4)
            assert (t.abs() <= largest * (1 + 1e-6)).all()


def test_duplicates_merge_to_their_trimmed_self():
    (tau,) = random_task_vectors(1)
    assert close(ties_task_vectors([tau] * 3, 30), trim_task_vectors([tau], 30))


def test_zero_vectors():
    (tau,), zero = random_task_vectors(1), {"w": torch.zeros(5, 8), "b": torch.zeros(11)}
    assert close(ties_task_vectors([tau, zero], 30), trim_task_vectors([tau], 30))
    assert not ties_task_vectors([zero, zero], 30, reference=True)["w"].any()
    assert magnitude_floor(zero, 100) == math.inf and magnitude_floor(zero, 100, reference=True) == 0.0
