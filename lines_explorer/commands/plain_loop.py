"""The plain way to score a merged model, as evaluation scripts do it: everything anew for every point.

It is what `bench` compares the engine with, and shares nothing with it but the suite's files and the arithmetic of
``merging``: a new open_clip model, its state dict, Hugging Face ``datasets`` for decoding, open_clip's transforms.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from lines_explorer import merging
from lines_explorer.layers import layout_of, tensor_factors

if TYPE_CHECKING:
    from lines_explorer.recipe import Recipe
    from lines_explorer.suites import Suite

BATCH = 128


def plain_point(suite: Suite, recipe: Recipe, split: str, cache: Path) -> dict[str, np.ndarray]:
    """Task → bool (n,), right or wrong for every image of ``split`` in the file's order; on the CPU, in float32.

    ``cache`` is the folder in which ``datasets`` keeps its own copies of the files between the points.
    """
    model = merged_model(suite, recipe)
    return {name: score(model, suite, name, split, cache) for name, task in suite.tasks.items() if split in task.splits}


def merged_model(suite: Suite, recipe: Recipe) -> torch.nn.Module:
    """A new open_clip model that holds the recipe's weights."""
    model, base = suite.build_model(), suite.visual_base()
    if recipe.tasks:
        vectors = [suite.task_vector(task) for task in recipe.tasks]
        merged = merging.METHODS[recipe.method].merge(vectors, tasks=recipe.tasks, **dict(recipe.parameters))
        factors = tensor_factors(layout_of(base), recipe.schedule, recipe.rule)
        model.load_state_dict(merging.apply(base, merged, factors), strict=False)
    return model


@torch.inference_mode()
def score(model: torch.nn.Module, suite: Suite, task: str, split: str, cache: Path) -> np.ndarray:
    """Bool (n,): the task's images decoded, transformed and classified, batch by batch."""
    import open_clip
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    mean, std = suite.normalisation()
    transform = open_clip.image_transform(suite.image_size, is_train=False, mean=mean, std=std)
    data = Dataset.from_parquet(str(suite.tasks[task].splits[split]), cache_dir=str(cache))
    head, right = suite.head(task), []
    for first in range(0, len(data), BATCH):
        rows = data[first : first + BATCH]
        pixels = torch.stack([transform(image.convert("RGB")) for image in rows["image"]])
        predicted = (model.encode_image(pixels, normalize=True) @ head.T).argmax(dim=1)
        right.append((predicted == torch.tensor(rows["label"])).numpy())
    return np.concatenate(right)
