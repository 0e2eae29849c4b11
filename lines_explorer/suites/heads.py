"""A task's frozen head: rows exp(logit_scale) × the re-normalised mean over templates of unit text embeddings."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lines_explorer.checkpoints import read_safetensors, write_safetensors
from lines_explorer.errors import ExplorerError
from lines_explorer.suites import model as models
from lines_explorer.suites.cache import cache_folder
from lines_explorer.suites.task import Task

if TYPE_CHECKING:
    import torch

    from lines_explorer.suites.model import Architecture

BATCH = 128  # texts at once


def head_of_vectors(vectors: torch.Tensor, logit_scale: torch.Tensor) -> torch.Tensor:
    """The head (classes, D), float32, of text embeddings (classes, templates, D) (METHOD: evaluation protocol)."""
    import torch

    unit = torch.nn.functional.normalize(vectors.float(), dim=-1)
    mean = torch.nn.functional.normalize(unit.mean(dim=1), dim=-1)
    return logit_scale.exp() * mean


def text_vectors(
    task: Task, found: Architecture, base_sha256: str, read: Callable[[], Mapping[str, torch.Tensor]]
) -> torch.Tensor:
    """Unit text embeddings (classes, templates, D), float32, of the task's prompts by the base's text tower.

    Computed once for each base, architecture and wording, then kept in the cache folder; ``read`` gives the base's
    tensors when needed.  Raises ExplorerError when the base has no text tower, or another one than the architecture's.
    """
    texts = [[template.replace("{}", prompt) for template in task.templates] for prompt in task.prompts]
    key = hashlib.sha256(json.dumps([base_sha256, found.name, dict(found.config), texts]).encode()).hexdigest()
    file = cache_folder() / "heads" / f"{key[:40]}.safetensors"
    with contextlib.suppress(ExplorerError):
        kept = read_safetensors(file).get("vectors") if file.is_file() else None
        if kept is not None and kept.shape[:2] == (len(task.prompts), len(task.templates)):
            return kept
    vectors = _encode(task, texts, found, read())
    with contextlib.suppress(ExplorerError):
        write_safetensors(file, {"vectors": vectors}, {"content": "text vectors"})
    return vectors


def _encode(task: Task, texts: list[list[str]], found: Architecture, base: Mapping[str, torch.Tensor]) -> torch.Tensor:
    import open_clip
    import torch

    model = models.empty(found)
    needed = model.state_dict()
    missing = [key for key in needed if key not in base]
    if missing:
        raise ExplorerError(
            f"Task {task.name} needs a head: the base has no text tower ({missing[0]} is missing), so name a head file "
            "in suite.yaml, or a base that has its text tower."
        )
    for key, tensor in needed.items():
        if tensor.shape != base[key].shape:
            ours, theirs = tuple(base[key].shape), tuple(tensor.shape)
            raise ExplorerError(f"The base does not fit {found.name}: {key} is {ours} in the weights, {theirs} in it.")
    model.load_state_dict({key: base[key].float() for key in needed})
    model.eval()
    try:
        tokenize = open_clip.get_tokenizer(found.name)
    except (OSError, ValueError, ImportError) as fault:
        raise ExplorerError(
            f"The tokenizer of {found.name} cannot be had ({str(fault).splitlines()[0]}); name a head file instead."
        ) from fault
    flat = [text for row in texts for text in row]
    with torch.inference_mode():
        parts = [
            model.encode_text(tokenize(flat[start : start + BATCH]), normalize=True)
            for start in range(0, len(flat), BATCH)
        ]
    return torch.cat(parts).reshape(len(texts), len(texts[0]), -1).clone()
