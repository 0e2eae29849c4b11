"""merging.drops: DARE, DELLA and breadcrumbs; what is dropped, how the rest is scaled, and whose random numbers."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import tensor

from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS
from lines_explorer.merging.drops import uniform

quick = settings(deadline=None, max_examples=25)
RANDOM = ("dare", "dare_ties", "della")


def task_vector(seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {"w": torch.randn(20, 30, generator=generator), "b": torch.randn(50, generator=generator)}


def equal(left, right) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[key], right[key]) for key in left)


def close(left, right) -> bool:
    return left.keys() == right.keys() and all(torch.allclose(left[key], right[key], atol=1e-5) for key in left)


def test_dare_by_hand():
    taus = [{"w": tensor([1.0, 2.0, 3.0, 4.0])}, {"w": tensor([-1.0, 5.0, 0.5, 2.0])}]
    drawn = [uniform((4,), 7, task, "w") for task in ("a", "b")]
    kept = [[float(u >= 0.25) for u in row] for row in drawn]
    by_hand = [sum(m[i] * float(t["w"][i]) / 0.75 for m, t in zip(kept, taus, strict=True)) for i in range(4)]
    merged = METHODS["dare"].merge(taus, tasks=["a", "b"], p=0.25, seed=7)["w"]
    assert merged.tolist() == pytest.approx(by_hand, rel=1e-6)
    assert 0 in kept[0] + kept[1] and 1 in kept[0] + kept[1]


@pytest.mark.parametrize("name", RANDOM)
def test_an_expert_loses_the_same_entries_in_any_company(name):
    a, b, c = (task_vector(seed) for seed in range(3))
    merge = METHODS[name].merge
    alone = merge([b], tasks=["b"], seed=3)
    zero = {key: torch.zeros_like(t) for key, t in b.items()}
    assert equal(merge([zero, b], tasks=["a", "b"], seed=3), alone)
    assert equal(merge([b, zero, zero], tasks=["b", "c", "d"], seed=3), alone)
    assert equal(merge([a, b, c], tasks=["a", "b", "c"]), merge([c, a, b], tasks=["c", "a", "b"]))
    renamed = merge([b], tasks=["x"], seed=3)
    assert not equal(renamed, alone)


@pytest.mark.parametrize("name", RANDOM)
def test_seeds(name):
    taus = [task_vector(seed) for seed in range(2)]
    merge = METHODS[name].merge
    before = torch.get_rng_state()
    assert equal(merge(taus, seed=5), merge(taus, seed=5))
    assert not equal(merge(taus, seed=5), merge(taus, seed=6))
    assert torch.equal(torch.get_rng_state(), before)  # the process's own random numbers are left alone


def test_tasks_and_tensors_have_random_numbers_of_their_own():
    draws = [uniform((8,), *name) for name in ((0, "a", "w"), (0, "b", "w"), (0, "a", "v"), (1, "a", "w"))]
    assert len({tuple(draw.tolist()) for draw in draws}) == 4
    assert torch.equal(uniform((8,), 0, "a", "w"), draws[0])


def test_duplicates_lose_different_entries():
    tau = task_vector(0)
    twice = METHODS["dare"].merge([tau, tau], p=0.5)
    share = [(twice["w"] / tau["w"]).round().int().eq(count).float().mean().item() for count in (0, 2, 4)]
    assert share == pytest.approx([0.25, 0.5, 0.25], abs=0.06)


def test_dare_is_right_on_average():
    tau = {"w": torch.linspace(-1, 1, 50)}
    total = sum(METHODS["dare"].merge([tau], p=0.5, seed=seed)["w"] for seed in range(400)) / 400
    assert torch.allclose(total, tau["w"], atol=0.2)  # standard error 0.05 at the ends


@quick
@given(st.floats(0, 0.99), st.integers(0, 100))
def test_dare_keeps_rescaled_entries_or_none(p, seed):
    tau = task_vector(seed)
    merged = METHODS["dare"].merge([tau], p=p, seed=seed)
    for key, t in merged.items():
        assert torch.allclose(t[t != 0], (tau[key] / (1 - p))[t != 0])
    kept = sum(int((t != 0).sum()) for t in merged.values()) / 650
    assert kept == pytest.approx(1 - p, abs=0.1)


def test_without_drops_all_are_what_they_build_on():
    taus = [task_vector(seed) for seed in range(3)]
    total, ties = METHODS["sum"].merge(taus), METHODS["ties"].merge(taus, k=100)
    assert close(METHODS["dare"].merge(taus, p=0.0), total)
    assert close(METHODS["breadcrumbs"].merge(taus, smallest=0, largest=0), total)
    assert close(METHODS["dare_ties"].merge(taus, p=0.0), ties)
    assert close(METHODS["della"].merge(taus, p=0.0, epsilon=0.0), ties)
    assert close(
        METHODS["della"].merge(taus, p=0.4, epsilon=0.0, seed=2), METHODS["dare_ties"].merge(taus, p=0.4, seed=2)
    )


def test_della_by_hand():
    tau = {"w": tensor([[1.0, -4.0, 2.0, 3.0], [5.0, 5.0, -7.0, 6.0]])}
    ranks = [[3, 0, 2, 1], [2, 3, 0, 1]]  # equal magnitudes in their order
    drawn = uniform((2, 4), 1, "t", "w").tolist()
    by_hand = []
    for row in range(2):
        for column in range(4):
            drop = 0.5 - 0.4 + 0.8 * ranks[row][column] / 4
            value = float(tau["w"][row, column])
            by_hand.append(value / (1 - drop) if drawn[row][column] >= drop else 0.0)
    merged = METHODS["della"].merge([tau], tasks=["t"], p=0.5, epsilon=0.8, seed=1)["w"]
    assert merged.flatten().tolist() == pytest.approx(by_hand, rel=1e-5)


def test_della_drops_small_entries_more_often():
    tau = {"w": torch.arange(1.0, 101.0).repeat(50, 1)}
    kept = METHODS["della"].merge([tau], p=0.5, epsilon=0.8)["w"] != 0
    small, large = kept[:, :20].float().mean().item(), kept[:, 80:].float().mean().item()
    assert small == pytest.approx(0.18, abs=0.05) and large == pytest.approx(0.82, abs=0.05)


def test_della_ranks_a_convolution_by_its_outputs_and_takes_scalars():
    tau = {"conv": torch.randn(3, 2, 4, 4), "scale": tensor(2.0), "empty": torch.zeros(0, 3)}
    merged = METHODS["della"].merge([tau], p=0.5)
    assert {key: t.shape for key, t in merged.items()} == {key: t.shape for key, t in tau.items()}


def test_breadcrumbs_by_hand():
    tau = {"w": tensor([[5.0, -1.0, 2.0], [-9.0, 3.0, 4.0]]), "b": tensor([1.0, 2.0]), "s": tensor(3.0)}
    merged = METHODS["breadcrumbs"].merge([tau], smallest=34, largest=20)  # 2 and 1 of six, 0 and 0 of two
    assert merged["w"].tolist() == [[5.0, 0.0, 0.0], [0.0, 3.0, 4.0]]
    assert merged["b"].tolist() == [1.0, 2.0] and merged["s"].item() == 3.0


def test_breadcrumbs_keeps_what_equals_the_last_one_kept():
    tau = {"w": tensor([2.0, 1.0, 1.0, -2.0])}
    assert METHODS["breadcrumbs"].merge([tau], smallest=25, largest=25)["w"].tolist() == [2.0, 1.0, 1.0, -2.0]


@quick
@given(st.floats(0, 100), st.floats(0, 100), st.integers(0, 100))
def test_breadcrumbs_keeps_the_middle(smallest, largest, seed):
    tau = task_vector(seed)
    if smallest + largest > 100:
        with pytest.raises(ExplorerError, match="together are at most 100"):
            METHODS["breadcrumbs"].merge([tau], smallest=smallest, largest=largest)
        return
    merged = METHODS["breadcrumbs"].merge([tau], smallest=smallest, largest=largest)
    for key, t in merged.items():
        n = t.numel()
        assert int((t != 0).sum()) == max(0, n - int(n * smallest / 100) - int(n * largest / 100))
        middle = tau[key].abs().flatten().sort().values[int(n * smallest / 100) : n - int(n * largest / 100)]
        assert torch.equal(t[t != 0].abs().sort().values, middle)


def test_dropping_everything():
    tau = task_vector(0)
    assert not any(t.any() for t in METHODS["breadcrumbs"].merge([tau], smallest=100, largest=0).values())
    assert not any(t.any() for t in METHODS["breadcrumbs"].merge([tau], smallest=40, largest=60).values())
    for name in ("dare", "dare_ties"):
        with pytest.raises(ExplorerError, match="Parameter p must be a number from 0 to 0.99, not 1"):
            METHODS[name].merge([tau], p=1)
        with pytest.raises(ExplorerError, match="leaves nothing to rescale"):
            METHODS[name].function([tau], p=1.0)
    with pytest.raises(ExplorerError, match="choose epsilon at most 0.2"):
        METHODS["della"].merge([tau], p=0.9, epsilon=0.5)
    with pytest.raises(ExplorerError, match="choose epsilon at most 0.2"):
        METHODS["della"].merge([tau], p=0.1, epsilon=0.5)
    edge = METHODS["della"].merge([tau], p=0.5, epsilon=1.0)  # the smallest of n has rank n - 1, so p < 1
    assert all(torch.isfinite(t).all() for t in edge.values())
