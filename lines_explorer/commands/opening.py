"""``bench --opening FOLDER``: memory and seconds to open a suite of ViT-B/32's size, against ``torch.load``.

Base and experts are written into the folder as the reference's checkpoints are laid out (random numbers, real names
and shapes, the frozen text part in every file); each way of opening them runs in a process of its own, whose peak
memory the system counts.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from lines_explorer.commands.report import Report, table
from lines_explorer.errors import ExplorerError

NAME, WIDTH, HEADS = "opening", 768, 12
WAYS = {
    "imports": "import torch and the explorer",
    "suite": "open the suite: base in the model, experts by their headers",
    "suite, merged": "the same, then the sum of all experts in the model",
    "torch.load": "torch.load of all files",
    "torch.load, merged": "the same, then differences and their sum as dictionaries",
}
ALONE = "imports"
CHILD = "import sys; from lines_explorer.commands.opening import child; child(*sys.argv[1:])"
SMALL = 10_000_000  # bytes beside the weights
Figures = dict[str, Any]


def opening(folder: Path, experts: int = 8, width: int = WIDTH, repeats: int = 3) -> Report:
    """Seconds and peak memory of each way in ``WAYS``, the median of ``repeats`` processes each, in turn.

    Args:
        folder: where the files are written (4.1 GB for 8 experts of full width) and stay; used again when they fit.
        experts: how many.
        width: of the image tower, a multiple of 24; 768 is ViT-B/32.
        repeats: processes for each way.

    Raises:
        ExplorerError: the folder holds something else, the disk is too small, or the system counts no peak memory.
    """
    if width < 24 or width % 24:
        raise ExplorerError(f"--width is {width}: give a multiple of 24, such as {WIDTH}.")
    if peak_bytes() is None:
        raise ExplorerError("This system does not count a process's peak memory (VmHWM in /proc/self/status).")
    written = write_files(folder, experts, width)
    runs = [{way: _run(way, folder) for way in WAYS} for _ in range(repeats)]
    found = {
        way: {key: median(run[way][key] for run in runs) for key in ("seconds", "peak")} | {"what": what}
        for way, what in WAYS.items()
    }
    alone = found[ALONE]["peak"]
    for row in found.values():
        row["above_imports"] = row["peak"] - alone
    data = {"folder": str(folder), "experts": experts, "width": width, "repeats": repeats, "bytes": written}
    data |= {"ways": found} | {
        f"{kind}_ratio{end}": found[f"suite{way}"][key] / max(found[f"torch.load{way}"][key], 1e-9)
        for kind, key in (("memory", "above_imports"), ("seconds", "seconds"))
        for way, end in (("", ""), (", merged", "_merged"))
    }
    return Report(data, _text(data))


def child(way: str, folder: str) -> None:
    """One way, in a process of its own: prints ``{"seconds", "peak"}``."""
    import torch

    from lines_explorer.engine import Engine, Store
    from lines_explorer.recipe import Recipe
    from lines_explorer.schedule import constant
    from lines_explorer.suites import open_suite

    started, held = time.perf_counter(), []
    if way.startswith("suite"):
        suite = open_suite(folder)
        suite.memory_bill()
        engine = Engine(suite, "cpu", Store(":memory:"))
        held.append(engine)
        if way.endswith("merged"):
            engine.backend.load(Recipe(suite.name, tuple(suite.experts), schedule=constant(0.3)))
    elif way.startswith("torch.load"):
        files = [Path(folder) / "base.pt", *sorted(Path(folder).glob("experts/*.pt"))]
        base, *experts = held = [torch.load(file, weights_only=True) for file in files]
        if way.endswith("merged"):
            vectors = [{key: expert[key] - base[key] for key in base} for expert in experts]
            held.append({key: base[key] + 0.3 * sum(vector[key] for vector in vectors) for key in base})
    print(json.dumps({"seconds": time.perf_counter() - started, "peak": peak_bytes()}))


def peak_bytes() -> int | None:
    """The most memory that this process ever had (VmHWM: its own and what it mapped); None where nobody counts."""
    try:
        rows = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(row for row in rows if row.startswith("VmHWM:")).split()[1])
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def write_files(folder: Path, experts: int, width: int) -> int:
    """A suite of random weights in ``folder``, unless that very one is there; returns the bytes of its checkpoints.

    Raises ExplorerError when the folder holds something else, or the disk cannot take it.
    """
    facts = {"name": NAME, "experts": experts, "width": width}
    mark, shapes = folder / "opening.json", _shapes(width)
    size = 4 * sum(_numel(shape) for shape in shapes.values()) * (experts + 1)
    if mark.is_file() and json.loads(mark.read_text()) == facts:
        return size
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ExplorerError(f"{folder} holds something else: name an empty or a new folder for the files.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if (free := shutil.disk_usage(folder).free) < size + SMALL:
            raise ExplorerError(f"{folder} has {free / 1e9:.1f} GB free, but the files take {size / 1e9:.1f} GB.")
        _write_weights(folder, experts, shapes)
        _write_description(folder, experts, width)
        mark.write_text(json.dumps(facts))
    except OSError as fault:
        raise ExplorerError(f"{folder} cannot be written ({fault.strerror}); choose another folder.") from fault
    return size


def _config(width: int) -> dict[str, Any]:
    """open_clip's ViT-B-32 with all widths scaled."""
    import open_clip

    config = open_clip.get_model_config("ViT-B-32-quickgelu")
    config["embed_dim"] = config["text_cfg"]["width"] = width * 2 // 3
    config["vision_cfg"] |= {"width": width, "head_width": width // HEADS}
    return config | {"preprocess_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3}}


def _shapes(width: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a checkpoint of the reference: all but the text tower's blocks."""
    import torch
    from open_clip.model import CLIP

    config = _config(width)
    del config["preprocess_cfg"]
    with torch.device("meta"):
        state = CLIP(**config).state_dict()
    return {key: tuple(tensor.shape) for key, tensor in state.items() if not key.startswith("transformer.")}


def _write_weights(folder: Path, experts: int, shapes: dict[str, tuple[int, ...]]) -> None:
    import torch

    generator = torch.Generator().manual_seed(0)
    base = {f"model.{key}": 0.02 * torch.randn(shape, generator=generator) for key, shape in shapes.items()}
    torch.save(base, folder / "base.pt")
    (folder / "experts").mkdir()
    for number in range(experts):
        expert = dict(base)
        for key, tensor in base.items():
            if key.startswith("model.visual."):
                expert[key] = torch.randn(tensor.shape, generator=generator).mul_(0.001).add_(tensor)
        torch.save(expert, folder / f"experts/{number:02d}.pt")


def _write_description(folder: Path, experts: int, width: int) -> None:
    """suite.yaml, model.json and one picture for each of two classes, which no way reads."""
    import yaml
    from PIL import Image

    for shade, name in enumerate(("dark", "light")):
        (folder / "pictures" / name).mkdir(parents=True)
        Image.new("L", (8, 8), 255 * shade).save(folder / "pictures" / name / "0.png")
    names = [f"{number:02d}" for number in range(experts)]
    base = {"architecture": f"{NAME}-{width}", "config": "model.json", "weights": "base.pt", "activation": "quickgelu"}
    content = {"name": NAME, "title": f"{experts} random experts", "base": base}
    content |= {"experts": {name: f"experts/{name}.pt" for name in names}}
    content |= {"tasks": {name: {"splits": {"test": "pictures"}} for name in names}}
    (folder / "model.json").write_text(json.dumps(_config(width)))
    (folder / "suite.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


def _run(way: str, folder: Path) -> Figures:
    command = [sys.executable, "-c", CHILD, way, str(folder)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        raise ExplorerError(f"`{way}` on {folder} failed ({why}); it may need more memory than there is.")
    return json.loads(done.stdout.splitlines()[-1])


def _numel(shape: tuple[int, ...]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product


def _text(data: Figures) -> str:
    rows = [
        [row["what"], f"{row['seconds']:.2f}", f"{row['peak'] / 1e9:.2f}", f"{row['above_imports'] / 1e9:.2f}"]
        for row in data["ways"].values()
    ]
    head = f"{data['experts']} experts and their base, {data['bytes'] / 1e9:.2f} GB in {data['folder']}"
    shown = table(["in a process of its own", "seconds", "peak GB", "above imports"], rows)
    ratios = ", ".join(
        f"{name.replace('_', ' ')} {data[name]:.2f}"
        for name in ("memory_ratio", "seconds_ratio", "memory_ratio_merged", "seconds_ratio_merged")
    )
    return f"{head}\n{shown}\nsuite over torch.load: {ratios}\nThe files stay; delete the folder when you are done."
