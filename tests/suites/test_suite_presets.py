"""The ready-made suite files: complete, of the reference's names and counts, and readable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from lines_explorer.cli import main
from lines_explorer.errors import ExplorerError
from lines_explorer.suites import hub, open_suite, presets
from lines_explorer.suites.task import Data, Hub, read_description

CLASSES = {
    **{"SUN397": 397, "Cars": 196, "RESISC45": 45, "EuroSAT": 10, "SVHN": 10, "GTSRB": 43, "MNIST": 10, "DTD": 47},
    **{"Flowers102": 102, "PCAM": 2, "FER2013": 7, "OxfordIIITPet": 37, "STL10": 10, "CIFAR100": 100, "CIFAR10": 10},
    **{"Food101": 101, "FashionMNIST": 10, "EMNIST": 26, "KMNIST": 10, "RenderedSST2": 2},
}


@pytest.mark.parametrize("name", presets.NAMES)
def test_every_one_is_read(name: str, tmp_path: Path) -> None:
    presets.write(name, tmp_path)
    found = read_description(tmp_path)
    count, tall = int(name.split("-")[3]), name.endswith("tall-masks")
    wanted = dict(list(CLASSES.items())[:count])
    if tall and count == 20:
        wanted["EMNIST"] = 10  # the authors' experts know digits, the hub's know letters
    assert {task: len(row.classes) for task, row in found.tasks.items()} == wanted
    assert list(found.experts) == list(wanted) and found.activation == "quickgelu"
    for row in found.tasks.values():
        assert set(row.splits) == {"validation", "test"}
        assert all(isinstance(data, Data) and data.hub for data in row.splits.values())
        assert row.splits["validation"].held_out and row.splits["validation"].split == "train"
        assert (row.head is not None) == tall and not row.names_known


def test_layouts_are_those_that_people_download() -> None:
    tall = presets.describe("vit-l-14-8-tall-masks")
    assert tall["base"]["weights"] == "checkpoints/ViT-L-14/MNISTVal/nonlinear_zeroshot.pt"
    assert tall["experts"]["Cars"] == "checkpoints/ViT-L-14/CarsVal/nonlinear_finetuned.pt"
    assert tall["tasks"]["Cars"]["head"] == "checkpoints/ViT-L-14/head_CarsVal.pt"
    hub = presets.describe("vit-b-32-8-tanganke")
    assert hub["base"]["weights"] == {"hub": "openai/clip-vit-base-patch32"}
    assert hub["experts"]["Cars"] == {"hub": "tanganke/clip-vit-base-patch32_stanford-cars"}
    assert hub["tasks"]["SVHN"]["splits"]["test"] == {
        "hub": "ufldl-stanford/svhn", "config": "cropped_digits", "split": "test",
    }  # fmt: skip


def test_class_orders_that_differ_between_the_layouts() -> None:
    """FER2013: the authors' heads end with neutral, as their data set does; the hub's data have it in the middle."""
    tall, hub = (presets.describe(f"vit-b-32-20-{layout}")["tasks"]["FER2013"] for layout in presets.LAYOUTS)
    assert (tall["prompts"][-1], hub["prompts"][4]) == ("neutral", "neutral")
    assert tall["splits"]["test"] == {
        "hub": "Jeneral/fer-2013",
        "image": "img_bytes",
        "label": "labels",
        "split": "test",
    }
    assert (hub["splits"]["test"]["image"], hub["splits"]["test"]["label"]) == ("jpg", "cls")


def test_words_of_the_reference() -> None:
    table = presets.table()
    assert len(table) == 20 and list(table) == list(CLASSES)
    assert len(table["CIFAR10"]["templates"]) == len(table["RESISC45"]["templates"]) == 18
    assert table["GTSRB"]["templates"][0] == 'a zoomed in photo of a "{}" traffic sign.'
    assert table["EuroSAT"]["prompts"][2] == "brushland or shrubland"
    assert all(len(set(row["prompts"])) == len(row["prompts"]) for row in table.values())


def test_a_name_opens_or_says_what_it_needs(fresh_cache: Path) -> None:
    suite = open_suite("vit-b-16-14-tanganke")
    assert suite.experts["DTD"] == Hub("tanganke/clip-vit-base-patch16_dtd") and len(suite.tasks) == 14
    assert open_suite("vit-b-16-14-tanganke").folder == suite.folder
    with pytest.raises(ExplorerError, match="suites --preset vit-b-32-8-tall-masks --out FOLDER"):
        open_suite("vit-b-32-8-tall-masks")


def test_an_older_copy_in_the_cache_is_replaced(fresh_cache: Path) -> None:
    folder = open_suite("vit-b-32-8-tanganke").folder
    (folder / "suite.yaml").write_text("name: an older one")
    assert open_suite("vit-b-32-8-tanganke").name == "vit-b-32-8-tanganke"


def test_the_command_line_prints_or_writes_a_file_to_edit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, verb = "vit-b-32-8-tanganke", ["suites", "--preset"]
    assert main([*verb, name]) == 0
    printed = capsys.readouterr().out
    assert yaml.safe_load(printed) == presets.describe(name)
    assert "#   hf download tanganke/dtd --repo-type dataset --local-dir HUB/tanganke/dtd\n" in printed
    assert printed.count("hf download") == 1 + 8 + 8
    assert main([*verb, name, "--out", str(tmp_path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert Path(answer["file"]) == tmp_path / "suite.yaml" and answer["suite_yaml"] == printed
    assert main([*verb, name, "--out", str(tmp_path)]) == 0
    assert "Weights and pictures come from the Hugging Face hub" in capsys.readouterr().out
    assert main([*verb, "vit-b-16-8-tanganke", "--out", str(tmp_path)]) == 2
    assert "another suite; choose another folder" in capsys.readouterr().err
    assert main([*verb, "vit-b-8"]) == 2 and "no ready-made suite vit-b-8" in capsys.readouterr().err
    assert main(["suites", "--pin"]) == 2 and "go with --preset" in capsys.readouterr().err


def test_revisions_are_pinned_once_for_each_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def newest(place: Hub | Data) -> str:
        asked.append(place)
        return f"{len(asked):040x}"

    monkeypatch.setattr("lines_explorer.commands.ready_made.newest_commit", newest)
    assert main(["suites", "--preset", "vit-b-32-8-tanganke", "--pin", "--out", str(tmp_path)]) == 0
    found = read_description(tmp_path)
    assert found.weights == Hub("openai/clip-vit-base-patch32", f"{1:040x}")
    assert len(asked) == 1 + 8 + 8
    for task in found.tasks.values():
        commits = {data.revision for data in task.splits.values()}
        assert len(commits) == 1 and hub.COMMIT.fullmatch(commits.pop())
    assert hub.commit_of(found.experts["DTD"]) == found.experts["DTD"].revision
    shown = capsys.readouterr().out
    assert f"--revision {1:040x} --local-dir" in (tmp_path / "suite.yaml").read_text() and "suite.yaml" in shown
