"""A suite of one's own, end to end: checkpoints in several formats, heads, held-out validation, the memory bill."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from tiny import MODEL

from lines_explorer.checkpoints import write_safetensors
from lines_explorer.checkpoints.huggingface import to_hugging_face
from lines_explorer.engine import Engine, Store
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import lines
from lines_explorer.suites import Suite, heads, images, model, open_suite
from lines_explorer.suites.sources import HeldOut

NAME = "own-suite-test"
CONFIG = MODEL | {"text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 8, "heads": 1, "layers": 2}}
CLASSES = ("red", "green", "blue")
DESCRIPTION: dict[str, Any] = {
    "name": "own",
    "title": "Own",
    "base": {"architecture": NAME, "config": "model.json", "weights": "checkpoints/base.pt"},
    "experts": {
        "colours": "checkpoints/colours.safetensors",
        "shades": {"hub": "somebody/shades"},
        "greys": "checkpoints/greys",
    },
    "tasks": {
        "colours": {"templates": ["a {} thing", "{}"], "splits": {"train": "data/train", "test": "data/test"}},
        "shades": {"classes": list(CLASSES), "head": "head.safetensors", "splits": {"test": "data/test"}},
        "greys": {"classes": list(CLASSES), "prompts": ["a", "b", "c"], "splits": {"validation": "data/test"}},
    },
}


def clip(seed: int) -> dict[str, torch.Tensor]:
    """All tensors of a random open_clip model, both towers."""
    torch.manual_seed(seed)
    return model.empty(model.Architecture(NAME, *_configs())).state_dict()


def _configs() -> tuple[dict[str, Any], dict[str, Any]]:
    config = copy.deepcopy(CONFIG)
    return config, config.pop("preprocess_cfg")


def pictures(folder: Path, count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    for channel, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = random.integers(0, 90, (20, 24, 3), dtype=np.uint8)
            pixels[:, :, channel] += 150
            Image.fromarray(pixels).save(folder / name / f"{number:02d}.png")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with suite.yaml; its base has a wrapper, one expert is whole, one on the hub, one without projection."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "checkpoints/greys").mkdir(parents=True)
    (folder / "model.json").write_text(json.dumps(CONFIG))
    base = clip(0)
    torch.save({"epoch": 1, "state_dict": {f"module.{k}": v for k, v in base.items()}}, folder / "checkpoints/base.pt")
    write_safetensors(folder / "checkpoints/colours.safetensors", {f"model.{k}": v for k, v in clip(1).items()})
    mirror = folder / "hub/somebody/shades"
    mirror.mkdir(parents=True)
    facts = {"model_type": "clip_vision_model", "hidden_act": "gelu"}
    for place, seed, kept in ((mirror, 2, True), (folder / "checkpoints/greys", 3, False)):
        tensors = to_hugging_face(clip(seed))
        if not kept:
            del tensors["visual_projection.weight"]
        write_safetensors(place / "model.safetensors", tensors, {"format": "pt"})
        (place / "config.json").write_text(json.dumps(facts))
    write_safetensors(folder / "head.safetensors", {"weight": torch.randn(3, 12), "bias": torch.zeros(3)})
    pictures(folder / "data/train", 20, 0)
    pictures(folder / "data/test", 4, 1)
    (folder / "suite.yaml").write_text(yaml.safe_dump(DESCRIPTION))
    return folder


@pytest.fixture
def suite(own: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    monkeypatch.setenv("LINES_EXPLORER_HUB", str(own / "hub"))
    return open_suite(own)


def changed(own: Path, folder: Path, change) -> Suite:
    shutil.copytree(own, folder / "copy")
    content = copy.deepcopy(DESCRIPTION)
    change(content)
    (folder / "copy/suite.yaml").write_text(yaml.safe_dump(content))
    return open_suite(folder / "copy")


def image_side(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {key: tensor for key, tensor in tensors.items() if key.startswith("visual.")}


@pytest.mark.parametrize(("task", "seed"), [("colours", 1), ("shades", 2), ("greys", 3)])
def test_experts_of_every_format_are_the_same_model(suite: Suite, task: str, seed: int) -> None:
    base, wanted, found = clip(0), image_side(clip(seed)), suite.expert(task)
    if task == "greys":
        wanted["visual.proj"] = base["visual.proj"]
    assert found.keys() == wanted.keys() and not suite.is_delta(task)
    assert all(torch.equal(found[key], wanted[key]) for key in wanted)
    assert all(torch.equal(suite.task_vector(task)[key], wanted[key] - base[key]) for key in wanted)


def test_the_base_and_the_memory_bill(suite: Suite) -> None:
    base = clip(0)
    assert suite.base().keys() == image_side(base).keys() | {"logit_scale"}
    assert all(torch.equal(tensor, base[key]) for key, tensor in suite.base().items())
    size = 4 * sum(tensor.numel() for tensor in image_side(base).values())
    bill = suite.memory_bill()
    smaller = size - 4 * base["visual.proj"].numel()
    assert (bill.base, dict(bill.deltas)) == (size, {"colours": size, "shades": size, "greys": smaller})
    assert bill.total == 3 * size + smaller and "3 experts" in str(bill)
    assert suite.memory_bill(["shades"]).total == 2 * size


def test_heads_from_prompts_are_the_references(
    suite: Suite, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import open_clip

    whole = model.empty(model.Architecture(NAME, *_configs()))
    whole.load_state_dict(clip(0))
    tokenize, rows = open_clip.get_tokenizer(NAME), []
    for name in ("blue", "green", "red"):  # folders in the order of their names
        with torch.no_grad():
            vectors = whole.encode_text(tokenize([f"a {name} thing", name]))
        vectors = vectors / vectors.norm(dim=-1, keepdim=True)
        mean = vectors.mean(dim=0)
        rows.append(whole.logit_scale.exp() * mean / mean.norm())
    assert suite.tasks["colours"].classes == ("blue", "green", "red")
    assert torch.allclose(suite.head("colours"), torch.stack(rows).detach(), atol=1e-4)
    monkeypatch.setattr(heads, "_encode", None)
    assert torch.allclose(suite.head("colours"), torch.stack(rows).detach(), atol=1e-4)


def test_a_head_file_is_taken_as_it_is(suite: Suite, own: Path, tmp_path: Path) -> None:
    assert suite.head("shades").shape == (3, 12)
    other = changed(own, tmp_path, lambda c: c["tasks"]["shades"].update(classes=["a", "b"]))
    with pytest.raises(ExplorerError, match=r"head.safetensors is a head \(3, 12\), but task shades has 2 classes"):
        other.head("shades")
    write_safetensors(other.folder / "head.safetensors", {"weight": torch.randn(2, 12), "bias": torch.ones(2)})
    with pytest.raises(ExplorerError, match="has a bias that is not zero"):
        open_suite(other.folder).head("shades")


def test_it_is_scored_like_any_other(suite: Suite, fresh_cache: Path) -> None:
    engine = Engine(suite, "cpu", Store(":memory:"))
    recipe = Recipe("own", ("colours",), schedule=lines(1.0, 0.0))
    scores = engine.evaluate(recipe, ("colours", "shades"), "test").scores
    pixels, labels = suite.images("colours", "test")
    assert pixels.shape == (12, 3, 16, 16) and suite.size("colours", "test") == 12
    assert suite.size("colours", "validation") == 6  # a tenth of sixty
    whole = suite.build_model()
    whole.load_state_dict(suite.expert("colours"), strict=False)
    with torch.inference_mode():
        features = whole.encode_image((pixels.float() / 255 - 0.5) / 0.5, normalize=True)
    right = int(((features @ suite.head("colours").T).argmax(1) == labels).sum())
    assert (scores["colours"].correct, scores["colours"].n) == (right, 12)


def test_the_hash_follows_everything(suite: Suite, own: Path, tmp_path: Path) -> None:
    copied = changed(own, tmp_path, lambda content: None)
    shutil.copy(own / "suite.yaml", copied.folder / "suite.yaml")
    assert open_suite(copied.folder).hash == suite.hash, "the folder's place does not matter"
    seen = {suite.hash}
    pictures(copied.folder / "data/test/red/more", 1, 5)
    seen.add(open_suite(copied.folder).hash)
    write_safetensors(copied.folder / "head.safetensors", {"weight": torch.zeros(3, 12)})
    seen.add(open_suite(copied.folder).hash)
    torch.save(clip(5), copied.folder / "checkpoints/base.pt")
    seen.add(open_suite(copied.folder).hash)
    assert len(seen) == 4 and suite.expert_sha256("greys") != suite.expert_sha256("shades")


def of_open_clip(content: dict[str, Any], name: str) -> None:
    del content["base"]["config"]
    content["base"]["architecture"] = name


WRONG = {
    "activation": (lambda c: c["base"].update(activation="quickgelu"), "quick_gelu is not base.activation quickgelu"),
    "unknown": (
        lambda c: c.update(base=c["base"] | {"architecture": "ViT-B-33"}) or c["base"].pop("config"),
        "did you",
    ),
    "unsaid": (
        lambda c: c.update(base=c["base"] | {"architecture": "ViT-B-32"}) or c["base"].pop("config"),
        "base.activation is missing: ViT-B-32 exists with gelu and with quickgelu",
    ),
    "head as base": (lambda c: c["base"].update(weights="head.safetensors"), "head.safetensors holds .*not a model"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_base_that_does_not_fit_is_refused(own: Path, tmp_path: Path, kind: str) -> None:
    change, message = WRONG[kind]
    with pytest.raises(ExplorerError, match=message):
        changed(own, tmp_path, change).build_model()


def test_quickgelu_is_part_of_the_architecture(own: Path, tmp_path: Path) -> None:
    """What is exported names the architecture: with plain GELU the same weights score wrongly."""
    found = model.architecture("ViT-B-32", None, "quickgelu")
    assert (found.name, found.config["quick_gelu"], found.image_size) == ("ViT-B-32-quickgelu", True, 224)
    assert not model.architecture("ViT-B-32", None, "gelu").config.get("quick_gelu")

    def openai(content: dict[str, Any]) -> None:
        of_open_clip(content, "ViT-B-32")
        content["base"]["activation"] = "quickgelu"

    suite = changed(own, tmp_path, openai)
    assert (suite.architecture, suite.image_size) == ("ViT-B-32-quickgelu", 224)
    assert suite.normalisation()[0] == (0.48145466, 0.4578275, 0.40821073)
    with pytest.raises(ExplorerError, match="contradicts base.activation gelu"):
        model.architecture("ViT-B-32-quickgelu", None, "gelu")


def test_an_activation_that_the_checkpoint_contradicts(own: Path, tmp_path: Path) -> None:
    """The trap of OpenAI's weights: loaded with GELU they score wrongly without a word."""
    suite = changed(own, tmp_path, lambda c: c["base"].update(weights="checkpoints/openai"))
    place = suite.folder / "checkpoints/openai"
    write_safetensors(place / "model.safetensors", to_hugging_face(clip(0)), {"format": "pt"})
    (place / "config.json").write_text(json.dumps({"model_type": "clip_vision_model"}))
    with pytest.raises(ExplorerError, match=f"was trained with quickgelu, but {NAME} has gelu; set base.activation to"):
        suite.base()


def test_a_base_without_text_tower_asks_for_a_head(own: Path, tmp_path: Path) -> None:
    suite = changed(own, tmp_path, lambda content: None)
    torch.save(image_side(clip(0)), suite.folder / "checkpoints/base.pt")
    with pytest.raises(ExplorerError, match="Task colours needs a head: the base has no text tower"):
        open_suite(suite.folder).head("colours")
    assert open_suite(suite.folder).base()["logit_scale"].exp().item() == pytest.approx(100)


def test_a_model_of_transformers_sees_and_reads_the_same(tmp_path: Path) -> None:
    """Both towers of a CLIPModel: image features and text embeddings as transformers computes them."""
    import open_clip
    from transformers import CLIPConfig, CLIPModel

    from lines_explorer.suites.weights import open_weights

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    vision = sizes | {"image_size": 16, "patch_size": 8}
    text = sizes | {"vocab_size": 49408, "max_position_embeddings": 77, "eos_token_id": 49407}
    torch.manual_seed(0)
    theirs = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=12)).eval()
    theirs.save_pretrained(tmp_path)
    config = {
        "embed_dim": 12, "quick_gelu": True,
        "vision_cfg": {"image_size": 16, "layers": 2, "width": 16, "head_width": 8, "patch_size": 8, "mlp_ratio": 2.0},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2, "mlp_ratio": 2.0},
    }  # fmt: skip
    ours = model.empty(model.Architecture("own-suite-hf", config, {"mean": [0.5] * 3, "std": [0.5] * 3}))
    ours.load_state_dict(open_weights(tmp_path).both_towers())
    pixels, tokens = torch.randn(3, 3, 16, 16), open_clip.get_tokenizer("own-suite-hf")(["a robin", "a wren in a tree"])
    with torch.inference_mode():
        seen = theirs.visual_projection(theirs.vision_model(pixel_values=pixels).pooler_output)
        read = theirs.text_projection(theirs.text_model(input_ids=tokens).pooler_output)
        assert torch.allclose(ours.eval().encode_image(pixels), seen, atol=1e-5)
        assert torch.allclose(ours.encode_text(tokens), read, atol=1e-5)


class Rows:
    """A source that has only labels."""

    def __init__(self, count: int) -> None:
        self.count = count

    def labels(self) -> range:
        return range(self.count)


def test_validation_is_held_out_as_in_the_reference() -> None:
    """A tenth, at most 5,000, seed 0; the reference asserts 36044 as MNIST's first training row."""
    train, held = torch.utils.data.random_split(range(60000), [55000, 5000], torch.Generator().manual_seed(0))
    assert train.indices[0] == 36044
    assert HeldOut(Rows(60000)).rows == sorted(held.indices)
    assert len(HeldOut(Rows(99)).rows) == 9
    with pytest.raises(ExplorerError, match="9 training pictures are too few"):
        HeldOut(Rows(9)).rows  # noqa: B018


@pytest.mark.parametrize("size", [(20, 13), (13, 20), (31, 32), (16, 16), (100, 17), (5, 7)])
def test_pixels_are_open_clips(size: tuple[int, int], tmp_path: Path) -> None:
    from open_clip import image_transform

    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "x.png")
    transform = image_transform(16, is_train=False, mean=(0, 0, 0), std=(1, 1, 1))
    expected = (transform(Image.open(tmp_path / "x.png")) * 255).round().byte().numpy()
    assert np.array_equal(images.pixels("x", (tmp_path / "x.png").read_bytes(), 16), expected)
