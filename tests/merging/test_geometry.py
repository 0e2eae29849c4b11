"""merging.geometry: model stock and SLERP, by hand and at their limits."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import tensor

from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS

quick = settings(deadline=None, max_examples=30)
stock, slerp = METHODS["stock"].merge, METHODS["slerp"].merge


def task_vector(seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {"w": torch.randn(4, 5, generator=generator), "b": torch.randn(6, generator=generator)}


def close(left, right, atol=1e-5) -> bool:
    return left.keys() == right.keys() and all(torch.allclose(left[k], right[k], atol=atol) for k in left)


def scaled(tau, factor):
    return {key: t * factor for key, t in tau.items()}


def test_model_stock_by_hand():
    taus = [{"w": tensor([1.0, 0.0])}, {"w": tensor([1.0, 1.0])}]
    cosine = 1 / math.sqrt(2)
    ratio = 2 * cosine / (1 + cosine)
    assert stock(taus)["w"].tolist() == pytest.approx([ratio, ratio / 2], rel=1e-6)
    three = [*taus, {"w": tensor([0.0, 2.0])}]
    cosine = (1 / math.sqrt(2) + 0 + 1 / math.sqrt(2)) / 3
    ratio = 3 * cosine / (1 + 2 * cosine)
    assert stock(three)["w"].tolist() == pytest.approx([ratio * 2 / 3, ratio], rel=1e-6)


def test_model_stock_is_the_foot_of_the_perpendicular_from_the_base():
    """Two experts of one length: the point on the way to their mean that the paper's figure marks (eq. 2)."""
    angle = 0.7
    taus = [{"w": tensor([math.cos(a), math.sin(a), 0.0])} for a in (angle, -angle)]
    merged = stock(taus)["w"]
    cosine = math.cos(2 * angle)
    assert merged.tolist() == pytest.approx([math.cos(angle) * 2 * cosine / (1 + cosine), 0, 0], abs=1e-6)


def test_model_stock_judges_every_tensor_by_itself():
    taus = [{"a": tensor([1.0, 0.0]), "b": tensor([1.0, 0.0])}, {"a": tensor([1.0, 0.0]), "b": tensor([0.0, 1.0])}]
    merged = stock(taus)
    assert merged["a"].tolist() == [1.0, 0.0] and merged["b"].tolist() == [0.0, 0.0]


def test_model_stock_at_its_limits():
    tau, zero = task_vector(0), scaled(task_vector(0), 0)
    for number in (2, 3, 5):
        assert close(stock([tau] * number), tau)
    assert not any(t.any() for t in stock([tau, scaled(tau, -1)]).values())
    assert not any(t.any() for t in stock([tau, scaled(tau, -0.5)]).values())
    assert not any(t.any() for t in stock([zero, zero]).values())
    assert not any(t.any() for t in stock([tau, zero]).values())
    with pytest.raises(ExplorerError, match="Model stock merges at least 2 experts, not 1"):
        stock([tau])


@quick
@given(st.lists(st.integers(0, 1000), min_size=2, max_size=5, unique=True))
def test_model_stock_shrinks_the_mean_and_never_turns_it(seeds):
    taus = [task_vector(seed) for seed in seeds]
    merged, mean = stock(taus), METHODS["average"].merge(taus)
    for key, t in merged.items():
        ratio = (t * mean[key]).sum() / (mean[key] ** 2).sum()
        assert -1e-6 <= ratio <= 1 + 1e-6 and torch.allclose(t, ratio * mean[key], atol=1e-5)


def test_slerp_by_hand():
    taus = [{"w": tensor([1.0, 0.0])}, {"w": tensor([0.0, 2.0])}]
    for t in (0.0, 0.25, 0.5, 1.0):
        by_hand = [math.sin((1 - t) * math.pi / 2), 2 * math.sin(t * math.pi / 2)]
        assert slerp(taus, t=t)["w"].tolist() == pytest.approx(by_hand, abs=1e-6)


@quick
@given(st.integers(0, 1000), st.floats(0, 1))
def test_slerp_of_equal_lengths_keeps_the_length_and_divides_the_angle(seed, t):
    one, two = task_vector(seed), task_vector(seed + 1)
    unit = [{key: tau[key] / tau[key].norm() for key in tau} for tau in (one, two)]
    merged = slerp(unit, t=t)
    for key, tau in merged.items():
        assert tau.norm() == pytest.approx(1, abs=1e-5)
        whole = math.acos(float((unit[0][key] * unit[1][key]).sum()))
        assert float((unit[0][key] * tau).sum()) == pytest.approx(math.cos(t * whole), abs=1e-5)


@quick
@given(st.integers(0, 1000), st.floats(0, 1))
def test_slerp_backwards_is_the_same_arc(seed, t):
    one, two = task_vector(seed), task_vector(seed + 1)
    assert close(slerp([one, two], t=t), slerp([two, one], t=1 - t))


def test_slerp_at_its_limits():
    one, two, zero = task_vector(0), task_vector(1), scaled(task_vector(0), 0)
    assert close(slerp([one, two], t=0), one) and close(slerp([one, two], t=1), two)
    assert close(slerp([one, one], t=0.3), one)
    assert close(slerp([one, scaled(one, 3)], t=0.5), scaled(one, 2))
    assert close(slerp([one, zero], t=0.25), scaled(one, 0.75))
    assert not any(t.any() for t in slerp([zero, zero]).values())
    nearly = {key: t + 1e-5 * two[key] for key, t in one.items()}
    assert close(slerp([one, nearly], t=0.5), {key: (one[key] + nearly[key]) / 2 for key in one})


def test_slerp_is_continuous_where_it_becomes_a_straight_line():
    one = {"w": tensor([1.0, 0.0])}
    for angle in (0.9e-4, 1.1e-4):
        two = {"w": tensor([math.cos(angle), math.sin(angle)])}
        assert slerp([one, two], t=0.5)["w"].tolist() == pytest.approx([1.0, angle / 2], abs=1e-7)


def test_slerp_of_antiparallel_vectors_is_refused_by_name():
    one, two = task_vector(0), task_vector(1)
    opposite = {"w": two["w"], "b": -2 * one["b"]}
    with pytest.raises(ExplorerError, match="opposite in tensor 'b', so there is no shortest arc"):
        slerp([one, opposite])


def test_single_numbers_have_no_arc():
    assert slerp([{"s": tensor(2.0)}, {"s": tensor([-1.0])[0]}], t=0.25)["s"].item() == 1.25


@pytest.mark.parametrize("number", [1, 3])
def test_slerp_takes_two(number):
    with pytest.raises(ExplorerError, match=f"merges exactly 2 experts, not {number}"):
        slerp([task_vector(seed) for seed in range(number)])
