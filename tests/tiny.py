"""A complete tiny suite in the on-disk format: real enough to drive every part, written in about a second."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import yaml
from PIL import Image, ImageDraw

from lines_explorer.checkpoints import write_safetensors
from lines_explorer.suites.model import create_model

SIZE, BLOCKS, WIDTH, DIM = 16, 3, 16, 12
ARCHITECTURE = "lines-vit-tiny-test"
MODEL = {
    "embed_dim": DIM,
    "vision_cfg": {
        "image_size": SIZE, "layers": BLOCKS, "width": WIDTH, "head_width": 8, "patch_size": 8, "mlp_ratio": 2.0,
    },
    "text_cfg": {"context_length": 1, "vocab_size": 1, "width": 8, "heads": 1, "layers": 1},
    "preprocess_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]},
}  # fmt: skip
TASKS = {
    "shapes": ("Shapes", ("circle", "square", "triangle", "bar")),
    "colours": ("Colours", ("red", "green", "blue", "grey")),
    "places": ("Places", ("top left", "top right", "bottom left", "bottom right")),
}
TEMPLATES = ("a picture of {}", "a small {}")
COLOURS = np.array([[210, 50, 50], [50, 190, 60], [60, 80, 220], [150, 150, 150]])
N = 40


def write_tiny_suite(folder: str | Path, seed: int = 0, full_weights: bool = False) -> Path:
    """Writes a suite of 3 tasks × 4 classes × 40 pictures per split, and a shift ``noisy`` of the task ``shapes``.

    Experts are random deltas (fp16, or float32 full weights with ``full_weights``) and the text vectors lie between
    what base and expert see of each class, so that an expert is better than the base on its own task.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(seed)
    (folder / "model.json").write_text(json.dumps(MODEL, indent=1))
    base = _random_base(generator)
    digest = write_safetensors(folder / "base.safetensors", base, {"content": "weights"})
    data = {task: _write_task(folder, task, seed + number) for number, task in enumerate(TASKS)}
    text = {}
    for task in TASKS:
        delta = {key: _delta(tensor, generator).half() for key, tensor in base.items() if key.startswith("visual.")}
        expert = {key: base[key] + delta[key].float() for key in delta}
        content, tensors = ("weights", expert) if full_weights else ("delta", delta)
        header = {"content": content, "base_sha256": digest}
        write_safetensors(folder / f"experts/{task}.safetensors", tensors, header)
        text[task] = _text_vectors(folder, base, expert, *data[task], generator)
    write_safetensors(folder / "text.safetensors", text)
    (folder / "suite.yaml").write_text(yaml.safe_dump(_description(), sort_keys=False))
    write_manifest(folder)
    return folder


def write_manifest(folder: Path) -> None:
    """Lists all files of the suite but the manifest and the results, with bytes and sha256."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json")
    rows = {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in files if path.parent.name != "results"
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps({"files": rows}, indent=1))


def _description() -> dict:
    tasks = {}
    for task, (title, classes) in TASKS.items():
        splits = {split: f"tasks/{task}/{split}.parquet" for split in ("validation", "test")}
        tasks[task] = {
            "title": title, "domain": "drawn shapes", "new_in_test": "other pictures", "classes": list(classes),
            "prompts": list(classes), "templates": list(TEMPLATES), "splits": splits,
        }  # fmt: skip
    tasks["shapes"]["shifts"] = {"noisy": {"title": "Noisy shapes", "file": "tasks/shapes/noisy.parquet"}}
    return {
        "name": "tiny",
        "title": "Tiny test suite",
        "base": {"architecture": ARCHITECTURE, "config": "model.json", "weights": "base.safetensors"},
        "experts": {task: f"experts/{task}.safetensors" for task in TASKS},
        "text": "text.safetensors",
        "tasks": tasks,
    }


def _random_base(generator: torch.Generator) -> dict[str, torch.Tensor]:
    width, tokens = WIDTH, (SIZE // 8) ** 2 + 1
    shapes = {
        "class_embedding": (width,), "positional_embedding": (tokens, width), "conv1.weight": (width, 3, 8, 8),
        "ln_pre.weight": (width,), "ln_pre.bias": (width,), "ln_post.weight": (width,), "ln_post.bias": (width,),
        "proj": (width, DIM),
    }  # fmt: skip
    for block in range(BLOCKS):
        stem = f"transformer.resblocks.{block}."
        shapes |= {f"{stem}{norm}.{kind}": (width,) for norm in ("ln_1", "ln_2") for kind in ("weight", "bias")}
        shapes |= {f"{stem}attn.in_proj_weight": (3 * width, width), f"{stem}attn.in_proj_bias": (3 * width,)}
        shapes |= {f"{stem}attn.out_proj.weight": (width, width), f"{stem}attn.out_proj.bias": (width,)}
        shapes |= {f"{stem}mlp.c_fc.weight": (2 * width, width), f"{stem}mlp.c_fc.bias": (2 * width,)}
        shapes |= {f"{stem}mlp.c_proj.weight": (width, 2 * width), f"{stem}mlp.c_proj.bias": (width,)}
    tensors = {}
    for key, shape in shapes.items():
        norm = ".ln_" in f".{key}" and key.endswith("weight")
        spread = 0.08 if key == "conv1.weight" else 0.25
        tensors[f"visual.{key}"] = torch.randn(shape, generator=generator) * (0.05 if norm else spread) + float(norm)
    return tensors | {"logit_scale": torch.tensor(3.0)}


def _delta(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(tensor.shape, generator=generator) * 0.25 * tensor.std(correction=0).clamp(min=0.05)


def _text_vectors(
    folder: Path, base: Mapping[str, torch.Tensor], expert: Mapping[str, torch.Tensor], images: np.ndarray,
    labels: np.ndarray, generator: torch.Generator,
) -> torch.Tensor:  # fmt: skip
    """Unit vectors (classes, templates, D) fitted (ridge) to what base and, with more weight, expert see."""
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1
    features = []
    for weights in (base, dict(base) | dict(expert)):
        with torch.inference_mode():
            features.append(create_model(ARCHITECTURE, folder / "model.json", weights).encode_image(pixels, True))
    wanted = torch.nn.functional.one_hot(torch.from_numpy(labels), 4).float() - 0.25
    x, y = torch.cat([features[0], 3 * features[1]]), torch.cat([wanted, 3 * wanted])
    centre = torch.nn.functional.normalize(x.mean(0), dim=0)
    x = x - (x @ centre)[:, None] * centre
    fitted = torch.linalg.solve(x.T @ x + 0.03 * torch.eye(DIM), x.T @ y).T
    fitted = torch.nn.functional.normalize(fitted - (fitted @ centre)[:, None] * centre, dim=-1)
    spread = 0.03 * torch.randn(4, len(TEMPLATES), DIM, generator=generator)
    return torch.nn.functional.normalize(fitted[:, None] + spread, dim=-1)


def _write_task(folder: Path, task: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Writes the task's parquet files; returns the validation pictures (n, H, W, 3) and labels."""
    random = np.random.default_rng(seed)
    drawn = {split: _pictures(task, random) for split in ("validation", "test")}
    if task == "shapes":
        pictures, labels = _pictures(task, random)
        noise = random.normal(0, 40, pictures.shape)
        drawn["noisy"] = np.clip(pictures + noise, 0, 255).astype(np.uint8), labels
    for split, (pictures, labels) in drawn.items():
        write_parquet(folder / f"tasks/{task}/{split}.parquet", pictures, labels, TASKS[task][1])
    return drawn["validation"]


def _pictures(task: str, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(N) % 4
    kinds = {name: labels if name == task else random.integers(0, 4, N) for name in TASKS}
    columns = (kinds["shapes"], kinds["colours"], kinds["places"])
    pictures = [_draw(*(int(kind[row]) for kind in columns), random) for row in range(N)]
    return np.stack(pictures), labels


def _draw(shape: int, colour: int, place: int, random: np.random.Generator) -> np.ndarray:
    ground = random.integers(0, 50, 3) if random.random() < 0.5 else random.integers(200, 256, 3)
    image = Image.new("RGB", (SIZE, SIZE), tuple(map(int, ground)))
    ink = tuple(map(int, np.clip(COLOURS[colour] + random.integers(-25, 26, 3), 0, 255)))
    x, y = (SIZE // 2 * side + int(random.integers(0, 3)) for side in (place % 2, place // 2))
    draw, box, end = ImageDraw.Draw(image), (x, y, x + 6, y + 6), (x + 6, y + 6)
    if shape == 0:
        draw.ellipse(box, fill=ink)
    elif shape == 1:
        draw.rectangle(box, fill=ink)
    elif shape == 2:
        draw.polygon([(x, y + 6), (x + 3, y), end], fill=ink)
    else:
        draw.rectangle((x, y + 2, x + 6, y + 4), fill=ink)
    return np.asarray(image)


def write_parquet(path: Path, pictures: np.ndarray, labels: np.ndarray, classes: tuple[str, ...]) -> None:
    """A parquet with the columns image, label, item that Hugging Face ``datasets`` opens with its features."""
    path.parent.mkdir(parents=True, exist_ok=True)
    features = {
        "image": {"_type": "Image"},
        "label": {"names": list(classes), "_type": "ClassLabel"},
        "item": {"dtype": "string", "_type": "Value"},
    }
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema(
        [("image", image), ("label", pa.int64()), ("item", pa.string())],
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    columns = {
        "image": [{"bytes": _png(picture), "path": None} for picture in pictures],
        "label": [int(label) for label in labels],
        "item": [f"{path.stem}-{row}" for row in range(len(labels))],
    }
    pq.write_table(pa.table(columns, schema=schema), path)


def _png(picture: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "png")
    return file.getvalue()
