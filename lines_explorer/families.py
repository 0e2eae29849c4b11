"""How architectures name their tensors: one row of ``FAMILIES`` for each family.

A block is one residual block. Networks in stages (ConvNeXt, ResNet) count their blocks through all stages; what leads
to a stage belongs to the stage's first block. Models of two towers have two stacks, each with a depth of its own.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Stack:
    """How one stack of blocks names its tensors. All patterns are regular expressions; they follow ``prefix``.

    Attributes:
        block: start of a block's tensor name; its groups are the block number, or the stage's and the block's in it.
        before: whole names of the tensors before the first block.
        after: whole names of the tensors after the last block.
        prefix: what stands before every name of the stack; one checkpoint uses one prefix.
        name: what the stack is called where a model has two.
        stages: the numbers of all stages, where there are stages.
        between: start of a name that leads to a stage; it goes with the first block from the stage in its group on.
    """

    block: str
    before: str
    after: str
    prefix: str = ""
    name: str = "blocks"
    stages: tuple[int, ...] = ()
    between: str = ""


@dataclass(frozen=True)
class Family:
    """How one architecture family names its tensors.

    Attributes:
        name: what the user is shown.
        stacks: its stacks of blocks, in the order in which they act; a checkpoint may lack one.
        first: whole names, never prefixed, of tensors that act before all stacks.
        last: whole names, never prefixed, of tensors that act after all stacks (heads, scales).
    """

    name: str
    stacks: tuple[Stack, ...]
    first: str = ""
    last: str = ""


_CLIP_TEXT = Stack(
    name="text",
    prefix=r"(?:text\.)?",
    block=r"transformer\.resblocks\.(\d+)\.",
    before=r"token_embedding\.weight|positional_embedding|cls_emb|attn_mask",
    after=r"ln_final\..+|text_projection(?:\..+)?",
)
_RESIDUAL_STAGES = {"block": r"layer(\d+)\.(\d+)\.", "stages": (1, 2, 3, 4)}
_VIT = {
    "block": r"transformer\.resblocks\.(\d+)\.",
    "before": r"class_embedding|positional_embedding|conv1\..+|patchnorm_pre_ln\..+|ln_pre\..+",
    "after": r"ln_post\..+|attn_pool\..+|proj",
}
_CLIP_SCALES = r"logit_scale|logit_bias"

FAMILIES = (
    Family("open_clip ViT", (Stack(**_VIT, prefix=r"visual\.", name="image"), _CLIP_TEXT), last=_CLIP_SCALES),
    Family("open_clip ViT", (Stack(**_VIT, name="image"),), last=_CLIP_SCALES),
    Family(
        "open_clip ResNet",
        (
            Stack(
                **_RESIDUAL_STAGES,
                name="image",
                prefix=r"(?:visual\.)?",
                before=r"conv[123]\..+|bn[123]\..+",
                after=r"attnpool\..+",
            ),
            _CLIP_TEXT,
        ),
        last=_CLIP_SCALES,
    ),
    Family(
        "Hugging Face CLIP",
        (
            Stack(
                name="image",
                prefix=r"(?:vision_model\.)?",
                block=r"encoder\.layers\.(\d+)\.",
                before=r"embeddings\.(?:class_embedding|patch_embedding\..+|position_.+)|pre_layrnorm\..+",
                after=r"post_layernorm\..+",
            ),
            Stack(
                name="text",
                prefix=r"text_model\.",
                block=r"encoder\.layers\.(\d+)\.",
                before=r"embeddings\.(?:token_embedding\..+|position_.+)",
                after=r"final_layer_norm\..+",
            ),
        ),
        last=r"(?:visual|text)_projection\.weight|classifier\..+|logit_scale",
    ),
    Family(
        "timm ViT",
        (
            Stack(
                name="image",
                prefix=r"(?:(?:visual\.)?trunk\.)?",
                block=r"blocks\.(\d+)\.",
                before=r"cls_token|dist_token|reg_token|pos_embed|patch_embed\..+|norm_pre\..+",
                after=r"norm\..+|fc_norm\..+|attn_pool\..+|head(?:_dist)?\..+",
            ),
            _CLIP_TEXT,
        ),
        last=rf"(?:visual\.)?head\..+|{_CLIP_SCALES}",
    ),
    Family(
        "torchvision ViT",
        (
            Stack(
                block=r"encoder\.layers\.encoder_layer_(\d+)\.",
                before=r"class_token|conv_proj\..+|encoder\.pos_embedding",
                after=r"encoder\.ln\..+|heads\..+",
            ),
        ),
    ),
    Family(
        "ConvNeXt, ResNetV2 (timm)",
        (
            Stack(
                name="image",
                prefix=r"(?:(?:visual\.)?trunk\.)?",
                block=r"stages\.(\d+)\.blocks\.(\d+)\.",
                between=r"stages\.(\d+)\.downsample\.",
                stages=(0, 1, 2, 3),
                before=r"stem\..+",
                after=r"norm(?:_pre)?\..+|head\..+",
            ),
            _CLIP_TEXT,
        ),
        last=rf"(?:visual\.)?head\..+|{_CLIP_SCALES}",
    ),
    Family(
        "ConvNeXt (torchvision)",
        (
            Stack(
                block=r"features\.([1357])\.(\d+)\.(?:block\.|layer_scale)",
                between=r"features\.([246])\.",
                stages=(1, 3, 5, 7),
                before=r"features\.0\..+",
                after=r"classifier\..+",
            ),
        ),
    ),
    Family(
        "ConvNeXt (Hugging Face)",
        (
            Stack(
                prefix=r"(?:convnext(?:v2)?\.)?",
                block=r"encoder\.stages\.(\d+)\.layers\.(\d+)\.",
                between=r"encoder\.stages\.(\d+)\.downsampling_layer\.",
                stages=(0, 1, 2, 3),
                before=r"embeddings\..+",
                after=r"layernorm\..+",
            ),
        ),
        last=r"classifier\..+",
    ),
    Family(
        "ResNet (timm, torchvision)",
        (Stack(**_RESIDUAL_STAGES, before=r"conv1\..+|bn1\..+", after=r"fc\..+"),),
    ),
    Family(
        "ResNet (Hugging Face)",
        (
            Stack(
                prefix=r"(?:resnet\.)?",
                block=r"encoder\.stages\.(\d+)\.layers\.(\d+)\.",
                stages=(0, 1, 2, 3),
                before=r"embedder\..+",
                after=r"pooler\..+",
            ),
        ),
        last=r"classifier\..+",
    ),
    Family(
        "BERT-like",
        (
            Stack(
                prefix=r"(?:(?:\w*bert\w*|electra)\.)?",
                block=r"(?:encoder|transformer)\.layer\.(\d+)\.",
                before=r"embeddings(?:_project)?\..+|encoder\.(?:rel_embeddings|LayerNorm)\..+",
                after=r"pooler\..+",
            ),
        ),
        last=r"(?:pre_)?classifier\..+|cls\..+|lm_head\..+|pooler\..+|qa_outputs\..+|vocab_\w+\..+",
    ),
    Family(
        "T5-like",
        tuple(
            Stack(
                name=name,
                prefix=rf"(?:transformer\.)?{name}\.",
                block=r"block\.(\d+)\.",
                before=r"embed_tokens\..+",
                after=r"final_layer_norm\..+",
            )
            for name in ("encoder", "decoder")
        ),
        first=r"(?:transformer\.)?shared\.weight",
        last=r"lm_head\..+|classification_head\..+|classifier\..+",
    ),
    Family(
        "GPT-2-like",
        (
            Stack(
                prefix=r"(?:transformer\.)?",
                block=r"h\.(\d+)\.",
                before=r"wte\..+|wpe\..+|word_embeddings(?:_layernorm)?\..+",
                after=r"ln_f\..+",
            ),
        ),
        last=r"lm_head\..+|score\..+|classifier\..+",
    ),
    Family(
        "Llama-like",
        (
            Stack(
                prefix=r"(?:model\.(?:decoder\.)?|gpt_neox\.)?",
                block=r"layers\.(\d+)\.",
                before=r"embed_(?:tokens|positions|in)\..+|rotary_emb\..+",
                after=r"(?:norm|final_layer_norm)\..+",
            ),
        ),
        last=r"(?:lm_head|embed_out|score|classifier)\..+",
    ),
)
