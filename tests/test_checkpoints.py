"""checkpoints/: what is written is read back; every way a file can be wrong gives one clear sentence."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch

from lines_explorer.checkpoints import metadata, read_safetensors, sha256, write_safetensors
from lines_explorer.errors import ExplorerError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights.safetensors"
    write_safetensors(path, {"a": torch.arange(300.0), "half": torch.ones(2, 3).half()}, {"content": "weights"})
    return path


def test_round_trip_keeps_bits_dtypes_and_metadata(tmp_path: Path) -> None:
    tensors = {
        "f32": torch.randn(3, 4).T,
        "f16": torch.randn(5).half(),
        "ids": torch.arange(4),
        "scalar": torch.tensor(-0.0),
    }
    path = tmp_path / "deep" / "folder" / "x.safetensors"
    digest = write_safetensors(path, tensors, {"content": "delta", "base_sha256": "0" * 64})
    back = read_safetensors(path)
    assert digest == sha256(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert metadata(path) == {"content": "delta", "base_sha256": "0" * 64}
    assert back.keys() == tensors.keys()
    for key, tensor in tensors.items():
        assert back[key].dtype == tensor.dtype
        assert torch.equal(back[key], tensor)
    assert torch.signbit(back["scalar"])


def test_writing_leaves_only_the_file_and_replaces_the_old_one(file: Path) -> None:
    write_safetensors(file, {"b": torch.zeros(1)})
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert set(read_safetensors(file)) == {"b"}
    assert metadata(file) == {}


def test_a_failed_write_keeps_the_old_file(file: Path) -> None:
    with pytest.raises(Exception):  # noqa: B017 - whatever safetensors raises for a sparse tensor
        write_safetensors(file, {"b": torch.zeros(2, 2).to_sparse()})
    assert set(read_safetensors(file)) == {"a", "half"}
    assert [path.name for path in file.parent.iterdir()] == [file.name]


DAMAGE = {
    "empty": (lambda content: b"", "truncated or damaged"),
    "short": (lambda content: content[:5], "truncated or damaged"),
    "half a header": (lambda content: content[:40], "truncated or damaged"),
    "half the tensors": (lambda content: content[:-100], "truncated or damaged"),
    "random bytes": (lambda content: bytes(range(256)), "truncated or damaged"),
    "not JSON": (lambda content: (20).to_bytes(8, "little") + b"x" * 40, "truncated or damaged"),
    "LFS pointer": (lambda content: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
    "HTML page": (lambda content: b"\n<!DOCTYPE html><html><body>404</body></html>", "HTML page"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_files_are_named(file: Path, kind: str) -> None:
    change, message = DAMAGE[kind]
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(ExplorerError, match=message) as caught:
        read_safetensors(file)
    assert str(file) in str(caught.value)


def test_missing_file_and_directory(tmp_path: Path) -> None:
    for read in (read_safetensors, metadata, sha256):
        with pytest.raises(ExplorerError, match="is missing.*build-suite"):
            read(tmp_path / "no.safetensors")
        with pytest.raises(ExplorerError, match="is a directory"):
            read(tmp_path)


def test_wrong_hash(file: Path) -> None:
    assert "a" in read_safetensors(file, expected_sha256=sha256(file))
    with pytest.raises(ExplorerError, match="damaged or was exchanged"):
        read_safetensors(file, expected_sha256="0" * 64)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_non_finite_values_are_refused_by_tensor_name(file: Path, bad: float) -> None:
    write_safetensors(file, {"good": torch.ones(3), "visual.proj": torch.tensor([0.0, bad])})
    with pytest.raises(ExplorerError, match="visual.proj holds NaN or infinite"):
        read_safetensors(file)


def test_unwritable_folder(file: Path) -> None:
    with pytest.raises(ExplorerError, match="cannot be written"):
        write_safetensors(file / "below-a-file" / "x.safetensors", {"a": torch.zeros(1)})


def test_equal_tensors_and_metadata_give_equal_files(tmp_path):
    facts = {f"key{index}": str(index) for index in range(12)}
    tensors = {"b": torch.arange(3.0), "a": torch.ones(2, 2), "c": torch.ones((), dtype=torch.float16)}
    hashes = {write_safetensors(tmp_path / f"{turn}.safetensors", tensors, facts) for turn in range(6)}
    assert len(hashes) == 1
    assert metadata(tmp_path / "0.safetensors") == facts
    assert all(
        torch.equal(tensor, tensors[key]) for key, tensor in read_safetensors(tmp_path / "3.safetensors").items()
    )
