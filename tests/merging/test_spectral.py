"""merging.spectral: TSV-M and Iso-C on matrices whose singular vectors are known."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import tensor

from lines_explorer.merging import METHODS

quick = settings(deadline=None, max_examples=20)
tsv, iso = METHODS["tsv"].merge, METHODS["iso"].merge


def matrices(number: int, seed: int = 0, shape=(6, 4)) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [{"w": torch.randn(shape, generator=generator)} for _ in range(number)]


def diagonal(*values: float) -> dict[str, torch.Tensor]:
    return {"w": torch.diag(tensor(values))}


def test_tsv_by_hand_of_orthogonal_tasks():
    """Two tasks of rank 4 keep two directions each; these are orthogonal, so nothing has to be turned."""
    one, two = diagonal(5.0, 4.0, 0.1, 0.2), diagonal(0.3, 0.4, 7.0, -6.0)
    assert torch.allclose(tsv([one, two])["w"], diagonal(5.0, 4.0, 7.0, -6.0)["w"], atol=1e-5)


def test_tsv_by_hand_of_crossing_tasks():
    """Rank-one tasks u σ vᵀ with the same v: U = [e₁, (e₁+e₂)/√2] → its polar factor; V = [v, v] → [v, v]/√2."""
    half = 0.5**0.5
    e1, diagonal_direction = tensor([1.0, 0.0]), tensor([half, half])
    v = tensor([1.0, 0.0])
    one, two = {"w": 3 * torch.outer(e1, v)}, {"w": 2 * torch.outer(diagonal_direction, v)}
    u = torch.stack([e1, diagonal_direction], dim=1).double()
    eigenvalues, vectors = torch.linalg.eigh(u.T @ u)
    polar = u @ vectors @ torch.diag(eigenvalues.rsqrt()) @ vectors.T
    by_hand = polar @ torch.diag(tensor([3.0, 2.0]).double()) @ torch.stack([v, v]).double() * half
    assert torch.allclose(tsv([one, two])["w"], by_hand.float(), atol=1e-5)


def test_iso_by_hand():
    merged = iso([diagonal(3.0, -1.0), diagonal(1.0, -1.0)])["w"]  # the sum has singular values 4 and 2
    assert torch.allclose(merged, diagonal(3.0, -3.0)["w"], atol=1e-6)


@quick
@given(st.integers(1, 5), st.integers(0, 1000), st.sampled_from([(6, 4), (4, 6), (5, 5)]))
def test_iso_flattens_the_spectrum_and_keeps_its_sum(number, seed, shape):
    taus = matrices(number, seed, shape)
    values = torch.linalg.svdvals(iso(taus)["w"])
    total = torch.linalg.svdvals(METHODS["sum"].merge(taus)["w"])
    assert torch.allclose(values, total.mean().expand_as(values), rtol=1e-4)


@quick
@given(st.integers(1, 6), st.integers(0, 1000), st.sampled_from([(6, 4), (4, 6), (5, 5)]))
def test_tsv_keeps_the_largest_singular_values_of_each_task(number, seed, shape):
    taus = matrices(number, seed, shape)
    share = max(1, min(shape) // number)
    kept = torch.cat([torch.linalg.svdvals(tau["w"])[:share] for tau in taus]).sort(descending=True).values
    merged = torch.linalg.svdvals(tsv(taus)["w"])
    assert merged[0] <= kept[0] * (1 + 1e-4)
    if number * share <= min(shape):
        assert torch.allclose(merged[: len(kept)], kept, rtol=1e-3)


def test_one_expert_is_itself_under_tsv():
    (tau,) = matrices(1)
    assert torch.allclose(tsv([tau])["w"], tau["w"], atol=1e-5)


def test_other_tensors_are_averaged():
    taus = [{"b": tensor([1.0, 3.0]), "conv": torch.full((2, 1, 2, 2), 2.0), "s": tensor(1.0)} for _ in range(2)]
    taus[1]["b"] = tensor([3.0, 5.0])
    for merge in (tsv, iso):
        merged = merge(taus)
        assert merged["b"].tolist() == [2.0, 4.0] and merged["s"].item() == 1.0
        assert torch.equal(merged["conv"], taus[0]["conv"])


def test_duplicates_keep_their_common_directions_and_nothing_arbitrary():
    for seed in range(3):
        (tau,) = matrices(1, seed)
        left, values, right = torch.linalg.svd(tau["w"], full_matrices=False)
        by_hand = left[:, :2] * values[:2] @ right[:2]
        assert torch.allclose(tsv([tau, tau])["w"], by_hand, atol=1e-4)


def test_zero_experts_bring_no_directions_of_their_own():
    one, two = matrices(2)
    zero = {"w": torch.zeros(6, 4)}
    assert not tsv([zero, zero])["w"].any() and not iso([zero, zero])["w"].any()
    left, values, right = torch.linalg.svd(one["w"], full_matrices=False)
    assert torch.allclose(tsv([one, zero])["w"], left[:, :2] * values[:2] @ right[:2], atol=1e-4)


def test_iso_of_a_sum_without_full_rank_stays_in_its_range():
    tau = {"w": torch.outer(tensor([1.0, 2.0, 0.0]), tensor([1.0, 0.0, 1.0, 0.0]))}
    assert torch.allclose(iso([tau])["w"], tau["w"], atol=1e-6)
    opposite = {"w": -tau["w"]}
    assert not iso([tau, opposite])["w"].any()


def test_more_experts_than_directions_keep_one_each():
    taus = matrices(7, shape=(3, 2))
    merged = tsv(taus)["w"]
    assert merged.shape == (3, 2) and torch.isfinite(merged).all() and merged.any()


@pytest.mark.parametrize("merge", [tsv, iso])
def test_matrices_without_entries_pass(merge):
    assert merge([{"w": torch.zeros(0, 3)}, {"w": torch.zeros(0, 3)}])["w"].shape == (0, 3)
