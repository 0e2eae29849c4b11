"""The image tower as steps, so that a forward pass can go on from what an earlier one kept.

Boundary b is what enters block b + 1 of L: boundary 0 comes from the patch embedding, boundary L leaves the last block.
A pass in steps gives the features of ``encode_image`` up to rounding, and the same bits wherever it starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from lines_explorer.engine.fused import fused

Watch = Callable[[int, torch.Tensor], None]


@dataclass(frozen=True)
class Start:
    """Activations (b, tokens, width) at ``boundary``, kept from an earlier pass of the same images.

    At boundary L there may be the class token alone, (b, 1, width), where nothing else is pooled.
    """

    boundary: int
    activations: torch.Tensor


class Tower:
    """The image tower of an open_clip model.

    ``steps`` says whether it can be called step by step, which open_clip's own ``VisionTransformer`` can; any other
    tower runs in one, and its only boundary is 0, the pixels.  ``fuse`` False leaves the blocks as open_clip has them.
    """

    def __init__(self, model: torch.nn.Module, fuse: bool = True) -> None:
        from open_clip.transformer import VisionTransformer

        self._model, self._visual = model, model.visual
        self.steps = isinstance(self._visual, VisionTransformer) and self._visual.transformer.batch_first
        self._blocks = self._visual.transformer.resblocks if self.steps else ()
        self._steps = [self._step(number) if fuse else block for number, block in enumerate(self._blocks)]

    @property
    def depth(self) -> int:
        """L, the number of blocks that are steps."""
        return len(self._blocks)

    @property
    def fused(self) -> bool:
        """Whether the blocks run in their fused form, which some CPUs have."""
        return self.steps and all(step is not block for step, block in zip(self._steps, self._blocks, strict=True))

    @property
    def heads(self) -> int:
        """Attention heads of a block, of a tower in steps."""
        return self._blocks[0].attn.num_heads

    def boundary_bytes(self) -> int:
        """Bytes of one image's activations at a boundary; 0 where there is none to keep."""
        if not self.steps:
            return 0
        return self._visual.positional_embedding.numel() * self._visual.positional_embedding.element_size()

    def embed(self, pixels: torch.Tensor) -> Start:
        """Boundary 0 of normalised pixels (b, 3, H, W)."""
        return Start(0, self._visual._embeds(pixels) if self.steps else pixels)

    def finish(self, start: Start, watch: Watch | None = None) -> torch.Tensor:
        """Unit features (b, D) from ``start`` on; ``watch`` is called with every boundary reached."""
        if not self.steps:
            return self._model.encode_image(start.activations, normalize=True)
        activations = start.activations
        for boundary in range(start.boundary, self.depth):
            if watch is not None:
                watch(boundary, activations)
            activations = self._steps[boundary](activations)
        if watch is not None:
            watch(self.depth, activations)
        pooled, _ = self._visual._pool(activations)
        return torch.nn.functional.normalize(pooled @ self._visual.proj, dim=-1)

    def _step(self, number: int) -> Callable[[torch.Tensor], torch.Tensor]:
        """How a block is computed: fused where that can be had, of the last one no more than is pooled."""
        visual, last = self._visual, number == len(self._blocks) - 1
        first = last and visual.pool_type == "tok" and visual.attn_pool is None
        return fused(self._blocks[number], first) or self._blocks[number]
