"""A suite on disk: opened quickly, its tensors and images read when asked for, every file checked."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lines_explorer.checkpoints import metadata, read_safetensors, sha256
from lines_explorer.errors import ExplorerError
from lines_explorer.suites import model as models
from lines_explorer.suites.images import cached_images
from lines_explorer.suites.task import Task, read_description

if TYPE_CHECKING:
    import torch

VISUAL = "visual."
ASSETS = Path(__file__).resolve().parents[2] / "assets"


class Suite:
    """A base, its experts and their tasks, from a folder with a suite.yaml.

    Attributes: ``name``, ``title``, ``folder``, ``architecture``, ``tasks`` (name → Task), ``experts`` (task → file).
    Raises ExplorerError when suite.yaml or manifest.json is damaged; other files are checked when first read.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        self._description = read_description(self.folder)
        self.name: str = self._description.name
        self.title: str = self._description.title
        self.architecture: str = self._description.architecture
        self.tasks: dict[str, Task] = dict(self._description.tasks)
        self.experts: dict[str, Path] = dict(self._description.experts)
        self._manifest = _read_manifest(self.folder)
        self._hashes: dict[Path, str] = {}
        self._verified: set[Path] = set()
        self._images: dict[tuple[str, str], tuple[torch.Tensor, torch.Tensor]] = {}
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"Suite({str(self.folder)!r})"

    @cached_property
    def base_sha256(self) -> str:
        """sha256 of the base's weights file, as the manifest states it (computed where there is none)."""
        return self._sha256(self._description.weights)

    @cached_property
    def hash(self) -> str:
        """64 hex digits that change when suite.yaml, the weights, the text vectors or the data change."""
        description = self._description
        files = [description.config, description.weights, description.text, *self.experts.values()]
        files += [path for task in self.tasks.values() for path in task.splits.values()]
        rows = sorted((self._relative(path), self._sha256(path)) for path in files)
        rows.append(("suite.yaml", sha256(self.folder / "suite.yaml")))
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    @cached_property
    def image_size(self) -> int:
        """Side of the model's square input, in pixels."""
        return int(models.read_config(self._description.config)[0]["vision_cfg"]["image_size"])

    def base(self) -> dict[str, torch.Tensor]:
        """θ₀: ``visual.*`` and ``logit_scale``, float32 (a fresh dict of shared tensors: do not write into them)."""
        return dict(self._base)

    def is_delta(self, task: str) -> bool:
        """Whether the task's expert is stored as a task vector (True) or as full weights (False)."""
        content = metadata(self._expert_file(task)).get("content")
        if content not in ("delta", "weights"):
            raise ExplorerError(f"{self.experts[task]}: its metadata must say content delta or weights, not {content}.")
        return content == "delta"

    def expert(self, task: str) -> dict[str, torch.Tensor]:
        """θₜ, ``visual.*`` only, float32: the stored weights bit for bit, or θ₀ + the stored delta."""
        stored = self._read_expert(task)
        if not self.is_delta(task):
            return stored
        base = self._base
        return {key: base[key] + tensor if tensor.is_floating_point() else base[key] for key, tensor in stored.items()}

    def task_vector(self, task: str) -> dict[str, torch.Tensor]:
        """τₜ = θₜ − θ₀, ``visual.*`` float tensors only, float32.

        Raises ExplorerError when the expert is missing, damaged, made for another base, or of other shapes.
        """
        from lines_explorer import merging

        stored = self._read_expert(task)
        if not self.is_delta(task):
            return merging.task_vector(self.visual_base(), stored)
        return {key: tensor for key, tensor in stored.items() if tensor.is_floating_point()}

    def visual_base(self) -> dict[str, torch.Tensor]:
        """The base's image tower: what experts and task vectors are compared with."""
        return {key: tensor for key, tensor in self._base.items() if key.startswith(VISUAL)}

    def head(self, task: str) -> torch.Tensor:
        """The task's frozen head (classes, D), float32: exp(logit_scale) × the re-normalised mean over templates of
        the unit text embeddings (METHOD: evaluation protocol).
        """
        import torch

        self._check_task(task)
        vectors, shape = self._text.get(task), (len(self.tasks[task].classes), len(self.tasks[task].templates))
        if vectors is None or tuple(vectors.shape[:2]) != shape or vectors.ndim != 3:
            found = None if vectors is None else tuple(vectors.shape)
            raise ExplorerError(f"{self._description.text}: {task} should be {shape + ('D',)}, found {found}.")
        unit = torch.nn.functional.normalize(vectors.float(), dim=-1)
        mean = torch.nn.functional.normalize(unit.mean(dim=1), dim=-1)
        return self._base["logit_scale"].exp() * mean

    def build_model(self) -> torch.nn.Module:
        """A fresh open_clip model (CPU, float32, eval mode) that holds the base."""
        return models.create_model(self.architecture, self._description.config, self._base)

    def images(self, task: str, split: str) -> tuple[torch.Tensor, torch.Tensor]:
        """(images uint8 (n, 3, H, W), labels int64 (n,)); decoded once, then memory-mapped: do not write into them.

        Raises ExplorerError for an unknown task or split and a missing or damaged file.
        """
        import torch

        self._check_task(task)
        if split not in self.tasks[task].splits:
            known = ", ".join(self.tasks[task].splits)
            raise ExplorerError(f"Task {task} of suite {self.name} has no split {split}; it has {known}.")
        with self._lock:
            if (task, split) not in self._images:
                path = self.tasks[task].splits[split]
                promised = self._relative(path) in self._manifest
                arrays = cached_images(self.tasks[task], split, self.image_size, self._sha256(path), promised)
                self._images[task, split] = torch.from_numpy(arrays[0]), torch.from_numpy(arrays[1])
            return self._images[task, split]

    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(mean, std) per channel of images in 0…1, from the model's open_clip preprocess config."""
        preprocess = models.read_config(self._description.config)[1]
        return tuple(map(float, preprocess["mean"])), tuple(map(float, preprocess["std"]))

    def verify(self) -> list[str]:
        """Reads every file of the manifest; one sentence per file that is missing, changed or not listed."""
        if not self._manifest:
            return [f"{self.folder / 'manifest.json'} is missing or lists no files."]
        problems = []
        for name, row in self._manifest.items():
            path = self.folder / name
            if not path.is_file():
                problems.append(f"{name} is missing.")
            elif path.stat().st_size != row["bytes"]:
                problems.append(f"{name} has {path.stat().st_size} bytes, not {row['bytes']}.")
            elif sha256(path) != row["sha256"]:
                problems.append(f"{name} has another sha256 than the manifest's.")
        used = [self._description.config, self._description.weights, self._description.text, *self.experts.values()]
        used += [path for task in self.tasks.values() for path in task.splits.values()]
        unlisted = sorted({self._relative(path) for path in used} - set(self._manifest))
        return problems + [f"{name} is not in the manifest." for name in unlisted]

    @cached_property
    def _base(self) -> dict[str, torch.Tensor]:
        tensors = self._read(self._description.weights)
        if "logit_scale" not in tensors or not any(key.startswith(VISUAL) for key in tensors):
            raise ExplorerError(f"{self._description.weights} needs visual.* tensors and logit_scale.")
        return {key: _float32(tensor) for key, tensor in tensors.items()}

    @cached_property
    def _text(self) -> dict[str, torch.Tensor]:
        return self._read(self._description.text)

    def _read_expert(self, task: str) -> dict[str, torch.Tensor]:
        """The expert's file, ``visual.*`` in float32, its keys and shapes those of the base."""
        path = self._expert_file(task)
        made_for = metadata(path).get("base_sha256", self.base_sha256)
        if made_for != self.base_sha256:
            raise ExplorerError(
                f"{path} was made for another base (sha256 {made_for[:12]}…, not "
                f"{self.base_sha256[:12]}…); rebuild it with `build-suite`."
            )
        stored = {key: _float32(value) for key, value in self._read(path).items() if key.startswith(VISUAL)}
        base = self.visual_base()
        for key in sorted(base.keys() | stored.keys()):
            ours, theirs = (tuple(x[key].shape) if key in x else "nothing" for x in (stored, base))
            if ours != theirs:
                raise ExplorerError(f"{path} does not fit the base: {key} is {ours} in it, {theirs} in the base.")
        return stored

    def _read(self, path: Path) -> dict[str, torch.Tensor]:
        row = self._manifest.get(self._relative(path))
        expected = row["sha256"] if row and path not in self._verified else None
        tensors = read_safetensors(path, expected)
        self._verified.add(path)
        return tensors

    def _expert_file(self, task: str) -> Path:
        self._check_task(task)
        if task not in self.experts:
            raise ExplorerError(f"Suite {self.name} has no expert for {task}; it has {', '.join(self.experts)}.")
        return self.experts[task]

    def _check_task(self, task: str) -> None:
        if task not in self.tasks:
            raise ExplorerError(f"Suite {self.name} has no task {task}; it has {', '.join(self.tasks)}.")

    def _sha256(self, path: Path) -> str:
        row = self._manifest.get(self._relative(path))
        if row:
            return row["sha256"]
        if path not in self._hashes:
            self._hashes[path] = sha256(path)
        return self._hashes[path]

    def _relative(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()


def available() -> list[str]:
    """Names that `open_suite` knows: the folders with a suite.yaml under ``assets/`` and ``LINES_EXPLORER_SUITES``."""
    return sorted(_folders())


def open_suite(name_or_folder: str | Path) -> Suite:
    """Opens a suite by name or by folder; raises ExplorerError that lists what is there when it is neither."""
    folder = _folders().get(str(name_or_folder), Path(name_or_folder))
    if not (folder / "suite.yaml").is_file():
        known = ", ".join(available()) or "none"
        raise ExplorerError(f"There is no suite {name_or_folder}; give one of: {known}, or a folder with a suite.yaml.")
    return Suite(folder)


def _folders() -> dict[str, Path]:
    more = os.environ.get("LINES_EXPLORER_SUITES", "")
    roots = [ASSETS, *(Path(part) for part in more.split(os.pathsep) if part)]
    return {file.parent.name: file.parent for root in roots for file in sorted(root.glob("*/suite.yaml"))}


def _read_manifest(folder: Path) -> dict[str, dict[str, Any]]:
    file = folder / "manifest.json"
    if not file.exists():
        return {}
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))["files"]
        return {name: {"bytes": int(row["bytes"]), "sha256": str(row["sha256"])} for name, row in rows.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
        raise ExplorerError(f"{file} is damaged ({fault!r}); reinstall it or rebuild it with `build-suite`.") from fault


def _float32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor
