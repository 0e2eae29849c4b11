"""checkpoints/huggingface.py: open_clip and transformers see the same features; no weight changes on the way."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from open_clip.model import CLIP
from transformers import CLIPConfig, CLIPModel, CLIPVisionConfig, CLIPVisionModel, CLIPVisionModelWithProjection

from lines_explorer.checkpoints.huggingface import (
    ImageTower,
    preprocess_cfg,
    preprocessor_config,
    to_hugging_face,
    to_open_clip,
)
from lines_explorer.errors import ExplorerError
from lines_explorer.layers import layout_of

TOWER = ImageTower(
    width=24, layers=3, heads=2, mlp_width=40, patch_size=8, image_size=16, embed_dim=20, quick_gelu=True
)
VARIANTS = {"quickgelu": {}, "gelu": {"quick_gelu": False}, "another epsilon": {"layer_norm_eps": 1e-3}}


def tower(variant: str) -> ImageTower:
    return ImageTower(**{**vars(TOWER), **VARIANTS[variant]})


def open_clip_model(described: ImageTower) -> torch.nn.Module:
    model = CLIP(**described.open_clip()).eval()
    return randomised(model)


def vision_config(described: ImageTower) -> CLIPVisionConfig:
    config = described.hugging_face()
    return CLIPVisionConfig(**{key: value for key, value in config.items() if key not in ("architectures",)})


def randomised(model: torch.nn.Module) -> torch.nn.Module:
    """Every parameter random, biases and norms too: a mix-up of two of them must show."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            norm = ("ln_" in name or "norm" in name) and name.endswith("weight")
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3 + float(norm))
    return model


def images(count: int = 5) -> torch.Tensor:
    return torch.randn(count, 3, 16, 16, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("variant", VARIANTS)
def test_from_open_clip_to_transformers(variant: str) -> None:
    ours = open_clip_model(tower(variant))
    theirs = CLIPVisionModelWithProjection(vision_config(tower(variant))).eval()
    theirs.load_state_dict(to_hugging_face(ours.state_dict()), strict=True)
    with torch.no_grad():
        expected, found = ours.encode_image(images()), theirs(images()).image_embeds
    assert found.shape == (5, 20) and expected.std() > 0.1
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_from_transformers_to_open_clip(variant: str) -> None:
    theirs = randomised(CLIPVisionModelWithProjection(vision_config(tower(variant)))).eval()
    ours = open_clip_model(tower(variant))
    state = to_open_clip(theirs.state_dict())
    ours.visual.load_state_dict({key.removeprefix("visual."): value for key, value in state.items()}, strict=True)
    with torch.no_grad():
        expected, found = theirs(images()).image_embeds, ours.encode_image(images())
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_the_activation_matters() -> None:
    """What the tests above would not see if both sides ignored it."""
    ours = open_clip_model(tower("quickgelu"))
    theirs = CLIPVisionModelWithProjection(vision_config(tower("gelu"))).eval()
    theirs.load_state_dict(to_hugging_face(ours.state_dict()))
    with torch.no_grad():
        assert (theirs(images()).image_embeds - ours.encode_image(images())).abs().max() > 1e-3


def test_round_trip_is_bit_for_bit_and_keeps_the_dtype() -> None:
    state = {key: value.half() for key, value in open_clip_model(TOWER).state_dict().items() if key[:7] == "visual."}
    there = to_hugging_face(state)
    back = to_open_clip(there)
    assert back.keys() == state.keys() and len(there) == len(state) + 2 * 2 * TOWER.layers
    assert all(torch.equal(back[key], state[key]) and back[key].dtype == torch.float16 for key in state)
    assert there["visual_projection.weight"].shape == (20, 24) and there["visual_projection.weight"].is_contiguous()
    assert layout_of(there).depth == layout_of(state).depth == 3


def test_blocks_keep_their_depth() -> None:
    state = open_clip_model(TOWER).state_dict()
    there = to_hugging_face(state)
    query, key, value = state["visual.transformer.resblocks.2.attn.in_proj_weight"].chunk(3)
    stem = "vision_model.encoder.layers.2."
    for name, part in (("q", query), ("k", key), ("v", value)):
        assert torch.equal(there[f"{stem}self_attn.{name}_proj.weight"], part)
    assert layout_of(there).position[f"{stem}mlp.fc1.bias"] == 3


def test_a_task_vector_is_converted_like_weights() -> None:
    base, expert = (open_clip_model(TOWER).state_dict() for _ in range(2))
    expert = {key: value + 0.1 * torch.ones_like(value) for key, value in expert.items() if key.startswith("visual.")}
    delta = {key: expert[key] - base[key] for key in expert}
    there, converted = to_hugging_face(expert), to_hugging_face(delta)
    assert all(torch.equal(there[key] - to_hugging_face(base)[key], converted[key]) for key in there)


def test_old_and_bare_names_and_whole_models_are_read() -> None:
    state = to_hugging_face(open_clip_model(TOWER).state_dict())
    expected = to_open_clip(state)
    old = {**state, "vision_model.embeddings.position_ids": torch.arange(5)[None]}
    bare = {key.removeprefix("vision_model."): value for key, value in state.items()}
    for tensors in (old, bare, {**bare, "embeddings.position_ids": torch.arange(5)}):
        found = to_open_clip(tensors)
        assert found.keys() == expected.keys() and all(torch.equal(found[key], expected[key]) for key in found)
    projection = bare.pop("visual_projection.weight")
    assert torch.equal(to_open_clip(bare, projection)["visual.proj"], expected["visual.proj"])
    with pytest.raises(ExplorerError, match="no visual_projection.weight .*give the base's"):
        to_open_clip(bare)


def test_a_whole_clip_model_and_a_vision_model_of_this_transformers() -> None:
    text = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 9, "bos_token_id": 0,
            "eos_token_id": 1, "intermediate_size": 8}  # fmt: skip
    vision = vision_config(TOWER).to_dict()
    whole = randomised(CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=20))).eval()
    assert ImageTower.from_hugging_face(whole.config.to_dict()) == TOWER
    state = to_open_clip(whole.state_dict())
    assert torch.equal(state["logit_scale"], whole.logit_scale)
    ours = open_clip_model(TOWER)
    ours.load_state_dict(state, strict=False)
    with torch.no_grad():
        expected = whole.get_image_features(images())
        expected = getattr(expected, "pooler_output", expected)
        torch.testing.assert_close(ours.encode_image(images()), expected, rtol=1e-5, atol=1e-5)
    plain = CLIPVisionModel(vision_config(TOWER))
    assert to_open_clip(plain.state_dict(), torch.ones(20, 24)).keys() == state.keys() - {"logit_scale"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_configs_go_both_ways(variant: str) -> None:
    described = tower(variant)
    assert ImageTower.from_hugging_face(described.hugging_face()) == described
    assert ImageTower.from_open_clip(described.open_clip()) == described
    assert described.open_clip()["quick_gelu"] is described.quick_gelu
    described.check(open_clip_model(described).state_dict())


def test_what_configs_leave_out_has_the_defaults_of_each_side() -> None:
    openai = ImageTower.from_hugging_face({"model_type": "clip_vision_model"})
    assert (openai.width, openai.layers, openai.patch_size, openai.embed_dim) == (768, 12, 32, 512)
    assert openai.quick_gelu and openai.quick_gelu_from == "the default hidden_act of CLIP"
    stated = {
        "model_type": "clip",
        "projection_dim": 768,
        "vision_config_dict": {"patch_size": 14, "hidden_act": "gelu"},
    }
    large = ImageTower.from_hugging_face({**stated, "vision_config": {"patch_size": 16, "image_size": [224, 224]}})
    assert (large.embed_dim, large.patch_size, large.quick_gelu) == (768, 14, False)
    assert large.quick_gelu_from == "hidden_act in config.json"
    plain = ImageTower.from_open_clip({"embed_dim": 512, "vision_cfg": {"patch_size": 32}})
    assert (plain.width, plain.heads, plain.mlp_width, plain.quick_gelu) == (768, 12, 3072, False)
    assert plain.quick_gelu_from == "open_clip's default"


HUGGING_FACE = {
    "another model": ({"model_type": "siglip_vision_model"}, "describes a 'siglip_vision_model' model"),
    "no model": ({}, "describes a None model"),
    "activation": ({"model_type": "clip_vision_model", "hidden_act": "relu"}, "hidden_act 'relu'"),
    "grey pictures": ({"model_type": "clip_vision_model", "num_channels": 1}, "1 channels"),
    "not square": ({"model_type": "clip_vision_model", "image_size": [224, 112]}, "image_size .* is not square"),
    "heads": ({"model_type": "clip_vision_model", "num_attention_heads": 7}, "7 heads must divide the width 768"),
}


@pytest.mark.parametrize("case", HUGGING_FACE)
def test_a_config_that_open_clip_cannot_express(case: str) -> None:
    config, message = HUGGING_FACE[case]
    with pytest.raises(ExplorerError, match=message):
        ImageTower.from_hugging_face(config)


OPEN_CLIP = {
    "ResNet": ({"layers": [3, 4, 6, 3]}, "layers"),
    "timm": ({"timm_model_name": "convnext_base"}, "timm_model_name: 'convnext_base'"),
    "no first norm": ({"no_ln_pre": True}, "no_ln_pre: True"),
    "pooling": ({"pool_type": "avg"}, "pool_type: 'avg'"),
    "layer scale": ({"ls_init_value": 0.1}, "ls_init_value: 0.1"),
    "norm": ({"norm_kwargs": {"elementwise_affine": False}}, "norm_kwargs.elementwise_affine"),
}


@pytest.mark.parametrize("case", OPEN_CLIP)
def test_a_config_that_hugging_face_cannot_express(case: str) -> None:
    vision, message = OPEN_CLIP[case]
    with pytest.raises(ExplorerError, match=f"cannot express vision_cfg {message}"):
        ImageTower.from_open_clip({"embed_dim": 8, "vision_cfg": vision})


def test_config_and_weights_of_different_models() -> None:
    state = open_clip_model(TOWER).state_dict()
    for field, value in {"layers": 4, "width": 48, "mlp_width": 96, "embed_dim": 8, "image_size": 32}.items():
        described = ImageTower(**{**vars(TOWER), field: value})
        with pytest.raises(ExplorerError, match=f"says {field} {value}, but the tensors' shapes say "):
            described.check(state)
    with pytest.raises(ExplorerError, match="not those of an open_clip vision transformer"):
        TOWER.check({})


def test_incomplete_and_foreign_tensors_are_named() -> None:
    ours = {key: value for key, value in open_clip_model(TOWER).state_dict().items() if key.startswith("visual.")}
    theirs = to_hugging_face(ours)
    changes: list[tuple[Any, dict[str, torch.Tensor], str | None, str | None, str]] = [
        (to_hugging_face, ours, "visual.transformer.resblocks.1.ln_2.bias", None, "ln_2.bias' .* is missing"),
        (to_hugging_face, ours, "visual.proj", None, "'visual.proj' .* is missing"),
        (to_hugging_face, ours, None, "visual.attn_pool.query", "'visual.attn_pool.query' has no place"),
        (to_open_clip, theirs, "vision_model.encoder.layers.0.self_attn.k_proj.bias", None, "k_proj.bias' .* missing"),
        (to_open_clip, theirs, "vision_model.encoder.layers.0.self_attn.out_proj.bias", None, "out_proj.bias' .* mis"),
        (to_open_clip, theirs, None, "vision_model.head.weight", "'vision_model.head.weight' is not part"),
        (to_open_clip, theirs, "vision_model.embeddings.class_embedding", None, "here are 0"),
        (to_open_clip, theirs, None, "embeddings.class_embedding", "here are 2"),
    ]
    for convert, tensors, lost, added, message in changes:
        changed = copy.copy(tensors)
        if lost:
            del changed[lost]
        if added:
            changed[added] = torch.zeros(1)
        with pytest.raises(ExplorerError, match=message):
            convert(changed)
    key = "vision_model.encoder.layers.0.self_attn.v_proj.weight"
    with pytest.raises(ExplorerError, match="q, k and v differ in shape"):
        to_open_clip({**theirs, key: torch.zeros(1, 24)})
    key = "visual.transformer.resblocks.0.attn.in_proj_bias"
    with pytest.raises(ExplorerError, match="does not hold q, k and v equally"):
        to_hugging_face({**ours, key: torch.zeros(71)})


def test_preprocessing_goes_both_ways() -> None:
    clip = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4], "interpolation": "bicubic", "resize_mode": "shortest"}
    config = preprocessor_config(32, clip)
    assert config["crop_size"] == {"height": 32, "width": 32} and config["resample"] == 3
    assert preprocess_cfg(config) == clip
    assert preprocess_cfg(preprocessor_config(8, {**clip, "interpolation": "bilinear"}))["interpolation"] == "bilinear"
    with pytest.raises(ExplorerError, match="cannot resize by squash with bicubic"):
        preprocessor_config(32, {**clip, "resize_mode": "squash"})
    for change, message in (
        ({"do_center_crop": False}, "do_center_crop: false"),
        ({"resample": 0}, "resample 0"),
    ):
        with pytest.raises(ExplorerError, match=message):
            preprocess_cfg({**config, **change})
    with pytest.raises(ExplorerError, match="lacks image_mean or image_std"):
        preprocess_cfg({"resample": 3})
