import pytest
from open_clip.model import CLIP
from timm.models.vision_transformer import VisionTransformer

from lines_explorer.errors import ExplorerError
from lines_explorer.layers import layout_of, tensor_factors
from lines_explorer.schedule import free, lines

BLOCK = "transformer.resblocks.{}.mlp.c_fc.weight"
OUTER = ("class_embedding", "positional_embedding", "proj", "conv1.weight", "ln_pre.bias", "ln_post.weight")


def open_clip_keys(blocks: int, prefix: str = "") -> list[str]:
    return [prefix + key for key in (*OUTER, *(BLOCK.format(block) for block in range(blocks)))]


def hugging_face_keys(blocks: int, prefix: str = "vision_model.") -> list[str]:
    outer = ("embeddings.class_embedding", "embeddings.position_ids", "pre_layrnorm.weight", "post_layernorm.bias")
    inner = (f"encoder.layers.{block}.self_attn.q_proj.weight" for block in range(blocks))
    return [prefix + key for key in (*outer, *inner)] + ["visual_projection.weight"]


def tiny_clip() -> CLIP:
    vision = {"image_size": 32, "layers": 3, "width": 32, "head_width": 32, "patch_size": 16}
    text = {"context_length": 8, "vocab_size": 50, "width": 8, "heads": 1, "layers": 2}
    return CLIP(embed_dim=8, vision_cfg=vision, text_cfg=text)


@pytest.mark.parametrize("prefix", ["", "visual."])
def test_open_clip_by_hand(prefix):
    layout = layout_of([*open_clip_keys(14, prefix), "logit_scale"])
    assert (layout.family, layout.depth) == ("open_clip ViT", 14)
    assert layout.position[prefix + BLOCK.format(0)] == 1
    assert layout.position[prefix + BLOCK.format(1)] == 2
    assert layout.position[prefix + BLOCK.format(13)] == 14
    before = {"class_embedding", "positional_embedding", "conv1.weight", "ln_pre.bias"}
    assert {key for key, place in layout.position.items() if place == 0} == {prefix + name for name in before}
    after = {prefix + "ln_post.weight", prefix + "proj", "logit_scale"}
    assert {key for key, place in layout.position.items() if place == 15} == after


@pytest.mark.parametrize("prefix", ["", "vision_model."])
def test_hugging_face_by_hand(prefix):
    layout = layout_of(hugging_face_keys(11, prefix))
    assert (layout.family, layout.depth) == ("Hugging Face CLIP vision", 11)
    assert layout.position[f"{prefix}encoder.layers.10.self_attn.q_proj.weight"] == 11
    assert layout.position[f"{prefix}embeddings.position_ids"] == layout.position[f"{prefix}pre_layrnorm.weight"] == 0
    assert layout.position[f"{prefix}post_layernorm.bias"] == layout.position["visual_projection.weight"] == 12


def test_a_real_open_clip_tower_is_placed_whole():
    keys = tiny_clip().visual.state_dict().keys()
    layout = layout_of(keys)
    assert (layout.family, layout.depth) == ("open_clip ViT", 3)
    assert layout.position.keys() == set(keys)
    assert set(layout.position.values()) == {0, 1, 2, 3, 4}


def test_a_real_timm_model_is_placed_whole():
    model = VisionTransformer(img_size=32, patch_size=16, embed_dim=16, depth=2, num_heads=2, num_classes=3)
    layout = layout_of(model.state_dict())
    assert (layout.family, layout.depth) == ("timm ViT", 2)
    assert layout.position["patch_embed.proj.weight"] == layout.position["cls_token"] == 0
    assert layout.position["blocks.1.attn.qkv.weight"] == 2
    assert layout.position["norm.weight"] == layout.position["head.bias"] == 3


def test_two_towers_are_refused_naming_both():
    with pytest.raises(ExplorerError, match="more than one stack.*'transformer.resblocks.#' and 'visual.transformer"):
        layout_of(tiny_clip().state_dict())


def test_encoder_decoder_is_refused_not_guessed():
    t5 = ["encoder.block.3.layer.0.SelfAttention.q.weight", "decoder.block.3.layer.1.EncDecAttention.q.weight"]
    with pytest.raises(ExplorerError, match="'decoder.block.#' and 'encoder.block.#'"):
        layout_of(t5)


@pytest.mark.parametrize(
    ("keys", "pattern"),
    [
        (["stages.2.blocks.5.conv_dw.weight"], "'stages.#.blocks.#.conv_dw.weight'"),
        (["encoder.block.3.layer.0.SelfAttention.q.weight"], "'encoder.block.#.layer.#.SelfAttention.q.weight'"),
        (["model.transformer.resblocks.0.ln_1.weight"], "'model.transformer.resblocks.#.ln_#.weight'"),
        (["layer1.0.conv1.weight"], "'layer#.#.conv#.weight'"),
        ([], "there are none"),
    ],
)
def test_an_unknown_architecture_shows_its_names(keys, pattern):
    with pytest.raises(ExplorerError, match="Unknown architecture") as error:
        layout_of(keys)
    assert pattern in str(error.value)


@pytest.mark.parametrize("stranger", ["token_embedding.weight", "visual.proj", "conv1", "projection"])
def test_a_tensor_outside_the_family_is_refused_by_name(stranger):
    with pytest.raises(ExplorerError, match=f"'{stranger}' is not part of the open_clip ViT"):
        layout_of([*open_clip_keys(2), stranger])


def test_another_prefix_outside_the_blocks_is_refused():
    with pytest.raises(ExplorerError, match="'positional_embedding' is not part"):
        layout_of([*open_clip_keys(2, "visual."), "positional_embedding"])


def test_a_gap_in_the_blocks_is_refused_with_its_number():
    keys = [key for key in open_clip_keys(12) if ".4." not in key and ".10." not in key]
    with pytest.raises(ExplorerError, match="Of 12 blocks these have no tensors: 5, 11"):
        layout_of(keys)


def test_reference_rule_gives_alpha_to_everything_outside():
    factors = tensor_factors(layout_of(open_clip_keys(5)), lines(0.25, 0.5))
    assert [factors[BLOCK.format(block)] for block in range(5)] == [0.25, 0.375, 0.5, 0.625, 0.75]
    assert {factors[key] for key in OUTER} == {0.25}


def test_depth_rule_scales_the_end_like_the_last_block():
    factors = tensor_factors(layout_of(open_clip_keys(5)), lines(0.25, 0.5), "depth")
    assert factors["ln_post.weight"] == factors["proj"] == factors[BLOCK.format(4)] == 0.75
    assert {factors[key] for key in OUTER if key not in ("ln_post.weight", "proj")} == {0.25}


@pytest.mark.parametrize("rule", ["reference", "depth"])
def test_free_schedule_gives_its_rest_to_everything_outside(rule):
    factors = tensor_factors(layout_of(open_clip_keys(2)), free([2, 3], 0.5), rule)
    assert [factors[BLOCK.format(block)] for block in range(2)] == [2, 3]
    assert {factors[key] for key in OUTER} == {0.5}


@pytest.mark.parametrize("rule", ["reference", "depth"])
def test_one_block_gets_alpha_everywhere(rule):
    assert set(tensor_factors(layout_of(open_clip_keys(1)), lines(0.25, 0.5), rule).values()) == {0.25}
