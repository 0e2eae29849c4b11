"""Names under several prefixes, and experts that are not of the base."""

from __future__ import annotations

from pathlib import Path

import pytest
from makers import clip_shapes, refused, safetensors_of, state, vision_shapes, visual_shapes, write, zip_of

from lines_explorer.checkpoints import open_checkpoint, require_fit

MIXED = {
    "wrapper on some names": ({"module.blocks.0.a": (1,), "blocks.0.b": (1,)}, "'module.' .* and ''"),
    "wrapper in a wrapper on some": (
        {"module.module.blocks.0.a": (1,), "module.blocks.0.b": (1,)},
        "'module.module.' .* and 'module.'",
    ),
    "two towers": ({"a.visual.conv1.weight": (1,), "b.visual.conv1.weight": (1,)}, "'a.' .* and 'b.'"),
    "tower with and without wrapper": (
        {"visual.conv1.weight": (1,), "module.visual.class_embedding": (1,)},
        "'' .* and 'module.'",
    ),
    "two Hugging Face towers": (
        {"q.vision_model.encoder.x": (1,), "vision_model.encoder.x": (1,)},
        "'q.' .* and ''",
    ),
}


@pytest.mark.parametrize("kind", MIXED)
def test_mixed_prefixes(tmp_path: Path, kind: str) -> None:
    shapes, expected = MIXED[kind]
    path = write(tmp_path, "mixed.pt", zip_of(state(shapes), shapes))
    checkpoint = open_checkpoint(path)
    refused(lambda: checkpoint.canonical, f"mixes names with the prefix {expected}.*one prefix", str(path))
    assert "mixes names" in checkpoint.problems[0] and checkpoint.notes == ()


BASE = visual_shapes()
PAIRS: dict[str, tuple[dict[str, tuple[int, ...]], str]] = {
    "deeper": (visual_shapes(depth=3), "depth 2 against 3"),
    "patches of another size": (visual_shapes(patch=2), "patch size 4 against 2"),
    "wider": (visual_shapes(width=16), "width 8 against 16"),
    "transposed": (BASE | {"visual.proj": (6, 8)}, r"'visual.proj' has shape \(8, 6\) .* \(6, 8\) .*transposed"),
    "broadcastable": (BASE | {"visual.ln_pre.bias": (1,)}, r"'visual.ln_pre.bias' has shape \(8,\) .* but \(1,\)"),
    "of no dimension": (BASE | {"visual.ln_pre.bias": ()}, r"'visual.ln_pre.bias' has shape \(8,\) .* but \(\)"),
    "one dimension more": (BASE | {"visual.proj": (1, 8, 6)}, r"\(8, 6\) .* but \(1, 8, 6\)"),
    "a tensor less": ({k: v for k, v in BASE.items() if k != "visual.proj"}, "expert.safetensors lacks 'visual.proj',"),
    "two tensors less": (
        {k: v for k, v in BASE.items() if "ln_post" not in k},
        "lacks 'visual.ln_post.weight' and 1 more",
    ),
    "a tensor more": (BASE | {"visual.extra": (2,)}, "base.pt lacks 'visual.extra', which .*expert.safetensors has"),
    "another naming": (vision_shapes(), "name their tensors differently"),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_experts_that_do_not_fit(tmp_path: Path, kind: str) -> None:
    shapes, expected = PAIRS[kind]
    clip = clip_shapes()
    base = open_checkpoint(write(tmp_path, "base.pt", zip_of(state(clip), clip)))
    expert = open_checkpoint(write(tmp_path, "expert.safetensors", safetensors_of(shapes)))
    refused(lambda: require_fit(base, expert), expected, str(base.path), str(expert.path), "use an expert")


def test_an_expert_of_integers_or_of_another_kind_does_not_fit(tmp_path: Path) -> None:
    base = open_checkpoint(write(tmp_path, "base.safetensors", safetensors_of(BASE)))
    half = open_checkpoint(write(tmp_path, "half.safetensors", safetensors_of(BASE, "BF16", 2)))
    require_fit(base, half)
    quantised = open_checkpoint(write(tmp_path, "int8.safetensors", safetensors_of(BASE, "I8", 1)))
    refused(
        lambda: require_fit(base, quantised), "is float32 in .* but int8 in", "int8.safetensors", "base.safetensors"
    )
    head = open_checkpoint(write(tmp_path, "head.safetensors", safetensors_of({"weight": (3, 6)})))
    refused(lambda: require_fit(base, head), "not a model; give the model's weights", "head.safetensors")
    refused(lambda: head.layout, "not a model", "head.safetensors")
