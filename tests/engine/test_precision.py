"""A faster forward pass is checked against float32 before it is used, and its results are kept apart."""

from __future__ import annotations

import pytest
import torch

from lines_explorer.engine import Backend, Engine, Store, precision
from lines_explorer.engine.precision import Agreement, check_precision, computing
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.suites import Suite


def test_bf16_is_checked_told_and_stored_apart(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(precision, "LEAST_AGREEMENT", 0.9)  # the tiny model has narrow margins
    store = Store(":memory:")
    exact = Engine(suite, "cpu", store)
    assert exact.agreement is None and exact.precision == "float32"
    recipe = Recipe("tiny", ("shapes",))
    exact.evaluate(recipe)
    faster = Engine(suite, "cpu", store, precision="bf16")
    assert faster.agreement.n == sum(min(64, len(suite.images(task, "validation")[1])) for task in suite.tasks)
    assert faster.agreement.same >= 0.9 * faster.agreement.n
    assert faster.agreement.sentence in caplog.text
    assert faster.peek(recipe) is None, "what float32 measured is not passed off as bf16's"
    faster.evaluate(recipe)
    assert faster.peek(recipe) is not None and not faster.backend.tower.fused


def test_bf16_really_computes_otherwise_and_float32_weights_stay(suite: Suite) -> None:
    images = suite.images("shapes", "validation")[0]
    exact, faster = Backend(suite, "cpu"), Backend(suite, "cpu", "bf16")
    one, other = exact.features(images), faster.features(images)
    assert other.dtype == torch.float32 and not torch.allclose(one, other, atol=1e-6)
    assert torch.allclose(one, other, atol=0.05)
    assert all(
        torch.equal(a, b) for a, b in zip(exact.state_dict().values(), faster.state_dict().values(), strict=True)
    )


def test_a_precision_that_disagrees_is_refused(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    Agreement("bf16", 99, 100).require()
    with pytest.raises(ExplorerError, match="agree on 98 of 100 pictures.*--precision float32"):
        Agreement("bf16", 98, 100).require()
    calls = []

    def wrong(self, start, parts, watch=None, heard=None):
        calls.append(self.precision)
        return torch.full((len(start.activations),), len(calls))

    monkeypatch.setattr(Backend, "predict", wrong)
    with pytest.raises(ExplorerError, match="agree on 0 of"):
        Engine(suite, "cpu", Store(":memory:"), precision="bf16")
    assert calls == ["bf16", "float32"]


@pytest.mark.parametrize(("name", "said"), [("fp8", "no precision fp8"), ("tf32", "cpu is none")])
def test_impossible_precisions(name: str, said: str) -> None:
    with pytest.raises(ExplorerError, match=said):
        check_precision(name, torch.device("cpu"))


def test_settings_are_as_before_afterwards() -> None:
    before = torch.backends.cuda.matmul.allow_tf32
    with pytest.raises(ValueError), computing("tf32", torch.device("cuda")):
        assert torch.backends.cuda.matmul.allow_tf32
        raise ValueError
    assert torch.backends.cuda.matmul.allow_tf32 == before
    with computing("bf16", torch.device("cpu")):
        assert torch.is_autocast_enabled("cpu")
    assert not torch.is_autocast_enabled("cpu")
