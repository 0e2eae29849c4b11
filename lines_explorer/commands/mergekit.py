"""A recipe as a mergekit file, where mergekit computes the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import yaml

from lines_explorer.errors import ExplorerError
from lines_explorer.layers import layout_of
from lines_explorer.merging import METHODS

if TYPE_CHECKING:
    from lines_explorer.recipe import Recipe

AFTER = ("post_layernorm.", "visual_projection.")
EXPRESSIBLE = ("sum", "average")


def mergekit_config(recipe: Recipe, keys: Iterable[str]) -> dict[str, Any]:
    """The recipe for mergekit's ``task_arithmetic``, θ₀ + Σₜ wₜτₜ, with a weight per block.

    mergekit gives a tensor the first weight whose filter occurs in its name. The base is expected in the folder
    ``base``, the experts in ``experts/TASK``, all in Hugging Face's layout.

    Args:
        recipe: of at least one task.
        keys: the model's tensor names in Hugging Face's layout.

    Raises:
        ExplorerError: saying why mergekit cannot express the recipe.
    """
    if not recipe.tasks:
        raise ExplorerError("the base alone is no merge.")
    if recipe.method not in EXPRESSIBLE:
        raise ExplorerError(
            f"{METHODS[recipe.method].title} is computed here over whole task vectors, and not, or otherwise, there."
        )
    layout = layout_of(keys)
    share = len(recipe.tasks) if recipe.method == "average" else 1
    before, after = (factor / share for factor in recipe.schedule.outer_factors(layout.depth, recipe.rule))
    blocks = [factor / share for factor in recipe.schedule.block_factors(layout.depth)]
    weight: Any = before
    if {before, after, *blocks} != {before}:
        rows = [{"filter": f".layers.{block}.", "value": factor} for block, factor in enumerate(blocks)]
        rows += [{"filter": name, "value": after} for name in AFTER if after != before]
        weight = [*rows, {"value": before}]
    return {
        "merge_method": "task_arithmetic",
        "base_model": "base",
        "models": [{"model": f"experts/{task}", "parameters": {"weight": weight}} for task in recipe.tasks],
        "parameters": {"normalize": False, "lambda": 1.0},
        "dtype": "float32",
    }


def mergekit_yaml(recipe: Recipe, keys: Iterable[str]) -> str:
    """``mergekit_config`` as a file that says where its inputs come from. Raises as it does."""

    class Plain(yaml.SafeDumper):
        """Writes equal lists out instead of pointing to the first."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    config = yaml.dump(mergekit_config(recipe, keys), Dumper=Plain, sort_keys=False)
    first = recipe.tasks[0]
    lines = [
        "Computes the same model: mergekit-yaml mergekit.yaml OUT",
        "Write its inputs beside it first, with the suite that the model comes from:",
        f"  lines-explorer merge --suite {recipe.suite} --tasks {first} --scale 0 --format hf --out base",
        *(
            f"  lines-explorer merge --suite {recipe.suite} --tasks {task} --scale 1 --format hf --out experts/{task}"
            for task in recipe.tasks
        ),
    ]
    return "".join(f"# {line}\n" for line in lines) + config
