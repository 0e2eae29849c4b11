"""checkpoints/adapters.py: peft adapters as dense differences, against numbers that peft itself computed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from lines_explorer import merging
from lines_explorer.checkpoints import write_safetensors
from lines_explorer.checkpoints.adapters import CONFIG, WEIGHTS, adapter_deltas, adapter_task_vector, read_adapter
from lines_explorer.errors import ExplorerError

BASE = {
    "emb.weight": (7, 4), "a.weight": (6, 4), "a.bias": (6,), "b.weight": (4, 6), "b.bias": (4,), "s.weight": (5, 5),
    "conv.weight": (4, 3, 2, 2), "conv.bias": (4,), "c1.weight": (4, 6), "c1.bias": (6,), "c2.weight": (5, 5),
    "c2.bias": (5,), "attn.in_proj_weight": (12, 4), "attn.in_proj_bias": (12,), "attn.out_proj.weight": (4, 4),
    "attn.out_proj.bias": (4,), "head.weight": (2, 4), "head.bias": (2,),
}  # fmt: skip
A, B = "lora_A.weight", "lora_B.weight"
RANDOM = {"r": 2, "randlora_alpha": 6, "peft_type": "RANDLORA", "save_projection": True}
SMALLER = {"randlora": 6, "randlora, fan-in first": 5}  # of the widest output and the widest input

# case: adapter_config.json beyond the defaults, the adapter's tensors (without base_model.model.)
CASES: dict[str, tuple[dict[str, Any], dict[str, tuple[int, ...]]]] = {
    "lora": (
        {
            "target_modules": ["a", "b", "emb", "conv"], "rank_pattern": {"b": 3}, "alpha_pattern": {"a": 5},
            "bias": "lora_only", "modules_to_save": ["head"],
        },
        {
            f"a.{A}": (2, 4), f"a.{B}": (6, 2), "a.base_layer.bias": (6,), f"b.{A}": (3, 6), f"b.{B}": (4, 3),
            "b.base_layer.bias": (4,), f"conv.{A}": (2, 3, 2, 2), f"conv.{B}": (4, 2, 1, 1),
            "conv.base_layer.bias": (4,), "emb.lora_embedding_A": (2, 7), "emb.lora_embedding_B": (4, 2),
            "head.weight": (2, 4), "head.bias": (2,),
        },
    ),
    "rank-stabilised, with bias": (
        {"target_modules": ["a"], "r": 4, "use_rslora": True, "lora_bias": True},
        {f"a.{A}": (4, 4), f"a.{B}": (6, 4), "a.lora_B.bias": (6,)},
    ),
    "fan-in first": (
        {"target_modules": ["c1", "c2"], "fan_in_fan_out": True},
        {f"c1.{A}": (2, 4), f"c1.{B}": (6, 2), f"c2.{A}": (2, 5), f"c2.{B}": (5, 2)},
    ),
    "dora": (
        {"target_modules": ["a"], "use_dora": True},
        {f"a.{A}": (2, 4), f"a.{B}": (6, 2), "a.lora_magnitude_vector": (6,)},
    ),
    "dora, fan-in first": (
        {"target_modules": ["c1"], "use_dora": True, "fan_in_fan_out": True},
        {f"c1.{A}": (2, 4), f"c1.{B}": (6, 2), "c1.lora_magnitude_vector": (6,)},
    ),
    "randlora": (
        {**RANDOM, "target_modules": ["a", "b", "s"]},
        {
            "a.randlora_lambda": (2, 2), "a.randlora_gamma": (2, 4), "b.randlora_lambda": (2, 2),
            "b.randlora_gamma": (2, 4), "s.randlora_lambda": (2, 3), "s.randlora_gamma": (3, 5),
        },
    ),
    "randlora, fan-in first": (
        {**RANDOM, "target_modules": ["c1", "c2"], "fan_in_fan_out": True},
        {
            "c1.randlora_lambda": (2, 2), "c1.randlora_gamma": (2, 4), "c2.randlora_lambda": (2, 3),
            "c2.randlora_gamma": (3, 5),
        },
    ),
}  # fmt: skip

# (sum, dot with a wave) of each difference, from PeftModel.from_pretrained(…).merge_and_unload() of peft 0.21.2
GOLDEN: dict[str, dict[str, tuple[float, float]]] = {
    "lora": {
        "a.bias": (0.346169, 0.032589),
        "a.weight": (0.407236, -0.085492),
        "b.bias": (0.089844, 0.0657),
        "b.weight": (0.236671, -0.077947),
        "conv.bias": (-0.127326, -0.071853),
        "conv.weight": (-0.051429, -0.091338),
        "emb.weight": (-0.031561, 0.005702),
        "head.bias": (0.135641, 0.027145),
        "head.weight": (0.886458, 0.472589),
    },
    "rank-stabilised, with bias": {
        "a.bias": (0.593906, 0.30989),
        "a.weight": (-0.24735, 0.142216),
    },
    "fan-in first": {
        "c1.weight": (0.627817, -0.054443),
        "c2.weight": (0.051261, -0.169722),
    },
    "dora": {
        "a.weight": (-0.323149, -1.1741),
    },
    "dora, fan-in first": {
        "c1.weight": (-1.15752, -0.793079),
    },
    "randlora": {
        "a.weight": (0.060312, 0.000535),
        "b.weight": (-0.00611, -0.008457),
        "s.weight": (-0.077286, -0.017542),
    },
    "randlora, fan-in first": {
        "c1.weight": (-0.06059, -0.002254),
        "c2.weight": (0.173158, 0.002028),
    },
}


def wave(shape: tuple[int, ...], start: float) -> torch.Tensor:
    """Numbers that look random and are the same everywhere: 0.3·sin(start + 1.7·i²)."""
    count = torch.arange(math.prod(shape), dtype=torch.float64)
    return (0.3 * torch.sin(start + 1.7 * count**2)).reshape(shape).float()


def base_tensors(prefix: str = "") -> dict[str, torch.Tensor]:
    return {prefix + key: wave(shape, 100 + number) for number, (key, shape) in enumerate(BASE.items())}


def write_adapter(folder: Path, case: str, stem: str = "base_model.model.", **changes: Any) -> Path:
    """The adapter of a case as peft writes it; ``changes`` replace what the config says."""
    config, shapes = CASES[case]
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 3, "bias": "none", "init_lora_weights": True, **config}
    tensors = {stem + key: wave(shape, number) for number, (key, shape) in enumerate(sorted(shapes.items()))}
    if config["peft_type"] == "RANDLORA":
        tensors["base_model.randlora_A"] = wave((2, 1, SMALLER[case]), 50)
        tensors["base_model.randlora_B"] = wave((6, 3, 2), 51)
    write_safetensors(folder / WEIGHTS, tensors, {"format": "pt"})
    (folder / CONFIG).write_text(json.dumps({**config, **changes}))
    return folder


def fingerprint(deltas: Mapping[str, torch.Tensor]) -> dict[str, tuple[float, float]]:
    return {
        key: (float(delta.double().sum()), float((delta.double() * wave(delta.shape, 7).double()).sum()))
        for key, delta in sorted(deltas.items())
    }


@pytest.mark.parametrize("case", CASES)
def test_the_dense_difference_is_that_of_peft(case: str, tmp_path: Path) -> None:
    found = fingerprint(adapter_deltas(write_adapter(tmp_path, case), base_tensors()))
    assert found.keys() == GOLDEN[case].keys()
    for key, numbers in found.items():
        assert numbers == pytest.approx(GOLDEN[case][key], abs=2e-6), key


def test_lora_by_hand(tmp_path: Path) -> None:
    config = {"peft_type": "LORA", "r": 1, "lora_alpha": 4}
    pair = {"base_model.model.x.lora_A.weight": torch.tensor([[1.0, 2.0, 3.0]]),
            "base_model.model.x.lora_B.weight": torch.tensor([[1.0], [-1.0]]).half()}  # fmt: skip
    write_safetensors(tmp_path / WEIGHTS, pair)
    (tmp_path / CONFIG).write_text(json.dumps(config))
    deltas = adapter_deltas(tmp_path, {"x.weight": torch.zeros(2, 3), "y": torch.zeros(2)})
    assert {key: delta.tolist() for key, delta in deltas.items()} == {"x.weight": [[4, 8, 12], [-4, -8, -12]]}
    assert deltas["x.weight"].dtype == torch.float32


def test_a_task_vector_of_the_whole_base_that_merges(tmp_path: Path) -> None:
    base = {**base_tensors(), "steps": torch.tensor(3)}
    write_adapter(tmp_path, "lora")
    deltas, vector = adapter_deltas(tmp_path, base), adapter_task_vector(tmp_path, base)
    assert vector.keys() == base.keys() - {"steps"} and len(deltas) < len(vector)
    assert all(torch.equal(vector[key], deltas[key]) for key in deltas)
    assert all(not vector[key].any() and vector[key].shape == base[key].shape for key in vector.keys() - deltas.keys())
    merged = merging.apply(base, vector, dict.fromkeys(vector, 0.5))
    assert torch.equal(merged["a.weight"], base["a.weight"] + 0.5 * deltas["a.weight"])
    assert torch.equal(merged["s.weight"], base["s.weight"])


@pytest.mark.parametrize(("ours", "theirs"), [("vision_model.", ""), ("", "vision_model."), ("model.", "model.")])
def test_one_prefix_may_differ_between_base_and_adapter(ours: str, theirs: str, tmp_path: Path) -> None:
    write_adapter(tmp_path, "fan-in first", stem="base_model.model." + theirs)
    deltas = adapter_deltas(tmp_path, base_tensors(ours))
    assert deltas.keys() == {ours + "c1.weight", ours + "c2.weight"}


REFUSALS = {
    "another kind": ({"peft_type": "IA3"}, "is of kind IA3; only LORA and RANDLORA"),
    "no kind": ({"peft_type": None}, "is of kind NONE"),
    "pissa": ({"init_lora_weights": "pissa_niter_4"}, "initialised by pissa_niter_4, which changes the base too"),
    "layers repeated": ({"layer_replication": [[0, 4], [2, 6]]}, "repeats layers of the base .layer_replication"),
    "activated": ({"alora_invocation_tokens": [1, 2]}, "acts only after certain tokens"),
    "another rank": ({"r": 4, "rank_pattern": {}}, "says rank 4 for '.+' in adapter_config.json, but .* rank [23]"),
    "no alpha": ({"lora_alpha": None}, "no usable lora_alpha"),
    "alpha is a word": ({"lora_alpha": "much"}, "no usable lora_alpha .*'much'"),
    "turned round": ({"fan_in_fan_out": True}, "for another base: its difference of '.+' has shape"),
    "dora of an embedding": ({"use_dora": True}, None),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_is_no_fixed_difference_is_refused(case: str, tmp_path: Path) -> None:
    changes, message = REFUSALS[case]
    if message is None:
        write_adapter(tmp_path, "lora")
        tensors = {**read_tensors(tmp_path), "base_model.model.conv.lora_magnitude_vector": torch.ones(1, 4, 1, 1)}
        write_safetensors(tmp_path / WEIGHTS, tensors)
        message = "uses DoRA on 'conv', which does not fit the base or is no linear layer"
    else:
        write_adapter(tmp_path, "lora", **changes)
    with pytest.raises(ExplorerError, match=message) as error:
        adapter_deltas(tmp_path, base_tensors())
    assert str(tmp_path) in str(error.value) and "\n" not in str(error.value)


def read_tensors(folder: Path) -> dict[str, torch.Tensor]:
    adapter = read_adapter(folder)
    parts = {f"base_model.model.{m}.{p}{'.weight' if p[-2:] in ('_A', '_B') and 'embedding' not in p else ''}": t
             for m, named in adapter.parts.items() for p, t in named.items()}  # fmt: skip
    return parts | {f"base_model.model.{name}": tensor for name, tensor in adapter.whole.items()}


def test_another_base_is_refused_by_names_and_by_shapes(tmp_path: Path) -> None:
    write_adapter(tmp_path, "fan-in first")
    other = {key: tensor for key, tensor in base_tensors().items() if key != "c1.weight"}
    with pytest.raises(ExplorerError, match="changes 'c1.weight', which the base does not have; it is for another"):
        adapter_deltas(tmp_path, other)
    wider = {**base_tensors(), "c1.weight": torch.zeros(8, 6)}
    with pytest.raises(ExplorerError, match=r"'c1.weight' has shape \(4, 6\), the base's tensor \(8, 6\)"):
        adapter_deltas(tmp_path, wider)
    flat = {**base_tensors(), "c1.weight": torch.zeros(1, 6)}  # would broadcast
    with pytest.raises(ExplorerError, match="for another base"):
        adapter_deltas(tmp_path, flat)
    write_adapter(tmp_path, "randlora")
    with pytest.raises(ExplorerError, match="matrices of 'a' do not fit a weight of shape .8, 4"):
        adapter_deltas(tmp_path, {**base_tensors(), "a.weight": torch.zeros(8, 4)})
    write_adapter(tmp_path, "dora")
    with pytest.raises(ExplorerError, match="uses DoRA on 'a', which does not fit"):
        adapter_deltas(tmp_path, {**base_tensors(), "a.weight": torch.zeros(6, 1)})


def test_randlora_without_its_bases_is_refused(tmp_path: Path) -> None:
    write_adapter(tmp_path, "randlora", save_projection=False)
    parts = read_adapter(tmp_path).parts
    write_safetensors(
        tmp_path / WEIGHTS, {f"base_model.model.{m}.{p}": t for m, named in parts.items() for p, t in named.items()}
    )
    with pytest.raises(ExplorerError, match="without its random bases.*save_projection: true"):
        adapter_deltas(tmp_path, base_tensors())


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ExplorerError, match="adapter_config.json is missing"):
        read_adapter(tmp_path)
    write_adapter(tmp_path, "fan-in first")
    (tmp_path / WEIGHTS).unlink()
    with pytest.raises(ExplorerError, match="adapter_model.safetensors"):
        read_adapter(tmp_path)
    (tmp_path / "adapter_model.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(ExplorerError, match="as a pickle .adapter_model.bin"):
        read_adapter(tmp_path)
    for text in ("[]", "{", ""):
        (tmp_path / CONFIG).write_text(text)
        with pytest.raises(ExplorerError, match="adapter_config.json is .*damaged"):
            read_adapter(tmp_path)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"base_model.model.head.weight": torch.zeros(2, 4)}, "holds no adapter of any module"),
        ({"base_model.model.a.lora_C.weight": torch.zeros(2, 4)}, "lora_C.weight' is of an unknown kind"),
        ({"base_model.model.attn.base_layer.out_proj.lora_A.weight": torch.zeros(2, 4)}, "whole attention module"),
        ({"base_model.model.a.lora_A.weight": torch.zeros(2, 4)}, "lacks lora_B of 'a'"),
        (
            {f"base_model.model.a.lora_{m}.weight": torch.zeros(s) for m, s in {"A": (2, 4), "B": (6, 3)}.items()},
            "matrices of 'a' that do not fit each other",
        ),
    ],
)
def test_incomplete_adapters_are_refused(tensors: dict[str, torch.Tensor], message: str, tmp_path: Path) -> None:
    write_adapter(tmp_path, "fan-in first")
    write_safetensors(tmp_path / WEIGHTS, tensors)
    with pytest.raises(ExplorerError, match=message):
        adapter_deltas(tmp_path, base_tensors())
