"""The public suites as people have them, tiny: the ready-made suite.yaml, its layouts, the calls of every day, offline.

Files are laid out as in the authors' folders (tall-masks) and as on the hub (tanganke): same names, same containers,
same columns; only the model is small.  Each layout is scored by the command line without network, and compared with
what plain torch or transformers compute.
"""

from __future__ import annotations

import copy
import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from pictures import parquet
from PIL import Image
from tiny import MODEL
from torch import Tensor, nn

from lines_explorer.cli import main
from lines_explorer.suites import model, presets

ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURE, TRAIN, TEST, SCALE = "public-layout-test", 20, 12, 0.3
WORDS = {"context_length": 77, "vocab_size": 49408, "width": 8, "heads": 1, "layers": 1}
CONFIG = MODEL | {"quick_gelu": True, "text_cfg": WORDS}
SCORED = ("MNIST", "SVHN", "DTD")


def clip(seed: int) -> dict[str, Tensor]:
    """All tensors of a random model of open_clip, both towers."""
    torch.manual_seed(seed)
    config = copy.deepcopy(CONFIG)
    preprocess = config.pop("preprocess_cfg")
    return model.empty(model.Architecture(ARCHITECTURE, config, preprocess)).state_dict()


def picture(random: np.random.Generator) -> bytes:
    file = io.BytesIO()
    Image.fromarray(random.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(file, "png")
    return file.getvalue()


def write_data(hub: Path, tasks: Mapping[str, Any]) -> dict[str, tuple[list[bytes], list[int]]]:
    """Parquet files under the data sets' own names; returns the test pictures and labels of each task."""
    random, written = np.random.default_rng(0), {}
    for task, row in tasks.items():
        places = row["splits"]["test"]
        folder, configured = hub / places["hub"], places.get("config")
        part = configured or "data"
        for split, count in (("train", TRAIN), ("test", TEST)):
            pictures = [picture(random) for _ in range(count)]
            labels = [int(label) for label in random.integers(0, len(row["prompts"]), count)]
            cells = [{"bytes": content, "path": None} for content in pictures]
            parquet(folder / f"{part}/{split}-00000-of-00001.parquet", cells, labels, row["prompts"])
            written[task] = pictures, labels
        if configured:
            files = [{"split": split, "path": f"{part}/{split}-*"} for split in ("train", "test")]
            others = [{"split": "train", "path": "full_numbers/train-*"}]
            configs = [{"config_name": part, "data_files": files}]
            configs += [{"config_name": "full_numbers", "data_files": others}]
            (folder / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': configs})}---\n")
    return written


def write_suite(folder: Path, layout: str) -> dict[str, Any]:
    """The ready-made suite.yaml with the tiny model in place of ViT-B/32; nothing else is changed."""
    content = presets.describe(f"vit-b-32-8-{layout}")
    content["base"] |= {"architecture": ARCHITECTURE, "config": "model.json"}
    folder.mkdir(parents=True)
    (folder / "suite.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    (folder / "model.json").write_text(json.dumps(CONFIG))
    return content


@pytest.fixture
def scored(
    tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[Path], dict[str, dict[str, Any]]]:
    """Scores the sum of all experts of a suite by the command line, offline; any use of the network is a fault."""
    import datasets
    import huggingface_hub

    def connect(*_: object) -> None:
        pytest.fail("the network was used")

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setenv("LINES_EXPLORER_HUB", str(tmp_path / "hub"))

    def score(suite: Path) -> dict[str, dict[str, Any]]:
        what = ("--tasks", "all", "--scale", str(SCALE), "--score-on", ",".join(SCORED), "--split", "test")
        code = main(["evaluate", "--suite", str(suite), *what, "--device", "cpu", "--json"])
        said = capsys.readouterr()
        assert code == 0, said.err
        return json.loads(said.out)["tasks"]

    return score


def pixels(pictures: list[bytes]) -> Tensor:
    arrays = [np.asarray(Image.open(io.BytesIO(content))) for content in pictures]
    return (torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.5


def right(features: Tensor, head: Tensor, labels: list[int]) -> int:
    return int(((features @ head.T).argmax(1) == torch.tensor(labels)).sum())


def summed(base: Mapping[str, Tensor], experts: list[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """θ₀ + λ Σ (θₜ − θ₀), for the tensors that an expert has."""
    moved = {key: sum(expert[key] - base[key] for expert in experts) for key in experts[0]}
    return {key: tensor + SCALE * moved[key] if key in moved else tensor for key, tensor in base.items()}


def pickled_head(weight: Tensor) -> nn.Module:
    """A classifier as the reference pickles it, its class in a module that is gone afterwards."""
    module = ModuleType("src.modeling")
    module.ClassificationHead = type("ClassificationHead", (nn.Linear,), {"__module__": "src.modeling"})
    sys.modules |= {"src": ModuleType("src"), "src.modeling": module}
    head = module.ClassificationHead(*weight.shape[::-1])
    head.normalize, head.weight, head.bias = True, nn.Parameter(weight), nn.Parameter(torch.zeros(len(weight)))
    return head


def test_folders_of_the_authors(tmp_path: Path, scored: Callable[[Path], dict[str, Any]]) -> None:
    """Plain state dicts with ``model.``, the frozen text part in them, heads as pickled modules."""
    suite = tmp_path / "suite"
    content = write_suite(suite, "tall-masks")
    data = write_data(tmp_path / "hub", content["tasks"])
    base, folder = clip(0), suite / "checkpoints/ViT-B-32"
    image = {key: tensor for key, tensor in base.items() if not key.startswith("transformer.")}
    experts, heads = [], {}
    try:
        for number, task in enumerate(content["tasks"], start=1):
            (folder / f"{task}Val").mkdir(parents=True)
            moved = clip(number)
            expert = {key: moved[key] if key.startswith("visual.") else tensor for key, tensor in image.items()}
            saved = {f"model.{key}": tensor for key, tensor in expert.items()}
            torch.save(saved, folder / f"{task}Val/nonlinear_finetuned.pt")
            heads[task] = 100 * nn.functional.normalize(
                torch.randn(len(content["tasks"][task]["prompts"]), 12, generator=torch.manual_seed(number)), dim=-1
            )
            torch.save(pickled_head(heads[task]), folder / f"head_{task}Val.pt")
            experts.append({key: tensor for key, tensor in expert.items() if key.startswith("visual.")})
        torch.save({f"model.{key}": t for key, t in image.items()}, folder / "MNISTVal/nonlinear_zeroshot.pt")
    finally:
        sys.modules.pop("src.modeling", None), sys.modules.pop("src", None)
    found = scored(suite)
    config = copy.deepcopy(CONFIG)
    whole = model.empty(model.Architecture(ARCHITECTURE, config, config.pop("preprocess_cfg"))).eval()
    whole.load_state_dict(summed(base, experts))
    for task in SCORED:
        pictures, labels = data[task]
        with torch.inference_mode():
            features = whole.encode_image(pixels(pictures), normalize=True)
        assert (found[task]["correct"], found[task]["n"]) == (right(features, heads[task], labels), TEST)


def hub_models(hub: Path, content: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    """The base with both towers and the vision models of its experts, each saved by transformers under its name."""
    from transformers import CLIPConfig, CLIPModel, CLIPVisionModel

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2}
    vision = sizes | {"image_size": 16, "patch_size": 8, "hidden_act": "quick_gelu"}
    text = {"hidden_size": 8, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 1}
    text |= {"vocab_size": 49408, "max_position_embeddings": 77, "eos_token_id": 49407, "hidden_act": "quick_gelu"}
    torch.manual_seed(0)
    base = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=12)).eval()
    base.save_pretrained(hub / content["base"]["weights"]["hub"])
    experts = []
    for number, place in enumerate(content["experts"].values(), start=1):
        torch.manual_seed(number)
        experts.append(CLIPVisionModel(base.config.vision_config).eval())
        shards = {"max_shard_size": "20KB"} if number == 2 else {}
        experts[-1].save_pretrained(hub / place["hub"], **shards)
    return base, experts


def test_repositories_of_the_hub(tmp_path: Path, scored: Callable[[Path], dict[str, Any]]) -> None:
    """Vision models without their projection, one of them in shards; heads by the base's text tower."""
    import open_clip

    suite, hub = tmp_path / "suite", tmp_path / "hub"
    content = write_suite(suite, "tanganke")
    data = write_data(hub, content["tasks"])
    base, experts = hub_models(hub, content)
    assert len(list((hub / content["experts"]["Cars"]["hub"]).glob("*.safetensors"))) > 1
    found = scored(suite)
    tower = copy.deepcopy(base.vision_model)
    states = [getattr(expert, "vision_model", expert).state_dict() for expert in experts]
    tower.load_state_dict(summed(base.vision_model.state_dict(), states))
    tokenize = open_clip.get_tokenizer("ViT-B-32")
    for task in SCORED:
        pictures, labels = data[task]
        row = content["tasks"][task]
        with torch.inference_mode():
            features = base.visual_projection(tower(pixel_values=pixels(pictures)).pooler_output)
            head = text_head(base, tokenize, row["prompts"], row["templates"])
        assert (found[task]["correct"], found[task]["n"]) == (right(features, head, labels), TEST)


def text_head(base: Any, tokenize: Callable[..., Tensor], prompts: list[str], templates: list[str]) -> Tensor:
    """Mean over templates of unit text embeddings, by transformers."""
    rows = []
    for prompt in prompts:
        tokens = tokenize([template.replace("{}", prompt) for template in templates])
        vectors = nn.functional.normalize(base.text_projection(base.text_model(input_ids=tokens).pooler_output), dim=-1)
        rows.append(nn.functional.normalize(vectors.mean(dim=0), dim=0))
    return torch.stack(rows)


def test_without_network_and_files_one_sentence_says_what_to_fetch(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "LINES_EXPLORER_HUB"}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    environment |= {"LINES_EXPLORER_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "lines_explorer", "suites", "--suite", "vit-b-32-8-tanganke"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip().splitlines()[-1] == (
        "error: The model openai/clip-vit-base-patch32 is not on this machine and HF_HUB_OFFLINE is set: unset it, or "
        "run `hf download openai/clip-vit-base-patch32 --local-dir HUB/openai/clip-vit-base-patch32` where there is a "
        "network, bring the folder here and set LINES_EXPLORER_HUB=HUB."
    )
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("layout", presets.LAYOUTS)
def test_the_tiny_suites_differ_from_the_ready_made_ones_in_the_model_alone(layout: str, tmp_path: Path) -> None:
    tiny, whole = write_suite(tmp_path / "suite", layout), presets.describe(f"vit-b-32-8-{layout}")
    assert {key for key in whole if tiny[key] != whole[key]} == {"base"}
    assert tiny["base"]["weights"] == whole["base"]["weights"]
