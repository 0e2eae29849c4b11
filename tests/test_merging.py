import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import tensor

from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS, apply, norm_ratio, task_vector
from lines_explorer.merging.arithmetic import _l1_norm

untimed = settings(deadline=None)
seeds = st.integers(0, 2**31)
scales = st.floats(-3, 3)


def weights(seed: int, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "proj": torch.randn(3, 4, generator=generator).to(dtype),
        "bias": torch.randn(5, generator=generator).to(dtype),
        "scale": torch.randn((), generator=generator).to(dtype),
    }


def model(seed: int, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    return {**weights(seed, dtype), "position_ids": torch.arange(4) + seed, "mask": tensor([bool(seed % 2), True])}


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.dtype == right.dtype and left.numpy().tobytes() == right.numpy().tobytes()


def everywhere(factor: float) -> dict[str, float]:
    return dict.fromkeys(model(0), factor)


def close(left, right) -> bool:
    return left.keys() == right.keys() and all(torch.allclose(left[k], right[k], atol=1e-5) for k in left)


def test_task_vector_and_apply_by_hand():
    base = {"w": tensor([1.0, 2.0]), "v": tensor([0.0]), "ids": tensor([1, 2])}
    expert = {"w": tensor([3.0, 1.0]), "v": tensor([4.0]), "ids": tensor([8, 9])}
    tau = task_vector(base, expert)
    assert {key: t.tolist() for key, t in tau.items()} == {"w": [2.0, -1.0], "v": [4.0]}
    merged = apply(base, tau, {"w": 0.5, "v": 0.25})
    assert {key: t.tolist() for key, t in merged.items()} == {"w": [2.0, 1.5], "v": [1.0], "ids": [1, 2]}


def test_sum_average_and_norm_ratio_by_hand():
    taus = [{"w": tensor([1.0, -2.0])}, {"w": tensor([3.0, 1.0])}]
    assert METHODS["sum"].merge(taus)["w"].tolist() == [4.0, -1.0]
    assert METHODS["average"].merge(taus)["w"].tolist() == [2.0, -0.5]
    assert norm_ratio(taus, {"w": tensor([2.0, -0.5])}) == 1.0
    assert norm_ratio(taus, {"w": tensor([1.0, 0.25])}) == 2.0


def test_the_norm_ratio_is_over_the_whole_vector_not_per_tensor():
    taus = [{"w": tensor([1.0]), "v": tensor([9.0])}, {"w": tensor([1.0]), "v": tensor([0.0])}]
    assert norm_ratio(taus, {"w": tensor([1.0]), "v": tensor([1.0])}) == (2 + 9) / 2 / 2


@untimed
@given(seeds, seeds, scales, scales)
def test_apply_is_linear_in_the_factor(one, two, a, b):
    base = model(one)
    tau = task_vector(base, model(two))
    steps = [apply(base, tau, everywhere(factor)) for factor in (a, b, a + b)]
    moved = [task_vector(base, step) for step in steps]
    assert close({k: moved[0][k] + moved[1][k] for k in tau}, moved[2])


@untimed
@given(seeds, st.lists(scales, min_size=3, max_size=3))
def test_every_tensor_gets_its_own_factor(seed, three):
    base = model(seed)
    tau = task_vector(base, model(seed + 1))
    factors = dict(zip(tau, three, strict=True))
    merged = apply(base, tau, factors)
    assert close({k: merged[k] for k in tau}, {k: base[k] + factors[k] * tau[k] for k in tau})


@untimed
@given(seeds, st.sampled_from([torch.float32, torch.float16, torch.bfloat16, torch.float64]))
def test_end_points_are_exact(seed, dtype):
    base, expert = model(seed, dtype), model(seed + 1, dtype)
    tau = task_vector(base, expert)
    start, end = apply(base, tau, everywhere(0.0), expert), apply(base, tau, everywhere(1.0), expert)
    for key in tau:
        assert torch.equal(start[key], base[key]) and start[key].dtype == dtype
        assert torch.equal(end[key], expert[key]) and end[key].dtype == dtype


def test_end_points_keep_the_bits_that_arithmetic_would_lose():
    base, expert = {"w": tensor([-0.0, 1e8])}, {"w": tensor([1.0, 0.1])}
    tau = task_vector(base, expert)
    assert same_bits(apply(base, tau, {"w": 0.0})["w"], base["w"])
    assert same_bits(apply(base, tau, {"w": -0.0})["w"], base["w"])
    assert same_bits(apply(base, tau, {"w": 1.0}, expert)["w"], expert["w"])
    assert apply(base, tau, {"w": 1.0})["w"][1] != expert["w"][1]


def test_nothing_that_goes_in_is_written_or_shared():
    base, expert = model(0), model(1)
    tau = task_vector(base, expert)
    ins = {"base": base, "expert": expert, "tau": tau}
    before = {name: {k: t.clone() for k, t in tensors.items()} for name, tensors in ins.items()}
    outs = [apply(base, tau, everywhere(factor), expert) for factor in (0.0, 0.5, 1.0)]
    outs += [METHODS[name].merge([tau]) for name in ("sum", "average")] + [task_vector(base, expert)]
    for out in outs:
        for t in out.values():
            t.fill_(7)
    assert all(torch.equal(ins[name][k], t) for name, tensors in before.items() for k, t in tensors.items())


def test_integer_and_boolean_buffers_stay_the_bases():
    base, expert = model(0), model(1)
    tau = task_vector(base, expert)
    assert tau.keys() == weights(0).keys()
    for factor in (0.0, 0.3, 1.0):
        merged = apply(base, tau, everywhere(factor), expert)
        assert list(merged) == list(base)
        assert same_bits(merged["position_ids"], base["position_ids"]) and same_bits(merged["mask"], base["mask"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    base, expert = {"w": tensor([1.0], dtype=dtype)}, {"w": tensor([0.0004], dtype=dtype)}
    tau = task_vector(base, expert)
    assert tau["w"].dtype == torch.float32
    assert tau["w"].item() == expert["w"].item() - 1.0  # half precision would round this to -1
    assert tau["w"].to(dtype).item() != tau["w"].item()
    many = [{"w": tensor([value], dtype=dtype)} for value in (2048.0, 1.0, 1.0, -2048.0)]
    assert METHODS["sum"].merge(many)["w"].tolist() == [2.0]  # half precision would lose both ones
    assert METHODS["average"].merge(many)["w"].dtype == torch.float32
    assert apply(base, tau, {"w": 0.5})["w"].dtype == dtype


def test_a_step_smaller_than_half_precision_is_rounded_once():
    base = {"w": tensor([2048.0], dtype=torch.float16)}
    assert apply(base, {"w": tensor([3.0])}, {"w": 0.5})["w"].item() == 2050.0  # 2049.5; steps of 2 near 2048
    assert apply(base, {"w": tensor([-2049.0])}, {"w": 1.0})["w"].item() == -1.0  # 2049 itself has no half


@untimed
@given(st.permutations(range(4)), st.sampled_from(["sum", "average"]))
def test_the_order_of_experts_does_not_matter(order, name):
    taus = [weights(seed) for seed in range(4)]
    assert close(METHODS[name].merge(taus), METHODS[name].merge([taus[i] for i in order]))


@untimed
@given(st.integers(1, 6))
def test_average_is_sum_over_t_and_of_equals_the_same(number):
    taus = [weights(seed) for seed in range(number)]
    total, mean = METHODS["sum"].merge(taus), METHODS["average"].merge(taus)
    assert all(torch.equal(mean[key], total[key] / number) for key in total)
    assert close(METHODS["average"].merge([taus[0]] * number), taus[0])


@pytest.mark.parametrize("name", ["sum", "average"])
def test_one_expert_merges_to_itself(name):
    tau = weights(3)
    merged = METHODS[name].merge([tau])
    assert all(torch.equal(merged[key], tau[key]) for key in tau)


@untimed
@given(st.integers(1, 8), st.sampled_from([torch.float32, torch.float16, torch.bfloat16]))
def test_norm_ratio_of_a_plain_sum_is_exactly_one_over_t(number, dtype):
    taus = [weights(seed, dtype) for seed in range(number)]
    assert norm_ratio(taus, METHODS["sum"].merge(taus)) == 1 / number
    assert norm_ratio(taus, METHODS["average"].merge(taus)) == pytest.approx(1, rel=1e-6)


def test_norms_are_accumulated_wider_than_float32():
    numbers = {"w": tensor([1.0, 2.0**-24, 2.0**-24, 2.0**-24])}
    assert _l1_norm(numbers, "a task vector") == 1 + 3 * 2.0**-24


def test_the_methods_in_the_order_they_are_offered():
    offered = "sum average trim ties consensus dare dare_ties breadcrumbs della stock slerp tsv iso pcb fisher regmean "
    assert list(METHODS) == [*offered.split(), "adamerging"]
    assert METHODS["sum"].grid == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_not_finite_are_refused_by_name(bad):
    good, broken = model(0), model(1)
    broken["bias"][2] = bad
    with pytest.raises(ExplorerError, match="'bias' of the expert has 1 values"):
        task_vector(good, broken)
    with pytest.raises(ExplorerError, match="'bias' of the base has 1 values"):
        task_vector(broken, good)
    with pytest.raises(ExplorerError, match="'bias' of the base has 1 values"):
        task_vector(broken, broken)
    with pytest.raises(ExplorerError, match="'bias' of the merged model"):
        apply(broken, weights(0), everywhere(0.0))
    with pytest.raises(ExplorerError, match="'bias' of the merged model"):
        apply(good, {k: broken[k] for k in weights(0)}, everywhere(0.5))
    with pytest.raises(ExplorerError, match="'bias' of the merged task vector"):
        norm_ratio([weights(0)], {k: broken[k] for k in weights(0)})


def test_overflow_is_refused_too():
    with pytest.raises(ExplorerError, match="'w' of the task vector"):
        task_vector({"w": tensor([-3e38])}, {"w": tensor([3e38])})
    half = {"w": tensor([6e4], dtype=torch.float16)}
    with pytest.raises(ExplorerError, match="'w' of the merged model .factor 2, torch.float16"):
        apply(half, {"w": tensor([1e4])}, {"w": 2.0})


@pytest.mark.parametrize("shape", [(1, 4), (4,), (3, 1), (4, 3), (1, 3, 4), (12,)])
def test_other_shapes_are_refused_even_where_they_would_broadcast(shape):
    other = {**model(1), "proj": torch.zeros(shape)}
    with pytest.raises(ExplorerError) as error:
        task_vector(model(0), other)
    for named in ("'proj'", "(3, 4) in the base", f"{shape} in the expert"):
        assert named in str(error.value)
    tau = {key: other[key] for key in weights(0)}
    with pytest.raises(ExplorerError, match="'proj' has shape"):
        apply(model(0), tau, everywhere(0.5))
    with pytest.raises(ExplorerError, match="'proj' has shape"):
        METHODS["sum"].merge([weights(0), tau])
    with pytest.raises(ExplorerError, match="'proj' has shape"):
        norm_ratio([weights(0)], tau)


def test_shapes_of_buffers_are_compared_as_well():
    with pytest.raises(ExplorerError, match="'position_ids' has shape .4,. in the base but .5,. in the expert"):
        task_vector(model(0), {**model(1), "position_ids": torch.arange(5)})


def test_a_weight_stored_as_integers_is_refused():
    with pytest.raises(ExplorerError, match="'bias' is torch.float32 in the base but torch.int8 in the expert"):
        task_vector(model(0), {**model(1), "bias": torch.zeros(5, dtype=torch.int8)})


def renamed(prefix: str) -> dict[str, torch.Tensor]:
    return {prefix + key: t for key, t in model(1).items()}


@pytest.mark.parametrize(
    ("expert", "named"),
    [
        ({k: t for k, t in model(1).items() if k != "bias"}, ["lacks 'bias'", "one part of a checkpoint"]),
        ({**model(1), "head.weight": torch.zeros(2)}, ["in addition 'head.weight'", "holds more than the model"]),
        (renamed("module."), ["lacks 'bias'", "'module.bias'", "carry the prefix 'module.'"]),
        ({"lora_A.weight": torch.zeros(2)}, ["'lora_A.weight'", "LoRA adapter"]),
        ({"other": torch.zeros(2)}, ["lacks 'bias'", "in addition 'other'", "different architectures"]),
        ({f"{i}": torch.zeros(1) for i in range(9)} | model(1), ["'0', '1', '2', '3', '4' and 4 more"]),
    ],
)
def test_other_names_are_refused_with_lists_and_a_reason(expert, named):
    with pytest.raises(ExplorerError) as error:
        task_vector(model(0), expert)
    assert [part for part in named if part not in str(error.value)] == []


def test_a_lost_prefix_is_recognised():
    with pytest.raises(ExplorerError, match="lack the prefix 'visual.', which should be added"):
        task_vector(renamed("visual."), model(0))


def test_apply_refuses_a_task_vector_or_expert_of_another_model():
    tau = weights(0)
    with pytest.raises(ExplorerError, match="task vector lacks 'bias'"):
        apply(model(0), {k: t for k, t in tau.items() if k != "bias"}, everywhere(0.5))
    with pytest.raises(ExplorerError, match="task vector has in addition 'position_ids'"):
        apply(model(0), {**tau, "position_ids": torch.zeros(4)}, everywhere(0.5))
    with pytest.raises(ExplorerError, match="The expert lacks 'mask'"):
        apply(model(0), tau, everywhere(1.0), {k: t for k, t in model(1).items() if k != "mask"})
    with pytest.raises(ExplorerError, match="No factor is given for tensor 'bias'"):
        apply(model(0), tau, {"proj": 1.0, "scale": 1.0})


def test_merging_nothing_is_refused():
    with pytest.raises(ExplorerError, match="at least one task vector"):
        METHODS["average"].merge([])


def test_a_merged_vector_of_zeros_has_no_ratio():
    tau = weights(0)
    opposite = {key: -t for key, t in tau.items()}
    with pytest.raises(ExplorerError, match="is zero.*set alpha by hand"):
        norm_ratio([tau, opposite], METHODS["sum"].merge([tau, opposite]))
