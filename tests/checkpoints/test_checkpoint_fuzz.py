"""Whatever the bytes are: one clear error, or a checkpoint that other readers see the same way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from makers import (
    clip_shapes,
    in_npy,
    module,
    pickled,
    safetensors,
    safetensors_of,
    state,
    stream_of,
    write,
    zip_of,
)
from safetensors import SafetensorError, safe_open

from lines_explorer.checkpoints import Checkpoint, open_checkpoint
from lines_explorer.checkpoints.towers import tower_of
from lines_explorer.errors import ExplorerError

QUICK = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SHAPES = {"visual.conv1.weight": (4, 3, 2, 2), "visual.proj": (4, 2), "logit_scale": ()}
MASKS = {"DTD": np.zeros(4, "u1")}
FILES = {
    "safetensors": safetensors_of(SHAPES),
    "zip": zip_of(state(SHAPES), SHAPES),
    "stream": stream_of(state(SHAPES), SHAPES),
    "module": zip_of(module(SHAPES), SHAPES),
    "npy": in_npy(pickled(np.array(MASKS, object))),
}

names = st.one_of(
    st.sampled_from(["visual.proj", "a", "", "__metadata__", "module.a", "visual.conv1.weight", "\0", "\ud800"]),
    st.text(max_size=8),
)
numbers = st.one_of(st.integers(-2, 5), st.sampled_from([2**31, 2**62, 2**63, 2**64]), st.floats(), st.booleans())
shapes = st.one_of(st.lists(st.integers(0, 3), max_size=3), st.lists(numbers, max_size=4), numbers, st.none())
rows = st.one_of(
    st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(["F32", "F16", "BF16", "I64", "U8", "BOOL", "F4", "", 1, None]),
            "shape": shapes,
            "data_offsets": st.lists(numbers, min_size=1, max_size=3) | shapes,
        }
    ),
    st.dictionaries(st.text(max_size=3), numbers, max_size=2),
    numbers,
)


def opened(path: Path) -> Checkpoint | None:
    """The checkpoint, or None where it was refused in one sentence."""
    try:
        checkpoint = open_checkpoint(path)
    except ExplorerError as error:
        assert "\n" not in str(error) and str(error).endswith(".") and len(str(error)) < 900
        return None
    assert checkpoint.problems is not None and checkpoint.notes is not None
    assert checkpoint.parameters >= 0 and checkpoint.nbytes >= 0
    return checkpoint


def agrees_with_safetensors(path: Path, checkpoint: Checkpoint) -> bool:
    """Whether the library reads the same names and shapes."""
    with safe_open(path, "numpy") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()} == {  # noqa: SIM118
            name: entry.shape for name, entry in checkpoint.entries.items()
        }


@QUICK
@given(
    header=st.dictionaries(names, rows, max_size=4),
    data=st.binary(max_size=40),
    length=st.none() | st.integers(0, 2**64 - 1),
)
def test_any_header(tmp_path: Path, header: dict[str, Any], data: bytes, length: int | None) -> None:
    path = write(tmp_path, "a.safetensors", safetensors(json.dumps(header).encode(), data, length))
    if checkpoint := opened(path):
        assert agrees_with_safetensors(path, checkpoint)


@QUICK
@given(
    sizes=st.dictionaries(
        st.text(min_size=1, max_size=6), st.lists(st.integers(0, 3), max_size=3).map(tuple), min_size=1
    ),
    dtype=st.sampled_from([("F32", 4), ("F16", 2), ("I64", 8), ("BOOL", 1)]),
)
def test_right_files_are_read(tmp_path: Path, sizes: dict[str, tuple[int, ...]], dtype: tuple[str, int]) -> None:
    """Names of any text, shapes of any kind: what is right is never refused."""
    sizes.pop("__metadata__", None)
    path = write(tmp_path, "a.safetensors", safetensors_of(sizes, *dtype))
    try:
        with safe_open(path, "numpy"):
            right = bool(sizes)
    except (SafetensorError, UnicodeError):
        right = False
    checkpoint = opened(path)
    assert (checkpoint is not None) == right or set(sizes) == {"weight", "bias"}
    assert not checkpoint or agrees_with_safetensors(path, checkpoint)


@QUICK
@given(
    prefixes=st.lists(st.sampled_from(["", "module.", "model.", "_orig_mod.", "image_encoder.", "x."]), max_size=3),
    kept=st.sets(st.sampled_from(sorted(clip_shapes())), min_size=1),
    others=st.sets(st.sampled_from(["head.weight", "module.head.weight", "epoch", "visual", "layers.0.a"]), max_size=2),
)
def test_any_set_of_names(prefixes: list[str], kept: set[str], others: set[str]) -> None:
    """A tower is a renaming: every name of it is one of the file's, none twice; or the mixture is told."""
    prefix = "".join(prefixes)
    file = [*(prefix + name for name in sorted(kept)), *sorted(others)]
    try:
        tower = tower_of(Path("a.pt"), file)
    except ExplorerError as error:
        assert "mixes names" in str(error)
        return
    assert set(tower.names.values()) <= set(file)
    assert len(set(tower.names.values())) == len(tower.names)
    assert all(
        old.endswith(new) or new == f"visual.{old}" or new.startswith("visual.") for new, old in tower.names.items()
    )
    marked = {name for name in kept if name.startswith(("visual.transformer.", "visual.conv1.", "visual.class_emb"))}
    if marked:
        assert {name for name in kept if name.startswith("visual.")} <= set(tower.names)


@QUICK
@given(kind=st.sampled_from(sorted(FILES)), data=st.data())
def test_flipped_bytes(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    """A file with some bytes changed is refused, or its tensors lie within the file."""
    content = bytearray(FILES[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = write(tmp_path, f"a.{kind}", bytes(content))
    if checkpoint := opened(path):
        for entry in checkpoint.entries.values():
            size = len(entry.place) if isinstance(entry.place, bytes) else entry.place.size
            end = 0 if isinstance(entry.place, bytes) else entry.place.offset + size
            assert end <= len(content)
            reach = entry.start + sum((n - 1) * step for n, step in zip(entry.shape, entry.strides, strict=True))
            assert not entry.numel or 0 <= reach * (entry.nbytes // entry.numel) < size


@QUICK
@given(kind=st.sampled_from(sorted(FILES)), data=st.data())
def test_cut_and_spliced_files(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    content = FILES[kind]
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(content))] * 2)))
    extra = data.draw(st.binary(max_size=12) | st.just(content[start:end]))
    opened(write(tmp_path, "a.pt", content[:start] + extra + content[end:]))
    opened(write(tmp_path, "a.pt", content[:start]))


@QUICK
@given(payload=st.binary(max_size=60), protocol=st.integers(2, 5))
def test_random_pickles(tmp_path: Path, payload: bytes, protocol: int) -> None:
    opened(write(tmp_path, "a.pt", b"\x80" + bytes([protocol]) + payload))


@pytest.mark.parametrize("kind", FILES)
def test_the_files_themselves_are_right(tmp_path: Path, kind: str) -> None:
    """So that the changes above start from something."""
    checkpoint = open_checkpoint(write(tmp_path, "a", FILES[kind]))
    expected = {task: mask.shape for task, mask in MASKS.items()} if kind == "npy" else SHAPES
    assert {name: entry.shape for name, entry in checkpoint.entries.items()} == expected
