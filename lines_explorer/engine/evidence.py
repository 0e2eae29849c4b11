"""Single pictures: the class probabilities that models give them, asked of the device's one owner and kept a while."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from lines_explorer.engine.runs import Run
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe

if TYPE_CHECKING:
    from lines_explorer.engine.engine import Engine
    from lines_explorer.engine.evaluator import Evaluator

MOST_BRIEF_PICTURES = 64
CHUNK = 128
KEPT_BYTES = 64 * 2**20
POLL_SECONDS = 0.05
Stop = Callable[[], bool]
Key = tuple[str, str, str]


@dataclass(frozen=True, eq=False)
class Part:
    """Pictures to be classified by one task's head: uint8 (n, 3, H, W) on the host; ``name`` tells them apart."""

    task: str
    name: str
    images: torch.Tensor


@dataclass(frozen=True, eq=False)
class Job:
    """One model and the pictures it is asked about."""

    recipe: Recipe
    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """Number of pictures."""
        return sum(len(part.images) for part in self.parts)

    def images(self) -> torch.Tensor:
        """The pictures of all parts, uint8 (n, 3, H, W); those of one part alone are not copied."""
        return self.parts[0].images if len(self.parts) == 1 else torch.cat([part.images for part in self.parts])


@dataclass(frozen=True, eq=False)
class Looked:
    """``done`` of ``total`` pictures; once complete, per job and part the probabilities float32 (n, classes)."""

    done: int
    total: int
    found: tuple[tuple[np.ndarray, ...], ...] | None = None


class Look(Run):
    """Jobs on their way through the worker; the same jobs of several visitors are done once."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        tasks = tuple(dict.fromkeys(part.task for job in jobs for part in job.parts))
        super().__init__(jobs[0].recipe, tasks, "")
        self.jobs = tuple(jobs)
        named = [(job.recipe.hash(), [(part.task, part.name) for part in job.parts]) for job in jobs]
        self.key = ("look", hashlib.sha256(repr(named).encode()).hexdigest(), ())
        self.total = sum(job.size for job in jobs)
        self.brief = self.total <= MOST_BRIEF_PICTURES

    def drive(self, evaluator: Evaluator, stop: Stop, interlude: Callable[[], bool]) -> None:
        """Does the jobs with the evaluator's model, publishing a `Looked` after every chunk of pictures.

        A look that is not brief lets brief ones pass (``interlude``) between two chunks.  Raises ExplorerError when
        features are not finite or the memory is too small.
        """
        found, done = [], 0
        for job in self.jobs:
            evaluator.load(job.recipe)
            images, chunks, first = job.images(), [], 0
            while first < job.size:
                if stop():
                    return
                if not self.brief and interlude():
                    evaluator.load(job.recipe)
                last = first + min(CHUNK, evaluator.batch)
                try:
                    chunks.append(evaluator.backend.features(images[first:last]).cpu())
                except (RuntimeError, MemoryError) as fault:
                    evaluator.shrink(fault)
                    continue
                done += len(chunks[-1])
                first = last
                self.publish(Looked(done, self.total))
            found.append(_probabilities(evaluator, job, torch.cat(chunks)))
        self.publish(Looked(done, self.total, tuple(found)))


class Evidence:
    """Probabilities of single pictures for one engine.  Thread-safe; what was computed last is kept, for everybody."""

    def __init__(self, engine: Engine, kept_bytes: int = KEPT_BYTES) -> None:
        self.engine, self.suite = engine, engine.suite
        self._kept, self._bytes, self._most = OrderedDict[Key, np.ndarray](), 0, kept_bytes
        self._guard = threading.Lock()

    def predictions(
        self, recipe: Recipe, task: str, split: str, rows: Sequence[int], visitor: Hashable | None = None,
    ) -> np.ndarray | None:  # fmt: skip
        """Class probabilities float32 (n, classes) of the split's pictures ``rows``, by the task's head.

        The softmax of feature · headᵀ (METHOD: evaluation protocol); its argmax is what `Engine` scores.  None when
        the ``visitor`` asked for something newer meanwhile.  Raises ExplorerError as `part`, and for a recipe that
        the suite does not have.
        """
        found = self.answers([(recipe, [self.part(task, split, rows)])], visitor)
        return found and found[0][0]

    def part(self, task: str, split: str, rows: Sequence[int] | None = None) -> Part:
        """Pictures of a split, by their place in its file; None: all of them.

        Raises ExplorerError for an unknown task or split, no picture, or one that is not there.
        """
        images = self.suite.images(task, split)[0]
        if rows is None:
            return Part(task, f"{split}: all", images)
        index = np.asarray(rows)
        if index.ndim != 1 or not len(index) or index.dtype.kind not in "iu":
            raise ExplorerError("Pictures are named by their places in the split, whole numbers; give at least one.")
        if not 0 <= index.min() <= index.max() < len(images):
            raise ExplorerError(f"Split {split} of task {task} has pictures 0 to {len(images) - 1}, and no others.")
        index = index.astype(np.int64)
        name = f"{split}: {hashlib.sha256(index.tobytes()).hexdigest()}"
        return Part(task, name, images[torch.from_numpy(index)])

    def drawn(self, task: str, pixels: np.ndarray) -> Part:
        """One picture uint8 (3, H, W) of the suite's size that is in no split.

        Raises ExplorerError for an unknown task or another shape or type.
        """
        side = self.suite.image_size
        if task not in self.suite.tasks:
            raise ExplorerError(f"Suite {self.suite.name} has no task {task}; it has {', '.join(self.suite.tasks)}.")
        if pixels.shape != (3, side, side) or pixels.dtype != np.uint8:
            raise ExplorerError(
                f"A picture for suite {self.suite.name} is uint8 (3, {side}, {side}), not {pixels.dtype} "
                f"{pixels.shape}; scale it first."
            )
        name = f"drawn: {hashlib.sha256(pixels.tobytes()).hexdigest()}"
        return Part(task, name, torch.from_numpy(pixels.copy())[None])

    def answers(
        self, wanted: Sequence[tuple[Recipe, Sequence[Part]]], visitor: Hashable | None = None
    ) -> list[list[np.ndarray]] | None:
        """Per recipe and part the probabilities float32 (n, classes); None once ``visitor`` asked for another."""
        if (kept := self.kept(wanted)) is not None:
            return kept
        for looked in self.look(wanted, visitor=visitor):
            if looked.found is not None:
                return [list(row) for row in looked.found]
        return None

    def kept(self, wanted: Sequence[tuple[Recipe, Sequence[Part]]]) -> list[list[np.ndarray]] | None:
        """What `answers` gives, if all of it is kept; never touches the device."""
        with self._guard:
            found = [[self._recall(_key(recipe, part)) for part in parts] for recipe, parts in wanted]
        return None if any(one is None for row in found for one in row) else found

    def look(
        self, wanted: Sequence[tuple[Recipe, Sequence[Part]]], stop: Stop | None = None, visitor: Hashable | None = None
    ) -> Iterator[Looked]:
        """`answers` with its progress: the last `Looked` has what was found, unless ``stop`` said True before.

        What is kept is not computed again.  At most MOST_BRIEF_PICTURES pictures are served between the batches of an
        evaluation; more wait for their turn, as an evaluation does.
        """
        for recipe, _ in wanted:
            self.engine.backend.check(recipe)
        with self._guard:
            known = {key: self._recall(key) for recipe, parts in wanted for key in (_key(recipe, p) for p in parts)}
        known = {key: found for key, found in known.items() if found is not None}
        jobs = [Job(recipe, tuple(p for p in parts if _key(recipe, p) not in known)) for recipe, parts in wanted]
        jobs = [job for job in jobs if job.parts]
        total = sum(job.size for job in jobs)
        for looked in self._waited(Look(jobs), stop, visitor) if jobs else ():
            if looked.found is None:
                yield looked
                continue
            for job, row in zip(jobs, looked.found, strict=True):
                for part, found in zip(job.parts, row, strict=True):
                    known[_key(job.recipe, part)] = found
                    self._keep(_key(job.recipe, part), found)
        keys = [[_key(recipe, part) for part in parts] for recipe, parts in wanted]
        if all(key in known for row in keys for key in row):
            yield Looked(total, total, tuple(tuple(known[key] for key in row) for row in keys))

    def _waited(self, look: Look, stop: Stop | None, visitor: Hashable | None) -> Iterator[Looked]:
        ticket = self.engine.worker.join(look, visitor)
        seen = 0
        try:
            while not (ticket.left or stop is not None and stop()):
                looked, version, ended, fault = ticket.run.wait(seen, POLL_SECONDS)
                if ticket.left:
                    return
                if looked is not None and version > seen:
                    yield looked
                seen = version
                if fault is not None:
                    raise fault
                if ended:
                    return
        finally:
            self.engine.worker.leave(ticket)

    def _recall(self, key: Key) -> np.ndarray | None:
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def _keep(self, key: Key, found: np.ndarray) -> None:
        with self._guard:
            if (old := self._kept.pop(key, None)) is not None:
                self._bytes -= old.nbytes
            self._kept[key] = found
            self._bytes += found.nbytes
            while self._bytes > self._most:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes


def _key(recipe: Recipe, part: Part) -> Key:
    return recipe.hash(), part.task, part.name


def _probabilities(evaluator: Evaluator, job: Job, features: torch.Tensor) -> tuple[np.ndarray, ...]:
    """The softmax over classes, part by part; in float64, so that its argmax is that of the logits."""
    if undefined := int((~features.isfinite().all(dim=1)).sum()):
        raise ExplorerError(
            f"Recipe {job.recipe.hash()} makes a model whose features are not finite (nan or infinite) for {undefined} "
            "pictures, so it has no prediction; choose smaller factors."
        )
    pieces = features.split([len(part.images) for part in job.parts])
    heads = [evaluator.backend.head(part.task).cpu() for part in job.parts]
    return tuple(
        (piece @ head.T).double().softmax(dim=1).float().numpy() for piece, head in zip(pieces, heads, strict=True)
    )
