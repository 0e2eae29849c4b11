"""Pre-training: each loss means what it says, and an interrupted run continues exactly."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from lines_explorer.training import base, teacher
from lines_explorer.training.corpus import Corpus, Group, whitened, without_categories
from lines_explorer.training.muon import Muon, orthogonalised
from lines_explorer.training.text import TextSpace


def unit(*shape: int, seed: int = 0) -> torch.Tensor:
    return F.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


def test_teacher_loss_falls_when_every_picture_finds_its_own_vector():
    target = unit(6, base.TEACHER)
    readout = torch.nn.Identity()
    right, wrong = base.teacher_loss(target, target, readout), base.teacher_loss(target.flip(0), target, readout)
    assert right < 0.2 < 2 < wrong


def test_caption_loss_does_not_count_synonyms_against_the_right_caption():
    own, others, scale = unit(1, 8), unit(5, 8, seed=1), torch.tensor(20.0)
    alone = base.caption_loss(own, own, others, scale, 0.9)
    with_copies = base.caption_loss(own, own, torch.cat([own, own, others]), scale, 0.9)
    assert torch.allclose(with_copies, alone), "copies of the right caption are masked"
    counted = base.caption_loss(own, own, torch.cat([own, own, others]), scale, 2.0)
    assert counted > alone + 1.0, "without the mask each copy competes"


def test_names_loss_is_smallest_at_the_teachers_own_probabilities():
    names, scale = torch.eye(5), torch.tensor(10.0)
    logits = torch.tensor([[9.0, 0, 0, 0, 0]])
    agree = base.names_loss(names[:1], logits, names, scale)
    assert agree < 0.05 < 5 < base.names_loss(names[1:2], logits, names, scale)


@pytest.fixture
def corpus() -> Corpus:
    rng = np.random.default_rng(0)
    groups = {}
    for name in ("icons", "glyphs", "digits", "flags"):
        n = 24
        captions = rng.integers(0, 10, n) if name in ("icons", "glyphs") else None
        pixels = rng.integers(0, 255, (n, 32, 32, 3), dtype=np.uint8)
        groups[name] = Group(name, pixels, unit(n, base.TEACHER), torch.zeros(n, 1000), captions)
    space = TextSpace(torch.zeros(384), torch.eye(384)[:, :256])
    return Corpus(groups, unit(2, 10, 256), np.arange(3), unit(1000, 256), space)


def test_an_interrupted_run_continues_exactly(corpus, tmp_path):
    plan = base.Plan(cycles=(2, 2), batch=16, icons=4, glyphs=4, negatives=4, warmup=2)
    whole = base.Pretraining(corpus, plan, tmp_path / "whole")
    whole.run(report=2, save=10)
    half = base.Pretraining(corpus, plan, tmp_path / "half")
    stop = iter([None, None, KeyboardInterrupt])
    losses = half.losses

    def interrupted(rng):
        if (signal := next(stop)) is not None:
            half.save()
            raise signal
        return losses(rng)

    half.losses = interrupted
    with pytest.raises(KeyboardInterrupt):
        half.run(report=10, save=10)
    rest = base.Pretraining(corpus, plan, tmp_path / "half")
    rest.run(report=10, save=10)
    assert rest.step == 4
    for (name, ours), theirs in zip(
        rest.student.state_dict().items(), whole.student.state_dict().values(), strict=True
    ):
        assert torch.equal(ours, theirs), name
    assert len((tmp_path / "whole" / "log.jsonl").read_text().splitlines()) == 2


def test_the_student_is_the_open_clip_model_of_the_configuration(tmp_path):
    import json

    from lines_explorer.suites.model import create_model

    (tmp_path / "model.json").write_text(json.dumps(base.CONFIG))
    student = base.Student(["icons"])
    weights = {f"visual.{key}": tensor for key, tensor in student.visual.state_dict().items()}
    model = create_model(base.ARCHITECTURE, tmp_path / "model.json", weights | {"logit_scale": torch.tensor(3.0)})
    x = torch.randn(2, 3, 32, 32)
    student.eval()
    assert torch.allclose(model.encode_image(x), student.visual(x), atol=1e-5)


def test_orthogonalised_keeps_directions_and_levels_singular_values():
    matrices = torch.randn(3, 20, 8, generator=torch.Generator().manual_seed(0))
    result = orthogonalised(matrices)
    values = torch.linalg.svdvals(result)
    assert values.min() > 0.5 and values.max() < 1.3
    u, _, vt = torch.linalg.svd(matrices, full_matrices=False)
    assert F.cosine_similarity(result.flatten(1), (u @ vt).flatten(1)).min() > 0.97


def test_muon_goes_downhill_and_decays():
    weight = torch.nn.Parameter(torch.full((4, 4), 2.0) + torch.eye(4))
    optimizer = Muon([weight], lr=0.5)
    for _ in range(60):
        optimizer.zero_grad()
        loss = weight.square().sum()
        loss.backward()
        optimizer.step()
    assert loss < 20 < (torch.full((4, 4), 2.0) + torch.eye(4)).square().sum()
    still = torch.nn.Parameter(torch.ones(2, 2))
    still.grad = torch.zeros(2, 2)
    Muon([still], lr=0.1, weight_decay=0.5).step()
    assert torch.allclose(still, torch.full((2, 2), 0.95))


def test_whitened_features_are_unit_and_centred():
    features = np.random.default_rng(0).normal(3, 2, (300, 40)).astype(np.float16)
    vectors = whitened(features, 8)
    assert vectors.shape == (300, 8)
    assert torch.allclose(vectors.norm(dim=1), torch.ones(300), atol=1e-5)
    assert vectors.mean(0).norm() < 0.2


def test_the_text_space_spreads_crowded_sentences():
    common = unit(1, 384)
    crowded = F.normalize(common + 0.2 * unit(400, 384, seed=1), dim=-1)
    space = TextSpace.fit(crowded, 16)
    vectors = space(crowded)
    assert (crowded @ crowded.T).mean() > 0.9
    assert vectors.shape == (400, 16) and (vectors @ vectors.T).mean().abs() < 0.1


def test_tags_that_name_nothing_are_dropped():
    captions = ["purse, moneyshopping", "wallet, purse, wallet", "purse"]
    assert without_categories(captions) == ["purse", "wallet, purse", "purse"]


def test_teacher_features_are_kept_for_the_same_pixels_only(tmp_path, monkeypatch):
    looks = []

    def look(pictures, note):
        looks.append(note)
        return np.full((len(pictures), 2), len(looks), np.float16), np.zeros((len(pictures), 3), np.float16)

    monkeypatch.setattr(teacher, "look", look)
    pixels = np.zeros((4, 32, 32, 3), np.uint8)
    first = teacher.looked(pixels, tmp_path / "a.npz", "a")[0]
    assert np.array_equal(teacher.looked(pixels, tmp_path / "a.npz", "a")[0], first) and len(looks) == 1
    changed = pixels + 1
    assert teacher.looked(changed, tmp_path / "a.npz", "a")[0][0, 0] == 2, (
        "other pixels of the same count: looked again"
    )
