"""merging.competition: PCB, against a plain implementation that sorts and stacks, and its limits."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import tensor

from lines_explorer.merging import METHODS

quick = settings(deadline=None, max_examples=20)
pcb = METHODS["pcb"].merge


def task_vectors(number: int, seed: int = 0, scale: float = 1.0) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        {"w": scale * torch.randn(9, 11, generator=generator), "b": scale * torch.randn(21, generator=generator)}
        for _ in range(number)
    ]


def plain_pcb(rows: np.ndarray, r: float) -> np.ndarray:
    """(T, d) → (d,), the paper's steps on whole sorted vectors, in float64."""

    def cut(x, first, last):
        s = np.sort(x, axis=1)
        return np.clip(x, s[:, first, None], s[:, last, None])

    def unit(x):
        low, high = x.min(axis=1, keepdims=True), x.max(axis=1, keepdims=True)
        return (x - low) / (high - low)

    d = rows.shape[1]
    magnitude = cut(np.abs(rows), int(d * 1e-4), int(d * (1 - 1e-4) - 1))
    score = np.exp(len(rows) * unit(magnitude) ** 2) * np.tanh(rows * rows.sum(axis=0))
    weight = unit(cut(score, int(d * (1 - r / 100) + 1e-9), d - 1))
    return (weight * np.sign(rows) * magnitude).sum(axis=0) / np.maximum(weight.sum(axis=0), 1e-12)


@quick
@given(st.integers(1, 5), st.integers(0, 1000), st.sampled_from([1.0, 10.0, 25.0, 50.0, 90.0]))
def test_equals_a_plain_implementation(number, seed, r):
    taus = task_vectors(number, seed, 0.1)
    rows = np.stack([torch.cat([tau["w"].flatten(), tau["b"]]).double().numpy() for tau in taus])
    merged = pcb(taus, r=r)
    flat = torch.cat([merged["w"].flatten(), merged["b"]]).numpy()
    np.testing.assert_allclose(flat, plain_pcb(rows, r), rtol=2e-3, atol=1e-5)


def test_by_hand():
    """One task of four entries: cut to [1, 3] (the code's last index leaves the largest out), all of one sign."""
    merged = pcb([{"w": tensor([1.0, 2.0, 3.0, 40.0])}], r=50)["w"]
    # with one task the weights cancel where they are not zero; of the two that compete the lower one counts 0
    assert merged.tolist() == [0.0, 0.0, 0.0, 3.0]
    assert pcb([{"w": tensor([1.0, 2.0, 3.0, 40.0])}], r=75)["w"].tolist() == [0.0, 0.0, 3.0, 3.0]


def test_entries_against_the_majority_lose():
    taus = [{"w": tensor([1.0, 0.1, -0.2, 0.3])}, {"w": tensor([-0.3, 0.1, -0.2, 0.3])}]
    merged = pcb(taus, r=60)["w"]
    assert merged[0] > 0  # the larger expert's sign, not the mean of both


def test_frozen_tensors_do_not_count_unless_by_reference():
    taus = task_vectors(2)
    frozen = [{**tau, "text": torch.zeros(500)} for tau in taus]
    own, with_text = pcb(taus, r=20), pcb(frozen, r=20)
    assert all(torch.equal(own[key], with_text[key]) for key in own) and not with_text["text"].any()
    by_reference = pcb(frozen, r=20, reference=True)
    count = [sum(int((merged[key] != 0).sum()) for key in own) for merged in (with_text, by_reference)]
    assert count[1] > 2 * count[0]


def test_limits():
    taus = task_vectors(3)
    assert not any(t.any() for t in pcb(taus, r=0).values())
    zero = [{key: torch.zeros_like(t) for key, t in tau.items()} for tau in taus]
    for reference in (False, True):
        assert not any(t.any() for t in pcb(zero, reference=reference).values())
    with_zero = pcb([taus[0], zero[0]], r=50)
    assert all(torch.isfinite(t).all() for t in with_zero.values()) and with_zero["w"].any()
    constant = pcb([{"w": torch.ones(5)}] * 2, r=50)["w"]
    assert torch.isfinite(constant).all()


@quick
@given(st.integers(0, 1000), st.floats(1, 100))
def test_a_merged_entry_lies_between_its_experts(seed, r):
    taus = task_vectors(3, seed)
    merged = pcb(taus, r=r)
    for key, t in merged.items():
        rows = torch.stack([tau[key] for tau in taus])
        low, high = rows.min(dim=0).values.clamp(max=0), rows.max(dim=0).values.clamp(min=0)
        bound = 0.05  # magnitudes below the cut are lifted to it
        assert ((t >= low - bound) & (t <= high + bound)).all()


def test_large_values_do_not_overflow():
    merged = pcb(task_vectors(12, scale=100.0))
    assert all(torch.isfinite(t).all() for t in merged.values())


@pytest.mark.parametrize("chunk", [7, 64])
def test_pieces_do_not_change_the_result(monkeypatch, chunk):
    from lines_explorer.merging import coordinates

    taus = task_vectors(3)
    whole = pcb(taus)
    monkeypatch.setattr(coordinates, "CHUNK", chunk)
    parts = pcb(taus)
    assert all(torch.allclose(whole[key], parts[key], atol=1e-6) for key in whole)
