"""What can be asked of a suite: evaluations that grow, from the store at once or from the device in turn."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from lines_explorer.analysis import Accuracy, Estimate, mean_accuracy, normalized
from lines_explorer.engine.backend import Backend, Parameters
from lines_explorer.engine.blocks import BlockFacts, block_facts
from lines_explorer.engine.curves import constant_recipes, multi_task_recipes, neighbours, single_task_recipes
from lines_explorer.engine.estimating import Estimated, EstimatedSummary, EstimatedTask, Nearest, importance
from lines_explorer.engine.evaluator import Evaluator, Progress
from lines_explorer.engine.evidence import Look
from lines_explorer.engine.precision import FLOAT32, Agreement
from lines_explorer.engine.results import Evaluation, Summary, TaskScore, TaskSummary
from lines_explorer.engine.runs import Run
from lines_explorer.engine.store import Row, Store
from lines_explorer.engine.watch import SuiteWatch
from lines_explorer.engine.worker import Stop, Worker
from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS, standard
from lines_explorer.recipe import Recipe, task_of
from lines_explorer.schedule import constant
from lines_explorer.suites import Suite
from lines_explorer.suites.cache import notice
from lines_explorer.suites.needs import never_met

POLL_SECONDS = 0.05
KEPT_FACTS = 256
SAMPLE = 64  # pictures of a task on which a precision is checked


class Engine:
    """Evaluations of one suite on one device.  Thread-safe: any number of threads may ask at once.

    ``lock`` guards the backend; hold it to use ``backend`` directly.  With ``idle`` the time in which nobody waits is
    spent on the neighbours of the point that was looked at last; without ``shipped`` the results that came with the
    suite are left aside.
    """

    def __init__(
        self, suite: Suite, device: str = "auto", store: Store | None = None, idle: bool = False, shipped: bool = True,
        precision: str = FLOAT32,
    ) -> None:  # fmt: skip
        self.suite = suite
        self.backend = Backend(suite, device, precision)
        self.precision = self.backend.precision
        self.agreement = self._checked() if precision != FLOAT32 else None
        self.evaluator = Evaluator(self.backend)
        self.store = store if store is not None else Store()
        self.lock = threading.RLock()
        self.idle = idle
        self.worker = Worker(self._drive)
        self.nearest = Nearest(suite, self.backend.layout.depth, self.store, self.precision, self.evaluator.outputs)
        self._blocks: OrderedDict[tuple[str, ...], BlockFacts] = OrderedDict()
        self._watch = SuiteWatch(suite)
        for file in sorted((suite.folder / "results").glob("*.json")) if shipped else ():
            self.store.seed(file, suite.hash)

    def stream(
        self, recipe: Recipe, score_on: Sequence[str] | None = None, split: str = "validation",
        stop: Stop | None = None, visitor: Hashable | None = None,
    ) -> Iterator[Evaluation]:  # fmt: skip
        """Evaluations of ``recipe`` with growing counts, the last one complete; what is stored comes at once.

        While it grows an evaluation is ``estimated`` as well, helped by the nearest stored points of its family.
        ``score_on`` defaults to all tasks that have ``split``.  Identical concurrent requests share one evaluation.
        When ``stop`` says True (it is asked about 20 times a second) the stream ends as it is, and the device stops
        after its batch unless somebody else waits for the same.  Visitors are served in turn, and a ``visitor`` has
        one place: a newer request of the same one ends the older stream in the same way.  Without ``visitor`` each
        request is a visitor of its own.  Raises ExplorerError at once for a bad request.
        """
        return self._stream(recipe, self._tasks(recipe, score_on, split), split, stop, visitor)

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
        return _stored_evaluation(recipe, split, tasks, rows)

    def stored_answers(
        self, recipe: Recipe, score_on: Sequence[str] | None = None, split: str = "validation"
    ) -> dict[str, np.ndarray]:
        """Task → bool (n,), right or wrong for every image in the file's order, where that is stored."""
        rows = self._stored(recipe, self._tasks(recipe, score_on, split), split)
        answers = {task: row.right() for task, row in rows.items()}
        return {task: right for task, right in answers.items() if right is not None}

    @property
    def refused(self) -> dict[str, str]:
        """Merge method → why this suite cannot have it, whatever the tasks; the others are not in it."""
        found = {name: never_met(self.suite, name) for name in METHODS}
        return {name: sentence for name, sentence in found.items() if sentence is not None}

    def zero_shot(self, split: str = "validation") -> Evaluation:
        """The base on every task that has ``split``."""
        return self.evaluate(Recipe.base(self.suite.name), None, split)

    def experts(self, split: str = "validation") -> dict[str, Accuracy]:
        """Each expert's accuracy on its own task, for the tasks that have ``split``."""
        return {task: self._expert_accuracy(task, split) for task in self._having(split) if task in self.suite.experts}

    def summary(self, evaluation: Evaluation, target: Sequence[str]) -> Summary:
        """Target and control means of an evaluation (METHOD: evaluation protocol).

        ``target`` names tasks, or experts and runs of them.  Its tasks are divided by their expert's accuracy, all
        others (control) by their zero-shot accuracy, on the same split.  Tasks of which nothing is scored yet are left
        out; a mean without tasks is None.
        """
        scores = {task: score for task, score in evaluation.scores.items() if score.n}
        own = set(map(task_of, target))
        tasks = {task: self._task_summary(score, task in own) for task, score in scores.items()}
        targets, controls = ([t for t in tasks if tasks[t].role == role] for role in ("target", "control"))
        return Summary(
            target=mean_accuracy([scores[task].accuracy for task in targets]) if targets else None,
            control=mean_accuracy([scores[task].accuracy for task in controls]) if controls else None,
            target_normalized=_mean([tasks[task].normalized for task in targets]),
            control_normalized=_mean([tasks[task].normalized for task in controls]),
            tasks=tasks,
        )

    def estimated_summary(self, evaluation: Evaluation, target: Sequence[str]) -> EstimatedSummary:
        """Estimated means over target and control tasks of an evaluation that grows; denominators as in ``summary``.

        Raises ExplorerError for an evaluation that came from the store, where there is nothing to estimate.
        """
        if (found := evaluation.estimated) is None:
            raise ExplorerError(f"Recipe {evaluation.recipe.hash()} was not evaluated now, so nothing is estimated.")
        tasks = {
            task: self._estimated_task(score, found.task(task), target) for task, score in evaluation.scores.items()
        }
        targets, controls = ([t for t in tasks if tasks[t].role == role] for role in ("target", "control"))
        return EstimatedSummary(
            target=found.mean(targets) if targets else None,
            control=found.mean(controls) if controls else None,
            target_normalized=_mean([tasks[task].normalized for task in targets]),
            control_normalized=_mean([tasks[task].normalized for task in controls]),
            tasks=tasks, points=found.points, foretold=found.foretold,
        )  # fmt: skip

    def block_facts(self, experts: Sequence[str]) -> BlockFacts:
        """Norms and sign conflicts of the experts' task vectors, block by block; kept once computed."""
        key = tuple(sorted(experts))
        if (found := self._blocks.get(key)) is None:
            found = self._blocks[key] = block_facts(self.suite, self.backend.layout, key)
            while len(self._blocks) > KEPT_FACTS:
                self._blocks.popitem(last=False)
        return found

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

    def alpha_from_norms(self, tasks: Sequence[str], method: str = "sum", parameters: Parameters = ()) -> float:
        """α = (1/T)·‖Στₜ‖₁ / ‖τ_MTL‖₁ for the method with these parameters."""
        return self.backend.alpha_from_norms(tasks, method, parameters)

    def _evaluate_all(self, recipes: Sequence[Recipe], split: str) -> list[Evaluation]:
        return [self.evaluate(recipe, None, split) for recipe in recipes]

    def _expert_accuracy(self, task: str, split: str) -> Accuracy:
        expert = Recipe(self.suite.name, (task,), schedule=constant(1.0))
        return self.evaluate(expert, [task], split).scores[task].accuracy

    def _denominator(self, task: str, split: str, is_target: bool) -> tuple[float, str]:
        """What the protocol divides a task's accuracy by, and whose accuracy that is."""
        if is_target:
            return self._expert_accuracy(task, split).value, "expert"
        base = Recipe.base(self.suite.name)
        return self.evaluate(base, [task], split).scores[task].accuracy.value, "zero-shot"

    def _task_summary(self, score: TaskScore, is_target: bool) -> TaskSummary:
        denominator, reference = self._denominator(score.task, score.split, is_target)
        accuracy = score.accuracy
        return TaskSummary(
            task=score.task, role="target" if is_target else "control", accuracy=accuracy.value, low=accuracy.low,
            high=accuracy.high, correct=score.correct, n=score.n, denominator=denominator,
            normalized=normalized(accuracy.value, denominator), reference=reference,
        )  # fmt: skip

    def _estimated_task(self, score: TaskScore, estimate: Estimate, target: Sequence[str]) -> EstimatedTask:
        is_target = score.task in target
        denominator, reference = self._denominator(score.task, score.split, is_target)
        return EstimatedTask(
            task=score.task, role="target" if is_target else "control", estimate=estimate,
            normalized=normalized(estimate.value, denominator), denominator=denominator, reference=reference,
        )  # fmt: skip

    def _checked(self) -> Agreement:
        """Whether the precision says what float32 says, of the base."""
        tasks = [name for name, task in self.suite.tasks.items() if "validation" in task.splits]
        found = self.backend.agreement([(task, self.suite.images(task, "validation")[0][:SAMPLE]) for task in tasks])
        notice(found.precision, found.sentence)
        found.require()
        return found

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
        suite, digest = self.suite.hash_of(recipe), standard(recipe).hash()
        rows = {task: self.store.get(suite, digest, task, split, self.precision) for task in tasks}
        return {task: row for task, row in rows.items() if row is not None}

    def _stream(
        self, recipe: Recipe, tasks: tuple[str, ...], split: str, stop: Stop | None, visitor: Hashable | None
    ) -> Iterator[Evaluation]:
        if (stored := self.peek(recipe, tasks, split)) is not None:
            if visitor is not None:
                self.worker.dismiss(visitor)
            self.nearest.remember(recipe)
            yield stored
            self._suggest(recipe, tasks, split)
            return
        ticket = self.worker.join(Run(standard(recipe), tasks, split), visitor)
        seen = 0
        try:
            while not (ticket.left or stop is not None and stop()):
                evaluation, seen_now, ended, fault = ticket.run.wait(seen, POLL_SECONDS)
                if ticket.left:
                    return
                if evaluation is not None and seen_now > seen:
                    yield replace(evaluation, recipe=recipe)
                seen = seen_now
                if fault is not None:
                    raise fault
                if ended:
                    self._suggest(recipe, tasks, split)
                    return
        finally:
            self.worker.leave(ticket)

    def _suggest(self, recipe: Recipe, tasks: tuple[str, ...], split: str) -> None:
        """Offers the neighbours of the current point for the idle time, those that are not stored."""
        if self.idle:
            near = [other for other in neighbours(recipe) if self.peek(other, tasks, split) is None]
            self.worker.suggest([Run(standard(other), tasks, split, idle=True) for other in near])

    def _drive(self, run: Run, stop: Stop) -> None:
        """Evaluates what of the run is not stored, publishing after each batch and keeping each completed task.

        Brief runs are done between its batches; the weights are then written again.
        """
        if isinstance(run, Look):
            with self.lock:
                self._watch.check()
                run.drive(self.evaluator, stop, self.worker.interlude)
            return
        rows = self._stored(run.recipe, run.tasks, run.split)
        missing = [task for task in run.tasks if task not in rows]
        if not missing:
            run.publish(_stored_evaluation(run.recipe, run.split, run.tasks, rows))
            return
        weights = importance(run.recipe.tasks, missing)
        pairs = {(task, run.split): weights[task] for task in missing}
        with self.lock:
            self._watch.check()
            basis = self.nearest.basis(run.recipe, rows, missing, run.split)
            scores = {task: self._begin(task, run.split, rows.get(task)) for task in run.tasks}
            kept: set[str] = set()
            for progress in self.evaluator.run(run.recipe, list(pairs), stop, keep=not run.idle, weights=pairs):
                self._keep(run, progress, kept)
                scores = scores | {score.task: score for score in progress.scores}
                answers = {task: answer for (task, _), answer in progress.answers.items()}
                evaluation = Evaluation(
                    run.recipe, run.split, scores, progress.seconds, progress.complete, "evaluated", answers,
                    Estimated(basis, answers),
                )  # fmt: skip
                if evaluation.complete:
                    self.nearest.remember(run.recipe)
                run.publish(evaluation)
                if not progress.complete and self.worker.interlude():
                    self.evaluator.load(run.recipe)

    def _keep(self, run: Run, progress: Progress, kept: set[str]) -> None:
        """Stores the tasks that were completed with this batch; ``kept`` names those stored before, and grows."""
        total = sum(score.total for score in progress.scores)
        for (task, split), right in progress.bits.items():
            if task not in kept:
                kept.add(task)
                share = progress.seconds * len(right) / total
                suite = self.suite.hash_of(run.recipe)
                self.store.put(suite, run.recipe.hash(), task, split, right, share, self.precision)

    def _begin(self, task: str, split: str, row: Row | None) -> TaskScore:
        if row is not None:
            return _stored_score(task, split, row)
        return TaskScore(task, split, 0, 0, len(self.suite.images(task, split)[1]))


def _stored_evaluation(recipe: Recipe, split: str, tasks: Sequence[str], rows: Mapping[str, Row]) -> Evaluation:
    scores = {task: _stored_score(task, split, rows[task]) for task in tasks}
    return Evaluation(recipe, split, scores, sum(rows[task].seconds for task in tasks), True, "stored")


def _stored_score(task: str, split: str, row: Row) -> TaskScore:
    return TaskScore(task, split, row.correct, row.n, row.n)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
