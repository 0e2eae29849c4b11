"""``inspect`` on one file of every kind that people have: a table that can be read, and the right words in it.

``pytest -s tests/checkpoints/test_every_kind.py`` prints it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from makers import (
    clip_shapes,
    in_npy,
    module,
    pickled,
    safetensors,
    safetensors_of,
    state,
    stream_of,
    tar_of,
    vision_shapes,
    visual_shapes,
    write,
    zip_of,
)

from lines_explorer.commands.inspecting import HEADER, inspect

Shapes = dict[str, tuple[int, ...]]
CLIP, VISION, TOWER = clip_shapes(), vision_shapes(), visual_shapes()
TALL = {f"model.{name}": shape for name, shape in CLIP.items()}
HEAD = {"weight": (10, 6), "bias": (10,)}
TIMM: Shapes = {f"blocks.{n}.mlp.fc1.weight": (4, 4) for n in range(3)} | {"patch_embed.proj.weight": (4, 3, 2, 2)}
RESNET: Shapes = {f"layer{s}.{n}.conv1.weight": (4, 4, 1, 1) for s in range(1, 5) for n in range(2)}
RESNET |= {"fc.weight": (5, 4)}
CONVNEXT: Shapes = {f"stages.{s}.blocks.{n}.gamma": (4,) for s in range(4) for n in range(2)}
BERT: Shapes = {f"bert.encoder.layer.{n}.output.dense.bias": (4,) for n in range(3)}
T5: Shapes = {f"{side}.block.{n}.layer.0.layer_norm.weight": (4,) for side in ("encoder", "decoder") for n in range(2)}
LLAMA: Shapes = {f"model.layers.{n}.self_attn.q_proj.weight": (4, 4) for n in range(4)}
LORA: Shapes = {
    "base_model.model.vision_model.encoder.layers.0.self_attn.q_proj.lora_A.weight": (2, 8),
    "base_model.model.vision_model.encoder.layers.0.self_attn.q_proj.lora_B.weight": (8, 2),
}
RANDLORA: Shapes = {
    "base_model.model.randlora_A": (2, 1, 8),
    "base_model.model.randlora_B": (8, 4, 2),
    "base_model.model.vision_model.encoder.layers.0.self_attn.q_proj.randlora_lambda": (2, 4),
    "base_model.model.vision_model.encoder.layers.0.self_attn.q_proj.randlora_gamma": (4, 8),
}


def file(content: bytes) -> Callable[[Path], None]:
    return lambda path: write(path.parent, path.name, content) and None


def folder(config: dict[str, object], name: str, shapes: Shapes, shards: int = 1, at: str = "config.json") -> Callable:
    """A folder with a config and weights, in ``shards`` parts with an index."""

    def make(path: Path) -> None:
        path.mkdir()
        (path / at).write_text(json.dumps(config))
        if shards == 1:
            write(path, name, safetensors_of(shapes))
            return
        names = list(shapes)
        parts = {f"model-{part + 1:05}-of-{shards:05}.safetensors": names[part::shards] for part in range(shards)}
        for part, held in parts.items():
            write(path, part, safetensors_of({key: shapes[key] for key in held}))
        where = {key: part for part, held in parts.items() for key in held}
        (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))

    return make


def with_position_ids(path: Path) -> None:
    """A vision model of an old transformers: ``position_ids`` is a weight's neighbour of whole numbers."""
    header = json.loads(safetensors_of(VISION)[8:].split(b"}}")[0] + b"}}")
    end = max(row["data_offsets"][1] for row in header.values())
    ids = {"dtype": "I64", "shape": [1, 5], "data_offsets": [end, end + 40]}
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"model_type": "clip_vision_model"}))
    header["vision_model.embeddings.position_ids"] = ids
    write(path, "model.safetensors", safetensors(header, b"\1" * (end + 40)))


HF = {"model_type": "clip_vision_model"}
MASKS = {task: np.packbits(np.arange(83) % 3 == 0) for task in ("DTD", "SVHN")}
CLASS = ("src.modeling", "ClassificationHead")
QUICK = {"model_cfg": {"quick_gelu": True, "vision_cfg": {}}}
ANY = r".+"
# name → what makes it, and what its row says: format, content, family, blocks, activation
KINDS: dict[str, tuple[Callable[[Path], None], str, str, str, str, str]] = {
    "open_clip.pt": (file(zip_of(state(CLIP), CLIP)), "torch zip", "state dict", "open_clip ViT", "2", "–"),
    "open_clip.safetensors": (file(safetensors_of(TOWER)), "safetensors", "state dict", "open_clip ViT", "2", "–"),
    "half.safetensors": (file(safetensors_of(TOWER, "F16", 2)), "safetensors", "state dict", "open_clip ViT", "2", "–"),
    "training.pt": (
        file(zip_of({"epoch": 3, "state_dict": {f"module.{k}": v for k, v in state(CLIP).items()}}, CLIP)),
        "torch zip", "training checkpoint, key 'state_dict'", "open_clip ViT", "2", "–",
    ),
    "tall_masks_finetuned.pt": (file(zip_of(state(TALL), TALL)), "torch zip", "state dict", "open_clip ViT", "2", "–"),
    "task_vectors_finetuned.pt": (
        file(stream_of(module(CLIP, ("src.modeling", "ImageEncoder")), CLIP)),
        "torch legacy stream", "whole module src.modeling.ImageEncoder", "open_clip ViT", "2", "–",
    ),
    "task_vectors_zip.pt": (
        file(zip_of(module(CLIP, ("open_clip.model", "CLIP")), CLIP)),
        "torch zip", "whole module open_clip.model.CLIP", "open_clip ViT", "2", "–",
    ),
    "oldest.pt": (
        file(tar_of({name: np.ones(shape, np.float32) for name, shape in TOWER.items()})),
        "torch legacy tar", "state dict", "open_clip ViT", "2", "–",
    ),
    "head_pickled.pt": (
        file(zip_of(module(HEAD, CLASS, normalize=True), HEAD)),
        "torch zip", "head: whole module src.modeling.ClassificationHead", "–", "–", "–",
    ),
    "head_plain.pt": (file(zip_of(state(HEAD), HEAD)), "torch zip", "head: state dict", "–", "–", "–"),
    "TALL_mask_2task.npy": (file(b""), "npy", "mask: TALL masks", "–", "–", "–"),
    "hf": (
        folder(HF, "model.safetensors", VISION),
        "Hugging Face folder (safetensors)", "clip_vision_model", "Hugging Face CLIP", "2", "quick_gelu",
    ),
    "hf_sharded": (
        folder(HF | {"hidden_act": "gelu"}, "", VISION, shards=3),
        "Hugging Face folder (3 shards)", "clip_vision_model", "Hugging Face CLIP", "2", "gelu",
    ),
    "hf_old": (
        with_position_ids,
        "Hugging Face folder (safetensors)", "clip_vision_model", "Hugging Face CLIP", "2", "quick_gelu",
    ),
    "open_clip_folder": (
        folder(QUICK, "open_clip_model.safetensors", CLIP, at="open_clip_config.json"),
        "open_clip folder (safetensors)", "state dict", "open_clip ViT", "2", "quick_gelu",
    ),
    "lora": (
        folder({"peft_type": "LORA"}, "adapter_model.safetensors", LORA, at="adapter_config.json"),
        "adapter folder (safetensors)", "adapter: LORA", "–", "–", "–",
    ),
    "randlora": (
        folder({"peft_type": "RANDLORA"}, "adapter_model.safetensors", RANDLORA, at="adapter_config.json"),
        "adapter folder (safetensors)", "adapter: RANDLORA", "–", "–", "–",
    ),
    "timm_vit.safetensors": (file(safetensors_of(TIMM)), "safetensors", "state dict", "timm ViT", "3", "–"),
    "resnet.safetensors": (
        file(safetensors_of(RESNET)), "safetensors", "state dict", "ResNet (timm, torchvision)", "8", "–",
    ),
    "convnext.pth": (
        file(zip_of(state(CONVNEXT), CONVNEXT)), "torch zip", "state dict", "ConvNeXt, ResNetV2 (timm)", "8", "–",
    ),
    "bert": (
        folder({"model_type": "bert", "hidden_act": "gelu"}, "model.safetensors", BERT),
        "Hugging Face folder (safetensors)", "bert", "BERT-like", "3", ANY,
    ),
    "t5": (
        folder({"model_type": "t5"}, "model.safetensors", T5),
        "Hugging Face folder (safetensors)", "t5", "T5-like", "2", ANY,
    ),
    "llama": (
        folder({"model_type": "llama"}, "model.safetensors", LLAMA, shards=2),
        "Hugging Face folder (2 shards)", "llama", ANY, "4", ANY,
    ),
}  # fmt: skip


def test_one_file_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, (make, *_) in KINDS.items():
        make(tmp_path / name)
    np.save("TALL_mask_2task.npy", MASKS)  # type: ignore[arg-type]
    assert in_npy(pickled({}))[:6] == Path("TALL_mask_2task.npy").read_bytes()[:6]
    shown = inspect([Path(name) for name in KINDS]).text
    print(f"\n{shown}")
    header, *rows = shown.splitlines()
    assert re.split(r" {2,}", header) == HEADER
    ends = [match.end() for match in re.finditer(r"\S+(?: \S+)*", header)][1:]
    for name, row in zip(KINDS, rows, strict=False):
        assert all(row[end - 1] != " " and row[end : end + 2].strip() == "" for end in ends), "columns end together"
        cells = dict(zip(HEADER, re.split(r" {2,}", row), strict=True))
        wanted = dict(zip(("format", "content", "family", "blocks", "activation"), KINDS[name][1:], strict=True))
        assert cells["file"] == name and re.fullmatch(r"[0-9a-f]{12}", cells["sha256"])
        for column, value in wanted.items():
            assert value == ANY or cells[column] == value, (name, column, cells[column])
        assert int(cells["tensors"]) > 0 and int(cells["parameters"].replace(",", "")) >= 0
    remarks = rows[len(KINDS) :]
    assert all(line.startswith(("! ", "- ")) for line in remarks) and max(map(len, rows[: len(KINDS)])) < 220
    assert any("QuickGELU" in line and "open_clip.pt" in line for line in remarks)
    assert any("nothing of it was run" in line and "task_vectors_finetuned.pt" in line for line in remarks)
