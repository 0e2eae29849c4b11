"""open_checkpoint: every layout people have gives the same tensors, without its classes and without reading them."""

from __future__ import annotations

import gc
import io
import json
import pickle
from argparse import Namespace
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from makers import clip_shapes, stream_of, tar_of, write, zip_of
from makers import state as state_of
from safetensors.torch import save
from torch import nn
from torch_makers import as_modules, clip_state, define, saved, vanishing_module, vision_state, visual_state

from lines_explorer.checkpoints import Checkpoint, open_checkpoint, require_fit, tensors
from lines_explorer.checkpoints.huggingface import to_hugging_face
from lines_explorer.checkpoints.sources import SourceFile
from lines_explorer.errors import ExplorerError


def same(checkpoint: Checkpoint, state: dict[str, torch.Tensor]) -> bool:
    """Whether names, dtypes and bits agree."""
    loaded = dict(checkpoint.tensors)
    return list(loaded) == list(state) and all(
        loaded[name].dtype == tensor.dtype and torch.equal(loaded[name], tensor) for name, tensor in state.items()
    )


def image_encoder_file(state: dict[str, torch.Tensor]) -> bytes:
    """A whole module as task_vectors pickles it, of classes that are gone afterwards."""
    with vanishing_module("src.modeling") as modeling, vanishing_module("open_clip2.model") as clip:
        encoder, part = define(modeling, "ImageEncoder", nn.Module), define(clip, "VisualTransformer", nn.Module)
        module = encoder()
        module.model = as_modules(state, part)
        module.model.visual.transformer.resblocks._modules["0"].mlp.gelu = define(clip, "QuickGELU", nn.Module)()
        module.train_preprocess = Namespace(size=(8, 8), convert=torch.nn.functional.gelu)
        module.cache_dir = Path("cache")
        module.register_buffer("passing", torch.zeros(3), persistent=False)
        return saved(module)


def test_state_dicts_of_every_container_are_equal(tmp_path: Path) -> None:
    state = clip_state() | {"ids": torch.arange(7)}
    files = {
        "torch zip": saved(OrderedDict(state)),
        "torch legacy stream": saved(state, zipped=False),
        "torch legacy tar": tar_of({name: tensor.numpy() for name, tensor in state.items()}),
        "safetensors": save(state),
    }
    for format_, content in files.items():
        checkpoint = open_checkpoint(write(tmp_path, f"{format_}.pt", content))
        assert (checkpoint.format, checkpoint.kind) == (format_, "weights")
        names = sorted(state) if format_ == "safetensors" else list(state)
        assert sorted(checkpoint.tensors) == sorted(names)
        loaded = checkpoint.tensors
        for name in names:
            assert loaded[name].dtype == state[name].dtype and torch.equal(loaded[name], state[name]), (format_, name)
        assert (checkpoint.layout.family, checkpoint.layout.depth) == ("open_clip ViT", 2)
        assert checkpoint.parameters == sum(tensor.numel() for tensor in state.values()) - 7


def test_hand_written_files_are_what_torch_reads(tmp_path: Path) -> None:
    """The other tests trust ``makers``: torch reads its files as it reads its own."""
    shapes = clip_shapes()
    for content in (zip_of(state_of(shapes), shapes), stream_of(state_of(shapes), shapes)):
        loaded = torch.load(write(tmp_path, "hand.pt", content), weights_only=True)
        assert {name: tuple(tensor.shape) for name, tensor in loaded.items()} == shapes
        assert all(bool((tensor == 1).all()) for tensor in loaded.values())


def test_the_oldest_format_is_what_torch_reads(tmp_path: Path) -> None:
    path = write(tmp_path, "old.pt", tar_of({name: tensor.numpy() for name, tensor in visual_state().items()}))
    assert same(open_checkpoint(path), torch.load(path, weights_only=False))


def test_whole_module_without_its_classes(tmp_path: Path) -> None:
    state = clip_state()
    path = write(tmp_path, "finetuned.pt", image_encoder_file(state))
    with pytest.raises(ModuleNotFoundError):
        torch.load(path, weights_only=False)
    checkpoint = open_checkpoint(path)
    assert checkpoint.what == "whole module src.modeling.ImageEncoder"
    assert checkpoint.quick_gelu is True
    loaded = checkpoint.tensors
    assert set(loaded) == {f"model.{name}" for name in state}
    assert all(torch.equal(loaded[f"model.{name}"], tensor) for name, tensor in state.items())
    visual = visual_state()
    assert set(checkpoint.canonical) == set(visual)
    assert all(torch.equal(checkpoint.canonical[name], visual[name]) for name in visual)


def test_a_real_open_clip_module(tmp_path: Path) -> None:
    from open_clip.model import CLIP

    vision = {"image_size": 32, "layers": 3, "width": 32, "head_width": 32, "patch_size": 16}
    text = {"context_length": 8, "vocab_size": 50, "width": 8, "heads": 1, "layers": 2}
    for quick in (True, False):
        model = CLIP(embed_dim=8, vision_cfg=vision, text_cfg=text, quick_gelu=quick)
        checkpoint = open_checkpoint(write(tmp_path, "clip.pt", saved(model, zipped=quick)))
        assert checkpoint.quick_gelu is quick
        assert not checkpoint.problems
        assert same(checkpoint, model.state_dict())
        assert checkpoint.layout.depth == 3
        assert set(checkpoint.canonical) == {name for name in model.state_dict() if name.startswith("visual.")}


@pytest.mark.parametrize("prefix", ["", "module.", "model.", "module.model.", "module._orig_mod.image_encoder.model."])
@pytest.mark.parametrize("nest", [(), ("state_dict",), ("checkpoint", "model")])
def test_training_checkpoints_and_prefixes(tmp_path: Path, prefix: str, nest: tuple[str, ...]) -> None:
    state = {prefix + name: tensor for name, tensor in clip_state().items()}
    content: dict = dict(state)
    for key in reversed(nest):
        optimizer = {"state": {0: {"exp_avg": torch.zeros(3), "step": 7}}, "param_groups": [{"lr": 0.1}]}
        content = {
            "epoch": 3,
            "args": Namespace(lr=1e-5),
            "best": np.float64(0.5),
            "optimizer": optimizer,
            "random": [np.random.RandomState(3), np.random.default_rng(3)],
            key: content,
        }
    checkpoint = open_checkpoint(write(tmp_path, "epoch_3.pt", saved(content)))
    assert same(checkpoint, state)
    assert (".".join(nest) in checkpoint.what) or not nest
    visual = visual_state()
    assert {name: tensor.shape for name, tensor in checkpoint.canonical.items()} == {
        k: v.shape for k, v in visual.items()
    }
    assert any("left out" in note for note in checkpoint.notes)


def test_a_tower_alone_gets_its_prefix_back(tmp_path: Path) -> None:
    state = {name.removeprefix("visual."): tensor for name, tensor in visual_state().items()}
    for prefix in ("", "module."):
        file = {prefix + name: tensor for name, tensor in state.items()}
        checkpoint = open_checkpoint(write(tmp_path, "tower.safetensors", save(file)))
        assert set(checkpoint.canonical) == set(visual_state())


def test_classification_heads(tmp_path: Path) -> None:
    weight, bias = torch.randn(10, 6), torch.zeros(10)
    with vanishing_module("src.modeling") as modeling:
        head = define(modeling, "ClassificationHead", nn.Linear)(6, 10)
        head.normalize = True
        head.weight, head.bias = nn.Parameter(weight), nn.Parameter(bias)
        files = {"pickled": saved(head), "plain": saved({"weight": weight, "bias": bias})}
    files["safetensors"] = save({"weight": weight, "bias": bias})
    for name, content in files.items():
        checkpoint = open_checkpoint(write(tmp_path, f"head_{name}.pt", content))
        assert checkpoint.kind == "head"
        assert checkpoint.normalize is (True if name == "pickled" else None)
        assert torch.equal(checkpoint.tensors["weight"], weight) and torch.equal(checkpoint.tensors["bias"], bias)


def test_tall_masks(tmp_path: Path) -> None:
    masks = {task: np.packbits(np.random.default_rng(n).random(83) < 0.3) for n, task in enumerate(("DTD", "SVHN"))}
    path = tmp_path / "TALL_mask_2task.npy"
    np.save(path, masks)  # type: ignore[arg-type]
    checkpoint = open_checkpoint(path)
    assert (checkpoint.format, checkpoint.kind) == ("npy", "mask")
    assert {task: mask.numpy().tolist() for task, mask in checkpoint.tensors.items()} == {
        task: mask.tolist() for task, mask in masks.items()
    }


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_numpy_state_dicts_of_pickle_dump(tmp_path: Path, protocol: int) -> None:
    state = {"blocks.0.a": np.arange(6, dtype="f4").reshape(2, 3), "blocks.0.f": np.asfortranarray(np.eye(2, 3))}
    state["blocks.0.h"] = np.ones(3, "f2")
    path = write(tmp_path, "weights.pkl", pickle.dumps(state | {"classes": np.array(["a", "b"])}, protocol))
    loaded = open_checkpoint(path).tensors
    assert set(loaded) == set(state)
    for name, array in state.items():
        assert loaded[name].numpy().dtype == array.dtype and np.array_equal(loaded[name].numpy(), array)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "float8_e4m3fn", "bool", "int8", "uint8", "int16"])
def test_dtypes_views_and_odd_shapes(tmp_path: Path, dtype: str) -> None:
    whole = (torch.arange(60) % 7).to(getattr(torch, dtype)).reshape(3, 4, 5)
    state = {
        **{"whole": whole, "turned": whole.permute(2, 0, 1), "part": whole[1:, ::2, 1]},
        **{"one": whole[0, 0, 0], "none": whole[:0], "wide": whole[0, 0, 1].expand(2, 3)},
    }
    for number, content in enumerate((saved(state), saved(state, zipped=False))):
        checkpoint = open_checkpoint(write(tmp_path, f"{number}.pt", content))
        for name, tensor in state.items():
            loaded = checkpoint.tensors[name]
            assert loaded.shape == tensor.shape and loaded.dtype == tensor.dtype
            assert torch.equal(loaded.float(), tensor.float()), name


@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")
def test_torchscript(tmp_path: Path) -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(2, 3))
            self.sizes = [1, 2]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight

    outer = nn.Sequential(Inner(), nn.Linear(3, 2))
    file = io.BytesIO()
    torch.jit.save(torch.jit.trace(outer, torch.zeros(1, 2)), file)
    checkpoint = open_checkpoint(write(tmp_path, "script.pt", file.getvalue()))
    assert checkpoint.format == "TorchScript"
    assert {name: tensor.tolist() for name, tensor in checkpoint.tensors.items()} == {
        name: tensor.tolist() for name, tensor in outer.state_dict().items()
    }


def hub_folder(folder: Path, state: dict[str, torch.Tensor], shards: int, binary: bool) -> Path:
    """A folder as transformers saves it."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "clip_vision_model", "hidden_act": "quick_gelu"}))
    stem, suffix = ("pytorch_model", ".bin") if binary else ("model", ".safetensors")
    store = saved if binary else save
    names = [f"{stem}-{n + 1:05}-of-{shards:05}{suffix}" for n in range(shards)] if shards > 1 else [stem + suffix]
    parts = {name: dict(list(state.items())[n :: len(names)]) for n, name in enumerate(names)}
    for name, part in parts.items():
        write(folder, name, store(part))
    if shards > 1:
        index = {"metadata": {}, "weight_map": {key: name for name, part in parts.items() for key in part}}
        (folder / f"{stem}{suffix}.index.json").write_text(json.dumps(index))
    return folder


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("shards", [1, 3])
def test_hugging_face_folders(tmp_path: Path, shards: int, binary: bool) -> None:
    state = vision_state()
    checkpoint = open_checkpoint(hub_folder(tmp_path / "model", state, shards, binary))
    assert checkpoint.format.startswith("Hugging Face folder") and checkpoint.what == "clip_vision_model"
    assert checkpoint.quick_gelu is True and not checkpoint.problems
    loaded = checkpoint.tensors
    assert loaded.keys() == state.keys() and all(torch.equal(loaded[name], state[name]) for name in state)
    assert checkpoint.layout.family.startswith("Hugging Face CLIP") and checkpoint.layout.depth == 2
    assert len(checkpoint.files) == shards and len(checkpoint.sha256) == 64


def test_hugging_face_tower_under_open_clip_s_names(tmp_path: Path) -> None:
    state = visual_state()
    path = write(tmp_path, "a.safetensors", save(to_hugging_face(state)))
    tower = open_checkpoint(path).image_tower()
    assert tower.keys() == state.keys() and all(torch.equal(tower[name], state[name]) for name in state)
    path = write(tmp_path, "b.safetensors", save({"blocks.0.attn.qkv.weight": torch.zeros(6, 2)}))
    with pytest.raises(ExplorerError, match="timm ViT model, not CLIP"):
        open_checkpoint(path).image_tower()


def test_a_folder_of_the_hub_s_cache_is_links_to_blobs(tmp_path: Path) -> None:
    folder = hub_folder(tmp_path / "models--a--b" / "snapshots" / "0123", vision_state(), 1, False)
    (tmp_path / "models--a--b" / "blobs").mkdir()
    (folder / "model.safetensors").rename(tmp_path / "models--a--b" / "blobs" / "ffff")
    (folder / "model.safetensors").symlink_to("../../blobs/ffff")
    assert len(open_checkpoint(folder).entries) == len(vision_state())


def test_adapter_folders_and_files_are_told_apart(tmp_path: Path) -> None:
    part = {"base_model.model.vision_model.encoder.layers.0.self_attn.q_proj.lora_A.weight": torch.zeros(2, 8)}
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2}))
    file = write(tmp_path, "adapter_model.safetensors", save(part))
    folder = open_checkpoint(tmp_path)
    assert (folder.kind, folder.what, folder.config["r"]) == ("adapter", "LORA", 2)
    assert open_checkpoint(file).kind == "adapter"


def test_plain_weights_of_other_models_are_read_whole(tmp_path: Path) -> None:
    llama = {"model.embed_tokens.weight": torch.zeros(3, 2), "model.layers.0.mlp.up_proj.weight": torch.zeros(2, 2)}
    assert set(open_checkpoint(write(tmp_path, "a.safetensors", save(llama))).canonical) == set(llama)
    timm = {"backbone.blocks.0.attn.qkv.weight": torch.zeros(6, 2), "backbone.norm.weight": torch.zeros(2)}
    checkpoint = open_checkpoint(write(tmp_path, "b.safetensors", save(timm)))
    assert set(checkpoint.canonical) == {"blocks.0.attn.qkv.weight", "norm.weight"}
    assert checkpoint.layout.family == "timm ViT"
    strange = open_checkpoint(write(tmp_path, "c.safetensors", save({"stage.a.1.w": torch.zeros(2)})))
    assert set(strange.canonical) == {"stage.a.1.w"} and "stage.a.#.w" in strange.problems[0]


def test_activation_that_nothing_tells_is_a_problem_not_a_guess(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write(tmp_path, "a.pt", saved(visual_state())))
    assert checkpoint.quick_gelu is None and "QuickGELU" in checkpoint.problems[0]
    config = {"model_cfg": {"embed_dim": 6, "quick_gelu": True}}
    (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
    write(tmp_path, "open_clip_model.safetensors", save(visual_state()))
    assert open_checkpoint(tmp_path).quick_gelu is True


def test_tied_weights_are_noted(tmp_path: Path) -> None:
    shared = torch.randn(3, 2)
    checkpoint = open_checkpoint(write(tmp_path, "tied.pt", saved({"blocks.0.a": shared, "blocks.0.b": shared})))
    assert "'blocks.0.a' and 'blocks.0.b' are tied" in checkpoint.notes[0]
    assert torch.equal(checkpoint.tensors["blocks.0.b"], shared)


def test_opening_reads_no_tensor_and_writing_never_reaches_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "a.pt", saved(visual_state()))
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(tensors.Stored, "load", lambda self: pytest.fail("a tensor was read"))
        checkpoint = open_checkpoint(path)
        assert checkpoint.layout.depth == 2 and checkpoint.problems and checkpoint.parameters and checkpoint.nbytes
    tensor = checkpoint.tensors["visual.proj"]
    tensor.zero_()
    assert path.read_bytes() == before
    del tensor, checkpoint
    gc.collect()
    assert open_checkpoint(path).tensors["visual.proj"].abs().sum() > 0


def test_hash_is_computed_once_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "a.safetensors", save(visual_state()))
    first = open_checkpoint(path).sha256
    with monkeypatch.context() as patch:
        patch.setattr(SourceFile, "open", lambda self: pytest.fail("the file was read again"))
        assert SourceFile(path).sha256 == first
    path.write_bytes(save(visual_state(seed=1)))
    assert open_checkpoint(path).sha256 != first


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "a.pt", saved(visual_state()))
    checkpoint = open_checkpoint(path)
    path.write_bytes(saved(visual_state(depth=3)))
    with pytest.raises(ExplorerError, match="changed while it was being read"):
        checkpoint.tensors["visual.proj"]


def test_fitting_checkpoints_fit_across_containers(tmp_path: Path) -> None:
    base = open_checkpoint(write(tmp_path, "zeroshot.pt", image_encoder_file(clip_state())))
    expert = open_checkpoint(write(tmp_path, "expert.safetensors", save(visual_state(seed=1))))
    require_fit(base, expert)
