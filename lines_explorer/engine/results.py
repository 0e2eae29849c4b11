"""What an evaluation is: counts of right answers, and what they mean against base and experts."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lines_explorer.analysis import Accuracy, Mean
from lines_explorer.checkpoints.files import written_beside
from lines_explorer.engine.estimating import Estimated
from lines_explorer.engine.precision import FLOAT32
from lines_explorer.recipe import Recipe


@dataclass(frozen=True)
class TaskScore:
    """``correct`` right answers among the ``n`` images looked at so far, of ``total`` in the split."""

    task: str
    split: str
    correct: int
    n: int
    total: int

    @property
    def complete(self) -> bool:
        """Whether the whole split was looked at."""
        return self.n == self.total

    @property
    def accuracy(self) -> Accuracy:
        """Accuracy with its interval; ``n`` must be above 0."""
        return Accuracy(self.correct, self.n)


@dataclass(frozen=True, eq=False)
class Answers:
    """What is known image by image: ``right`` bool (n,) for the file's ``rows`` int64 (n,), in the order scored."""

    rows: np.ndarray
    right: np.ndarray


@dataclass(frozen=True)
class Evaluation:
    """One merged model's scores on one split, by task.

    ``seconds`` is the device time spent on it (when stored: when it was evaluated; nan if not known); ``source`` is
    "stored" or "evaluated".  While ``complete`` is False some scores' ``n`` is below their ``total`` or 0.
    ``answers`` tells image by image, for the tasks that were evaluated for this answer (none of those stored before:
    see `Engine.stored_answers`).  ``estimated`` is what they say about the images not scored yet; it is exact once
    ``complete``, and None when stored.
    """

    recipe: Recipe
    split: str
    scores: Mapping[str, TaskScore] = field(hash=False)
    seconds: float
    complete: bool
    source: str
    answers: Mapping[str, Answers] = field(default_factory=dict, hash=False, compare=False, repr=False)
    estimated: Estimated | None = field(default=None, hash=False, compare=False, repr=False)


@dataclass(frozen=True)
class TaskSummary:
    """One task's accuracy, its 95 % interval (0…1), and accuracy / ``denominator``.

    ``reference`` says which accuracy the denominator is: "expert" (target tasks) or "zero-shot" (control tasks).
    """

    task: str
    role: str
    accuracy: float
    low: float
    high: float
    correct: int
    n: int
    normalized: float
    denominator: float
    reference: str


@dataclass(frozen=True)
class Summary:
    """Means over target and over control tasks, raw and normalized, and every task.

    A mean is None, and its normalized one nan, when no such task is scored.
    """

    target: Mean | None
    control: Mean | None
    target_normalized: float
    control_normalized: float
    tasks: Mapping[str, TaskSummary] = field(hash=False)


StoredAnswers = Callable[[Recipe, Sequence[str], str], Mapping[str, np.ndarray]]


def write_results(
    path: str | Path, suite_hash: str, split: str, evaluations: Iterable[Evaluation],
    stored_answers: StoredAnswers | None = None, precision: str = FLOAT32,
    hash_of: Callable[[Recipe], str] | None = None,
) -> int:  # fmt: skip
    """Writes complete evaluations as a results file that `Store.seed` reads; returns the number of rows.

    ``stored_answers`` (such as `Engine.stored_answers`) adds what is known image by image, eight images to a byte.
    ``hash_of`` says under which hash a recipe's results are kept, where that is not the suite's (`Suite.hash_of`).
    """
    rows = []
    for evaluation in evaluations:
        complete = [score for score in evaluation.scores.values() if score.complete]
        kept = hash_of(evaluation.recipe) if hash_of else suite_hash
        known = stored_answers(evaluation.recipe, [s.task for s in complete], split) if stored_answers else {}
        for score in complete:
            row = {"recipe": evaluation.recipe.as_dict(), "task": score.task, "correct": score.correct, "n": score.n}
            row |= {"suite": kept} if kept != suite_hash else {}
            if score.task in known:
                row["bits"] = base64.b64encode(np.packbits(known[score.task])).decode("ascii")
            rows.append(row)
    lines = ",\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
    head = json.dumps({"suite_hash": suite_hash, "split": split, "precision": precision})
    with written_beside(Path(path)) as beside:
        beside.write_text(f'{head[:-1]}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")
    return len(rows)
