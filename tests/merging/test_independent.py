"""sum, TIES and consensus with LiNeS, against an implementation of dictionaries and lists that shares no code."""

import math
import struct

import pytest
import torch

from lines_explorer.layers import layout_of, tensor_factors
from lines_explorer.merging import METHODS, apply, norm_ratio
from lines_explorer.schedule import lines

Lists = dict[str, list[float]]
BLOCKS, TASKS = 4, 5


def model(seed: int, spread: float) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    names = [f"visual.transformer.resblocks.{block}.mlp.c_fc.{kind}" for block in range(BLOCKS) for kind in "ab"]
    names += ["visual.class_embedding", "visual.ln_post.weight"]
    tensors = {name: spread * torch.randn(3, 7, generator=generator) for name in names}
    return tensors | {"visual.proj": torch.zeros(3, 7)}  # frozen


def as_lists(tensors: dict[str, torch.Tensor]) -> Lists:
    return {key: [float(value) for value in tensor.flatten()] for key, tensor in tensors.items()}


def float32(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


def each(taus: list[Lists], rule) -> Lists:
    return {
        key: [float32(rule(entries)) for entries in zip(*(tau[key] for tau in taus), strict=True)] for key in taus[0]
    }


def plain_sum(taus: list[Lists]) -> Lists:
    def rule(entries):
        total = 0.0
        for entry in entries:
            total = float32(total + entry)
        return total

    return each(taus, rule)


def plain_trim(tau: Lists, k: float, reference: bool) -> Lists:
    sizes = [abs(v) for values in tau.values() if reference or any(values) for v in values]
    kept = int(len(sizes) * k / 100) + 1 if reference else round(len(sizes) * k / 100)
    floor = sorted(sizes, reverse=True)[kept - 1]
    return {key: [v if abs(v) >= floor else 0.0 for v in values] for key, values in tau.items()}


def plain_ties(taus: list[Lists], k: float, divide: bool, reference: bool = False) -> Lists:
    taus = [plain_trim(tau, k, reference) for tau in taus]
    sums = [sum(entries) for key in taus[0] for entries in zip(*(tau[key] for tau in taus), strict=True)]
    majority = sum((s > 0) - (s < 0) for s in sums)

    def rule(entries):
        elected = sum(entries) or (majority if reference else 0)
        agreeing = [entry for entry in entries if entry * elected > 0]
        return sum(agreeing) / (len(agreeing) if divide and agreeing else 1)

    return each(taus, rule)


def plain_consensus(taus: list[Lists], threshold: float, agree: int) -> Lists:
    merged = plain_sum(taus)

    def rule(entries):
        *own, total = entries
        return total if sum(abs(tau) > threshold * abs(total - tau) for tau in own) >= agree else 0.0

    return each([*taus, merged], rule)


CASES = {
    "sum": ("sum", {}, lambda taus: plain_sum(taus)),
    "ties": ("ties", {}, lambda taus: plain_ties(taus, 20, True)),
    "ties, all entries": ("ties", {"k": 100}, lambda taus: plain_ties(taus, 100, True)),
    "ties, sum": ("ties", {"combine": "sum", "k": 35}, lambda taus: plain_ties(taus, 35, False)),
    "ties, reference": ("ties", {"reference": True}, lambda taus: plain_ties(taus, 20, True, True)),
    "consensus": ("consensus", {}, lambda taus: plain_consensus(taus, 0.4, 2)),
    "consensus of three": ("consensus", {"agree": 3, "threshold": 0.2}, lambda taus: plain_consensus(taus, 0.2, 3)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_merged_task_vector_is_equal_to_the_bit(case, seed):
    method, parameters, plain = CASES[case]
    taus = [model(seed * 100 + 1 + t, 0.02) for t in range(TASKS)]
    merged = METHODS[method].merge(taus, **parameters)
    by_hand = plain([as_lists(tau) for tau in taus])
    assert as_lists(merged) == by_hand
    assert any(any(values) for values in by_hand.values())


@pytest.mark.parametrize("case", CASES)
def test_with_lines_the_model_is_equal_to_float32(case):
    """α by the norms, β = 0.4, and the reference rule: α outside the blocks, α + β(l − 1)/(L − 1) in block l."""
    method, parameters, plain = CASES[case]
    base, taus = model(0, 1.0), [model(1 + t, 0.02) for t in range(TASKS)]
    merged = METHODS[method].merge(taus, **parameters)
    alpha = norm_ratio(taus, merged)
    schedule = lines(alpha, 0.4)
    theta = as_lists(apply(base, merged, tensor_factors(layout_of(base), schedule)))

    lists = [as_lists(tau) for tau in taus]
    tau_mtl, total = plain(lists), plain_sum(lists)
    norms = [math.fsum(abs(v) for values in vector.values() for v in values) for vector in (total, tau_mtl)]
    assert alpha == float(f"{norms[0] / norms[1]:.6g}") / TASKS
    for key, start in as_lists(base).items():
        block = int(key.split("resblocks.")[1].split(".")[0]) if "resblocks" in key else 0
        factor = alpha + 0.4 * block / (BLOCKS - 1)
        for found, weight, tau in zip(theta[key], start, tau_mtl[key], strict=True):
            rounding = 2.0**-23 * (abs(weight) + abs(factor * tau))
            assert abs(found - (weight + factor * tau)) <= rounding, key


def test_alpha_does_not_hang_on_the_last_digits() -> None:
    generator = torch.Generator().manual_seed(3)
    taus = [{"a": torch.randn(400, generator=generator), "b": torch.randn(9, 7, generator=generator)} for _ in range(3)]
    merged = METHODS["ties"].merge(taus)
    nearly = {name: tensor * (1 + 2e-7) for name, tensor in merged.items()}
    assert any(not torch.equal(nearly[name], tensor) for name, tensor in merged.items())
    assert norm_ratio(taus, merged) == norm_ratio(taus, nearly)
    assert norm_ratio(taus, METHODS["sum"].merge(taus)) == 1 / 3
    assert norm_ratio(taus, METHODS["average"].merge(taus)) == 1
