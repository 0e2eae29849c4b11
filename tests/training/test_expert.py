"""Fine-tuning: continues exactly, keeps the head frozen, reports what it did."""

import numpy as np
import pytest
import torch

from lines_explorer.training import expert


def tower() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 8, 8), torch.nn.GELU(), torch.nn.Flatten(), torch.nn.Linear(128, 6)
    )


@pytest.fixture
def pictures() -> tuple[np.ndarray, np.ndarray]:
    """Two classes: dark and light pictures."""
    rng = np.random.default_rng(0)
    labels = np.arange(64) % 2
    pixels = np.clip(rng.normal(60 + 120 * labels[:, None, None, None], 20, (64, 32, 32, 3)), 0, 255)
    return pixels.astype(np.uint8), labels


HEAD = 8 * torch.nn.functional.normalize(torch.randn(2, 6, generator=torch.Generator().manual_seed(1)), dim=-1)


def test_learns_and_removes_its_checkpoint(pictures, tmp_path):
    model, head = tower(), HEAD.clone()
    before = expert.accuracy(model, head, *pictures)
    facts = expert.fine_tune(model, head, *pictures, expert.Recipe(steps=120, batch=32, rate=3e-3), tmp_path / "c.pt")
    assert expert.accuracy(model, head, *pictures) > max(before, 0.9)
    assert torch.equal(head, HEAD), "the head is frozen"
    assert facts["images"] == 120 * 32 and np.isfinite(facts["loss"])
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_continues_exactly(pictures, tmp_path, monkeypatch):
    recipe = expert.Recipe(steps=150, batch=16)
    whole = tower()
    expert.fine_tune(whole, HEAD, *pictures, recipe, tmp_path / "whole.pt")

    interrupted, path = tower(), tmp_path / "half.pt"
    save = expert._save

    def killed(*arguments):
        save(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(expert, "_save", killed)
    with pytest.raises(KeyboardInterrupt):
        expert.fine_tune(interrupted, HEAD, *pictures, recipe, path)
    monkeypatch.setattr(expert, "_save", save)
    fresh = tower()
    expert.fine_tune(fresh, HEAD, *pictures, recipe, path)
    for ours, theirs in zip(fresh.parameters(), whole.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_checkpoint_of_another_recipe_is_not_used(pictures, tmp_path):
    model, path = tower(), tmp_path / "c.pt"
    groups = [{"params": [p for p in model.parameters() if (p.ndim >= 2) is matrix]} for matrix in (True, False)]
    expert._save(path, model, torch.optim.AdamW(groups), expert.Recipe(steps=7), 5)
    optimizer = torch.optim.AdamW(groups)
    assert expert._restore(path, model, optimizer, expert.Recipe(steps=8)) == 0
    assert expert._restore(path, model, optimizer, expert.Recipe(steps=7)) == 5


def test_a_loss_that_is_not_finite_stops_the_run(pictures, tmp_path):
    model = tower()
    with torch.no_grad():
        model[0].weight.fill_(float("inf"))
    with pytest.raises(FloatingPointError, match="learning rate"):
        expert.fine_tune(model, HEAD, *pictures, expert.Recipe(steps=3, batch=8), tmp_path / "c.pt")


def test_the_rate_warms_up_and_falls_to_zero():
    recipe = expert.Recipe(steps=100, rate=1e-3, warmup=10)
    rates = [recipe.rate_at(step) for step in range(100)]
    assert rates[0] == pytest.approx(1e-4, rel=0.01)
    assert max(rates) == pytest.approx(1e-3, rel=0.05) and rates.index(max(rates)) in (9, 10)
    assert rates[-1] < 1e-6


def test_relative_norm_of_a_known_move():
    base = {"w": torch.tensor([3.0, 4.0])}
    assert expert.relative_norm(base, {"w": torch.tensor([3.0, 4.5])}) == pytest.approx(0.1)
