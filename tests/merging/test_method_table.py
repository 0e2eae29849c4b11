"""The table of methods: what every row promises, parameters typed and bounded, and laws that hold for all."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lines_explorer.errors import ExplorerError
from lines_explorer.merging import COEFFICIENTS, METHODS, NEGATIVE, Parameter, apply, standard
from lines_explorer.merging.statistics import FISHER
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant

quick = settings(deadline=None, max_examples=10)
names = pytest.mark.parametrize("name", list(METHODS))
IDENTITY = {
    **dict.fromkeys(("sum", "average"), {}),
    **dict.fromkeys(("trim", "ties"), {"k": 100}),
    **dict.fromkeys(("dare", "dare_ties"), {"p": 0}),
    "consensus": {"agree": 1, "threshold": 0},
    "breadcrumbs": {"smallest": 0, "largest": 0},
    "della": {"p": 0, "epsilon": 0},
    **dict.fromkeys(("tsv", "fisher", "regmean"), {}),
}


def task_vectors(number: int, seed: int = 0, scale: float = 1e-3) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"w": (6, 5), "conv": (2, 3, 2, 2), "b": (7,), "s": (), "empty": (0, 3)}
    vectors = [{k: scale * torch.randn(s, generator=generator) for k, s in shapes.items()} for _ in range(number)]
    return [vector | {"frozen": torch.zeros(4, 4)} for vector in vectors]


def measured(name: str, number: int, tasks=None) -> dict:
    """What a method that needs statistics is given: random ones of its own for every task."""
    kind, rows = METHODS[name].statistics, []
    for task in tasks or range(number) if kind else ():
        generator = torch.Generator().manual_seed(sum(map(ord, str(task))))
        squares = {key: torch.rand(t.shape, generator=generator) for key, t in task_vectors(1)[0].items()}
        inputs = torch.randn(9, 5, generator=generator)
        weights = {key: torch.rand((), generator=generator) for key in task_vectors(1)[0]}
        rows.append({FISHER: squares, COEFFICIENTS: weights}.get(kind, {"w": inputs.T @ inputs}))
    return {"statistics": rows} if kind else {}


def merge(name: str, taus, **more):
    return METHODS[name].merge(taus, **measured(name, len(taus), more.get("tasks")), **more)


def number_for(name: str) -> int:
    return 2 if METHODS[name].experts[1] == 2 else 3


def close(left, right, factor: float = 1.0) -> bool:
    return all(torch.allclose(left[k], factor * right[k], rtol=2e-3, atol=1e-8 * abs(factor)) for k in left)


@names
def test_a_row_says_what_it_is(name):
    method = METHODS[name]
    assert method.name == name and method.title and "τ = " in method.equation and method.coefficient
    assert method.summary.endswith(".") and len(method.summary) < 120
    assert any(year in method.source for year in ("2022", "2023", "2024", "2025"))
    assert method.grid == tuple(sorted(method.grid)) and method.grid[0] == 0.1 and method.grid[-1] in (1.0, 1.5)
    assert method.function.__doc__ and all(parameter.summary.endswith(".") for parameter in method.parameters)


def test_the_grids_of_the_protocol():
    assert all(len(METHODS[name].grid) == 10 for name in ("sum", "consensus"))
    assert METHODS["ties"].grid[-1] == 1.5 and len(METHODS["ties"].grid) == 15
    assert NEGATIVE == tuple(-value for value in METHODS["sum"].grid)


@names
def test_what_goes_in_stays_and_what_comes_out_is_new_finite_float32(name):
    taus = task_vectors(number_for(name))
    before = [{key: t.clone() for key, t in tau.items()} for tau in taus]
    merged = merge(name, taus)
    assert list(merged) == list(taus[0]) and not merged["frozen"].any()
    for key, t in merged.items():
        assert t.dtype == torch.float32 and t.shape == taus[0][key].shape and torch.isfinite(t).all()
        t.fill_(7)
    assert all(torch.equal(tau[key], t) for tau, old in zip(taus, before, strict=True) for key, t in old.items())


@names
@quick
@given(st.permutations(range(3)), st.integers(0, 20))
def test_the_order_of_experts_does_not_matter(name, order, seed):
    taus, tasks = task_vectors(3, seed), ["a", "b", "c"]
    if number_for(name) == 2:
        taus, order = taus[:2], [place for place in order if place < 2]
    merged = merge(name, taus, tasks=tasks[: len(taus)])
    assert close(merge(name, [taus[i] for i in order], tasks=[tasks[i] for i in order]), merged)


@names
@pytest.mark.parametrize("factor", [-1.0, 0.25, 3.0])
def test_scaled_experts_give_the_scaled_merge(name, factor):
    """Exact but for PCB, whose tanh is the identity for task vectors as small as these."""
    taus = task_vectors(number_for(name))
    scaled = [{key: factor * t for key, t in tau.items()} for tau in taus]
    assert close(merge(name, scaled), merge(name, taus), factor)


@names
def test_zero_experts_merge_to_zero(name):
    zero = [{key: torch.zeros_like(t) for key, t in tau.items()} for tau in task_vectors(number_for(name))]
    assert not any(t.any() for t in merge(name, zero).values())


@names
def test_duplicate_experts_merge(name):
    (tau,) = task_vectors(1)
    merged = merge(name, [tau] * number_for(name))
    assert all(torch.isfinite(t).all() for t in merged.values())
    if name in ("average", "stock", "slerp", "fisher", "regmean"):
        assert close(merged, tau)


@pytest.mark.parametrize("name", IDENTITY)
def test_one_expert_that_loses_nothing_is_itself(name):
    (tau,) = task_vectors(1)
    assert close(merge(name, [tau], **IDENTITY[name]), tau)


@names
def test_half_precision_is_merged_in_float32(name):
    taus = task_vectors(number_for(name), scale=1.0)
    half = [{key: t.half() for key, t in tau.items()} for tau in taus]
    wide = [{key: t.float() for key, t in tau.items()} for tau in half]
    merged, expected = merge(name, half), merge(name, wide)
    assert all(t.dtype == torch.float32 and torch.equal(t, expected[key]) for key, t in merged.items())


@names
def test_bad_task_vectors_are_refused(name):
    number, refused = number_for(name), METHODS[name].merge
    with pytest.raises(ExplorerError, match="at least one task vector"):
        refused([])
    taus = task_vectors(number)
    with pytest.raises(ExplorerError, match="lacks 'b'"):
        refused([*taus[1:], {key: t for key, t in taus[0].items() if key != "b"}])
    taus[1]["b"][3] = float("nan")
    with pytest.raises(ExplorerError, match="'b' of task vector 2 has 1 values that are not finite"):
        refused(taus)


@names
def test_unknown_parameters_are_refused(name):
    has = "its parameters are " if METHODS[name].parameters else "it has none"
    with pytest.raises(ExplorerError, match=f"method {name} does not take these parameters: colour; {has}"):
        METHODS[name].merge(task_vectors(number_for(name)), colour=1)


BOUNDED = [(name, parameter) for name, method in METHODS.items() for parameter in method.parameters]


@pytest.mark.parametrize(("name", "parameter"), BOUNDED, ids=lambda value: getattr(value, "name", value))
def test_parameters_are_typed_and_bounded(name, parameter):
    method, wrong = METHODS[name], [None, float("nan"), float("inf"), [1], "no such word"]
    if isinstance(parameter.default, str):
        assert parameter.default in parameter.choices
        wrong += [1, True]
    elif isinstance(parameter.default, bool):
        wrong += [1, 0.0, "true"]
    else:
        wrong += [True, "1", parameter.low - 1, parameter.high + 1] + [0.5] * isinstance(parameter.default, int)
        ends = [method.check({parameter.name: end}, 2)[parameter.name] for end in (parameter.low, parameter.high)]
        assert ends == [parameter.low, parameter.high] and {type(end) for end in ends} == {type(parameter.default)}
    assert method.check({}, 2)[parameter.name] == parameter.default
    for value in wrong:
        with pytest.raises(ExplorerError, match=f"Parameter {parameter.name} must be"):
            method.check({parameter.name: value}, 2)


def test_messages_of_parameters():
    kinds = [
        Parameter("k", ".", 20.0, 0, 100), Parameter("n", ".", 2, 1, 9),
        Parameter("how", ".", "mean", choices=("mean", "sum")), Parameter("on", ".", False),
    ]  # fmt: skip
    assert [kind.range for kind in kinds] == [
        "a number from 0 to 100", "a whole number from 1 to 9", "one of mean, sum", "true or false",
    ]  # fmt: skip
    with pytest.raises(ExplorerError, match="Parameter k must be a number from 0 to 100, not 101; its default is 20"):
        kinds[0].read(101)


def test_canonical_parameters_leave_out_defaults():
    ties = METHODS["ties"]
    assert ties.canonical({}) == ties.canonical({"k": 20}) == ties.canonical((("k", 20.0), ("combine", "mean"))) == ()
    assert ties.canonical({"k": 30, "combine": "sum"}) == (("combine", "sum"), ("k", 30.0))
    assert METHODS["consensus"].canonical({"agree": 3.0}) == (("agree", 3),)
    with pytest.raises(ExplorerError, match="must be a number from 0 to 100"):
        ties.canonical({"k": 1000})


def test_standard_recipes_leave_out_defaults_and_type_the_rest():
    plain = Recipe("s", ("a", "b"), "ties", schedule=constant(0.3))
    for said in ({"k": 20}, {"k": 20.0, "combine": "mean"}, {"reference": False}):
        spelled = Recipe("s", ("a", "b"), "ties", said, constant(0.3))
        assert standard(spelled) == plain and spelled.hash() != standard(spelled).hash() == plain.hash()
    assert standard(Recipe("s", ("a",), "ties", {"k": 30})).parameters == (("k", 30.0),)
    assert standard(Recipe.base("s")) == Recipe.base("s")
    with pytest.raises(ExplorerError, match="does not take these parameters: q"):
        standard(Recipe("s", ("a",), "ties", {"q": 1}))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fisher", "of each of 2 experts, but 0"),
        ("regmean", "the Gram mat"),
        ("adamerging", "of each of 2 experts, but 0"),
    ],
)
def test_methods_that_need_statistics_say_so(name, message):
    with pytest.raises(ExplorerError, match=f"needs the .*{message}|needs {message}"):
        METHODS[name].merge(task_vectors(2))


def test_the_number_of_experts_is_checked_before_anything_is_loaded():
    for name, number, message in [
        ("slerp", 3, "SLERP .two experts. merges exactly 2 experts, not 3"),
        ("slerp", 1, "exactly 2 experts, not 1"),
        ("stock", 1, "at least 2 experts, not 1"),
        ("sum", 0, "nothing to merge"),
    ]:
        with pytest.raises(ExplorerError, match=message):
            METHODS[name].check({}, number)


def test_a_negative_coefficient_subtracts_what_the_expert_learnt():
    base, taus = {"w": torch.tensor([1.0, 1.0])}, [{"w": torch.tensor([1.0, -2.0])}, {"w": torch.tensor([1.0, 4.0])}]
    merged = METHODS["sum"].merge(taus)
    assert apply(base, merged, {"w": NEGATIVE[4]})["w"].tolist() == [0.0, 0.0]
    assert apply(base, taus[0], {"w": -1.0})["w"].tolist() == [0.0, 3.0]
