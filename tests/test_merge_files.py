"""merge-files: plain weights of any known architecture, merged by the equation and opened again by their libraries."""

from __future__ import annotations

import copy
import errno
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
import transformers
from torch import Tensor, nn

from lines_explorer.checkpoints import metadata, read_safetensors, sha256, write_safetensors
from lines_explorer.cli import main

ALPHA, BETA = 0.25, 0.5
SMALL = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 40}


def bert() -> nn.Module:
    config = transformers.BertConfig(**SMALL, num_hidden_layers=3, max_position_embeddings=20)
    return transformers.BertForSequenceClassification(config)


def llama() -> nn.Module:
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**SMALL, num_hidden_layers=3, max_position_embeddings=20, num_key_value_heads=1)
    )


def t5() -> nn.Module:
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_heads": 2, "vocab_size": 40}
    stacks = {"num_layers": 3, "num_decoder_layers": 2}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, **stacks, decoder_start_token_id=0))


TEXT: dict[str, tuple[Callable[[], nn.Module], str, dict[str, int]]] = {
    "BERT": (bert, r"bert\.encoder\.layer\.(\d+)\.", {"": 3}),
    "Llama": (llama, r"model\.layers\.(\d+)\.", {"": 3}),
    "T5": (t5, r"(encoder|decoder)\.block\.(\d+)\.", {"encoder": 3, "decoder": 2}),
}


def moved(model: nn.Module, seed: int) -> nn.Module:
    """A copy whose every weight differs."""
    generator, other = torch.Generator().manual_seed(seed), copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return other


def factor(name: str, pattern: str, depths: Mapping[str, int]) -> float:
    """λ of a tensor by the paper's formula; the stack is the pattern's first group where there are two."""
    if not (match := re.match(pattern, name)):
        return ALPHA
    depth = depths[match[1] if len(depths) > 1 else ""]
    return ALPHA + BETA * int(match[len(match.groups())]) / (depth - 1)


def by_hand(name: str, base: Mapping[str, Tensor], experts: list[Mapping[str, Tensor]], scale: float) -> Tensor:
    return base[name] + scale * sum(expert[name] - base[name] for expert in experts)


def run(*arguments: object) -> int:
    return main(["merge-files", *map(str, arguments)])


def knobs() -> tuple[str, ...]:
    return ("--alpha", str(ALPHA), "--beta", str(BETA))


@pytest.mark.parametrize("kind", TEXT)
def test_text_models_merge_and_open_again(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build, pattern, depths = TEXT[kind]
    torch.manual_seed(0)
    models = [build().eval()]
    models += [moved(models[0], seed) for seed in (1, 2)]
    for name, model in zip(("base", "one", "two"), models, strict=True):
        model.save_pretrained(tmp_path / name)
    (tmp_path / "base/tokenizer.json").write_text("{}")
    experts = ("--expert", tmp_path / "two", "--expert", tmp_path / "one")
    assert run("--base", tmp_path / "base", *experts, *knobs(), "--out", tmp_path / "out", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["recipe"]["tasks"] == ["one", "two"] and answer["sha256"] == sha256(
        tmp_path / "out/model.safetensors"
    )
    base, *states = (model.state_dict() for model in models)
    opened = type(models[0]).from_pretrained(tmp_path / "out").eval()
    for name, tensor in opened.state_dict().items():
        expected = by_hand(name, base, states, factor(name, pattern, depths))
        torch.testing.assert_close(tensor, expected, rtol=1e-5, atol=1e-6, msg=name)
    assert {file.name for file in (tmp_path / "out").iterdir()} >= {"config.json", "tokenizer.json", "README.md"}
    facts = json.loads(metadata(tmp_path / "out/model.safetensors")["lines_explorer"])
    assert facts["experts_sha256"]["one"] == sha256(tmp_path / "one/model.safetensors")
    assert "| block 2 | 0.5 |" in (tmp_path / "out/README.md").read_text()


def test_a_timm_model_merges_and_scores_as_computed_by_hand(tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"img_size": 16, "patch_size": 8, "embed_dim": 16, "depth": 3, "num_heads": 2, "num_classes": 5}
    base = timm.models.VisionTransformer(**sizes).eval()
    expert = moved(base, 1)
    torch.save(base.state_dict(), tmp_path / "base.pth")
    torch.save(
        {"epoch": 3, "state_dict": {f"module.{k}": v for k, v in expert.state_dict().items()}}, tmp_path / "e.pt"
    )
    place = ("--base", tmp_path / "base.pth", "--expert", tmp_path / "e.pt", "--out", tmp_path / "out")
    assert run(*place, *knobs(), "--rule", "reference") == 0
    state, other = base.state_dict(), expert.state_dict()
    wanted = {k: by_hand(k, state, [other], factor(k, r"blocks\.(\d+)\.", {"": 3})) for k in state}
    again = timm.models.VisionTransformer(**sizes).eval()
    again.load_state_dict(read_safetensors(tmp_path / "out/model.safetensors"))
    pictures = torch.randn(7, 3, 16, 16)
    with torch.inference_mode():
        found = again(pictures)
        again.load_state_dict(wanted)
        torch.testing.assert_close(found, again(pictures), rtol=1e-5, atol=1e-6)


def weights(seed: int, **changes: Any) -> dict[str, Tensor]:
    """A small model of blocks, with a half-precision weight, an integer buffer and a tied pair."""
    generator = torch.Generator().manual_seed(seed)
    shapes = {"patch_embed.proj.weight": (4, 3, 2, 2), "norm.weight": (4,)}
    shapes |= {f"blocks.{number}.mlp.fc1.weight": (4, 4) for number in range(2)}
    state: dict[str, Any] = {name: torch.randn(shape, generator=generator).half() for name, shape in shapes.items()}
    state["blocks.0.mlp.steps"] = torch.tensor([seed])
    state["head.weight"] = state["norm.weight"]
    return state | changes


@pytest.fixture
def pair(tmp_path: Path) -> tuple[object, ...]:
    torch.save(weights(0), tmp_path / "base.pt")
    torch.save(weights(1), tmp_path / "expert.pt")
    return ("--base", tmp_path / "base.pt", "--expert", tmp_path / "expert.pt", "--out", tmp_path / "out")


@pytest.mark.parametrize(("scale", "seed"), [("0", 0), ("1", 1)])
def test_end_points_are_bit_for_bit(scale: str, seed: int, pair: tuple[object, ...], tmp_path: Path) -> None:
    assert run(*pair, "--scale", scale) == 0
    found, wanted = read_safetensors(tmp_path / "out/model.safetensors"), weights(seed)
    assert found.keys() == wanted.keys() and all(found[key].dtype == wanted[key].dtype for key in wanted)
    floats = [key for key in wanted if wanted[key].is_floating_point()]
    assert all(torch.equal(found[key], wanted[key]) for key in floats)
    assert found["blocks.0.mlp.steps"].item() == 0, "integers are the base's"


def test_what_is_outside_the_image_tower_stays_the_bases(tmp_path: Path) -> None:
    import open_clip

    config = {"embed_dim": 8, "vision_cfg": {"image_size": 16, "layers": 2, "width": 16, "head_width": 8}}
    config["vision_cfg"]["patch_size"] = 8
    config["text_cfg"] = {"context_length": 4, "vocab_size": 9, "width": 8, "heads": 1, "layers": 1}
    torch.manual_seed(0)
    base = open_clip.model.CLIP(**config)
    expert = moved(base, 1)
    write_safetensors(tmp_path / "base.safetensors", {f"model.{k}": v for k, v in base.state_dict().items()})
    torch.save(expert, tmp_path / "expert.pt")  # a whole module: read without its classes
    place = ("--base", tmp_path / "base.safetensors", "--expert", tmp_path / "expert.pt", "--out", tmp_path / "out")
    assert run(*place, "--scale", "0.5") == 0
    found, state, other = read_safetensors(tmp_path / "out/model.safetensors"), base.state_dict(), expert.state_dict()
    assert found.keys() == {f"model.{key}" for key in state}
    for key, tensor in state.items():
        wanted = tensor + 0.5 * (other[key] - tensor) if key.startswith("visual.") else tensor
        torch.testing.assert_close(found[f"model.{key}"], wanted, rtol=1e-5, atol=1e-6)


def test_an_adapter_is_an_expert(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = llama()
    model.save_pretrained(tmp_path / "base")
    folder = tmp_path / "adapter"
    down, up = torch.randn(2, 16), torch.randn(16, 2)
    stem = "base_model.model.model.layers.1.self_attn.q_proj"
    write_safetensors(
        folder / "adapter_model.safetensors", {f"{stem}.lora_A.weight": down, f"{stem}.lora_B.weight": up}
    )
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    assert run("--base", tmp_path / "base", "--expert", folder, "--out", tmp_path / "out", "--scale", "0.5") == 0
    found, state = read_safetensors(tmp_path / "out/model.safetensors"), model.state_dict()
    for key, tensor in found.items():
        change = 0.5 * 2 * up @ down if key == "model.layers.1.self_attn.q_proj.weight" else 0
        torch.testing.assert_close(tensor, state[key] + change, rtol=1e-5, atol=1e-5)


BROADCAST, ALIEN = {"norm.weight": torch.ones(1).half()}, {"blocks.1.mlp.fc1.weight": torch.ones(3, 4).half()}
NAN = {"norm.weight": torch.full((4,), torch.nan).half()}
HUGE = {"norm.weight": torch.full((4,), 60000.0).half()}
REFUSED: dict[str, tuple[dict[str, Tensor], tuple[str, ...], str]] = {
    "broadcast": (BROADCAST, (), "'norm.weight' has shape (4,) in .*base.pt but (1,) in .*expert.pt"),
    "shape": (ALIEN, (), "'blocks.1.mlp.fc1.weight' has shape (4, 4) in .* but (3, 4) in"),
    "NaN": (NAN, (), "expert.pt, compared with .*'norm.weight' of the expert has 4 values that are not finite"),
    "overflow": (HUGE, ("--scale", "9"), "'norm.weight' of the merged model (factor 9, torch.float16)"),
    "method": ({}, ("--method", "slerp"), "SLERP (two experts) merges exactly 2 experts, not 1"),
    "parameter": ({}, ("--parameter", "q=1"), "q"),
    "factors": ({}, ("--factors", "1,2,3"), "--factors has 3 numbers, but the base has 2 blocks"),
    "rule": ({}, ("--rule", "other"), "Unknown layer rule 'other'"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_does_not_fit_is_refused_and_nothing_written(
    kind: str, pair: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes, options, message = REFUSED[kind]
    torch.save(weights(1, **changes), tmp_path / "expert.pt")
    assert run(*pair, *options) == 2
    said = capsys.readouterr().err
    assert re.search(message.replace("(", r"\(").replace(")", r"\)"), said) and said.count("\n") == 1, said
    assert not (tmp_path / "out").exists()


def test_the_same_name_or_file_twice(pair: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for task in ("CarsVal", "DTDVal"):
        (tmp_path / task).mkdir()
        torch.save(weights(3), tmp_path / task / "finetuned.pt")
    experts = [f"--expert={tmp_path / task / 'finetuned.pt'}" for task in ("CarsVal", "DTDVal")]
    assert run(*pair[:2], *experts, *pair[4:], "--json") == 0
    recipe = json.loads(capsys.readouterr().out)["recipe"]
    assert recipe["tasks"] == ["CarsVal/finetuned", "DTDVal/finetuned"] and recipe["schedule"]["alpha"] == 0.5
    assert run(*pair[:2], experts[0], experts[0], *pair[4:], "--force") == 2
    assert "is given twice" in capsys.readouterr().err
    assert run(*pair) == 2 and "already holds" in capsys.readouterr().err


def test_a_full_disk_leaves_nothing(
    pair: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("lines_explorer.commands.merge_files.write_safetensors", full)
    before = set(tmp_path.iterdir())
    assert run(*pair) == 2
    assert "out cannot be written (No space left on device); make room" in capsys.readouterr().err
    assert set(tmp_path.iterdir()) == before
