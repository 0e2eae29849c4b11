"""suites/: a folder is opened, its tensors, heads and images are what METHOD says, and damage is named."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from tiny import TASKS, N, write_manifest

from lines_explorer import merging
from lines_explorer.checkpoints import read_safetensors, write_safetensors
from lines_explorer.errors import ExplorerError
from lines_explorer.suites import Suite, available, open_suite


@pytest.fixture
def folder(tiny_suite_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_suite_folder, tmp_path / "tiny"))


@pytest.fixture
def suite(tiny_suite_folder: Path) -> Suite:
    return open_suite(tiny_suite_folder)


def edit_yaml(folder: Path, change) -> None:
    content = yaml.safe_load((folder / "suite.yaml").read_text())
    change(content)
    (folder / "suite.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


def test_what_is_in_it(suite: Suite) -> None:
    assert (suite.name, suite.title, list(suite.tasks), list(suite.experts)) == (
        "tiny",
        "Tiny test suite",
        list(TASKS),
        list(TASKS),
    )
    task = suite.tasks["shapes"]
    assert task.classes == TASKS["shapes"][1]
    assert set(task.splits) == {"validation", "test", "noisy"}
    assert dict(task.shifts) == {"noisy": "Noisy shapes"}
    assert suite.normalisation() == ((0.5,) * 3, (0.5,) * 3)
    assert suite.verify() == []


def test_available_and_unknown_names(tiny_suite_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES_EXPLORER_SUITES", str(tiny_suite_folder.parent))
    assert "tiny" in available()
    assert open_suite("tiny").folder == tiny_suite_folder
    with pytest.raises(ExplorerError, match="no suite nowhere.*tiny"):
        open_suite("nowhere")


def test_the_base_is_loaded_through_open_clip(suite: Suite) -> None:
    import open_clip

    model = suite.build_model()
    assert type(model) is open_clip.CLIP
    assert not model.training
    assert suite.architecture in open_clip.list_models()
    assert model.visual.preprocess_cfg["mean"] == [0.5, 0.5, 0.5]
    state = model.state_dict()
    for key, tensor in suite.base().items():
        assert torch.equal(state[key], tensor), key


def test_a_base_of_another_shape_is_refused(folder: Path) -> None:
    config = json.loads((folder / "model.json").read_text())
    config["vision_cfg"]["width"] = 24
    (folder / "model.json").write_text(json.dumps(config))
    with pytest.raises(ExplorerError, match="does not fit.*visual"):
        open_suite(folder).build_model()


def test_experts_from_deltas_and_from_weights_agree(tiny_suite_folder: Path, full_suite_folder: Path) -> None:
    delta, full = open_suite(tiny_suite_folder), open_suite(full_suite_folder)
    assert delta.is_delta("shapes") and not full.is_delta("shapes")
    stored = read_safetensors(full_suite_folder / "experts/shapes.safetensors")
    for key, tensor in full.expert("shapes").items():
        assert torch.equal(tensor, stored[key])
        assert torch.equal(tensor, delta.expert("shapes")[key])
    tau, exact = delta.task_vector("shapes"), full.task_vector("shapes")
    assert tau.keys() == exact.keys() and not any("logit_scale" in key for key in tau)
    assert all(tensor.dtype == torch.float32 for tensor in tau.values())
    assert all(torch.allclose(tau[key], exact[key], atol=1e-6) for key in tau)
    again = merging.task_vector(full.visual_base(), full.expert("shapes"))
    assert all(torch.equal(again[key], exact[key]) for key in exact)


def test_head_is_the_scaled_mean_of_unit_vectors(suite: Suite) -> None:
    vectors = read_safetensors(suite.folder / "text.safetensors")["places"]
    mean = (vectors / vectors.norm(dim=-1, keepdim=True)).mean(1)
    expected = suite.base()["logit_scale"].exp() * mean / mean.norm(dim=-1, keepdim=True)
    assert torch.allclose(suite.head("places"), expected, atol=1e-5)
    assert torch.allclose(suite.head("places").norm(dim=1), suite.base()["logit_scale"].exp().expand(4))


def test_images_and_labels(suite: Suite) -> None:
    from datasets import Dataset

    images, labels = suite.images("colours", "test")
    rows = Dataset.from_parquet(str(suite.tasks["colours"].splits["test"]))
    assert images.shape == (N, 3, 16, 16) and images.dtype == torch.uint8 and labels.dtype == torch.int64
    assert labels.tolist() == rows["label"]
    assert rows.features["label"].names == list(TASKS["colours"][1])
    assert np.array_equal(images[7].numpy().transpose(1, 2, 0), np.asarray(rows[7]["image"]))


def test_images_come_from_the_cache_the_second_time(
    tiny_suite_folder: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = open_suite(tiny_suite_folder).images("shapes", "test")
    assert len(list((fresh_cache / "images").iterdir())) == 2
    monkeypatch.setattr("lines_explorer.suites.images.decode", None)
    second, _ = open_suite(tiny_suite_folder).images("shapes", "test")
    assert torch.equal(first, second)


def test_a_truncated_cache_file_is_decoded_anew(tiny_suite_folder: Path, fresh_cache: Path) -> None:
    first = open_suite(tiny_suite_folder).images("shapes", "test")[0].clone()
    for file in (fresh_cache / "images").iterdir():
        file.write_bytes(file.read_bytes()[:200])
    assert torch.equal(first, open_suite(tiny_suite_folder).images("shapes", "test")[0])


def test_an_unwritable_cache_is_noticed_once(
    tiny_suite_folder: Path, fresh_cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fresh_cache.write_text("a file where the folder should be")
    suite = open_suite(tiny_suite_folder)
    with caplog.at_level(logging.WARNING, "lines_explorer"):
        assert len(suite.images("shapes", "test")[0]) == len(suite.images("shapes", "validation")[0]) == N
    assert [record.message for record in caplog.records if "cannot be written" in record.message].__len__() == 1
    assert "LINES_EXPLORER_CACHE" in caplog.text


def test_the_hash_follows_weights_data_and_description(folder: Path) -> None:
    before = open_suite(folder).hash
    assert before == open_suite(folder).hash
    (folder / "results").mkdir()
    (folder / "results/other.txt").write_text("not part of it")
    assert open_suite(folder).hash == before
    edit_yaml(folder, lambda content: content["tasks"]["shapes"].update(title="Other"))
    assert open_suite(folder).hash != before
    (folder / "manifest.json").unlink()
    changed = open_suite(folder).hash
    write_safetensors(folder / "text.safetensors", read_safetensors(folder / "text.safetensors"), {"x": "y"})
    assert open_suite(folder).hash != changed


TENSOR_FILES = {
    "base.safetensors": lambda suite: suite.base(),
    "experts/colours.safetensors": lambda suite: suite.task_vector("colours"),
    "text.safetensors": lambda suite: suite.head("colours"),
    "tasks/colours/test.parquet": lambda suite: suite.images("colours", "test"),
}


@pytest.mark.parametrize("name", TENSOR_FILES)
@pytest.mark.parametrize("damage", ["missing", "truncated", "changed"])
@pytest.mark.parametrize("manifest", [True, False])
def test_damaged_assets_are_named_with_a_remedy(
    folder: Path, fresh_cache: Path, name: str, damage: str, manifest: bool
) -> None:
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    if damage != "missing":
        (folder / name).write_bytes(content[: len(content) // 2] if damage == "truncated" else content[:-1] + b"x")
    if not manifest:
        (folder / "manifest.json").unlink()
        if damage == "changed":
            pytest.skip("a flipped byte shows only against a manifest")
    with pytest.raises(ExplorerError, match="reinstall|again|missing") as caught:
        TENSOR_FILES[name](open_suite(folder))
    assert name.split("/")[-1] in str(caught.value)


@pytest.mark.parametrize("damage", ["missing", "truncated", "changed", "unlisted"])
def test_verify_lists_what_is_wrong(folder: Path, damage: str) -> None:
    file = folder / "experts/shapes.safetensors"
    content = file.read_bytes()
    if damage == "unlisted":
        listed = json.loads((folder / "manifest.json").read_text())
        del listed["files"]["experts/shapes.safetensors"]
        (folder / "manifest.json").write_text(json.dumps(listed))
    elif damage == "missing":
        file.unlink()
    else:
        file.write_bytes(content[:-9] if damage == "truncated" else content[:-1] + b"\xff")
    problems = open_suite(folder).verify()
    assert len(problems) == 1 and problems[0].startswith("experts/shapes.safetensors")


def test_an_expert_of_another_base_is_refused(folder: Path) -> None:
    file = folder / "experts/shapes.safetensors"
    write_safetensors(file, read_safetensors(file), {"content": "delta", "base_sha256": "f" * 64})
    write_manifest(folder)
    with pytest.raises(ExplorerError, match="made for another base"):
        open_suite(folder).task_vector("shapes")


def test_an_expert_whose_shape_would_broadcast_is_refused(folder: Path) -> None:
    file = folder / "experts/shapes.safetensors"
    tensors = read_safetensors(file) | {"visual.ln_pre.weight": torch.zeros(1).half()}
    write_safetensors(file, tensors, {"content": "delta"})
    write_manifest(folder)
    with pytest.raises(ExplorerError, match=r"visual.ln_pre.weight is \(1,\) in it, \(16,\) in the base"):
        open_suite(folder).task_vector("shapes")


def test_an_expert_that_lacks_a_tensor_is_refused(folder: Path) -> None:
    file = folder / "experts/shapes.safetensors"
    tensors = read_safetensors(file)
    del tensors["visual.proj"]
    write_safetensors(file, tensors, {"content": "delta"})
    write_manifest(folder)
    with pytest.raises(ExplorerError, match="visual.proj is nothing in it"):
        open_suite(folder).task_vector("shapes")


def test_classes_in_another_order_than_the_data_are_refused(folder: Path) -> None:
    edit_yaml(folder, lambda content: content["tasks"]["shapes"]["classes"].reverse())
    with pytest.raises(ExplorerError, match="are not those of task shapes"):
        open_suite(folder).images("shapes", "test")


BAD_YAML = {
    "no title": (lambda content: content.pop("title"), "title is missing"),
    "no weights": (lambda content: content["base"].pop("weights"), "base.weights is missing"),
    "no classes": (lambda content: content["tasks"]["shapes"].update(classes=[]), "tasks.shapes.classes"),
    "one prompt": (lambda content: content["tasks"]["shapes"].update(prompts=["x"]), "4 classes and 1 prompts"),
    "expert only": (lambda content: content["tasks"].pop("shapes"), "experts without a task"),
    "outside": (lambda content: content.update(text="../../text.safetensors"), "outside the suite's folder"),
}


@pytest.mark.parametrize("kind", BAD_YAML)
def test_a_wrong_description_names_the_field(folder: Path, kind: str) -> None:
    change, message = BAD_YAML[kind]
    edit_yaml(folder, change)
    with pytest.raises(ExplorerError, match=message):
        open_suite(folder)


def test_other_damaged_descriptions(folder: Path) -> None:
    (folder / "manifest.json").write_text("{")
    with pytest.raises(ExplorerError, match="manifest.json is damaged"):
        open_suite(folder)
    (folder / "suite.yaml").write_text("a: [")
    with pytest.raises(ExplorerError, match="suite.yaml is damaged"):
        open_suite(folder)
    with pytest.raises(ExplorerError, match="no suite"):
        open_suite(folder / "tasks")


def test_unknown_task_and_split(suite: Suite) -> None:
    with pytest.raises(ExplorerError, match="no task cars.*shapes"):
        suite.head("cars")
    with pytest.raises(ExplorerError, match="no split noisy; it has validation, test"):
        suite.images("colours", "noisy")
