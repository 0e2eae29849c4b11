"""A transformer block on a CPU with the element-wise work done inside oneDNN's matrix products.

open_clip's own block writes every bias, GELU and residual sum in a pass of its own over memory, which at small widths
takes as long as the products.  Here they are post-operations of the product that precedes them, the way
``torch.compile`` lowers them for inference, but on the live parameters: weights can still be written in place.  The
result differs from the block's by rounding alone.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Block = Callable[[Tensor], Tensor]
CLOSE = 1e-4  # of the largest activation: far above rounding, far below any mistake
PROBE = (2, 5)  # images, tokens


def fused(block: nn.Module, first: bool = False) -> Block | None:
    """The fused form of an open_clip ``ResidualAttentionBlock`` in eval mode; x (b, tokens, width) → the same shape.

    With ``first`` only the first token's output is computed, (b, 1, width): all that a class token's pooling reads of
    the last block.

    None where there is no such form: another kind of block, a device or torch without oneDNN, another dtype than
    float32, or when it does not agree with the block on a probe.
    """
    if not _plain(block) or not _available(block.mlp.c_fc.weight):
        return None
    form = _FusedBlock(block, 1 if first else None)
    with torch.inference_mode():
        probe = torch.linspace(-1, 1, PROBE[0] * PROBE[1] * form.width).sin().view(*PROBE, form.width)
        theirs = block(probe)[:, : form.asked]
        try:
            apart = (form(probe) - theirs).abs().max()
        except (RuntimeError, TypeError):  # the signature of another version
            return None
        return form if apart <= CLOSE * theirs.abs().max().clamp(min=1) else None


class _FusedBlock:
    """x + attention(ln₁(x)), then x + mlp(ln₂(x)), of the first ``asked`` tokens (None: all)."""

    def __init__(self, block: nn.Module, asked: int | None) -> None:
        self._block, self.asked, self.width = block, asked, block.attn.embed_dim
        self._gelu = block.mlp.gelu.approximate if type(block.mlp.gelu) is nn.GELU else None

    def __call__(self, x: Tensor) -> Tensor:
        rows = self._attended(_norm(x, self._block.ln_1).view(-1, self.width), x)
        return self._mlp(_norm(rows, self._block.ln_2), rows).view(len(x), -1, self.width)

    def _attended(self, normed: Tensor, x: Tensor) -> Tensor:
        """The asked tokens of x (b, tokens, width) plus what they attend to, as rows."""
        attn, (images, tokens, width) = self._block.attn, x.shape
        if self.asked is None:
            rows = x.reshape(-1, width)
            qkv = _linear(normed, attn.in_proj_weight, attn.in_proj_bias)
            query, key, value = qkv.view(images, tokens, 3, attn.num_heads, -1).permute(2, 0, 3, 1, 4)
        else:
            rows = x[:, : self.asked].reshape(-1, width)
            asking = normed.view(images, tokens, width)[:, : self.asked].reshape(-1, width)
            query = _linear(asking, attn.in_proj_weight[:width], attn.in_proj_bias[:width])
            query = query.view(images, self.asked, attn.num_heads, -1).transpose(1, 2)
            pairs = _linear(normed, attn.in_proj_weight[width:], attn.in_proj_bias[width:])
            key, value = pairs.view(images, tokens, 2, attn.num_heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(-1, width)
        return _linear_plus(mixed, attn.out_proj, rows)

    def _mlp(self, normed: Tensor, rows: Tensor) -> Tensor:
        mlp = self._block.mlp
        if self._gelu is None:
            hidden = mlp.gelu(_linear(normed, mlp.c_fc.weight, mlp.c_fc.bias))
        else:
            hidden = _linear(normed, mlp.c_fc.weight, mlp.c_fc.bias, "gelu", self._gelu)
        return _linear_plus(hidden, mlp.c_proj, rows)


def _norm(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    return F.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def _linear(x: Tensor, weight: Tensor, bias: Tensor, after: str = "none", algorithm: str = "") -> Tensor:
    """After(x Wᵀ + b)."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, after, [], algorithm)


def _linear_plus(x: Tensor, linear: nn.Linear, residual: Tensor) -> Tensor:
    """X Wᵀ + b + residual."""
    return torch.ops.mkldnn._linear_pointwise.binary(x, residual, linear.weight, linear.bias, "add")


def _plain(block: nn.Module) -> bool:
    """Whether the block is open_clip's usual one, with nothing added to it."""
    from open_clip.transformer import ResidualAttentionBlock

    return (
        type(block) is ResidualAttentionBlock
        and isinstance(block.attn, nn.MultiheadAttention)
        and block.attn.batch_first
        and block.attn.in_proj_weight is not None
        and block.attn.bias_k is None
        and isinstance(block.ls_1, nn.Identity)
        and isinstance(block.ls_2, nn.Identity)
        and all(bias is not None for bias in (block.attn.in_proj_bias, block.mlp.c_fc.bias, block.mlp.c_proj.bias))
    )


def _available(weight: Tensor) -> bool:
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )
