"""A suite on disk: opened quickly, its tensors and images read when asked for, every file checked."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lines_explorer.checkpoints import Tensors, metadata, read_safetensors, sha256
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe, task_of
from lines_explorer.suites import model as models
from lines_explorer.suites import presets, weights
from lines_explorer.suites.bill import MemoryBill, memory_bill
from lines_explorer.suites.cache import cache_folder
from lines_explorer.suites.fingerprint import path_sha256, read_manifest, without_key
from lines_explorer.suites.heads import head_of_vectors, text_vectors
from lines_explorer.suites.images import cached_images
from lines_explorer.suites.sources import Source, open_source
from lines_explorer.suites.task import Data, Place, Run, Task, read_description

if TYPE_CHECKING:
    import torch

VISUAL = weights.VISUAL
PROJECTION = "visual.proj"
ASSETS = Path(__file__).resolve().parents[2] / "assets"


class Suite:
    """A base, its experts and their tasks, from a folder with a suite.yaml.

    Attributes: ``name``, ``title``, ``folder``, ``architecture``, ``tasks`` (name → Task), ``experts`` (task → file,
    folder or place on the hub), ``runs`` (task → further fine-tuning runs of it), ``fine_tuned`` (name of an expert or
    run → place), ``statistics`` (task → file, for the experts measured), ``coefficients`` (set of experts → file, of
    AdaMerging).  Raises ExplorerError when suite.yaml or manifest.json is damaged; other files are checked when first
    read.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        self._description = read_description(self.folder)
        self.name: str = self._description.name
        self.title: str = self._description.title
        described = self._description
        self.architecture: str = models.full_name(described.architecture, described.config, described.activation)
        self.tasks: dict[str, Task] = dict(self._description.tasks)
        self.experts: dict[str, Place] = dict(self._description.experts)
        self.statistics: dict[str, Path] = dict(self._description.statistics)
        self.coefficients: dict[frozenset[str], Path] = dict(self._description.coefficients)
        self.runs: dict[str, tuple[Run, ...]] = dict(self._description.runs)
        further = {run.name: run.place for runs in self.runs.values() for run in runs}
        self.fine_tuned: dict[str, Place] = self.experts | further
        self._manifest = read_manifest(self.folder)
        self._hashes: dict[Place, str] = {}
        self._verified: set[Place] = set()
        self._images: dict[tuple[str, str], tuple[torch.Tensor, torch.Tensor]] = {}
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"Suite({str(self.folder)!r})"

    @property
    def base_place(self) -> Place:
        """The base's checkpoint: file, folder or place on the hub."""
        return self._description.weights

    @cached_property
    def base_sha256(self) -> str:
        """sha256 of the base's weights, as the manifest states it (computed where there is none)."""
        return self._sha256(self._description.weights)

    def expert_sha256(self, task: str) -> str:
        """sha256 of a task's expert or of a run, a file or all files of a folder."""
        return self._sha256(self._expert_place(task))

    def stated_sha256(self, path: Path) -> str | None:
        """What the manifest says a file's sha256 is; None where it says nothing."""
        return self._sha256(path) if self._is_listed(path) else None

    @cached_property
    def hash(self) -> str:
        """64 hex digits that change when suite.yaml, the weights, the text vectors or the data change.

        Runs and coefficients are left out, in suite.yaml too: a further one changes no number of what was there (see
        `hash_for`).
        """
        description = self._description
        places = [description.config, description.weights, description.text, *self.experts.values()]
        places += [*self.statistics.values(), *(task.head for task in self.tasks.values())]
        splits = [(task, split) for task, row in self.tasks.items() for split in row.splits]
        data = [self.tasks[task].splits[split] for task, split in splits]
        places += [path for path in data if isinstance(path, Path)]
        rows = [(self._label(place), self._sha256(place)) for place in places if place is not None]
        rows += [
            (f"{task}/{split}", self._source(task, split).digest())
            for (task, split), found in zip(splits, data, strict=True)
            if isinstance(found, Data)
        ]
        rows.sort()
        described = without_key(self.folder / "suite.yaml", "runs", "coefficients")
        rows.append(("suite.yaml", hashlib.sha256(described).hexdigest()))
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    def hash_for(self, experts: Sequence[str], method: str = "") -> str:
        """What results of a recipe of these experts and runs are kept under.

        It is `hash`, with the weights of the runs and, of a ``method`` that takes them, the coefficients.
        """
        from lines_explorer.suites.needs import learned_file

        runs = sorted(name for name in experts if name in self.fine_tuned and name not in self.experts)
        learned = learned_file(self, method, experts)
        places = [*(self.fine_tuned[name] for name in runs), *([learned] if learned else [])]
        if not places:
            return self.hash
        rows = [self.hash, *map(self._sha256, places)]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    def hash_of(self, recipe: Recipe) -> str:
        """What a recipe's results are kept under: `hash_for` of its canonical form (all λ = 0 are the base)."""
        recipe = recipe.canonical()
        return self.hash_for(recipe.tasks, recipe.method)

    @cached_property
    def image_size(self) -> int:
        """Side of the model's square input, in pixels."""
        return self.model_architecture.image_size

    def base(self) -> dict[str, torch.Tensor]:
        """θ₀: ``visual.*`` and ``logit_scale``, float32 (a fresh dict of shared tensors: do not write into them)."""
        return dict(self._base)

    def is_delta(self, task: str) -> bool:
        """Whether the task's expert is stored as a task vector (True) or as full weights (False)."""
        place = self._expert_place(task)
        content = self._facts(place).get("content")
        if content not in ("delta", "weights") and (content or self._is_listed(place)):
            raise ExplorerError(f"{place}: its metadata must say content delta or weights, not {content}.")
        return content == "delta"

    def expert(self, task: str) -> dict[str, torch.Tensor]:
        """θₜ, ``visual.*`` only, float32: the stored weights bit for bit, or θ₀ + the stored delta."""
        stored = self._read_expert(task)
        if not self.is_delta(task):
            return stored
        base = self._base
        return {key: base[key] + tensor if tensor.is_floating_point() else base[key] for key, tensor in stored.items()}

    def task_vector(self, task: str) -> dict[str, torch.Tensor]:
        """τₜ = θₜ − θ₀, ``visual.*`` float tensors only, float32; what is zero takes no memory: do not write into it.

        Raises ExplorerError when the expert is missing, damaged, made for another base, or of other shapes.
        """
        from lines_explorer import merging

        stored = self._read_expert(task)
        if not self.is_delta(task):
            return weights.without_frozen(merging.task_vector(self.visual_base(), stored))
        return weights.without_frozen({key: tensor for key, tensor in stored.items() if tensor.is_floating_point()})

    def visual_base(self) -> dict[str, torch.Tensor]:
        """The base's image tower: what experts and task vectors are compared with."""
        return {key: tensor for key, tensor in self._base.items() if key.startswith(VISUAL)}

    def head(self, task: str) -> torch.Tensor:
        """The task's frozen head (classes, D), float32: the head file's weight, or exp(logit_scale) × the
        re-normalised mean over templates of the unit text embeddings (METHOD: evaluation protocol), which are stored
        or come from the base's text tower.
        """
        self._check_task(task)
        row = self.tasks[task]
        if row.head is not None:
            return self._head_file(row)
        if self._description.text is None:
            opened = weights.open_weights(self._description.weights)
            vectors = text_vectors(row, self.model_architecture, self.base_sha256, opened.both_towers)
        else:
            vectors, shape = self._text.get(task), (len(row.classes), len(row.templates))
            if vectors is None or tuple(vectors.shape[:2]) != shape or vectors.ndim != 3:
                found = None if vectors is None else tuple(vectors.shape)
                raise ExplorerError(f"{self._description.text}: {task} should be {shape + ('D',)}, found {found}.")
        return head_of_vectors(vectors, self._base["logit_scale"])

    def build_model(self) -> torch.nn.Module:
        """A fresh open_clip model (CPU, float32, eval mode) that holds the base."""
        return models.create(self.model_architecture, self._base)

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
                arrays = cached_images(self._source(task, split), self.tasks[task], self.image_size)
                self._images[task, split] = torch.from_numpy(arrays[0]), torch.from_numpy(arrays[1])
            return self._images[task, split]

    def size(self, task: str, split: str) -> int:
        """Number of pictures in a split, without decoding them; 0 where the task has no such split."""
        self._check_task(task)
        if (found := self.tasks[task].splits.get(split)) is None:
            return 0
        if isinstance(found, Path):
            import pyarrow.parquet

            return pyarrow.parquet.read_metadata(found).num_rows
        return len(self._source(task, split).labels())

    def memory_bill(self, tasks: Sequence[str] | None = None) -> MemoryBill:
        """Bytes that the base and these experts (default: all) will take in float32, from their headers alone."""
        wanted = self.experts if tasks is None else tasks
        return memory_bill(self._description.weights, {task: self._expert_place(task) for task in wanted})

    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(mean, std) per channel of images in 0…1, from the model's open_clip preprocess config."""
        preprocess = self.model_architecture.preprocess
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
        used += [run.place for runs in self.runs.values() for run in runs]
        used += [path for task in self.tasks.values() for path in (task.head, *task.splits.values())]
        used += [*self.statistics.values(), *self.coefficients.values()]
        unlisted = sorted({self._label(path) for path in used if isinstance(path, Path)} - set(self._manifest))
        return problems + [f"{name} is not in the manifest." for name in unlisted]

    @cached_property
    def model_architecture(self) -> models.Architecture:
        """The open_clip configuration of the base, its activation decided."""
        described = self._description
        return models.architecture(described.architecture, described.config, described.activation, described.preprocess)

    @cached_property
    def _base(self) -> dict[str, torch.Tensor]:
        place = self._description.weights
        tensors = self._read(place)
        if not self._is_listed(place):
            self._check_activation(weights.open_weights(place).checkpoint.quick_gelu)
        if weights.SCALE not in tensors and not self._is_listed(place):
            tensors[weights.SCALE] = tensors[next(iter(tensors))].new_tensor(weights.CLIP_SCALE)
        if weights.SCALE not in tensors or not any(key.startswith(VISUAL) for key in tensors):
            raise ExplorerError(f"{place} needs visual.* tensors and logit_scale.")
        return {key: _float32(tensor) for key, tensor in tensors.items()}

    def _check_activation(self, stated: bool | None) -> None:
        """Refuses a base whose checkpoint states another activation than the architecture has."""
        ours = bool(self.model_architecture.config.get("quick_gelu"))
        if stated is not None and stated != ours:
            names = {True: "quickgelu", False: "gelu"}
            raise ExplorerError(
                f"{self._description.weights} was trained with {names[stated]}, but {self.model_architecture.name} has "
                f"{names[ours]}; set base.activation to {names[stated]}."
            )

    @cached_property
    def _text(self) -> dict[str, torch.Tensor]:
        text = self._description.text
        return self._read(text) if self._is_listed(text) else read_safetensors(text)

    def _head_file(self, task: Task) -> torch.Tensor:
        head = weights.read_head(task.head)
        dimensions = int(self.model_architecture.config["embed_dim"])
        if tuple(head.shape) != (len(task.classes), dimensions):
            raise ExplorerError(
                f"{task.head} is a head {tuple(head.shape)}, but task {task.name} has {len(task.classes)} classes and "
                f"the model {dimensions} features; name the head of this task and model."
            )
        return head

    def _source(self, task: str, split: str) -> Source:
        found = self.tasks[task].splits[split]
        row = self._manifest.get(self._label(found)) if isinstance(found, Path) else None
        return open_source(found, row["sha256"] if row else None)

    def _read_expert(self, task: str) -> dict[str, torch.Tensor]:
        """The expert's file, ``visual.*`` in float32, its keys and shapes those of the base."""
        place = self._expert_place(task)
        made_for = self._facts(place).get("base_sha256", self.base_sha256)
        if made_for != self.base_sha256:
            raise ExplorerError(
                f"{place} was made for another base (sha256 {made_for[:12]}…, not "
                f"{self.base_sha256[:12]}…); rebuild it with `build-suite`."
            )
        base = self.visual_base()
        stored = {key: _float32(value) for key, value in self._read(place, base).items() if key.startswith(VISUAL)}
        for key in sorted(base.keys() | stored.keys()):
            ours, theirs = (tuple(x[key].shape) if key in x else "nothing" for x in (stored, base))
            if ours != theirs:
                raise ExplorerError(f"{place} does not fit the base: {key} is {ours} in it, {theirs} in the base.")
        return stored

    def _read(self, place: Place, base: Tensors | None = None) -> dict[str, torch.Tensor]:
        """Tensors of a file of the suite as they are stored, or of any checkpoint under open_clip's names.

        ``base``: what an adapter is made dense with; it gives ``visual.proj`` to a model saved without it.
        """
        if not self._is_listed(place):
            opened = weights.open_weights(place)
            if base and opened.is_adapter:
                return opened.difference(base)
            return opened.image_tower(base.get(PROJECTION) if base else None)
        expected = self._manifest[self._label(place)]["sha256"] if place not in self._verified else None
        tensors = read_safetensors(place, expected)
        self._verified.add(place)
        return tensors

    def _facts(self, place: Place) -> dict[str, str]:
        """What a checkpoint says about itself."""
        return metadata(place) if self._is_listed(place) else dict(weights.open_weights(place).facts)

    def _expert_place(self, task: str) -> Place:
        self._check_task(task_of(task))
        if task not in self.fine_tuned:
            raise ExplorerError(f"Suite {self.name} has no expert for {task}; it has {', '.join(self.fine_tuned)}.")
        return self.fine_tuned[task]

    def _check_task(self, task: str) -> None:
        if task not in self.tasks:
            raise ExplorerError(f"Suite {self.name} has no task {task}; it has {', '.join(self.tasks)}.")

    def _sha256(self, place: Place) -> str:
        if self._is_listed(place):
            return self._manifest[self._label(place)]["sha256"]
        if place not in self._hashes:
            self._hashes[place] = path_sha256(weights.local(place))
        return self._hashes[place]

    def _is_listed(self, place: Place) -> bool:
        return isinstance(place, Path) and self._label(place) in self._manifest

    def _label(self, place: Place) -> str:
        """A name that does not change when the suite's folder is moved."""
        if isinstance(place, Path):
            return place.relative_to(self.folder).as_posix() if place.is_relative_to(self.folder) else place.name
        return str(place)


def available() -> list[str]:
    """Names that `open_suite` knows: the folders with a suite.yaml under ``assets/`` and ``LINES_EXPLORER_SUITES``."""
    return sorted(_folders())


def open_suite(name_or_folder: str | Path) -> Suite:
    """Opens a suite by name or by folder; raises ExplorerError that lists what is there when it is neither.

    A ready-made suite (`presets.NAMES`) that needs nothing but the hub opens by its name too.
    """
    folder = _folders().get(str(name_or_folder), Path(name_or_folder))
    if name_or_folder in presets.NAMES and not folder.is_dir():
        folder = _ready_made(str(name_or_folder))
    if not (folder / "suite.yaml").is_file():
        known = ", ".join(available()) or "none"
        raise ExplorerError(f"There is no suite {name_or_folder}; give one of: {known}, or a folder with a suite.yaml.")
    return Suite(folder)


def _ready_made(name: str) -> Path:
    """The folder of a ready-made suite, written into the cache folder."""
    if not name.endswith("-tanganke"):
        raise ExplorerError(
            f"The suite {name} needs checkpoints: write its suite.yaml with `python -m lines_explorer suites --preset "
            f"{name} --out FOLDER`, put them where its first line says, and open FOLDER."
        )
    return presets.write(name, cache_folder() / "presets" / name, replace=True).parent


def _folders() -> dict[str, Path]:
    more = os.environ.get("LINES_EXPLORER_SUITES", "")
    roots = [ASSETS, *(Path(part) for part in more.split(os.pathsep) if part)]
    return {file.parent.name: file.parent for root in roots for file in sorted(root.glob("*/suite.yaml"))}


def _float32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor
