"""The study: every setting × method × schedule on one suite, chosen on validation, scored once on test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS
from lines_explorer.sweep.comparison import Comparison, Difference, compare, mean_over_edits
from lines_explorer.sweep.family import CONSTANT, KINDS, LINES
from lines_explorer.sweep.measuring import Tick, silent
from lines_explorer.sweep.runs import runs, seed_sets
from lines_explorer.sweep.settings import (
    GREEDY,
    UNIFORM,
    Edit,
    Merge,
    Negation,
    Outcome,
    Robustness,
    Setting,
    Soup,
    run,
    shifted_line,
)

if TYPE_CHECKING:
    from lines_explorer.engine import Engine
    from lines_explorer.suites import Suite

SETTINGS = ("edit", "merge", "robustness", "soup", "negation", "seeds")
Key = tuple[str, str, str]


@dataclass(frozen=True)
class EditRun(Edit):
    """The edit of one run of a task (``of``) that has several."""

    name: ClassVar[str] = "seeds"
    of: str = ""

    @property
    def group(self) -> str:
        """What the runs are compared within."""
        return f"edit {self.of}"

    @property
    def label(self) -> str:
        return f"edit {self.task}"


@dataclass(frozen=True)
class MergeRun(Merge):
    """The merge of the ``number``-th runs (from 1) of all tasks that have several."""

    name: ClassVar[str] = "seeds"
    number: int = 1

    @property
    def group(self) -> str:
        """What the runs are compared within."""
        return f"{self.method} of {len(self.tasks)}"

    @property
    def label(self) -> str:
        return f"{self.group}, run {self.number}"


@dataclass(frozen=True)
class Asked:
    """What of the study is run: names of settings, methods, schedules and tasks (None: all of the suite).

    Raises:
        ExplorerError: an unknown name, or no schedule beside the constant one.
    """

    settings: tuple[str, ...] = SETTINGS
    methods: tuple[str, ...] = tuple(METHODS)
    kinds: tuple[str, ...] = KINDS
    tasks: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for what, names, known in (
            ("setting", self.settings, SETTINGS), ("method", self.methods, tuple(METHODS)),
            ("schedule", self.kinds, KINDS),
        ):  # fmt: skip
            if unknown := [name for name in names if name not in known]:
                raise ExplorerError(f"Unknown {what} {unknown[0]!r}: choose from {', '.join(known)}.")
        if not set(self.kinds) - {CONSTANT}:
            raise ExplorerError("The study compares schedules with the constant one: name at least one other.")

    def command(self, suite: str) -> str:
        """The command line that asks for the same."""
        known = {"settings": SETTINGS, "methods": tuple(METHODS), "schedules": KINDS}
        given = {"settings": self.settings, "methods": self.methods, "schedules": self.kinds}
        words = [f"--{option} {','.join(names)}" for option, names in given.items() if names != known[option]]
        words += [f"--tasks {','.join(self.tasks)}"] if self.tasks else []
        return " ".join([f"python -m lines_explorer study --suite {suite}", *words])


def plan(suite: Suite, asked: Asked) -> list[Setting]:
    """The settings in the order in which they are run: the baseline and LiNeS of everything first.

    Methods that merge at most so many experts get the suite's first ones.  Other fine-tuning runs are there to see how
    much of the difference is theirs: they are compared under the first schedule beside the baseline alone.

    Raises:
        ExplorerError: a task without an expert.
    """
    experts = tuple(runs(suite))
    tasks = experts if asked.tasks is None else asked.tasks
    if unknown := [task for task in tasks if task not in experts]:
        raise ExplorerError(f"The study has no task {unknown[0]!r}: choose from {', '.join(experts)}.")
    kinds = [CONSTANT, *(kind for kind in KINDS if kind in asked.kinds and kind != CONSTANT)]
    return [
        setting
        for some in (kinds[:2], kinds[2:])
        for name in SETTINGS if name in asked.settings and (name != "seeds" or CONSTANT in some)
        for setting in _PLANS[name](suite, tasks, some, asked.methods)
    ]  # fmt: skip


Planner = Callable[["Suite", Sequence[str], Sequence[str], Sequence[str]], Iterable[Setting]]


def _edits(suite: Suite, tasks: Sequence[str], kinds: Sequence[str], methods: Sequence[str]) -> Iterable[Setting]:
    return [Edit(task, kind) for task in tasks for kind in kinds]


def _merges(suite: Suite, tasks: Sequence[str], kinds: Sequence[str], methods: Sequence[str]) -> Iterable[Setting]:
    if len(tasks) < 2:
        return []
    most = {method: METHODS[method].experts[1] or len(tasks) for method in methods}
    return [Merge(tuple(tasks[: most[method]]), kind, method) for method in methods for kind in kinds]


def _robustness(suite: Suite, tasks: Sequence[str], kinds: Sequence[str], methods: Sequence[str]) -> Iterable[Setting]:
    return [Robustness(task, kind) for task in tasks if suite.tasks[task].shifts for kind in kinds]


def _soups(suite: Suite, tasks: Sequence[str], kinds: Sequence[str], methods: Sequence[str]) -> Iterable[Setting]:
    several = {task: names for task, names in runs(suite).items() if task in tasks and len(names) > 1}
    return [
        Soup(task, names, how, kind) for task, names in several.items() for how in (UNIFORM, GREEDY) for kind in kinds
    ]


def _negations(suite: Suite, tasks: Sequence[str], kinds: Sequence[str], methods: Sequence[str]) -> Iterable[Setting]:
    return [Negation(task, kind) for task in tasks for kind in kinds]


def _seeds(suite: Suite, tasks: Sequence[str], kinds: Sequence[str], methods: Sequence[str]) -> Iterable[Setting]:
    sets = seed_sets(suite)
    merges = [MergeRun(names, kind, number=n) for n, names in enumerate(sets, start=1) for kind in kinds]
    edits = [EditRun(run, kind, of) for names in sets for of, run in zip(sets[0], names, strict=True) for kind in kinds]
    return [*merges, *edits]


_PLANS: dict[str, Planner] = {
    "edit": _edits, "merge": _merges, "robustness": _robustness, "soup": _soups, "negation": _negations,
    "seeds": _seeds,
}  # fmt: skip


@dataclass
class Study:
    """What has come out so far.

    ``outcomes`` and ``comparisons`` (with the constant schedule) by (setting, label, schedule); ``refused``: what is
    impossible, with the sentence why; ``lines``: per robustness outcome the shifted accuracies along its line.
    """

    planned: tuple[Setting, ...]
    outcomes: dict[Key, Outcome] = field(default_factory=dict)
    comparisons: dict[Key, Comparison] = field(default_factory=dict)
    refused: dict[Key, str] = field(default_factory=dict)
    lines: dict[Key, list[dict[str, float]]] = field(default_factory=dict)

    @property
    def done(self) -> int:
        """How many of the planned settings are finished or refused."""
        return len(self.outcomes) + len(self.refused)

    @property
    def complete(self) -> bool:
        """Whether nothing is left to do."""
        return self.done == len(self.planned)

    def of(self, name: str, kind: str = LINES) -> dict[str, Comparison]:
        """Label → comparison, of one setting and schedule."""
        return {key[1]: found for key, found in self.comparisons.items() if (key[0], key[2]) == (name, kind)}


def advance(engine: Engine, study: Study, setting: Setting, tick: Tick = silent) -> None:
    """Runs one planned setting, and compares it with the constant schedule where that is there."""
    key = (setting.name, setting.label, setting.kind)
    try:
        outcome = run(engine, setting, tick=tick)
    except ExplorerError as refusal:
        study.refused[key] = str(refusal)
        return
    if outcome.shifts:
        study.lines[key] = shifted_line(engine, outcome, tick)
    baseline = study.outcomes.get((setting.name, setting.label, CONSTANT))
    if baseline is not None:
        study.comparisons[key] = compare(engine, baseline, outcome)
    study.outcomes[key] = outcome


def edit_means(engine: Engine, study: Study) -> dict[str, dict[str, Difference]]:
    """Schedule → mean over all edits of Δtarget, Δcontrol and Δscore; only schedules with every edit."""
    count = len({key[1] for key in study.outcomes if key[0] == Edit.name})
    found = {kind: list(study.of(Edit.name, kind).values()) for kind in KINDS if kind != CONSTANT}
    return {kind: mean_over_edits(engine, rows) for kind, rows in found.items() if rows and len(rows) == count}
