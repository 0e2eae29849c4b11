"""The suite's model.json as an open_clip model, registered and created through open_clip."""

from __future__ import annotations

import contextlib
import json
import logging
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lines_explorer.errors import ExplorerError

if TYPE_CHECKING:
    import torch

Preprocess = tuple[tuple[float, float, float], tuple[float, float, float]]
_lock = threading.Lock()


def read_config(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """(open_clip model config, preprocess config) of a model.json.

    model.json is an open_clip model config (embed_dim, vision_cfg, text_cfg, …) with one more key,
    ``preprocess_cfg: {mean, std}``, as in open_clip_config.json.  Raises ExplorerError when it is damaged.
    """
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise ExplorerError(f"{path} cannot be read ({fault.strerror}); reinstall it.") from fault
    except ValueError as fault:
        raise ExplorerError(f"{path} is damaged: it is not JSON ({fault}).") from fault
    needed = ("embed_dim", "vision_cfg", "text_cfg", "preprocess_cfg")
    if not isinstance(config, dict) or (missing := [key for key in needed if key not in config]):
        raise ExplorerError(f"{path}: the field {missing[0] if isinstance(config, dict) else needed[0]} is missing.")
    preprocess = config.pop("preprocess_cfg")
    if any(len(preprocess.get(key, ())) != 3 for key in ("mean", "std")):
        raise ExplorerError(f"{path}: preprocess_cfg needs mean and std of three numbers each.")
    return config, preprocess


def create_model(architecture: str, config_path: Path, weights: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    """An open_clip model in eval mode on the CPU, float32, holding ``weights`` (``visual.*`` and ``logit_scale``).

    The text tower stays as initialised: suites bring frozen text vectors.  Raises ExplorerError when the keys or
    shapes of the weights are not those of the architecture.
    """
    import open_clip

    config, preprocess = read_config(config_path)
    with _lock, _quiet():
        _register(architecture, config)
        model = open_clip.create_model(architecture, load_weights=False, force_preprocess_cfg=preprocess)
    needed = {key: tensor for key, tensor in model.state_dict().items() if _is_image_side(key)}
    for key in sorted(needed.keys() | weights.keys()):
        ours = tuple(weights[key].shape) if key in weights else "nothing"
        theirs = tuple(needed[key].shape) if key in needed else "nothing"
        if ours != theirs:
            raise ExplorerError(
                f"The base does not fit {architecture}: {key} is {ours} in the weights, {theirs} in it."
            )
    model.load_state_dict(dict(weights), strict=False)
    return model.eval().requires_grad_(False)


def _is_image_side(key: str) -> bool:
    return key.startswith("visual.") or key == "logit_scale"


def _register(architecture: str, config: dict[str, Any]) -> None:
    """Makes ``architecture`` known to open_clip: it reads ``NAME.json`` once, at the call."""
    import open_clip

    if open_clip.get_model_config(architecture) == config:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{architecture}.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        open_clip.add_model_config(path)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps open_clip's "initialized randomly" from the root logger: the weights follow at once."""

    def keep(record: logging.LogRecord) -> bool:
        return "No pretrained weights loaded" not in record.getMessage()

    root = logging.getLogger()
    root.addFilter(keep)
    try:
        yield
    finally:
        root.removeFilter(keep)
