"""Who asks, who waits, who is answered from the store. One worker drives the device, in order of arrival."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from lines_explorer.analysis import Accuracy, mean_accuracy, normalized
from lines_explorer.engine.backend import Backend
from lines_explorer.engine.curves import constant_recipes, multi_task_recipes, single_task_recipes
from lines_explorer.engine.evaluator import Evaluator
from lines_explorer.engine.results import Evaluation, Summary, TaskScore, TaskSummary
from lines_explorer.engine.runs import Key, Run
from lines_explorer.engine.store import Row, Store
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant
from lines_explorer.suites import Suite

POLL_SECONDS = 0.05
Stop = Callable[[], bool]


class Engine:
    """Evaluations of one suite on one device.  Thread-safe: any number of threads may ask at once.

    ``lock`` guards the backend; hold it to use ``backend`` directly.
    """

    def __init__(self, suite: Suite, device: str = "auto", store: Store | None = None) -> None:
        self.suite = suite
        self.backend = Backend(suite, device)
        self.evaluator = Evaluator(self.backend)
        self.store = store if store is not None else Store()
        self.lock = threading.RLock()
        for file in sorted((suite.folder / "results").glob("*.json")):
            self.store.seed(file, suite.hash)
        self._registry = threading.Lock()
        self._runs: dict[Key, Run] = {}
        self._queue: deque[Run] = deque()
        self._working = False

    def stream(
        self, recipe: Recipe, score_on: Sequence[str] | None = None, split: str = "validation",
        stop: Stop | None = None,
    ) -> Iterator[Evaluation]:  # fmt: skip
        """Evaluations of ``recipe`` with growing counts, the last one complete; what is stored comes at once.

        ``score_on`` defaults to all tasks that have ``split``.  Identical concurrent requests share one evaluation.
        When ``stop`` says True (it is asked about 20 times a second) the stream ends as it is, and the device stops
        after its batch unless somebody else waits for the same.  Raises ExplorerError at once for a bad request.
        """
        return self._stream(recipe, self._tasks(recipe, score_on, split), split, stop)

    def evaluate(self, recipe: Recipe, score_on: Sequence[str] | None = None, split: str = "validation") -> Evaluation:
        """The complete evaluation, from the store or after waiting for it."""
        *_, evaluation = self.stream(recipe, score_on, split)
        return evaluation

    def peek(
        self, recipe: Recipe, score_on: Sequence[str] | None = None, split: str = "validation"
    ) -> Evaluation | None:
        """The complete evaluation if everything in it is stored, otherwise None; never touches the device."""
        tasks = self._tasks(recipe, score_on, split)
        rows = self._stored(recipe, tasks, split)
        if len(rows) < len(tasks):
            return None
        scores = {task: _stored_score(task, split, rows[task]) for task in tasks}
        return Evaluation(recipe, split, scores, sum(row.seconds for row in rows.values()), True, "stored")

    def zero_shot(self, split: str = "validation") -> Evaluation:
        """The base on every task that has ``split``."""
        return self.evaluate(Recipe.base(self.suite.name), None, split)

    def experts(self, split: str = "validation") -> dict[str, Accuracy]:
        """Each expert's accuracy on its own task, for the tasks that have ``split``."""
        return {task: self._expert_accuracy(task, split) for task in self._having(split) if task in self.suite.experts}

    def summary(self, evaluation: Evaluation, target: Sequence[str]) -> Summary:
        """Target and control means of an evaluation (METHOD: evaluation protocol).

        Tasks in ``target`` are divided by their expert's accuracy, all others (control) by their zero-shot accuracy,
        on the same split.  Tasks of which nothing is scored yet are left out; a mean without tasks is None.
        """
        scores = {task: score for task, score in evaluation.scores.items() if score.n}
        tasks = {task: self._task_summary(score, task in target) for task, score in scores.items()}
        targets, controls = ([t for t in tasks if tasks[t].role == role] for role in ("target", "control"))
        return Summary(
            target=mean_accuracy([scores[task].accuracy for task in targets]) if targets else None,
            control=mean_accuracy([scores[task].accuracy for task in controls]) if controls else None,
            target_normalized=_mean([tasks[task].normalized for task in targets]),
            control_normalized=_mean([tasks[task].normalized for task in controls]),
            tasks=tasks,
        )

    def single_task_curve(
        self, target: str, kind: str = "lines", points: int = 11, split: str = "validation"
    ) -> list[Evaluation]:
        """The target's expert edited with γ from 1 to 0, scored on every task."""
        return self._evaluate_all(single_task_recipes(self.suite.name, target, kind, points), split)

    def constant_curve(self, target: str, points: int = 11, split: str = "validation") -> list[Evaluation]:
        """The target's expert on the WiSE-FT line, λ from 1 to 0, scored on every task."""
        return self._evaluate_all(constant_recipes(self.suite.name, target, points), split)

    def multi_task_curve(
        self, tasks: Sequence[str], method: str = "sum", lines: bool = True, split: str = "validation"
    ) -> list[Evaluation]:
        """The merged experts over the method's grid: β with α from the norms, or (``lines`` False) a constant λ."""
        alpha = self.alpha_from_norms(tasks, method) if lines else None
        return self._evaluate_all(multi_task_recipes(self.suite.name, tasks, method, alpha), split)

    def alpha_from_norms(self, tasks: Sequence[str], method: str = "sum") -> float:
        """α = (1/T)·‖Στₜ‖₁ / ‖τ_MTL‖₁."""
        return self.backend.alpha_from_norms(tasks, method)

    def _evaluate_all(self, recipes: Sequence[Recipe], split: str) -> list[Evaluation]:
        return [self.evaluate(recipe, None, split) for recipe in recipes]

    def _expert_accuracy(self, task: str, split: str) -> Accuracy:
        expert = Recipe(self.suite.name, (task,), schedule=constant(1.0))
        return self.evaluate(expert, [task], split).scores[task].accuracy

    def _task_summary(self, score: TaskScore, is_target: bool) -> TaskSummary:
        if is_target:
            denominator = self._expert_accuracy(score.task, score.split)
        else:
            base = Recipe.base(self.suite.name)
            denominator = self.evaluate(base, [score.task], score.split).scores[score.task].accuracy
        accuracy = score.accuracy
        return TaskSummary(
            task=score.task, role="target" if is_target else "control", accuracy=accuracy.value, low=accuracy.low,
            high=accuracy.high, correct=score.correct, n=score.n, denominator=denominator.value,
            normalized=normalized(accuracy.value, denominator.value), reference="expert" if is_target else "zero-shot",
        )  # fmt: skip

    def _having(self, split: str) -> list[str]:
        return [name for name, task in self.suite.tasks.items() if split in task.splits]

    def _tasks(self, recipe: Recipe, score_on: Sequence[str] | None, split: str) -> tuple[str, ...]:
        """The tasks to score, in the suite's order, all checked."""
        self.backend.check(recipe)
        having = self._having(split)
        wanted = having if score_on is None else list(score_on)
        if unknown := [task for task in wanted if task not in self.suite.tasks]:
            raise ExplorerError(
                f"Suite {self.suite.name} has no task {unknown[0]}; it has {', '.join(self.suite.tasks)}."
            )
        if without := [task for task in wanted if task not in having]:
            raise ExplorerError(
                f"Task {without[0]} has no split {split}; it has {', '.join(self.suite.tasks[without[0]].splits)}."
            )
        if not wanted:
            raise ExplorerError(f"No task of suite {self.suite.name} has a split {split}, or none was asked for.")
        return tuple(task for task in having if task in wanted)

    def _stored(self, recipe: Recipe, tasks: Sequence[str], split: str) -> dict[str, Row]:
        suite, digest = self.suite.hash, recipe.hash()
        rows = {task: self.store.get(suite, digest, task, split) for task in tasks}
        return {task: row for task, row in rows.items() if row is not None}

    def _stream(self, recipe: Recipe, tasks: tuple[str, ...], split: str, stop: Stop | None) -> Iterator[Evaluation]:
        if (stored := self.peek(recipe, tasks, split)) is not None:
            yield stored
            return
        run = self._join(Run(recipe, tasks, split))
        seen = 0
        try:
            while not (stop is not None and stop()):
                evaluation, seen_now, ended, fault = run.wait(seen, POLL_SECONDS)
                if evaluation is not None and seen_now > seen:
                    yield replace(evaluation, recipe=recipe)
                seen = seen_now
                if fault is not None:
                    raise fault
                if ended:
                    return
        finally:
            self._leave(run)

    def _join(self, run: Run) -> Run:
        """The run in progress for the same request, or this new one, queued for the worker."""
        with self._registry:
            if run.key in self._runs:
                run = self._runs[run.key]
            else:
                self._runs[run.key] = run
                self._queue.append(run)
            run.waiting += 1
            if not self._working:
                self._working = True
                threading.Thread(target=self._work, name="lines-explorer-device", daemon=True).start()
        return run

    def _leave(self, run: Run) -> None:
        with self._registry:
            run.waiting -= 1
            if run.waiting == 0:
                self._forget(run)

    def _forget(self, run: Run) -> None:
        if self._runs.get(run.key) is run:
            del self._runs[run.key]

    def _work(self) -> None:
        """The worker: one run after another until none is queued.  A run that fails does not harm the next."""
        while True:
            with self._registry:
                if not self._queue:
                    self._working = False
                    return
                run = self._queue.popleft()
            fault: BaseException | None = None
            try:
                if run.waiting:
                    with self.lock:
                        self._drive(run)
            except BaseException as caught:
                fault = caught
            with self._registry:
                self._forget(run)
            run.end(fault)

    def _drive(self, run: Run) -> None:
        """Evaluates what of the run is not stored, publishing after each batch and keeping each completed task."""
        rows = self._stored(run.recipe, run.tasks, run.split)
        scores = {task: self._begin(task, run.split, rows.get(task)) for task in run.tasks}
        missing = [(task, run.split) for task in run.tasks if task not in rows]
        if not missing:
            seconds = sum(row.seconds for row in rows.values())
            run.publish(Evaluation(run.recipe, run.split, scores, seconds, True, "stored"))
            return
        total = sum(scores[task].total for task, _ in missing)
        kept: set[str] = set()
        for progress in self.evaluator.run(run.recipe, missing, lambda: run.waiting == 0):
            scores = scores | {score.task: score for score in progress.scores}
            for (task, split), right in progress.bits.items():
                if task not in kept:
                    kept.add(task)
                    share = progress.seconds * len(right) / total
                    self.store.put(self.suite.hash, run.recipe.hash(), task, split, right, share)
            run.publish(Evaluation(run.recipe, run.split, scores, progress.seconds, progress.complete, "evaluated"))

    def _begin(self, task: str, split: str, row: Row | None) -> TaskScore:
        if row is not None:
            return _stored_score(task, split, row)
        return TaskScore(task, split, 0, 0, len(self.suite.images(task, split)[1]))


def _stored_score(task: str, split: str, row: Row) -> TaskScore:
    return TaskScore(task, split, row.correct, row.n, row.n)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
