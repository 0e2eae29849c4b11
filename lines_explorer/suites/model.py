"""The suite's architecture as an open_clip model: one of open_clip's, or a model.json registered with it."""

from __future__ import annotations

import contextlib
import difflib
import json
import logging
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lines_explorer.checkpoints.folders import read_json
from lines_explorer.errors import ExplorerError

if TYPE_CHECKING:
    import torch

QUICK = "-quickgelu"
_lock = threading.Lock()


@dataclass(frozen=True)
class Architecture:
    """An open_clip architecture: its name, config (embed_dim, vision_cfg, text_cfg, …) and preprocess config.

    ``preprocess`` has ``mean`` and ``std`` of three numbers each.
    """

    name: str
    config: Mapping[str, Any]
    preprocess: Mapping[str, Any]

    @property
    def image_size(self) -> int:
        """Side of the square input, in pixels."""
        size = self.config["vision_cfg"].get("image_size", 224)  # open_clip's default
        return int(size[0] if isinstance(size, list | tuple) else size)


def read_config(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """(open_clip model config, preprocess config) of a model.json.

    model.json is an open_clip model config (embed_dim, vision_cfg, text_cfg, …) with one more key,
    ``preprocess_cfg: {mean, std}``, as in open_clip_config.json.  Raises ExplorerError when it is damaged.
    """
    config = read_json(path)
    if missing := [key for key in ("embed_dim", "vision_cfg", "text_cfg", "preprocess_cfg") if key not in config]:
        raise ExplorerError(f"{path}: the field {missing[0]} is missing.")
    preprocess = config.pop("preprocess_cfg")
    if any(len(preprocess.get(key, ())) != 3 for key in ("mean", "std")):
        raise ExplorerError(f"{path}: preprocess_cfg needs mean and std of three numbers each.")
    return config, preprocess


def full_name(name: str, config: Path | None, activation: str | None) -> str:
    """open_clip's name of the architecture, QuickGELU said; of one's own config, the name as it is."""
    quick = config is None and activation == "quickgelu" and not name.endswith(QUICK)
    return name + QUICK if quick else name


def architecture(
    name: str,
    config: Path | None = None,
    activation: str | None = None,
    preprocess: Mapping[str, Any] | None = None,
) -> Architecture:
    """The architecture ``name``: of the file ``config`` where there is one, otherwise of open_clip.

    open_clip has some architectures twice, with GELU and (``-quickgelu``) with QuickGELU, and loads the weights of one
    into the other without a word; where the name leaves it open, ``activation`` (gelu, quickgelu) must say it.
    Raises ExplorerError for an unknown name, an activation that is missing or contradicts the name, a damaged config.
    """
    if config is not None:
        found, own = read_config(config)
        if activation and bool(found.get("quick_gelu")) != (activation == "quickgelu"):
            raise ExplorerError(f"{config}: its quick_gelu is not base.activation {activation}; correct one of them.")
        return Architecture(name, found, preprocess or own)
    import open_clip
    from open_clip.constants import OPENAI_DATASET_MEAN, OPENAI_DATASET_STD

    known = set(open_clip.list_models())
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}?" if close else "`open_clip.list_models()` lists them; or give base.config."
        raise ExplorerError(f"open_clip has no architecture {name}; {hint}")
    if name.endswith(QUICK) and activation == "gelu":
        raise ExplorerError(f"base.architecture {name} contradicts base.activation gelu; correct one of them.")
    if not name.endswith(QUICK) and name + QUICK in known:
        if activation is None:
            raise ExplorerError(
                f"base.activation is missing: {name} exists with gelu and with quickgelu; write quickgelu for OpenAI's "
                "weights and everything fine-tuned from them, gelu for others."
            )
        name = full_name(name, config, activation)
    elif activation == "quickgelu" and not name.endswith(QUICK):
        raise ExplorerError(f"base.activation quickgelu: open_clip has no {name}{QUICK}; give base.config.")
    clip = {"mean": list(OPENAI_DATASET_MEAN), "std": list(OPENAI_DATASET_STD)}
    return Architecture(name, open_clip.get_model_config(name), preprocess or clip)


def create_model(name: str, config_path: Path, weights: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    """`create` for an architecture of one's own, described by the file ``config_path``."""
    return create(architecture(name, config_path), weights)


def create(found: Architecture, weights: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    """An open_clip model in eval mode on the CPU, float32, holding ``weights`` (``visual.*`` and ``logit_scale``).

    The text tower stays as initialised: suites bring frozen heads.  Raises ExplorerError when the keys or shapes of
    the weights are not those of the architecture.
    """
    model = empty(found)
    needed = {key: tensor for key, tensor in model.state_dict().items() if _is_image_side(key)}
    for key in sorted(needed.keys() | weights.keys()):
        ours = tuple(weights[key].shape) if key in weights else "nothing"
        theirs = tuple(needed[key].shape) if key in needed else "nothing"
        if ours != theirs:
            raise ExplorerError(f"The base does not fit {found.name}: {key} is {ours} in the weights, {theirs} in it.")
    model.load_state_dict(dict(weights), strict=False)
    return model.eval().requires_grad_(False)


def empty(found: Architecture) -> torch.nn.Module:
    """The open_clip model as initialised, both towers.  Raises ExplorerError when its config cannot be built."""
    import open_clip

    with _lock, _quiet():
        _register(found.name, dict(found.config))
        try:
            return open_clip.create_model(found.name, load_weights=False, force_preprocess_cfg=dict(found.preprocess))
        except (OSError, ValueError, TypeError, RuntimeError, AssertionError, ArithmeticError, LookupError) as fault:
            why = (str(fault).splitlines() or [type(fault).__name__])[0]
            raise ExplorerError(f"open_clip cannot build {found.name} ({why}); correct its config.") from fault


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
