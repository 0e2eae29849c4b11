"""Checkpoints written by torch itself, from the shapes of ``makers``."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from makers import Shapes, clip_shapes, vision_shapes, visual_shapes
from torch import Tensor, nn


def filled(shapes: Shapes, seed: int = 0) -> dict[str, Tensor]:
    """Random tensors of these shapes; the same seed gives a name of one shape the same numbers in any model."""
    return {
        name: torch.randn(shape, generator=torch.Generator().manual_seed(seed + len(name)))
        for name, shape in shapes.items()
    }


def visual_state(depth: int = 2, seed: int = 0) -> dict[str, Tensor]:
    """An image tower, names ``visual.*``."""
    return filled(visual_shapes(depth), seed)


def clip_state(depth: int = 2, seed: int = 0) -> dict[str, Tensor]:
    """A CLIP model; its image tower is that of ``visual_state``."""
    return filled(clip_shapes(depth), seed)


def vision_state(depth: int = 2) -> dict[str, Tensor]:
    """An image tower as transformers names it, with the old ``position_ids``."""
    return filled(vision_shapes(depth)) | {"vision_model.embeddings.position_ids": torch.arange(5)[None]}


def saved(content: Any, zipped: bool = True) -> bytes:
    """``content`` through torch.save."""
    file = io.BytesIO()
    torch.save(content, file, _use_new_zipfile_serialization=zipped)
    return file.getvalue()


@contextmanager
def vanishing_module(name: str) -> Iterator[ModuleType]:
    """A module that can be imported while something is pickled, and is gone afterwards."""
    module, parents = ModuleType(name), name.split(".")[:-1]
    added = {".".join(parents[: end + 1]): ModuleType(parents[0]) for end in range(len(parents))} | {name: module}
    assert not added.keys() & sys.modules.keys()
    sys.modules.update(added)
    try:
        yield module
    finally:
        for key in added:
            del sys.modules[key]


def define(module: ModuleType, name: str, *bases: type, **body: Any) -> type:
    """A class that pickle finds in ``module``."""
    cls = type(name, bases or (object,), body | {"__module__": module.__name__})
    setattr(module, name, cls)
    return cls


def as_modules(state: Mapping[str, Tensor], cls: Callable[[], nn.Module]) -> nn.Module:
    """Nested modules of class ``cls`` whose state dict is ``state``."""
    root = cls()
    for name, tensor in state.items():
        *path, last = name.split(".")
        here = root
        for part in path:
            if part not in here._modules:
                here.add_module(part, cls())
            here = here._modules[part]  # type: ignore[assignment]
        if tensor.is_floating_point():
            here.register_parameter(last, nn.Parameter(tensor))
        else:
            here.register_buffer(last, tensor)
    return root
