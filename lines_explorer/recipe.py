"""A recipe: which experts of which suite, merged how, scaled how. Small, frozen, and with one canonical hash."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from typing import Any

from lines_explorer.errors import ExplorerError
from lines_explorer.schedule import CURVES, FREE, Schedule, constant, lines, require_rule

MOST_PARAMETERS, LONGEST_WORD, LARGEST_NUMBER = 16, 100, 2**63
LINEAR_IN_ONE = ("sum", "average")
EXPERT = lines(1, 0)
REFERENCE = "reference"
RUN = "/"
"""Between a task and the number of one of its further fine-tuning runs: ``digits/2``. No task's name contains it."""


@dataclass(frozen=True)
class Recipe:
    """One merged model: θ₀ + λ⁽ˡ⁾·g(τ over ``tasks``), or with no tasks the untouched base.

    Attributes:
        suite: name of the suite.
        tasks: whose experts are merged, by task, or by task and number for further runs; kept sorted, each once.
        method: how the task vectors are merged, a key of ``merging.METHODS``.
        parameters: (name, value) pairs of the method, kept sorted; a mapping is accepted. A value is true or false, a
            whole or finite number, or a word; ``merging.Method.check`` gives it the method's own type and bounds.
        schedule: the factors over depth.
        rule: the layer rule, ``reference`` or ``depth``.

    Raises:
        ExplorerError: a task named twice, no tasks although something is to be scaled, an unknown rule.
    """

    suite: str
    tasks: tuple[str, ...]
    method: str = "sum"
    parameters: tuple[tuple[str, Any], ...] = ()
    schedule: Schedule = EXPERT
    rule: str = REFERENCE

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", _sorted_tasks(self.tasks))
        object.__setattr__(self, "parameters", _sorted_parameters(self.parameters))
        for name in ("suite", "method"):
            if not isinstance(value := getattr(self, name), str) or not value:
                raise ExplorerError(f"A recipe's {name} must be a name, not {value!r}.")
        if not isinstance(self.schedule, Schedule):
            raise ExplorerError(f"A recipe's schedule must be a Schedule, not {self.schedule!r}.")
        require_rule(self.rule)
        if not self.tasks and (self.method, self.parameters, self.schedule, self.rule) != (
            "sum",
            (),
            EXPERT,
            REFERENCE,
        ):
            raise ExplorerError("Choose at least one task: without tasks there is nothing to merge or scale.")

    @property
    def targets(self) -> tuple[str, ...]:
        """The tasks that the merged experts were fine-tuned on, each once, sorted."""
        return tuple(sorted({task_of(name) for name in self.tasks}))

    @classmethod
    def base(cls, suite: str) -> "Recipe":
        """The untouched base of a suite."""
        return cls(suite, ())

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; ``from_dict`` gives the same recipe back."""
        schedule = asdict(self.schedule)
        used = ("kind", "factors", "rest") if self.schedule.kind == FREE else ("kind", "alpha", "beta")
        return {
            "suite": self.suite,
            "tasks": list(self.tasks),
            "method": self.method,
            "parameters": dict(self.parameters),
            "schedule": {name: list(v) if isinstance(v := schedule[name], tuple) else v for name in used},
            "rule": self.rule,
        }

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> "Recipe":
        """The recipe that ``as_dict`` wrote. Fields with a default may be absent.

        Raises:
            ExplorerError: an unknown or missing field, or a value that the recipe refuses.
        """
        values = _known_fields("recipe", Recipe, d)
        if "schedule" in values:
            values["schedule"] = Schedule(**_known_fields("schedule", Schedule, values["schedule"]))
        return cls(**values)

    def canonical(self) -> "Recipe":
        """The recipe that stands for all with the same mathematics.

        Numbers keep 12 significant digits and -0.0 is 0.0; a curve that β = 0 flattens is ``constant``, and
        ``constant(0)`` the base; one expert's sum is its average; the layer rule counts only where it changes a factor.
        """
        schedule = _canonical_schedule(self.schedule)
        if not self.tasks or schedule == constant(0):
            return Recipe.base(self.suite)
        one_linear = len(self.tasks) == 1 and self.method in LINEAR_IN_ONE
        flat_end = schedule.kind == FREE or CURVES[schedule.kind](1.0) == 0.0
        return replace(
            self,
            method="sum" if one_linear else self.method,
            parameters=tuple((name, _rounded(value)) for name, value in self.parameters),
            schedule=schedule,
            rule=REFERENCE if flat_end else self.rule,
        )

    def hash(self) -> str:
        """16 hexadecimal digits of the sha256 over the canonical recipe's JSON."""
        text = json.dumps(self.canonical().as_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def task_of(expert: str) -> str:
    """The task that an expert (``digits``) or a further run of it (``digits/2``) was fine-tuned on."""
    return expert.partition(RUN)[0]


def _sorted_tasks(tasks: Any) -> tuple[str, ...]:
    if not isinstance(tasks, list | tuple) or not all(isinstance(task, str) and task for task in tasks):
        raise ExplorerError(f"A recipe's tasks must be a list of task names, not {tasks!r}.")
    if twice := sorted({task for task in tasks if tasks.count(task) > 1}):
        raise ExplorerError(f"A task can be merged only once; named more than once: {', '.join(twice)}.")
    return tuple(sorted(tasks))


def _sorted_parameters(parameters: Any) -> tuple[tuple[str, Any], ...]:
    try:
        pairs = [
            (name, value) for name, value in (parameters.items() if isinstance(parameters, Mapping) else parameters)
        ]
    except (TypeError, ValueError):
        raise ExplorerError(f"A recipe's parameters must be (name, value) pairs, not {parameters!r}.") from None
    names = [name for name, _ in pairs]
    if not all(isinstance(name, str) and len(name) <= LONGEST_WORD for name in names) or len(set(names)) < len(names):
        raise ExplorerError(f"A recipe's parameters must have names, each given once, not {names!r}.")
    if len(names) > MOST_PARAMETERS:
        raise ExplorerError(f"A recipe has at most {MOST_PARAMETERS} parameters, not {len(names)}.")
    for name, value in pairs:
        if not _is_plain(value):
            raise ExplorerError(f"Parameter {name} must be a finite number, a word, true or false, not {value!r}.")
    return tuple(sorted(pairs))


def _is_plain(value: Any) -> bool:
    """Whether JSON keeps the value and it stays small: a switch, a word, or a number of at most 2⁶³."""
    if isinstance(value, str):
        return len(value) <= LONGEST_WORD
    return isinstance(value, int | float) and abs(value) <= LARGEST_NUMBER  # nan is not


def _known_fields(what: str, cls: type, d: Any) -> dict[str, Any]:
    """A copy of ``d``, refused unless it has the fields of ``cls`` that have no default, and no others."""
    if not isinstance(d, Mapping):
        raise ExplorerError(f"A {what} must be an object with named fields, not {d!r}.")
    if unknown := [str(name) for name in d if name not in {field.name for field in fields(cls)}]:
        raise ExplorerError(f"A {what} has no field {', '.join(unknown)}.")
    if missing := [field.name for field in fields(cls) if field.default is MISSING and field.name not in d]:
        raise ExplorerError(f"A {what} needs the field {', '.join(missing)}.")
    return dict(d)


def _canonical_schedule(schedule: Schedule) -> Schedule:
    if schedule.kind == FREE:
        return replace(schedule, factors=tuple(map(_rounded, schedule.factors)), rest=_rounded(schedule.rest))
    alpha, beta = _rounded(schedule.alpha), _rounded(schedule.beta)
    flat = beta == 0 or schedule.kind == "constant"
    return constant(alpha) if flat else Schedule(schedule.kind, alpha, beta)


def _rounded(value: Any) -> Any:
    """Floats to 12 significant digits, whole ones as integers (so 20.0 is 20 and -0.0 is 0); the rest as it is."""
    if not isinstance(value, float):
        return value
    short = float(f"{value:.12g}")
    return int(short) if short.is_integer() else short
