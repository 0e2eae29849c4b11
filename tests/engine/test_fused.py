"""The fused form of a block computes what the block computes, on the weights as they are at the moment."""

from __future__ import annotations

import pytest
import torch
from open_clip.transformer import QuickGELU, ResidualAttentionBlock
from torch import nn

from lines_explorer.engine import Backend
from lines_explorer.engine.forward import Tower
from lines_explorer.engine.fused import fused

WIDTH, HEADS = 32, 4
NEEDS = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")


def block(**how) -> ResidualAttentionBlock:
    torch.manual_seed(0)
    made = ResidualAttentionBlock(WIDTH, HEADS, **how).eval()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.3)
    return made


@NEEDS
@pytest.mark.parametrize("act", [nn.GELU, lambda: nn.GELU("tanh"), QuickGELU], ids=["gelu", "tanh", "quickgelu"])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("images", [1, 7])
@torch.inference_mode()
def test_it_agrees_with_the_block(act, first: bool, images: int) -> None:
    made = block(act_layer=act)
    form, x = fused(made, first), torch.randn(images, 5, WIDTH)
    whole = made(x)
    assert form(x).shape == (images, 1 if first else 5, WIDTH)
    assert torch.allclose(form(x), whole[:, :1] if first else whole, rtol=1e-5, atol=1e-5)


@NEEDS
@torch.inference_mode()
def test_it_follows_weights_written_in_place() -> None:
    made, x = block(), torch.randn(3, 5, WIDTH)
    form = fused(made)
    before = form(x)
    for parameter in made.parameters():
        parameter.data.mul_(0.5)
    assert not torch.allclose(form(x), before, atol=1e-2)
    assert torch.allclose(form(x), made(x), rtol=1e-5, atol=1e-5)


class Shifted(ResidualAttentionBlock):
    """A block with something added."""


@pytest.mark.parametrize(
    "other",
    [
        nn.Identity(), block(ls_init_value=0.1), block(batch_first=False), block().double(),
        Shifted(WIDTH, HEADS).eval(), block().to("meta"),
    ],
    ids=["no block", "layer scale", "tokens first", "double", "subclass", "meta"],
)  # fmt: skip
def test_other_blocks_have_no_such_form(other: nn.Module) -> None:
    assert fused(other) is None


@NEEDS
def test_a_form_that_disagrees_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lines_explorer.engine.fused._norm", lambda x, norm: x)
    assert fused(block()) is None


def test_without_onednn_the_tower_runs_its_own_blocks(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    plain = Tower(backend._model)
    assert plain.steps and not plain.fused
    pixels = torch.randn(4, 3, *backend._model.visual.image_size)
    with torch.inference_mode():
        expected = backend._model.encode_image(pixels, normalize=True)
        assert torch.equal(plain.finish(plain.embed(pixels)), expected)
        assert torch.allclose(backend.tower.finish(backend.tower.embed(pixels)), expected, rtol=0, atol=2e-6)
