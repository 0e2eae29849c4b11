"""Folders that are no model, and indexes that lie or lead elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from makers import refused, safetensors_of, write

from lines_explorer.checkpoints import open_checkpoint

GOOD = safetensors_of({"blocks.0.a": (2, 3)})


def sharded(folder: Path, **changes: object) -> Path:
    """A folder of two shards with its index; ``changes`` of the index's weight_map."""
    folder.mkdir()
    names = {"blocks.0.a": "model-1.safetensors", "blocks.1.a": "model-2.safetensors"} | changes
    write(folder, "model-1.safetensors", GOOD)
    write(folder, "model-2.safetensors", safetensors_of({"blocks.1.a": (2, 3)}))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    (folder / "config.json").write_text(json.dumps({"model_type": "vit"}))
    return folder


OUTSIDE = ("../secret.safetensors", "/etc/passwd", "..", "sub/x.safetensors", "..\\x", "C:x", "a\0b", "", 7, None)


@pytest.mark.parametrize("target", OUTSIDE)
def test_an_index_never_leads_out_of_its_folder(tmp_path: Path, target: object) -> None:
    write(tmp_path, "secret.safetensors", GOOD)
    folder = sharded(tmp_path / "model", **{"blocks.0.a": target})
    refused(lambda: open_checkpoint(folder), "'blocks.0.a' is said to lie in .* no file of this folder", str(folder))


def test_a_shard_that_is_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "secret.safetensors", GOOD)
    folder = sharded(tmp_path / "model")
    (folder / "model-1.safetensors").unlink()
    (folder / "model-1.safetensors").symlink_to(tmp_path / "secret.safetensors")
    refused(lambda: open_checkpoint(folder), "is a link out of its folder.*copy the file", "model-1.safetensors")


def test_shards_that_do_not_agree_with_their_index(tmp_path: Path) -> None:
    missing = sharded(tmp_path / "a", **{"blocks.2.a": "model-2.safetensors"})
    refused(lambda: open_checkpoint(missing), "'blocks.2.a' is missing, but the folder's index", "model-2.safetensors")
    absent = sharded(tmp_path / "b", **{"blocks.2.a": "model-3.safetensors"})
    refused(lambda: open_checkpoint(absent), "is missing, but the folder's index names it", "model-3.safetensors")
    extra = sharded(tmp_path / "c")
    write(extra, "model-2.safetensors", safetensors_of({"blocks.1.a": (2, 3), "blocks.1.b": (1,)}))
    refused(lambda: open_checkpoint(extra), "'blocks.1.b' is not in the folder's index", "model-2.safetensors")
    twice = sharded(tmp_path / "d")
    write(twice, "model-2.safetensors", safetensors_of({"blocks.1.a": (2, 3), "blocks.0.a": (2, 3)}))
    refused(lambda: open_checkpoint(twice), "'blocks.0.a' is in another shard too", "model-2.safetensors")
    cut = sharded(tmp_path / "e")
    write(cut, "model-2.safetensors", GOOD[:-3])
    refused(lambda: open_checkpoint(cut), "truncated or damaged", "model-2.safetensors")


@pytest.mark.parametrize(
    ("index", "expected"),
    [("{", "not JSON"), ("[]", "not a JSON object"), ("{}", "no weight_map"), ('{"weight_map": []}', "no weight_map")],
)
def test_damaged_index(tmp_path: Path, index: str, expected: str) -> None:
    folder = sharded(tmp_path / "model")
    (folder / "model.safetensors.index.json").write_text(index)
    refused(lambda: open_checkpoint(folder), expected, "model.safetensors.index.json")


def test_wrong_folders(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("<html>")
    refused(lambda: open_checkpoint(tmp_path), "not JSON", "config.json")
    (tmp_path / "config.json").unlink()
    write(tmp_path, "a.pt", b"x")
    write(tmp_path, "b.safetensors", b"x")
    refused(lambda: open_checkpoint(tmp_path), "directory with a.pt, b.safetensors; give one")
    (tmp_path / "suite.yaml").write_text("name: x")
    refused(lambda: open_checkpoint(tmp_path), "is a suite, not a checkpoint; open it with --suite")
