"""`build-suite statistics`: what is measured is what the papers say, and what is stored of it serves as well."""

import shutil

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tiny import TASKS, write_tiny_suite

from lines_explorer.engine import Backend, Engine, Store
from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS
from lines_explorer.merging.statistics import FISHER, GRAM
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant
from lines_explorer.suites import Suite
from lines_explorer.suites.statistics import read_statistics
from lines_explorer.training import build, statistics
from lines_explorer.training.statistics import Plan

ALL = tuple(sorted(TASKS))


@pytest.fixture(scope="module")
def suite(measured_suite_folder):
    return Suite(measured_suite_folder)


@pytest.fixture(scope="module")
def exact(suite):
    """(Fisher information, Gram matrices) of every expert, as measured, before they are stored."""
    plan = Plan(pictures=30, batch=16)
    pictures = {task: statistics.training_pictures(suite, task, plan) for task in ALL}
    return {task: statistics.measure(suite, task, pictures[task], plan) for task in ALL}


def pixels_of(suite, task):
    images = statistics.training_pictures(suite, task, Plan(pictures=30))
    mean, std = (torch.tensor(x).view(1, 3, 1, 1) * 255 for x in suite.normalisation())
    return (images.float() - mean) / std


def expert_model(suite, task):
    model = suite.build_model()
    weights = {key.removeprefix("visual."): tensor for key, tensor in suite.expert(task).items()}
    model.visual.load_state_dict(weights)
    return model


def test_the_fisher_information_is_the_mean_of_squared_gradients(suite):
    """Against the exact expectation over labels, of one bias, picture by picture and class by class."""
    task, name = "shapes", "transformer.resblocks.1.mlp.c_fc.bias"
    model, head, pixels = expert_model(suite, task), suite.head(task), pixels_of(suite, task)[:4]
    bias = dict(model.visual.named_parameters())[name].requires_grad_(True)
    expected = torch.zeros_like(bias)
    for picture in pixels:
        log_p = (F.normalize(model.visual(picture[None]), dim=-1) @ head.T).log_softmax(-1)[0]
        for label in range(len(log_p)):
            (slope,) = torch.autograd.grad(log_p[label], bias, retain_graph=True)
            expected += log_p[label].exp().detach() * slope**2 / len(pixels)
    drawn = [statistics.fisher(model.visual, head, pixels, seed)[f"visual.{name}"] for seed in range(60)]
    mean, spread = torch.stack(drawn).mean(0), torch.stack(drawn).std(0) / 60**0.5
    assert (expected > 0).any() and ((mean - expected).abs() <= 5 * spread + 1e-6 * expected.max()).all()
    assert torch.equal(drawn[0], statistics.fisher(model.visual, head, pixels, 0)[f"visual.{name}"])


def test_the_inputs_of_every_linear_layer_are_those_it_sees(suite):
    model, pixels = expert_model(suite, "colours"), pixels_of(suite, "colours")[:5]
    block, seen = model.visual.transformer.resblocks[0], {}
    for name in ("mlp.c_fc", "mlp.c_proj", "ln_1"):
        block.get_submodule(name).register_forward_hook(lambda m, x, y, name=name: seen.update({name: (x[0], y)}))
    with torch.inference_mode():
        x = model.visual._embeds(pixels)
        found = statistics.linear_inputs(block, x)
        block(x)
        attended = block.attn(seen["ln_1"][1], seen["ln_1"][1], seen["ln_1"][1], need_weights=False)[0]
        by_hand = block.attn.out_proj(found["attn.out_proj.weight"])
    assert torch.allclose(by_hand, attended, atol=1e-5)
    assert torch.allclose(found["attn.in_proj_weight"], seen["ln_1"][1])
    for name in ("mlp.c_fc", "mlp.c_proj"):
        assert torch.allclose(found[f"{name}.weight"], seen[name][0], atol=1e-5)


def test_gram_matrices_do_not_depend_on_batches(suite):
    model, pixels = expert_model(suite, "places"), pixels_of(suite, "places")[:7]
    whole, parts = (statistics.grams(model, pixels, batch) for batch in (7, 2))
    assert all(torch.allclose(whole[key], parts[key], rtol=1e-5, atol=1e-7) for key in whole)
    assert len(whole) == 4 * 3
    assert all(suite.base()[key].shape[1] == len(gram) for key, gram in whole.items())


@pytest.mark.parametrize("kind", [FISHER, GRAM])
def test_what_is_stored_is_close_to_what_was_measured(suite, exact, kind):
    for task in ALL:
        stored, measured = read_statistics(suite, task, kind), exact[task][0 if kind == FISHER else 1]
        assert stored.keys() == measured.keys()
        for key, tensor in measured.items():
            if kind == FISHER:
                kept = tensor > tensor.max() * 1e-7
                assert torch.allclose(stored[key][kept], tensor[kept], rtol=0.038, atol=0)
                assert (stored[key][tensor == 0] == 0).all()
            else:
                lengths = tensor.diagonal().sqrt()
                assert ((stored[key] - tensor).abs() <= 1e-3 * lengths[:, None] * lengths).all()


@pytest.mark.parametrize(("method", "bound"), [("fisher", 0.05), ("regmean", 0.01)])
def test_the_loss_of_storing_is_harmless(suite, exact, method, bound):
    """The merge from stored statistics is far closer to the exact one than that is to the mean, and scores alike.

    Left aside in the distance are entries that matter to no expert, such as the biases of the keys, which cancel in the
    softmax: their Fisher information is rounding noise, far below the smallest that is told apart.
    """
    taus = [suite.task_vector(task) for task in ALL]
    measured = [exact[task][0 if method == "fisher" else 1] for task in ALL]
    stored = [read_statistics(suite, task, METHODS[method].statistics) for task in ALL]
    fine, coarse = (METHODS[method].merge(taus, statistics=some) for some in (measured, stored))
    mean = METHODS["average"].merge(taus)

    def matters(key):
        if method == "regmean":
            return torch.ones_like(mean[key], dtype=torch.bool)
        return torch.stack([some[key] > 1e-7 * some[key].max() for some in measured]).any(dim=0)

    def distance(a, b):
        return sum(float((a[key] - b[key])[matters(key)].double().square().sum()) for key in a) ** 0.5

    assert distance(fine, coarse) < bound * distance(fine, mean)
    backend = Backend(suite, "cpu")
    backend.load(Recipe("tiny", ALL, method, schedule=constant(1.0)))
    rows = suite.images("shapes", "test")[0]
    features = backend.features(rows)
    model = suite.build_model()
    model.load_state_dict({key: tensor + fine.get(key, 0) for key, tensor in suite.base().items()}, strict=False)
    mean_, std = (torch.tensor(x).view(1, 3, 1, 1) * 255 for x in suite.normalisation())
    with torch.inference_mode():
        expected = model.encode_image((rows.float() - mean_) / std, normalize=True)
    assert torch.allclose(features, expected, atol=0.02)


def test_both_methods_are_evaluated_and_differ(suite):
    engine = Engine(suite, "cpu", Store(":memory:"))
    assert not {"fisher", "regmean"} & engine.refused.keys()
    vectors = {}
    for method in ("average", "fisher", "regmean"):
        recipe = Recipe("tiny", ALL, method, schedule=constant(1.0))
        assert engine.evaluate(recipe).complete and engine.alpha_from_norms(ALL, method) > 0
        vectors[method] = engine.backend._merged_vector(ALL, method, ()).vector
    assert not torch.allclose(vectors["fisher"], vectors["average"], rtol=1e-2)
    assert not torch.allclose(vectors["regmean"], vectors["average"], rtol=1e-2)


def test_files_are_small_listed_and_kept(measured_suite_folder, tmp_path, capsys):
    folder = tmp_path / "tiny"
    shutil.copytree(measured_suite_folder, folder)
    before = {path: path.stat().st_mtime_ns for path in (folder / "statistics").iterdir()}
    assert len(before) == 3 and Suite(folder).verify() == []
    base, grams = Suite(folder).visual_base(), read_statistics(Suite(folder), "shapes", GRAM)
    bytes_ = sum(tensor.numel() + 4 for tensor in base.values())
    bytes_ += sum(len(gram) * (len(gram) - 1) + 4 * len(gram) for gram in grams.values())
    for path in before:
        content = path.read_bytes()
        assert len(content) - 8 - int.from_bytes(content[:8], "little") == bytes_
    assert build.main(["statistics", "--out", str(folder), "--pictures", "30"]) == 0
    after = {path: path.stat().st_mtime_ns for path in (folder / "statistics").iterdir()}
    assert after != before, "the batch is another plan"
    assert build.main(["statistics", "--out", str(folder), "--pictures", "30"]) == 0
    assert after == {path: path.stat().st_mtime_ns for path in (folder / "statistics").iterdir()}


def test_held_out_pictures_are_not_training_pictures(tmp_path):
    folder = write_tiny_suite(tmp_path / "tiny")
    file = folder / "suite.yaml"
    text = file.read_text(encoding="utf-8").replace(
        "      validation: tasks/shapes/validation.parquet\n", "      train: tasks/shapes/validation.parquet\n"
    )
    file.write_text(text, encoding="utf-8")
    (folder / "manifest.json").unlink()
    suite = Suite(folder)
    train = statistics.training_pictures(suite, "shapes", Plan())
    validation = suite.images("shapes", "validation")[0]
    assert len(train) == 36 and len(validation) == 4
    assert not {picture.numpy().tobytes() for picture in train} & {picture.numpy().tobytes() for picture in validation}
    assert len(statistics.training_pictures(suite, "shapes", Plan(pictures=5))) == 5


def test_without_training_pictures_nothing_is_measured(tiny_suite_folder, tmp_path, capsys):
    folder = tmp_path / "tiny"
    shutil.copytree(tiny_suite_folder, folder)
    assert build.main(["statistics", "--out", str(folder), "--tasks", "shapes"]) == 2
    assert "names no training pictures of shapes" in capsys.readouterr().err
    assert build.main(["statistics", "--out", str(folder), "--tasks", "cats"]) == 2
    assert "has no expert cats" in capsys.readouterr().err
    assert not (folder / "statistics").exists()


def test_one_suite_may_know_some_experts_only(measured_suite_folder, tmp_path):
    folder = tmp_path / "tiny"
    shutil.copytree(measured_suite_folder, folder)
    file = folder / "suite.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("  places: statistics/places.safetensors\n", ""))
    suite = Suite(folder)
    assert suite.hash != Suite(measured_suite_folder).hash
    backend = Backend(suite, "cpu")
    backend.check(Recipe("tiny", ("colours", "shapes"), "fisher"))
    with pytest.raises(ExplorerError, match="has no statistics of places, which this merge method needs; run `python"):
        backend.check(Recipe("tiny", ALL, "fisher"))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: shutil.copy(f / "base.safetensors", f / "statistics/shapes.safetensors"), "must say content stat"),
        (
            lambda f: shutil.copy(f / "statistics/places.safetensors", f / "statistics/shapes.safetensors"),
            "another exp",
        ),
        (lambda f: (f / "statistics/shapes.safetensors").write_bytes(b"x" * 40), "damaged"),
        (lambda f: (f / "statistics/shapes.safetensors").unlink(), "is missing"),
    ],
)
def test_foreign_and_damaged_statistics_are_refused(measured_suite_folder, tmp_path, spoil, message):
    folder = tmp_path / "tiny"
    shutil.copytree(measured_suite_folder, folder)
    (folder / "manifest.json").unlink()
    spoil(folder)
    with pytest.raises(ExplorerError, match=message):
        read_statistics(Suite(folder), "shapes", FISHER)


def test_statistics_of_no_expert_are_refused(measured_suite_folder, tmp_path):
    folder = tmp_path / "tiny"
    shutil.copytree(measured_suite_folder, folder)
    with (folder / "suite.yaml").open("a", encoding="utf-8") as file:
        file.write("  cats: statistics/cats.safetensors\n")
    with pytest.raises(ExplorerError, match="statistics has statistics of cats, but no expert of that name"):
        Suite(folder)


def test_pictures_are_drawn_with_the_seed():
    pixels = np.arange(50, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), dtype=np.uint8)
    first, again, other = (statistics.chosen_pictures(pixels, Plan(pictures=9, seed=seed)) for seed in (0, 0, 1))
    assert first.shape == (9, 3, 2, 2) and torch.equal(first, again) and not torch.equal(first, other)
    assert len(statistics.chosen_pictures(pixels, Plan(pictures=99))) == 50
