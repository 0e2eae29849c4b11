"""The model card of an exported model: what it is, how it is opened, where it comes from, how it scored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml

from lines_explorer.commands.report import percent
from lines_explorer.merging import METHODS

if TYPE_CHECKING:
    from lines_explorer.engine import Evaluation
    from lines_explorer.recipe import Recipe
    from lines_explorer.suites import Suite

PAPER = (
    'LiNeS: Wang et al., "LiNeS: Post-training Layer Scaling Prevents Forgetting and Enhances Model Merging", '
    "ICLR 2025, arXiv 2410.17146."
)
OPEN = {
    "open_clip": (
        "import open_clip\n\n"
        'model, _, preprocess = open_clip.create_model_and_transforms("local-dir:FOLDER")\n'
        "features = model.encode_image(preprocess(image)[None], normalize=True)"
    ),
    "hf": (
        "from transformers import CLIPImageProcessor, CLIPVisionModelWithProjection\n\n"
        'model = CLIPVisionModelWithProjection.from_pretrained("FOLDER")\n'
        'processor = CLIPImageProcessor.from_pretrained("FOLDER")\n'
        'features = model(**processor(image, return_tensors="pt")).image_embeds\n'
        "features = features / features.norm(dim=-1, keepdim=True)"
    ),
}
LIBRARY = {"open_clip": "open_clip", "hf": "transformers"}


def model_card(
    suite: Suite,
    recipe: Recipe,
    source: Mapping[str, Any],
    factors: Sequence[float],
    file_format: str,
    mergekit: str,
    evaluation: Evaluation | None = None,
) -> str:
    """README.md of an exported model.

    Args:
        suite: the suite that was open.
        recipe: what was merged.
        source: recipe, its hash, and the sha256 of every file that went in, as in the weights' metadata.
        factors: λ of the tensors before block 1, of blocks 1…L, and of those after block L.
        file_format: ``open_clip`` or ``hf``.
        mergekit: a sentence on mergekit.yaml, or why there is none.
        evaluation: the recipe's stored scores; None when it was not scored yet.
    """
    experts = ", ".join(recipe.tasks) or "none (the base)"
    front = {
        "library_name": LIBRARY[file_format],
        "pipeline_tag": "zero-shot-image-classification",
        "tags": ["clip", "model-merging", "task-arithmetic", "lines"],
    }
    sections = [
        f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n# {suite.title}: {experts}",
        f"A merged CLIP image tower, θ = θ₀ + λ⁽ˡ⁾τ⁽ˡ⁾, written by LiNeS Explorer. Experts: {experts}. Method: "
        f"{METHODS[recipe.method].title}. Weights are float32. {PAPER}",
        f"```python\n{OPEN[file_format]}\n```",
        "`heads.safetensors` holds one frozen head (classes, D) per task; `features @ head.T` are the logits, and the "
        "file's metadata lists the classes in order.",
        *(["The text tower is not part of the suite: its tensors are zeros."] if file_format == "open_clip" else []),
        "## Factors\n\n" + factor_table(factors),
        *(["## Accuracy\n\n" + _scores(evaluation)] if evaluation and evaluation.scores else []),
        f"## Recipe and sources\n\n```json\n{json.dumps(source, indent=2, ensure_ascii=False)}\n```",
        f"## mergekit\n\n{mergekit}",
    ]
    return "\n\n".join(sections) + "\n"


def factor_table(factors: Sequence[float]) -> str:
    """λ before block 1, of blocks 1…L, and after block L, as a Markdown table."""
    before, *blocks, after = factors
    rows = [("before block 1", before), *((f"block {n}", factor) for n, factor in enumerate(blocks, start=1))]
    rows.append((f"after block {len(blocks)}", after))
    return "| tensors | λ |\n|---|---|\n" + "\n".join(f"| {name} | {factor:g} |" for name, factor in rows)


def _scores(evaluation: Evaluation) -> str:
    head = f"Raw top-1 accuracy on the split `{evaluation.split}`, with its 95 % interval.\n\n"
    rows = ["| task | % | interval | n |", "|---|---|---|---|"]
    for task, score in evaluation.scores.items():
        seen = score.accuracy
        interval = f"{percent(seen.low)} to {percent(seen.high)}"
        rows.append(f"| {task} | {percent(seen.value)} | {interval} | {seen.n} |")
    return head + "\n".join(rows)
