"""Which of a checkpoint's tensors are the model to merge, and what wrappers stand before their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lines_explorer.checkpoints.sources import shown
from lines_explorer.errors import ExplorerError

WRAPPERS = ("module.", "_orig_mod.", "_forward_module.", "_fsdp_wrapped_module.")
HOLDERS = ("model.", "net.", "network.", "backbone.", "image_encoder.", "encoder.", "student.")
STARTS = ("blocks.", "patch_embed.", "cls_token", "transformer.resblocks.", "stages.", "stem.", "layer1.")
VISUAL = re.compile(r"(.*?)visual\.(?:transformer\.|conv1\.|class_embedding|trunk\.|stem\.|layer1\.)")
VISION = re.compile(r"(.*?)vision_model\.(?:encoder|embeddings)\.")
MOST_WRAPPERS = 16
PROJECTION = "visual_projection.weight"
BARE = ("transformer.resblocks.", "conv1.weight", "class_embedding")


@dataclass(frozen=True)
class Tower:
    """The model to merge.

    Attributes:
        names: canonical name → name in the file.
        notes: what was taken off or left out.
    """

    names: Mapping[str, str]
    notes: tuple[str, ...]


def tower_of(path: Path, names: Iterable[str]) -> Tower:
    """The image tower of a CLIP model (``visual.*`` or ``vision_model.*`` with its projection), or else all tensors.

    Wrappers (``module.``, ``model.`` …) are taken off; an open_clip tower saved alone gets its ``visual.`` back.

    Raises ExplorerError when a wrapper stands before some names only, or there are two towers.
    """
    names = list(names)
    for pattern in (VISUAL, VISION):
        prefixes = {match[1]: name for name in names if (match := pattern.match(name))}
        if len(prefixes) > 1:
            (one, first), (two, second) = list(prefixes.items())[:2]
            raise _mixed(path, one, first, two, second)
        if prefixes:
            return _within(next(iter(prefixes)), "visual." if pattern is VISUAL else "vision_model.", names)
    prefix = _common_wrappers(path, names)
    bare = [name[len(prefix) :] for name in names]
    alone = all(any(name.startswith(start) for name in bare) for start in BARE) and "token_embedding.weight" not in bare
    before = "visual." if alone else ""
    found = {before + short: name for short, name in zip(bare, names, strict=True)}
    notes = [f"prefix '{prefix}' taken off"] * bool(prefix) + ["prefix 'visual.' put before all names"] * alone
    return Tower(found, tuple(notes))


def _within(prefix: str, tower: str, names: list[str]) -> Tower:
    """The tensors of the tower that stands behind ``prefix``."""
    found = {name[len(prefix) :]: name for name in names if name.startswith(prefix + tower)}
    if tower == "vision_model." and prefix + PROJECTION in names:
        found[PROJECTION] = prefix + PROJECTION
    left = len(names) - len(found)
    notes = [f"prefix '{shown(prefix)}' taken off"] * bool(prefix)
    notes += [f"{left} tensors outside the image tower are left out"] * bool(left)
    return Tower(found, tuple(notes))


def _common_wrappers(path: Path, names: list[str]) -> str:
    """What stands before all names and is only a wrapper."""
    prefix = ""
    for _ in range(MOST_WRAPPERS):
        bare = [name[len(prefix) :] for name in names]
        for wrapper in WRAPPERS:
            wrapped = [name for name in bare if name.startswith(wrapper)]
            if wrapped and len(wrapped) < len(bare):
                plain = next(name for name in bare if not name.startswith(wrapper))
                raise _mixed(path, prefix + wrapper, prefix + wrapped[0], prefix, prefix + plain)
        candidates = [
            wrapper
            for wrapper in (*WRAPPERS, *HOLDERS)
            if all(name.startswith(wrapper) for name in bare)
            and (wrapper in WRAPPERS or any(name.startswith(STARTS, len(wrapper)) for name in bare))
        ]
        if not candidates:
            break
        prefix += candidates[0]
    return prefix


def _mixed(path: Path, one: str, first: str, two: str, second: str) -> ExplorerError:
    return ExplorerError(
        f"{path} mixes names with the prefix '{shown(one)}' ('{shown(first)}') and '{shown(two)}' ('{shown(second)}'); "
        "save one model under one prefix."
    )
