"""merging.statistics and merging.adaptive: Fisher, RegMean and AdaMerging's pure parts."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import tensor

from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS
from lines_explorer.merging.adaptive import adamerging_task_vectors, layerwise_sum, mean_entropy
from lines_explorer.merging.statistics import fisher_task_vectors, regmean_task_vectors

quick = settings(deadline=None, max_examples=20)


def task_vectors(number: int, seed: int = 0) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        {"w": torch.randn(3, 4, generator=generator), "b": torch.randn(3, generator=generator)} for _ in range(number)
    ]


def test_fisher_by_hand():
    taus = [{"w": tensor([1.0, 2.0, 3.0])}, {"w": tensor([3.0, -2.0, 5.0])}]
    fishers = [{"w": tensor([3.0, 0.0, 0.0])}, {"w": tensor([1.0, 2.0, 0.0])}]
    assert fisher_task_vectors(taus, fishers)["w"].tolist() == [1.5, -2.0, 4.0]


@quick
@given(st.integers(1, 4), st.integers(0, 100), st.floats(1e-6, 1e6))
def test_equal_fishers_of_any_size_give_the_mean(number, seed, size):
    taus = task_vectors(number, seed)
    fishers = [{key: torch.full_like(t, size) for key, t in tau.items()} for tau in taus]
    merged, mean = fisher_task_vectors(taus, fishers), METHODS["average"].merge(taus)
    assert all(torch.allclose(merged[key], mean[key], atol=1e-6) for key in mean)


def test_fisher_needs_its_statistics():
    taus = task_vectors(2)
    fishers = [{key: torch.ones_like(t) for key, t in tau.items()} for tau in taus]
    for bad, message in [
        ([], "diagonal Fisher information of each of 2 experts, but 0 are given"),
        ([fishers[0], {"w": fishers[1]["w"]}], "Expert 2 has no diagonal Fisher information for tensor 'b'"),
        ([fishers[0], {**fishers[1], "b": torch.ones(1)}], r"of expert 2 is \(1,\), not \(3,\), for tensor 'b'"),
        ([fishers[0], {**fishers[1], "b": -torch.ones(3)}], "of expert 2 has negative entries for tensor 'b'"),
        ([fishers[0], {**fishers[1], "b": torch.full((3,), math.nan)}], "has 3 values that are not finite"),
    ]:
        with pytest.raises(ExplorerError, match=message):
            fisher_task_vectors(taus, bad)


def inputs(seed: int, n: int = 30) -> torch.Tensor:
    return torch.randn(n, 4, generator=torch.Generator().manual_seed(seed))


@quick
@given(st.integers(0, 100))
def test_regmean_predicts_every_experts_outputs_best(seed):
    taus = task_vectors(3, seed)
    seen = [inputs(seed + t) for t in range(3)]
    merged = regmean_task_vectors(taus, [{"w": x.T @ x} for x in seen], scale=1.0)
    wanted = torch.cat([x @ tau["w"].T for x, tau in zip(seen, taus, strict=True)])
    best = torch.linalg.lstsq(torch.cat(seen), wanted).solution.T
    assert torch.allclose(merged["w"], best, atol=1e-3)
    assert torch.allclose(merged["b"], METHODS["average"].merge(taus)["b"])


def test_regmean_by_hand_with_diagonal_statistics():
    taus = [{"w": tensor([[1.0, 2.0]])}, {"w": tensor([[5.0, 4.0]])}]
    grams = [{"w": tensor([[3.0, 8.0], [8.0, 1.0]])}, {"w": tensor([[1.0, 8.0], [8.0, 1.0]])}]
    assert regmean_task_vectors(taus, grams, scale=0.0)["w"].tolist() == [pytest.approx([2.0, 3.0])]


def test_regmean_takes_the_mean_where_no_task_has_inputs():
    taus = [{"w": tensor([[1.0, 2.0]])}, {"w": tensor([[5.0, 4.0]])}]
    grams = [{"w": torch.diag(tensor([3.0, 0.0]))}, {"w": torch.diag(tensor([1.0, 0.0]))}]
    assert regmean_task_vectors(taus, grams)["w"].tolist() == [pytest.approx([2.0, 3.0])]


def test_regmean_needs_its_statistics():
    taus, gram = task_vectors(2), {"w": torch.eye(4)}
    for bad, message in [
        ([{}, {}], "RegMean needs the Gram matrix"),
        ([gram], "of each of 2 experts, but 1 are given"),
        ([gram, {}], "Expert 2 has no Gram matrix of the inputs for tensor 'w'"),
        ([gram, {"w": torch.eye(3)}], r"of expert 2 is \(3, 3\), not \(4, 4\), for tensor 'w'"),
        ([gram, {**gram, "b": torch.eye(3)}], "'b', which is no matrix"),
    ]:
        with pytest.raises(ExplorerError, match=message):
            regmean_task_vectors(taus, bad)


POSITION = {"w": 1, "b": 2}


def test_layerwise_sum_by_hand_and_its_gradient():
    taus = [{"w": tensor([1.0, 2.0]), "b": tensor([3.0])}, {"w": tensor([10.0, 0.0]), "b": tensor([5.0])}]
    coefficients = tensor([[0.0, 0.5, 2.0, 0.0], [0.0, 0.1, 1.0, 0.0]], requires_grad=True)
    merged = layerwise_sum(taus, coefficients, POSITION)
    assert merged["w"].tolist() == [1.5, 1.0] and merged["b"].tolist() == [11.0]
    (merged["w"].sum() + merged["b"].sum()).backward()
    assert coefficients.grad.tolist() == [[0.0, 3.0, 3.0, 0.0], [0.0, 10.0, 5.0, 0.0]]


def test_equal_coefficients_are_task_arithmetic():
    taus = task_vectors(3)
    merged, total = layerwise_sum(taus, torch.full((3, 4), 0.3), POSITION), METHODS["sum"].merge(taus)
    assert all(torch.allclose(merged[key], 0.3 * total[key], atol=1e-6) for key in total)


def test_entropy():
    assert mean_entropy(torch.zeros(5, 8)).item() == pytest.approx(math.log(8))
    assert mean_entropy(tensor([[1000.0, 0.0], [0.0, 1000.0]])).item() == 0.0
    p = 1 / (1 + math.e)
    by_hand = -(p * math.log(p) + (1 - p) * math.log(1 - p))
    assert mean_entropy(tensor([[1.0, 0.0], [0.0, 0.0]])).item() == pytest.approx((by_hand + math.log(2)) / 2)


def test_layerwise_sum_refuses_what_does_not_fit():
    taus = task_vectors(2)
    with pytest.raises(ExplorerError, match="'b' has no position"):
        layerwise_sum(taus, torch.ones(2, 4), {"w": 1})
    for shape in ((3, 4), (2, 2), (2,)):
        with pytest.raises(ExplorerError, match="they must have"):
            layerwise_sum(taus, torch.ones(shape), POSITION)
    with pytest.raises(ExplorerError, match="lacks 'b'"):
        layerwise_sum([taus[0], {"w": taus[1]["w"]}], torch.ones(2, 4), POSITION)


def test_adamerging_by_hand():
    taus = [{"w": tensor([1.0, 2.0]), "b": tensor([3.0])}, {"w": tensor([10.0, 0.0]), "b": tensor([5.0])}]
    learned = [{"w": tensor(0.5), "b": tensor(2.0)}, {"w": tensor(0.25), "b": tensor(0.0)}]
    merged = adamerging_task_vectors(taus, learned)
    assert merged["w"].tolist() == [3.0, 1.0] and merged["b"].tolist() == [6.0]


@given(st.integers(1, 4), st.integers(0, 20), st.permutations(range(4)))
def test_adamerging_is_the_layerwise_sum_in_any_order(number, seed, order):
    taus = task_vectors(number, seed)
    learned = torch.rand(number, 4, generator=torch.Generator().manual_seed(seed))
    by_name = [{key: row[place] for key, place in POSITION.items()} for row in learned]
    merged, expected = adamerging_task_vectors(taus, by_name), layerwise_sum(taus, learned, POSITION)
    order = [place for place in order if place < number]
    turned = adamerging_task_vectors([taus[i] for i in order], [by_name[i] for i in order])
    for key, total in merged.items():
        assert torch.allclose(total, expected[key], atol=1e-6) and torch.allclose(total, turned[key], atol=1e-6)


@given(st.floats(0, 1), st.integers(0, 20))
def test_adamerging_with_one_coefficient_is_task_arithmetic(value, seed):
    taus = task_vectors(3, seed)
    merged = adamerging_task_vectors(taus, [dict.fromkeys(POSITION, tensor(value))] * 3)
    total = METHODS["sum"].merge(taus)
    assert all(torch.allclose(merged[key], value * total[key], atol=1e-6) for key in total)


def test_adamerging_needs_its_coefficients():
    taus = task_vectors(2)
    good = dict.fromkeys(POSITION, tensor(0.3))
    for bad, message in [
        ([good], "of each of 2 experts, but 1 are given; learn them in a suite with `build-suite adamerging`"),
        ([good, {"w": tensor(0.3)}], "Expert 2 has no single coefficient for tensor 'b'"),
        ([good, good | {"b": torch.ones(3)}], "Expert 2 has no single coefficient for tensor 'b'"),
        ([good, good | {"w": tensor(math.nan)}], "not finite"),
    ]:
        with pytest.raises(ExplorerError, match=message):
            adamerging_task_vectors(taus, bad)
