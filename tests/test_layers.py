"""layers.py and its table of families: the block of every tensor, by hand and on real models of every family."""

from collections.abc import Callable, Iterable
from functools import partial

import open_clip.model
import pytest
import timm
import torch
import torchvision
import transformers

from lines_explorer.errors import ExplorerError
from lines_explorer.families import FAMILIES
from lines_explorer.layers import Layout, layout_of, tensor_factors
from lines_explorer.schedule import free, lines

BLOCK = "transformer.resblocks.{}.mlp.c_fc.weight"
OUTER = ("class_embedding", "positional_embedding", "proj", "conv1.weight", "ln_pre.bias", "ln_post.weight")
TEXT = {"context_length": 8, "vocab_size": 50, "width": 8, "heads": 1, "layers": 2}


def open_clip_keys(blocks: int, prefix: str = "") -> list[str]:
    return [prefix + key for key in (*OUTER, *(BLOCK.format(block) for block in range(blocks)))]


def hugging_face_keys(blocks: int, prefix: str = "vision_model.") -> list[str]:
    outer = ("embeddings.class_embedding", "embeddings.position_ids", "pre_layrnorm.weight", "post_layernorm.bias")
    inner = (f"encoder.layers.{block}.self_attn.q_proj.weight" for block in range(blocks))
    return [prefix + key for key in (*outer, *inner)] + ["visual_projection.weight"]


def open_clip_model(**vision: object) -> torch.nn.Module:
    return open_clip.model.CLIP(embed_dim=8, vision_cfg={"image_size": 32, **vision}, text_cfg=TEXT)


def open_clip_vit(blocks: int = 3) -> torch.nn.Module:
    return open_clip_model(layers=blocks, width=32, head_width=32, patch_size=16)


def hugging_face(config: str, model: str, **options: object) -> torch.nn.Module:
    """A tiny random model of a class of transformers."""
    small = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    options = options or {**small, "intermediate_size": 16}
    return getattr(transformers, model)(getattr(transformers, config)(**options))


def convnext_in_stages() -> torch.nn.Module:
    return timm.create_model("convnext_atto", depths=(1, 2, 3, 1), dims=(8, 8, 8, 8), num_classes=3)


T5 = {"vocab_size": 20, "d_model": 8, "d_kv": 4, "d_ff": 16, "num_layers": 2, "num_decoder_layers": 5, "num_heads": 2}
GPT2 = {"vocab_size": 20, "n_embd": 8, "n_layer": 3, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0}
STAGES = {"hidden_sizes": [8, 8, 8, 8], "depths": [1, 2, 3, 1]}
DISTIL = {"vocab_size": 20, "dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 16}

# family, stacks, model, {tensor: its place}
MODELS: dict[str, tuple[str, dict[str, int], Callable[[], torch.nn.Module], dict[str, int]]] = {
    "open_clip ViT, both towers": (
        "open_clip ViT", {"image": 3, "text": 2}, open_clip_vit,
        {
            "visual.conv1.weight": 0, BLOCK.format(1): 2, "visual." + BLOCK.format(2): 3, "visual.proj": 4,
            "token_embedding.weight": 0, "text_projection": 3, "logit_scale": 3,
        },
    ),
    "open_clip ViT, image tower": (
        "open_clip ViT", {"image": 3}, lambda: open_clip_vit().visual,
        {"conv1.weight": 0, "positional_embedding": 0, BLOCK.format(2): 3, "proj": 4},
    ),
    "open_clip ResNet": (
        "open_clip ResNet", {"image": 5, "text": 2}, partial(open_clip_model, layers=[1, 2, 1, 1], width=8),
        {
            "visual.conv3.weight": 0, "visual.bn1.running_mean": 0, "visual.layer1.0.conv1.weight": 1,
            "visual.layer2.0.downsample.0.weight": 2, "visual.layer2.1.bn2.bias": 3, "visual.layer4.0.conv1.weight": 5,
            "visual.attnpool.c_proj.weight": 6, "transformer.resblocks.1.ln_1.bias": 2,
        },
    ),
    "open_clip ConvNeXt": (
        "ConvNeXt, ResNetV2 (timm)", {"image": 12, "text": 2},
        partial(open_clip_model, timm_model_name="convnext_atto", timm_pool="", timm_proj="linear"),
        {
            "visual.trunk.stem.0.weight": 0, "visual.trunk.stages.1.downsample.0.weight": 3,
            "visual.trunk.stages.3.blocks.1.gamma": 12, "visual.trunk.head.norm.weight": 13,
            "visual.head.proj.weight": 3,
        },
    ),
    "open_clip with a timm ViT": (
        "timm ViT", {"image": 12, "text": 2},
        partial(open_clip_model, timm_model_name="vit_tiny_patch16_224", timm_pool="token", timm_proj="none"),
        {"visual.trunk.cls_token": 0, "visual.trunk.blocks.11.norm1.bias": 12, "visual.trunk.norm.bias": 13},
    ),
    "CLIPModel": (
        "Hugging Face CLIP", {"image": 2, "text": 3},
        lambda: hugging_face(
            "CLIPConfig", "CLIPModel",
            text_config={"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2,
                         "bos_token_id": 0, "eos_token_id": 1},
            vision_config={"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 16},
        ),
        {
            "vision_model.embeddings.class_embedding": 0, "vision_model.encoder.layers.1.mlp.fc1.bias": 2,
            "vision_model.post_layernorm.weight": 3, "text_model.encoder.layers.2.mlp.fc1.bias": 3,
            "visual_projection.weight": 4, "logit_scale": 4,
        },
    ),
    "CLIPVisionModel": (
        "Hugging Face CLIP", {"image": 2},
        partial(hugging_face, "CLIPVisionConfig", "CLIPVisionModel", hidden_size=8, num_hidden_layers=2,
                num_attention_heads=2, image_size=16),
        {"pre_layrnorm.weight": 0, "encoder.layers.0.layer_norm1.bias": 1, "post_layernorm.weight": 3},
    ),
    "timm ViT": (
        "timm ViT", {"image": 2},
        lambda: timm.models.vision_transformer.VisionTransformer(
            img_size=32, patch_size=16, embed_dim=16, depth=2, num_heads=2, num_classes=3
        ),
        {"patch_embed.proj.weight": 0, "cls_token": 0, "blocks.1.attn.qkv.weight": 2, "norm.weight": 3, "head.bias": 3},
    ),
    "torchvision ViT": (
        "torchvision ViT", {"blocks": 2},
        lambda: torchvision.models.VisionTransformer(32, 16, num_layers=2, num_heads=2, hidden_dim=8, mlp_dim=8),
        {
            "class_token": 0, "encoder.pos_embedding": 0, "encoder.ln.weight": 3, "heads.head.bias": 3,
            "encoder.layers.encoder_layer_1.mlp.0.weight": 2,
        },
    ),
    "timm ConvNeXt": (
        "ConvNeXt, ResNetV2 (timm)", {"image": 7}, convnext_in_stages,
        {
            "stem.0.weight": 0, "stages.0.blocks.0.gamma": 1, "stages.1.downsample.1.weight": 2,
            "stages.1.blocks.0.gamma": 2, "stages.2.downsample.0.bias": 4, "stages.2.blocks.2.gamma": 6,
            "stages.3.blocks.0.gamma": 7, "head.fc.weight": 8,
        },
    ),
    "torchvision ConvNeXt": (
        "ConvNeXt (torchvision)", {"blocks": 18}, partial(torchvision.models.convnext_tiny, num_classes=3),
        {
            "features.0.0.weight": 0, "features.1.2.layer_scale": 3, "features.2.1.weight": 4,
            "features.3.0.block.0.weight": 4, "features.7.2.block.5.bias": 18, "classifier.2.bias": 19,
        },
    ),
    "transformers ConvNeXt": (
        "ConvNeXt (Hugging Face)", {"blocks": 7},
        partial(hugging_face, "ConvNextConfig", "ConvNextForImageClassification", **STAGES),
        {
            "convnext.embeddings.layernorm.bias": 0, "convnext.encoder.stages.2.downsampling_layer.0.bias": 4,
            "convnext.encoder.stages.3.layers.0.dwconv.bias": 7, "classifier.bias": 8,
        },
    ),
    "torchvision ResNet": (
        "ResNet (timm, torchvision)", {"blocks": 8}, partial(torchvision.models.resnet18, num_classes=3),
        {
            "conv1.weight": 0, "bn1.num_batches_tracked": 0, "layer1.1.conv2.weight": 2,
            "layer2.0.downsample.0.weight": 3, "layer4.1.bn2.running_var": 8, "fc.bias": 9,
        },
    ),
    "timm ResNet": (
        "ResNet (timm, torchvision)", {"blocks": 8}, partial(timm.create_model, "resnet18d", num_classes=3),
        {"conv1.0.weight": 0, "layer3.1.bn1.bias": 6, "fc.weight": 9},
    ),
    "transformers ResNet": (
        "ResNet (Hugging Face)", {"blocks": 7},
        partial(hugging_face, "ResNetConfig", "ResNetForImageClassification", embedding_size=8, **STAGES),
        {
            "resnet.embedder.embedder.convolution.weight": 0, "classifier.1.weight": 8,
            "resnet.encoder.stages.2.layers.0.shortcut.convolution.weight": 4,
        },
    ),
    "BERT": (
        "BERT-like", {"blocks": 2}, partial(hugging_face, "BertConfig", "BertForSequenceClassification"),
        {
            "bert.embeddings.LayerNorm.bias": 0, "bert.encoder.layer.1.output.dense.bias": 2,
            "bert.pooler.dense.bias": 3, "classifier.weight": 3,
        },
    ),
    "BERT, masked": (
        "BERT-like", {"blocks": 2}, partial(hugging_face, "BertConfig", "BertForMaskedLM"),
        {"bert.encoder.layer.0.output.dense.bias": 1, "cls.predictions.decoder.weight": 3},
    ),
    "RoBERTa": (
        "BERT-like", {"blocks": 2}, partial(hugging_face, "RobertaConfig", "RobertaForSequenceClassification"),
        {"roberta.embeddings.position_embeddings.weight": 0, "classifier.out_proj.weight": 3},
    ),
    "DistilBERT": (
        "BERT-like", {"blocks": 2}, partial(hugging_face, "DistilBertConfig", "DistilBertModel", **DISTIL),
        {"embeddings.LayerNorm.weight": 0, "transformer.layer.1.ffn.lin1.bias": 2},
    ),
    "T5": (
        "T5-like", {"encoder": 2, "decoder": 5}, partial(hugging_face, "T5Config", "T5ForConditionalGeneration", **T5),
        {
            "shared.weight": 0, "encoder.block.1.layer.0.SelfAttention.q.weight": 2,
            "encoder.final_layer_norm.weight": 3, "decoder.embed_tokens.weight": 0,
            "decoder.block.4.layer.2.DenseReluDense.wi.weight": 5, "decoder.final_layer_norm.weight": 6,
            "lm_head.weight": 6,
        },
    ),
    "T5 encoder": (
        "T5-like", {"encoder": 2}, partial(hugging_face, "T5Config", "T5EncoderModel", **T5),
        {"encoder.block.1.layer.1.layer_norm.weight": 2, "encoder.final_layer_norm.weight": 3},
    ),
    "GPT-2": (
        "GPT-2-like", {"blocks": 3}, partial(hugging_face, "GPT2Config", "GPT2LMHeadModel", **GPT2),
        {"transformer.wpe.weight": 0, "transformer.h.2.attn.c_attn.weight": 3, "lm_head.weight": 4},
    ),
    "Llama": (
        "Llama-like", {"blocks": 2}, partial(hugging_face, "LlamaConfig", "LlamaForCausalLM"),
        {"model.embed_tokens.weight": 0, "model.layers.1.mlp.up_proj.weight": 2, "model.norm.weight": 3,
         "lm_head.weight": 3},
    ),
    "GPT-NeoX": (
        "Llama-like", {"blocks": 2}, partial(hugging_face, "GPTNeoXConfig", "GPTNeoXForCausalLM"),
        {"gpt_neox.embed_in.weight": 0, "gpt_neox.layers.0.attention.dense.bias": 1},
    ),
}  # fmt: skip


def where(layout: Layout, names: Iterable[str]) -> dict[str, int]:
    return {name: layout.position[name] for name in names}


@pytest.mark.parametrize("case", MODELS)
def test_a_real_model_is_placed_whole(case):
    family, stacks, build, places = MODELS[case]
    keys = list(build().state_dict())
    layout = layout_of(keys)
    assert (layout.family, layout.stacks, layout.depth) == (family, stacks, max(stacks.values()))
    assert where(layout, places) == places
    assert layout.position.keys() == layout.stack.keys() == set(keys)
    for stack, depth in stacks.items():
        found = {layout.position[key] for key in keys if layout.stack[key] == stack}
        assert set(range(1, depth + 1)) <= found <= set(range(depth + 2))


def test_every_family_has_a_real_model():
    assert {family.name for family in FAMILIES} == {family for family, *_ in MODELS.values()}


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


def test_an_encoder_without_its_text_blocks_keeps_one_stack():
    rest = ["token_embedding.weight", "positional_embedding", "ln_final.bias", "text_projection", "logit_scale"]
    layout = layout_of([*open_clip_keys(12, "visual."), *rest])
    assert layout.stacks == {"image": 12} and set(layout.stack.values()) == {"image"}
    assert [layout.position[key] for key in rest] == [0, 0, 13, 13, 13]


@pytest.mark.parametrize("prefix", ["", "vision_model."])
def test_hugging_face_by_hand(prefix):
    layout = layout_of(hugging_face_keys(11, prefix))
    assert (layout.family, layout.depth) == ("Hugging Face CLIP", 11)
    assert layout.position[f"{prefix}encoder.layers.10.self_attn.q_proj.weight"] == 11
    assert layout.position[f"{prefix}embeddings.position_ids"] == layout.position[f"{prefix}pre_layrnorm.weight"] == 0
    assert layout.position[f"{prefix}post_layernorm.bias"] == layout.position["visual_projection.weight"] == 12


@pytest.mark.parametrize(
    ("keys", "pattern"),
    [
        (["backbone.0.body.blocks.5.conv.weight"], "'backbone.#.body.blocks.#.conv.weight'"),
        (["model.transformer.resblocks.0.ln_1.weight"], "'model.transformer.resblocks.#.ln_#.weight'"),
        (["base_model.model.layers.0.q_proj.lora_A.weight"], "'base_model.model.layers.#.q_proj.lora_A.weight'"),
        ([], "there are none"),
    ],
)
def test_an_unknown_architecture_shows_its_names_and_the_way(keys, pattern):
    with pytest.raises(ExplorerError, match="Unknown architecture") as error:
        layout_of(keys)
    assert pattern in str(error.value) and "add a row to FAMILIES" in str(error.value)


@pytest.mark.parametrize("stranger", ["token_embedding.weight", "visual.proj", "conv1", "projection"])
def test_a_tensor_outside_the_family_is_refused_by_name(stranger):
    with pytest.raises(ExplorerError, match=f"'{stranger}' is not part of the open_clip ViT"):
        layout_of([*open_clip_keys(2), stranger])


def test_two_prefixes_are_refused():
    with pytest.raises(ExplorerError, match="'vision_model.embeddings.class_embedding' and 4 more is not part"):
        layout_of([*hugging_face_keys(1, "vision_model."), *hugging_face_keys(9, "")])


def test_a_second_unknown_stack_is_refused_not_guessed():
    bart = ["model.encoder.layers.0.fc1.weight", "model.decoder.layers.0.fc1.weight", "model.shared.weight"]
    with pytest.raises(ExplorerError, match="'model.encoder.layers.0.fc1.weight' and 1 more is not part of the Llama"):
        layout_of(bart)


def test_a_gap_in_the_blocks_is_refused_with_its_number():
    keys = [key for key in open_clip_keys(12) if ".4." not in key and ".10." not in key]
    with pytest.raises(ExplorerError, match="Of 12 blocks these have no tensors: 5, 11"):
        layout_of(keys)


@pytest.mark.parametrize(
    ("lost", "message"), [("stages.2.blocks.1.", "Stage 2 .* blocks 1 "), ("stages.1.", "Stage 1 .* blocks 0 ")]
)
def test_a_gap_in_the_stages_is_refused_with_its_number(lost, message):
    with pytest.raises(ExplorerError, match=message + ".*incomplete"):
        layout_of(key for key in convnext_in_stages().state_dict() if not key.startswith(lost))


def test_a_fifth_stage_is_unknown():
    with pytest.raises(ExplorerError, match="Stage 4 is unknown; there are stages 0, 1, 2, 3"):
        layout_of([*convnext_in_stages().state_dict(), "stages.4.blocks.0.gamma"])


def test_every_stack_has_the_schedule_over_its_own_depth():
    layout = layout_of(MODELS["T5"][2]().state_dict())
    factors = tensor_factors(layout, lines(0.2, 0.8), "depth")
    encoder = [factors[f"encoder.block.{block}.layer.1.layer_norm.weight"] for block in range(2)]
    decoder = [factors[f"decoder.block.{block}.layer.1.layer_norm.weight"] for block in range(5)]
    assert encoder == pytest.approx([0.2, 1.0]) and decoder == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert factors["shared.weight"] == 0.2 and factors["lm_head.weight"] == pytest.approx(1.0)
    with pytest.raises(ExplorerError, match="factors"):
        tensor_factors(layout, free([1, 1], 1))


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
