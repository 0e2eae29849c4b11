"""What a suite holds in memory: the base once, differences without what was frozen, and the bill told before."""

from __future__ import annotations

import json
import math
import os
import shutil
import struct
from pathlib import Path

import pytest
import torch
import yaml
from tiny import write_manifest

from lines_explorer.checkpoints import metadata, read_safetensors, tensors, write_safetensors
from lines_explorer.cli import main
from lines_explorer.merging import METHODS
from lines_explorer.suites import Suite, bill, bill_sentence, open_suite, presets

FROZEN = ("visual.conv1.weight", "visual.transformer.resblocks.0.mlp.c_fc.weight")


def held(*models: dict[str, torch.Tensor]) -> int:
    """Bytes of the memory behind tensors, counted once where they share it."""
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for m in models for tensor in m.values()}
    return sum(storage.nbytes() for storage in storages.values())


@pytest.fixture(params=["delta", "weights"])
def frozen(request: pytest.FixtureRequest, tiny_suite_folder: Path, full_suite_folder: Path, tmp_path: Path) -> Suite:
    """A suite whose experts left two tensors as the base has them, stored as differences or as whole weights."""
    source = tiny_suite_folder if request.param == "delta" else full_suite_folder
    folder = shutil.copytree(source, tmp_path / "tiny")
    base = read_safetensors(folder / "base.safetensors")
    for file in (folder / "experts").iterdir():
        stored, facts = read_safetensors(file), metadata(file)
        stored |= {name: base[name] if request.param == "weights" else stored[name] * 0 for name in FROZEN}
        write_safetensors(file, stored, facts)
    write_manifest(folder)
    return open_suite(folder)


def test_what_was_frozen_takes_no_memory(frozen: Suite) -> None:
    base = frozen.visual_base()
    for task in frozen.experts:
        vector = frozen.task_vector(task)
        assert {name: tensor.shape for name, tensor in vector.items()} == {n: t.shape for n, t in base.items()}
        assert [name for name, tensor in vector.items() if not tensor.any()] == list(FROZEN)
        moved = {name: tensor for name, tensor in vector.items() if name not in FROZEN}
        kept = 4 * sum(tensor.numel() for tensor in moved.values())
        assert held(vector) - held(moved) == 4
        assert kept <= held(moved) <= kept + 20_000, "a file's header is mapped with its numbers"
        assert held(vector) < frozen.memory_bill([task]).deltas[task]


def test_the_base_is_held_once(frozen: Suite) -> None:
    """However often it is asked for, and beside all task vectors."""
    vectors = [frozen.task_vector(task) for task in frozen.experts]
    base = frozen.base()
    alone, bases = held(base), [frozen.base() for _ in range(5)] + [frozen.visual_base()]
    assert held(base, *bases) == alone
    assert held(base, *bases, *vectors) == alone + sum(map(held, vectors))
    assert alone + sum(map(held, vectors)) < frozen.memory_bill().total + 20_000 * 4


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if not method.statistics])
def test_every_method_takes_it_as_the_dense_vector(name: str, frozen: Suite) -> None:
    tasks = tuple(frozen.experts)[: 2 if name == "slerp" else None]
    vectors = [frozen.task_vector(task) for task in tasks]
    dense = [{key: tensor.clone().contiguous() for key, tensor in vector.items()} for vector in vectors]
    merged, expected = (METHODS[name].merge(given, tasks=tasks) for given in (vectors, dense))
    assert all(torch.equal(merged[key], expected[key]) for key in expected)
    assert all(tensor.is_contiguous() for tensor in merged.values())
    assert all(torch.equal(vector[key], kept[key]) for vector, kept in zip(vectors, dense, strict=True) for key in kept)


def sparse(file: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    """A safetensors file of real size that takes no room: its numbers are a hole in the file."""
    header, end = {}, 0
    for name, shape in shapes.items():
        start, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text)
    os.truncate(file, 8 + len(text) + end)


def test_twenty_experts_of_vit_l_14_state_their_bill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import open_clip

    config = open_clip.get_model_config("ViT-L-14-quickgelu")
    with torch.device("meta"):
        state = open_clip.model.CLIP(**config).state_dict()
    shapes = {f"model.{name}": tuple(t.shape) for name, t in state.items() if not name.startswith("transformer.")}
    described = presets.describe("vit-l-14-20-tall-masks")
    for place in (described["base"]["weights"], *described["experts"].values()):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        sparse(tmp_path / place, shapes)
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(described))
    monkeypatch.setattr(bill, "_memory", lambda: 16 * 10**9)
    monkeypatch.setattr(tensors.Stored, "load", lambda _: pytest.fail("a tensor was read"))
    said = bill_sentence(open_suite(tmp_path))
    assert said == (
        "vit-l-14-20-tall-masks: merging all experts takes up to 25.53 GB: base 1.22 GB and 20 experts of 1.22 GB; "
        "this machine has 16.0 GB, so merge fewer at a time."
    )


def test_a_large_suite_is_told_before_it_is_loaded(
    tiny_suite_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = open_suite(tiny_suite_folder)
    assert bill_sentence(suite) is None, "a small one needs no words"
    total = suite.memory_bill().total
    said = bill_sentence(suite, large=total)
    assert said == f"tiny: merging all experts takes up to {suite.memory_bill()}."
    monkeypatch.setattr(bill, "_memory", lambda: total - 1)
    assert "this machine has 0.0 GB, so merge fewer at a time." in str(bill_sentence(suite, large=total))
    monkeypatch.setattr(bill, "_memory", lambda: None)
    monkeypatch.setattr("lines_explorer.suites.bill_sentence", lambda opened: bill_sentence(opened, large=total))
    monkeypatch.setattr(Suite, "_base", property(lambda _: pytest.fail("loaded before it was told")))
    with pytest.raises(pytest.fail.Exception, match="loaded before"):
        main(["suites", "--suite", str(tiny_suite_folder), "--json"])
    assert said in capsys.readouterr().err


def test_suites_tell_bill_hashes_activation_and_revisions(
    tiny_suite_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(tiny_suite_folder, tmp_path / "tiny")
    mirror = tmp_path / "hub/somebody/shapes"
    mirror.mkdir(parents=True)
    (folder / "experts/shapes.safetensors").rename(mirror / "model.safetensors")
    (folder / "manifest.json").unlink()
    described = yaml.safe_load((folder / "suite.yaml").read_text())
    described["experts"]["shapes"] = {"hub": "somebody/shapes", "revision": "v1"}
    (folder / "suite.yaml").write_text(yaml.safe_dump(described))
    monkeypatch.setenv("LINES_EXPLORER_HUB", str(tmp_path / "hub"))
    suite = open_suite(folder)
    assert main(["suites", "--suite", str(folder), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["suites"]
    assert row["memory"] == suite.memory_bill().as_dict() and row["memory"]["total"] > row["memory"]["base"] > 0
    assert row["base_sha256"] == suite.base_sha256 and row["activation"] == "gelu"
    assert [task["expert_sha256"] for task in row["tasks"]] == [suite.expert_sha256(task) for task in suite.tasks]
    source = {"used_for": "expert shapes", "source": "hub:somebody/shapes", "revision": "v1", "commit": None}
    assert row["hub"] == [source]
    assert main(["suites", "--suite", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert suite.base_sha256[:12] in shown and suite.expert_sha256("colours")[:12] in shown and "gelu" in shown
    assert "expert shapes: hub:somebody/shapes at v1, no commit known" in shown
