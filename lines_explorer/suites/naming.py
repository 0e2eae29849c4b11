"""The text tower of a Hugging Face CLIP model under open_clip's names (the image tower: checkpoints.huggingface)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lines_explorer.errors import ExplorerError

if TYPE_CHECKING:
    import torch

MARKER = "text_model.embeddings.token_embedding.weight"
OUTSIDE = {
    MARKER: "token_embedding.weight",
    "text_model.embeddings.position_embedding.weight": "positional_embedding",
    "text_model.final_layer_norm.weight": "ln_final.weight",
    "text_model.final_layer_norm.bias": "ln_final.bias",
}
IN_BLOCK = {
    "layer_norm1": "ln_1",
    "layer_norm2": "ln_2",
    "mlp.fc1": "mlp.c_fc",
    "mlp.fc2": "mlp.c_proj",
    "self_attn.out_proj": "attn.out_proj",
}
BLOCK = re.compile(r"text_model\.encoder\.layers\.(\d+)\.(.+)\.(weight|bias)")


def text_tower(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """open_clip's text tensors of a transformers CLIPModel; empty when it has no text tower.

    Query, key and value become one ``in_proj`` and the projection is transposed; the numbers stay as they are.
    Raises ExplorerError naming a tensor that is missing.
    """
    import torch

    prefix = next((name.removesuffix(MARKER) for name in tensors if name.endswith(MARKER)), None)
    if prefix is None:
        return {}
    found = {ours: _take(tensors, prefix + theirs) for theirs, ours in OUTSIDE.items()}
    found["text_projection"] = _take(tensors, f"{prefix}text_projection.weight").T.contiguous()
    for name in tensors:
        if not (match := BLOCK.fullmatch(name.removeprefix(prefix))):
            continue
        block, part, end = match.groups()
        stem = f"transformer.resblocks.{block}"
        if part in IN_BLOCK:
            found[f"{stem}.{IN_BLOCK[part]}.{end}"] = tensors[name]
        elif part == "self_attn.q_proj":
            three = [name.replace("q_proj", f"{letter}_proj") for letter in "qkv"]
            found[f"{stem}.attn.in_proj_{end}"] = torch.cat([_take(tensors, other) for other in three])
    return found


def _take(tensors: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    if name not in tensors:
        raise ExplorerError(f"Tensor '{name}' of CLIP's text tower is missing; the checkpoint is incomplete.")
    return tensors[name]
