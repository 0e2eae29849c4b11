"""Right answers counted by METHOD's protocol, in an order in which partial counts already mean something."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from lines_explorer.analysis.estimate import allocation, stratified_order
from lines_explorer.engine.activations import Activations, Reuse, activation_budget
from lines_explorer.engine.backend import Backend
from lines_explorer.engine.outputs import Outputs, Recorder
from lines_explorer.engine.pictures import Pair, Pictures, Piece
from lines_explorer.engine.results import Answers, TaskScore
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import FREE
from lines_explorer.suites.cache import notice

BATCH = 512
SMALLEST_BATCH = 8
FIRST_SHARE, SHORTEST_FIRST = 4, 32  # the first batch is a quarter of a batch, but not below so many images
AHEAD = 1  # batches a GPU is given before the answers of an earlier one are waited for
Stop = Callable[[], bool]


@dataclass(frozen=True)
class Progress:
    """Counts after one more batch.

    ``scores``: one per (task, split), growing; ``answers``: the same image by image; ``bits``: for the pairs completed
    so far, a bool array (n,) in the file's order, True where the answer is right; ``seconds`` since the start;
    ``complete``: every image of every pair was scored.
    """

    scores: tuple[TaskScore, ...]
    answers: Mapping[Pair, Answers]
    bits: Mapping[Pair, np.ndarray]
    seconds: float
    complete: bool


class _Walk:
    """One task's rows in the order in which they are scored."""

    def __init__(self, pair: Pair, total: int, order: np.ndarray, device: torch.device, weight: float) -> None:
        self.pair, self.total, self.order, self.weight = pair, total, order, weight
        self.index = torch.from_numpy(order).to(device)
        self.right = np.zeros(len(order), dtype=bool)
        self.launched = self.seen = self.correct = 0

    def piece(self, first: int, last: int) -> Piece:
        return Piece(self.pair, self.order[first:last], self.index[first:last])

    def take(self, right: np.ndarray) -> None:
        """The answers for the next rows; what was handed out before does not change."""
        self.right[self.seen : self.seen + len(right)] = right
        self.seen += len(right)
        self.correct += int(right.sum())

    def score(self) -> TaskScore:
        return TaskScore(*self.pair, self.correct, self.seen, self.total)

    def answers(self) -> Answers:
        return Answers(self.order[: self.seen], self.right[: self.seen])

    def bits(self) -> np.ndarray:
        whole = np.empty(self.total, dtype=bool)
        whole[self.order] = self.right
        return whole


class _Batch:
    """A batch on its way through the device: verdicts int8 (b,), 1 right, 0 wrong, −1 not finite."""

    def __init__(self, parts: Sequence[tuple[_Walk, int]], verdicts: torch.Tensor) -> None:
        asynchronous = verdicts.device.type == "cuda"
        self._parts, self._verdicts = parts, verdicts.to("cpu", non_blocking=asynchronous)
        self._event = torch.cuda.Event() if asynchronous else None
        if self._event is not None:
            self._event.record()

    def ready(self) -> bool:
        return self._event is None or self._event.query()

    def settle(self, recipe: Recipe) -> None:
        """Waits for the verdicts and hands them to their walks."""
        if self._event is not None:
            self._event.synchronize()
        verdicts = self._verdicts.numpy()
        if undefined := int((verdicts < 0).sum()):
            raise ExplorerError(
                f"Recipe {recipe.hash()} makes a model whose features are not finite (nan or infinite) for {undefined} "
                "images, so it has no accuracy; choose smaller factors."
            )
        first = 0
        for walk, count in self._parts:
            walk.take(verdicts[first : first + count] > 0)
            first += count


class Evaluator:
    """Walks a backend's model over tasks; ``batch`` images go through it at once, fewer once the memory ran out.

    ``activations`` are kept between runs, within the budget it was made with, and so are the ``outputs`` of base and
    experts.  Not thread-safe, like its backend.
    """

    def __init__(self, backend: Backend, batch: int = BATCH, budget: int | None = None) -> None:
        self.backend, self.batch = backend, batch
        self.pictures = Pictures(backend.suite, backend.device)
        self.activations = Activations(activation_budget(backend.device) if budget is None else budget)
        self.outputs = Outputs()
        self._orders: dict[Pair, np.ndarray] = {}

    def run(
        self, recipe: Recipe, pairs: Sequence[Pair], stop: Stop = lambda: False,
        orders: Mapping[Pair, np.ndarray] | None = None, keep: bool = True,
        weights: Mapping[Pair, float] | None = None,
    ) -> Iterator[Progress]:  # fmt: skip
        """Loads the recipe and scores the (task, split) pairs, yielding after every batch, a short one first.

        Each batch holds the same share of every task, and of every class within a task.  ``weights``, one positive
        number per pair, give the pairs images in these proportions instead, as far as they have so many.  ``stop`` is
        asked before each batch; when it says True the run ends without a complete Progress.  ``orders`` gives for a
        pair the rows to score, each once, in another order or not all of them.  ``keep`` False leaves no activations
        behind.

        Raises ExplorerError when the features are not finite, or when the memory is too small for the least batch.
        """
        started = time.perf_counter()
        walks = [self._walk(pair, (orders or {}).get(pair), weights and weights[pair]) for pair in pairs]
        self.load(recipe)
        images = sum(len(walk.order) for walk in walks)
        level = max(1, images * self.backend.tower.boundary_bytes())
        reuse = self.activations.reuse(self.backend.prefixes(), level, recipe.schedule.kind == FREE, keep)
        record = self.outputs.recorder(recipe, {walk.pair: walk.total for walk in walks})
        under_way: deque[_Batch] = deque()
        bits: dict[Pair, np.ndarray] = {}
        for batch in self._launched(walks, reuse, record, stop):
            under_way.append(batch)
            while under_way and (len(under_way) > AHEAD or under_way[0].ready()):
                under_way.popleft().settle(recipe)
                yield _progress(walks, bits, started)
        while under_way and not stop():
            under_way.popleft().settle(recipe)
            yield _progress(walks, bits, started)

    def _walk(self, pair: Pair, order: np.ndarray | None, weight: float | None) -> _Walk:
        labels = self.backend.suite.images(*pair)[1].numpy()
        if order is None and pair not in self._orders:
            self._orders[pair] = stratified_order(labels)
        order = self._orders[pair] if order is None else np.asarray(order, dtype=np.int64)
        return _Walk(pair, len(labels), order, self.backend.device, len(order) if weight is None else weight)

    def _launched(self, walks: Sequence[_Walk], reuse: Reuse, record: Recorder | None, stop: Stop) -> Iterator[_Batch]:
        """The batches of all walks, given to the device; planned anew with smaller ones when the memory ran out."""
        plan = self._plan(walks)
        while (shares := next(plan, None)) is not None:
            if stop():
                return
            try:
                batch = self._launch(shares, reuse, record)
            except (RuntimeError, MemoryError) as fault:
                self.shrink(fault)
                plan = self._plan(walks)
                continue
            for walk, count in shares:
                walk.launched += count
            yield batch

    def _plan(self, walks: Sequence[_Walk]) -> Iterator[list[tuple[_Walk, int]]]:
        """For each batch to come, how many images of which walks: what is left of them, in the walks' proportions."""
        left = [len(walk.order) - walk.launched for walk in walks]
        weights = [walk.weight for walk in walks]
        batches = -(-sum(left) // self.batch)
        ends = [sum(left) * (number + 1) // batches for number in range(batches)]
        if batches and not any(walk.launched for walk in walks) and ends[0] >= FIRST_SHARE * SHORTEST_FIRST:
            ends.insert(0, ends[0] // FIRST_SHARE)
        given = [0] * len(walks)
        for images in ends:
            wanted = allocation(left, images, weights) if images < sum(left) else left
            counts = [max(0, most - had) for most, had in zip(wanted, given, strict=True)]
            given = [had + count for had, count in zip(given, counts, strict=True)]
            if shares := [(walk, count) for walk, count in zip(walks, counts, strict=True) if count]:
                yield shares

    def _launch(self, shares: Sequence[tuple[_Walk, int]], reuse: Reuse, record: Recorder | None) -> _Batch:
        pieces = [walk.piece(walk.launched, walk.launched + count) for walk, count in shares]
        name = _name(pieces)
        start = reuse.start(name, lambda: self.backend.embed(self.pictures.images(pieces)))
        parts = [(piece.pair[0], len(piece.rows)) for piece in pieces]
        heard = record and (lambda number, outputs: record(pieces[number].pair, pieces[number].rows, outputs))
        predicted = self.backend.predict(start, parts, reuse.watch(name), heard)
        verdicts = (predicted == self.pictures.labels(pieces)).to(torch.int8) - (predicted < 0).to(torch.int8)
        return _Batch(shares, verdicts)

    def load(self, recipe: Recipe) -> None:
        """Loads the recipe; raises ExplorerError when the memory is too small for its experts."""
        try:
            self.backend.load(recipe)
        except (RuntimeError, MemoryError) as fault:
            _require_out_of_memory(fault)
            self._make_room()
            try:
                self.backend.load(recipe)
            except (RuntimeError, MemoryError) as again:
                _require_out_of_memory(again)
                raise self._too_small("for the experts of this recipe") from again

    def shrink(self, fault: BaseException) -> None:
        """Frees what can be freed and halves the batch after an out-of-memory ``fault``; raises any other."""
        _require_out_of_memory(fault)
        self._make_room()
        if self.batch // 2 < SMALLEST_BATCH:
            raise self._too_small(f"even for {self.batch} images at once") from fault
        self.batch //= 2
        notice(f"batch {self.batch}", f"{self.backend.device} ran out of memory; going on with {self.batch} images.")

    def _too_small(self, what: str) -> ExplorerError:
        return ExplorerError(
            f"The memory of {self.backend.device} is too small {what}; close other programs that use it, or choose "
            "another device."
        )

    def _make_room(self) -> None:
        self.activations.clear()
        self.pictures.make_room()
        self.backend.make_room()


def _require_out_of_memory(fault: BaseException) -> None:
    """Raises ``fault`` unless it says that memory ran out (each kind of device says it in its own words)."""
    text = str(fault).lower()
    if not isinstance(fault, MemoryError) and "out of memory" not in text and "allocate memory" not in text:
        raise fault


def _name(pieces: Sequence[Piece]) -> bytes:
    """A digest of which images are in the batch, in which order."""
    digest = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        digest.update(repr((piece.pair, len(piece.rows))).encode() + piece.rows.tobytes())
    return digest.digest()


def _progress(walks: Sequence[_Walk], bits: dict[Pair, np.ndarray], started: float) -> Progress:
    done = [walk for walk in walks if walk.seen == walk.total]
    bits.update({walk.pair: walk.bits() for walk in done if walk.pair not in bits})
    scores, answers = tuple(walk.score() for walk in walks), {walk.pair: walk.answers() for walk in walks}
    return Progress(scores, answers, dict(bits), time.perf_counter() - started, len(done) == len(walks))
