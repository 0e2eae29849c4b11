"""The verb inspect: the contract's fields, no tensor read, nothing waited for, one sentence for what is none."""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from makers import clip_shapes, module, safetensors_of, state, stream_of, vision_shapes, visual_shapes, write, zip_of

from lines_explorer import cli
from lines_explorer.checkpoints.tensors import Stored
from lines_explorer.commands.inspecting import inspect

Run = Callable[..., tuple[int, str, str]]
FIELDS = {"file", "format", "family", "blocks", "tensors", "parameters", "dtypes", "sha256", "problems"}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the verb in this process → (exit code, stdout, stderr)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = cli.main(["inspect", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def rows(run: Run) -> Callable[..., list[dict[str, Any]]]:
    """Run it with ``--json`` on readable files → the rows."""

    def call(*arguments: object) -> list[dict[str, Any]]:
        code, out, err = run(*arguments, "--json")
        assert code == 0, err
        assert out.count("\n") == 1 and list(json.loads(out)) == ["files"]
        return json.loads(out)["files"]

    return call


def test_one_file_of_each_kind(tmp_path: Path, rows: Callable[..., list[dict[str, Any]]]) -> None:
    clip, vision = clip_shapes(), vision_shapes()
    folder = tmp_path / "hub"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "clip_vision_model", "hidden_act": "gelu"}))
    write(folder, "model.safetensors", safetensors_of(vision, "F16", 2))
    files = [
        write(tmp_path, "a.pt", zip_of({"state_dict": state(clip)}, clip)),
        write(tmp_path, "b.pt", stream_of(module(clip), clip)),
        write(tmp_path, "c.safetensors", safetensors_of(visual_shapes(depth=3))),
        folder,
        write(tmp_path, "head.pt", zip_of(state({"weight": (10, 6)}), {"weight": (10, 6)})),
    ]
    found = rows(*files)
    assert all(row.keys() >= FIELDS for row in found)
    assert [row["file"] for row in found] == list(map(str, files))
    assert [row["format"] for row in found] == [
        *("torch zip", "torch legacy stream", "safetensors", "Hugging Face folder (safetensors)", "torch zip"),
    ]
    assert [row["blocks"] for row in found] == [2, 2, 3, 2, None]
    assert [row["tensors"] for row in found] == [len(clip), len(clip), len(visual_shapes(3)), len(vision), 1]
    assert [row["dtypes"] for row in found[2:4]] == [{"float32": len(visual_shapes(3))}, {"float16": len(vision)}]
    assert [row["activation"] for row in found] == [None, None, None, "gelu", None]
    assert found[0]["parameters"] == found[1]["parameters"] == 1973
    assert found[0]["family"] == found[2]["family"] != found[3]["family"]
    assert all(len(row["sha256"]) == 64 for row in found) and len({row["sha256"] for row in found}) == 5
    assert found[3]["problems"] == found[4]["problems"] == [] and "QuickGELU" in found[0]["problems"][0]


def test_a_whole_clip_of_real_size_is_counted_without_its_numbers() -> None:
    """ViT-B/32 without its text transformer: 158 tensors, 113,448,705 parameters, 12 blocks of 7,087,872."""
    from lines_explorer.checkpoints.opening import Checkpoint

    shapes = visual_shapes(12, 768, 32, 512) | {"visual.positional_embedding": (50, 768)}
    wide = {k: tuple(3072 if n == 1536 else n for n in s) if ".mlp." in k else s for k, s in shapes.items()}
    text = {"token_embedding.weight": (49408, 512), "positional_embedding": (77, 512), "text_projection": (512, 512)}
    wide |= text | {"ln_final.weight": (512,), "ln_final.bias": (512,), "logit_scale": ()}
    entries = {name: Stored("float32", shape, b"", (0,) * len(shape)) for name, shape in wide.items()}
    checkpoint = Checkpoint(Path("zeroshot.pt"), "torch zip", "weights", "whole module", (), entries)
    assert (len(entries), checkpoint.parameters, checkpoint.layout.depth) == (158, 113_448_705, 12)
    visual = checkpoint.canonical_entries
    assert (len(visual), sum(entry.numel for entry in visual.values())) == (152, 87_849_216)
    block = [entry.numel for name, entry in visual.items() if ".resblocks.11." in name]
    assert sum(block) == 7_087_872


def test_no_tensor_is_read_and_torch_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stored, "load", lambda self: pytest.fail("a tensor was read"))
    monkeypatch.setitem(sys.modules, "torch", None)
    shapes = clip_shapes()
    report = inspect([write(tmp_path, "a.pt", zip_of(state(shapes), shapes))])
    assert report.data["files"][0]["tensors"] == len(shapes) and "a.pt" in report.text


def test_without_hash_only_headers_are_read(tmp_path: Path, rows: Callable[..., list[dict[str, Any]]]) -> None:
    path = write(tmp_path, "a.safetensors", safetensors_of(visual_shapes()))
    assert rows(path, "--no-hash")[0]["sha256"] is None


def test_bad_files_do_not_hide_good_ones(tmp_path: Path, run: Run) -> None:
    good = write(tmp_path, "good.safetensors", safetensors_of(visual_shapes()))
    bad, worse = write(tmp_path, "bad.pt", b"\x80\x02cos\nsystem\n(S'true'\ntR."), tmp_path / "missing.pt"
    code, out, err = run(good, bad, worse, "--json")
    found = json.loads(out)["files"]
    assert code == cli.BAD_INPUT
    assert err.startswith("error: ") and "posix.system" in err.replace("os.system", "posix.system") and "1 more" in err
    assert [row["format"] for row in found] == ["safetensors", None, None]
    assert all(len(row["problems"]) == 1 and row.keys() >= FIELDS for row in found[1:])
    code, out, err = run(bad)
    assert code == cli.BAD_INPUT and err.count("\n") == 1


def test_it_never_waits_for_a_pipe_or_a_device(tmp_path: Path, run: Run) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, what in ((tmp_path / "pipe", "a pipe"), ("/dev/zero", "a device"), (tmp_path, "a directory without")):
        code, out, err = run(path)
        assert code == cli.BAD_INPUT and what in err
    code, _, err = run()
    assert code == cli.BAD_INPUT and "FILE" in err.upper()


def test_the_same_file_under_two_names_is_told(tmp_path: Path, rows: Callable[..., list[dict[str, Any]]]) -> None:
    content = safetensors_of(visual_shapes())
    found = rows(write(tmp_path, "a.safetensors", content), write(tmp_path, "b.safetensors", content))
    assert found[0]["sha256"] == found[1]["sha256"]
    assert f"the same content as {found[0]['file']}" in found[1]["notes"]


def test_names_of_any_bytes_can_be_printed(tmp_path: Path, run: Run) -> None:
    name = os.fsdecode(b"caf\xe9.pt")
    path = write(tmp_path, name, pickle.dumps({"\ud800": 1}))
    code, out, err = run(path, "--json")
    assert code == cli.BAD_INPUT and json.loads(out)["files"][0]["problems"]
    shapes = {"blocks.0.\x1b[2J": (1,)}
    code, out, err = run(write(tmp_path, name, zip_of(state(shapes), shapes)))
    assert code == 0 and "\x1b" not in out


def test_table_for_people(tmp_path: Path, run: Run) -> None:
    shapes = clip_shapes()
    code, out, _ = run(write(tmp_path, "a.pt", zip_of(module(shapes), shapes)))
    assert code == 0
    header, row, *remarks = out.splitlines()
    assert header.split()[:3] == ["file", "format", "content"] and "whole module" in row and "1,973" in row
    assert any(remark.startswith("! ") and "QuickGELU" in remark for remark in remarks)
    assert any(remark.startswith("- ") and "nothing of it was run" in remark for remark in remarks)
