"""``merge-files``: checkpoints merged as plain weights, whatever the architecture; nothing is scored.

For models that no evaluator here can score (BERT, T5, Llama, timm …) and for checkpoints that are in no suite.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lines_explorer.checkpoints import Checkpoint, Tensors, open_checkpoint, require_fit, write_safetensors
from lines_explorer.checkpoints.adapters import adapter_task_vector
from lines_explorer.commands.card import PAPER, factor_table
from lines_explorer.commands.export import HF_WEIGHTS, check_folder, header, write_text
from lines_explorer.commands.folder import folder_beside, told_in_a_sentence
from lines_explorer.commands.options import ScheduleOptions, choose, parse_schedule
from lines_explorer.commands.report import Report
from lines_explorer.commands.searching import parse_parameters
from lines_explorer.errors import ExplorerError
from lines_explorer.layers import tensor_factors
from lines_explorer.merging import METHODS, apply, norm_ratio, task_vector
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import RULES, Schedule
from lines_explorer.suites.weights import without_frozen

if TYPE_CHECKING:
    import torch

FILES, CARD = "files", "README.md"
BESIDE = (".json", ".txt", ".model", ".jinja")  # configs and tokenizers, which a folder takes along
LARGEST_BESIDE = 64 << 20


@dataclass(frozen=True)
class Asked:
    """What is to be merged and how, as the command line gives it."""

    base: Path
    experts: Sequence[Path]
    method: str = "sum"
    parameters: Sequence[str] = ()
    schedule: ScheduleOptions = ScheduleOptions()
    rule: str = "reference"


def merge_files(asked: Asked, out: Path, force: bool = False) -> Report:
    """Write θ₀ + λ⁽ˡ⁾·g(τ₁ … τ_T) into the folder ``out``, under the base's names and in its dtypes.

    What is not merged (a CLIP model's text tower, integer buffers) is the base's. Experts are weights of the base's
    names and shapes, or peft adapters of the base. ``out`` is written beside and renamed; of a folder the configs and
    tokenizer files are taken along.

    Raises:
        ExplorerError: a file that is no checkpoint, experts that do not fit the base, an unknown architecture, a value
            that is not finite, a bad option, or a place that cannot be written.
    """
    check_folder(out, force)
    method = METHODS[choose("method", asked.method, METHODS)]
    choose("layer rule", asked.rule, RULES)
    base = open_checkpoint(asked.base)
    layout, theta = base.layout, base.canonical
    experts = dict(sorted(_named(asked.experts).items()))
    parameters = parse_parameters(asked.method, asked.parameters)
    method.check(parameters, len(experts))
    vectors = [_vector(base, expert, theta) for expert in experts.values()]
    merged = method.merge(vectors, tasks=tuple(experts), **dict(parameters))

    def default_alpha() -> float:
        return 1.0 if len(vectors) == 1 else norm_ratio(vectors, merged)

    schedule = parse_schedule(asked.schedule, layout.depth, default_alpha)
    recipe = Recipe(FILES, tuple(experts), asked.method, parameters, schedule, asked.rule)
    only = next(iter(experts.values())) if len(experts) == 1 else None
    whole = only.canonical if only and only.kind != "adapter" and _same(merged, vectors[0]) else None
    factors = tensor_factors(layout, schedule, asked.rule)
    result = _complete(base, apply(dict(theta), merged, factors, dict(whole) if whole else None))
    source = _provenance(recipe, base, experts)
    digest = _write(base, out, result, source, _card(base, recipe, source, layout.depth))
    file = out / HF_WEIGHTS
    found = {"file": str(file), "sha256": digest, "recipe": recipe.as_dict(), "family": layout.family}
    factor = f"alpha {schedule.alpha:.4g}, beta {schedule.beta:.4g}" if schedule.kind != "free" else "free factors"
    text = f"{file}\nsha256 {digest}\n{layout.family}, {layout.depth} blocks; {method.title}, {factor}"
    return Report(found | {"blocks": layout.depth, "tensors": len(result)}, text)


def _named(paths: Sequence[Path]) -> dict[str, Checkpoint]:
    """Checkpoints under the shortest names that tell them apart: file or folder name, or with the folder's before."""
    if twice := sorted({str(path) for path in paths if list(paths).count(path) > 1}):
        raise ExplorerError(f"--expert {twice[0]} is given twice: name each expert once.")
    for names in ([path.stem for path in paths], [f"{path.parent.name}/{path.stem}" for path in paths]):
        if len(set(names)) == len(paths):
            return dict(zip(names, map(open_checkpoint, paths), strict=True))
    return {str(path): open_checkpoint(path) for path in paths}


def _vector(base: Checkpoint, expert: Checkpoint, theta: Tensors) -> dict[str, torch.Tensor]:
    """τ of one expert, under canonical names."""
    if expert.kind == "adapter":
        return without_frozen(adapter_task_vector(expert.path, dict(theta)))
    require_fit(base, expert)
    try:
        return without_frozen(task_vector(theta, expert.canonical))
    except ExplorerError as fault:
        raise ExplorerError(f"{expert.path}, compared with {base.path}: {fault}") from fault


def _same(one: Tensors, other: Tensors) -> bool:
    return all(bool((one[key] == other[key]).all()) for key in one)


def _complete(base: Checkpoint, merged: Tensors) -> dict[str, torch.Tensor]:
    """All tensors of the base's file under their own names, those of the model merged."""
    stored = {old: name for name, old in base.canonical_names.items()}
    return {old: merged[stored[old]] if old in stored else base.tensors[old].clone() for old in base.entries}


def _provenance(recipe: Recipe, base: Checkpoint, experts: Mapping[str, Checkpoint]) -> dict[str, Any]:
    hashes = {name: expert.sha256 for name, expert in experts.items()}
    facts = {"recipe": recipe.as_dict(), "recipe_hash": recipe.hash()}
    facts |= {"base_sha256": base.sha256, "experts_sha256": hashes}
    return facts if base.quick_gelu is None else facts | {"quick_gelu": base.quick_gelu}


def _card(base: Checkpoint, recipe: Recipe, source: Mapping[str, Any], depth: int) -> str:
    schedule: Schedule = recipe.schedule
    before, after = schedule.outer_factors(depth, recipe.rule)
    sections = [
        "---\ntags:\n- model-merging\n- task-arithmetic\n- lines\n---\n# Merged weights",
        f"θ = θ₀ + λ⁽ˡ⁾τ⁽ˡ⁾ of {base.layout.family} weights, written by LiNeS Explorer. Experts: "
        f"{', '.join(recipe.tasks)}. Method: {METHODS[recipe.method].title}. Names and dtypes are the base's. {PAPER}",
        "## Factors\n\n" + factor_table((before, *schedule.block_factors(depth), after)),
        "Not scored.",
        f"## Recipe and sources\n\n```json\n{json.dumps(source, indent=2, ensure_ascii=False)}\n```",
    ]
    return "\n\n".join(sections) + "\n"


def _beside(base: Checkpoint) -> Iterator[Path]:
    """Configs and tokenizer files of a folder, which the merged model needs as the base does."""
    for file in sorted(base.path.iterdir()) if base.path.is_dir() else ():
        wanted = file.suffix in BESIDE and not file.name.endswith(".index.json") and file.name[0] != "."
        if wanted and file.is_file() and file.stat().st_size <= LARGEST_BESIDE:
            yield file


def _write(base: Checkpoint, out: Path, result: Tensors, source: Mapping[str, Any], card: str) -> str:
    with told_in_a_sentence(out), folder_beside(out, last=HF_WEIGHTS, replaces=(HF_WEIGHTS, CARD)) as beside:
        for file in _beside(base):
            shutil.copyfile(file, beside / file.name)
        write_text(beside / CARD, card)
        return write_safetensors(beside / HF_WEIGHTS, result, header("weights", **source))
