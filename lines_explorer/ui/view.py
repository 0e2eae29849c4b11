"""What the page shows: one validated view, its recipe and the command line that reproduces it.

Everything a browser sends is untrusted: ``Catalogue.read`` takes any JSON value and either gives a ``View`` or raises
an ``ExplorerError``. How a view is written into a link and read back is in ``links``.
"""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import FREE, Schedule, constant, free, lines
from lines_explorer.ui.methods import Pairs, parameter_words, read_parameters

EDIT, MANY = "edit", "many"
LINES, CONSTANT = "lines", "constant"
LIMITS: dict[str, tuple[float, float]] = {
    "alpha": (0.0, 1.5),
    "beta": (-0.5, 1.5),
    "scale": (0.0, 1.5),
    "factor": (-1.0, 3.0),
}
GREEK = {"alpha": "α", "beta": "β", "scale": "λ", "factor": "A factor"}
STEP = 0.01


@dataclass(frozen=True)
class View:
    """The state of the controls.

    Attributes:
        mode: ``edit`` one expert, or merge ``many``.
        target: edit: the task whose expert is edited.
        tasks: many: the merged tasks, in the suite's order.
        method: many: a key of ``merging.METHODS``.
        schedule: ``lines``, ``constant`` or ``free``.
        alpha, beta: of LiNeS, within ``LIMITS``.
        scale: the constant λ, within ``LIMITS``.
        norms: many: α is the ratio of the norms, ``alpha`` is not used.
        factors: free: λ of every block, from input to output.
        rest: free: the factor outside the blocks.
        parameters: many: those of the method that differ from their defaults, sorted by name.
    """

    mode: str
    target: str
    tasks: tuple[str, ...]
    method: str
    schedule: str = LINES
    alpha: float = 0.3
    beta: float = 0.7
    scale: float = 0.5
    norms: bool = True
    factors: tuple[float, ...] = ()
    rest: float = 0.3
    parameters: Pairs = ()

    @property
    def targets(self) -> tuple[str, ...]:
        """The tasks that the edit is for."""
        return (self.target,) if self.mode == EDIT else self.tasks

    @property
    def from_norms(self) -> bool:
        """Whether α is computed from the norms of the task vectors."""
        return self.mode == MANY and self.schedule == LINES and self.norms

    @property
    def family(self) -> str:
        """Names the set of lines the view belongs to: all views that differ in the factors alone share it."""
        if self.mode == EDIT:
            return f"edit:{self.target}"
        words = [self.method, parameter_words(self.parameters), ",".join(self.tasks)]
        return ":".join(["many", *filter(None, words)])

    def curve(self, alpha: float) -> Schedule:
        """The schedule, with ``alpha`` in place of the slider's when it comes from the norms."""
        if self.schedule == CONSTANT:
            return constant(self.scale)
        if self.schedule == FREE:
            return free(self.factors, self.rest)
        return lines(alpha if self.from_norms else self.alpha, self.beta)

    def recipe(self, suite: str, schedule: Schedule) -> Recipe:
        """The recipe of the view's tasks and method under any schedule."""
        if self.mode == EDIT:
            return Recipe(suite, self.targets, schedule=schedule)
        return Recipe(suite, self.targets, self.method, self.parameters, schedule)

    def command(self, suite: str, schedule: Schedule) -> str:
        """The command line that scores the same recipe; ``suite`` is a name, or stands for a folder."""
        words = ["python", "-m", "lines_explorer", "evaluate", "--suite", suite, "--tasks", ",".join(self.targets)]
        if self.mode == MANY:
            words += ["--method", self.method]
            words += [word for pair in self.parameters for word in ("--set", parameter_words((pair,)))]
        if schedule.kind == CONSTANT:
            words += ["--scale", f"{schedule.alpha:.12g}"]
        elif schedule.kind == FREE:
            words += ["--factors", ",".join(f"{factor:.12g}" for factor in schedule.factors)]
            words += ["--rest", f"{schedule.rest:.12g}"]
        else:
            words += ["--alpha", f"{schedule.alpha:.12g}", "--beta", f"{schedule.beta:.12g}"]
        return shlex.join(words)

    def as_json(self) -> dict[str, Any]:
        """The view as the page keeps and sends it."""
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}
        return plain | {"parameters": dict(self.parameters)}


@dataclass(frozen=True)
class Catalogue:
    """What a visitor may choose from: the suite's tasks, the methods, a factor for each of ``blocks`` blocks.

    ``refused``: method → the sentence why this suite cannot have it.
    """

    tasks: tuple[str, ...]
    methods: tuple[str, ...]
    blocks: int
    refused: Mapping[str, str] = field(default_factory=dict, hash=False)

    def default(self, mode: str = EDIT) -> View:
        """The view of a page opened without a link; its free factors are those of its LiNeS."""
        beta = 0.7 if mode == EDIT else 0.3
        factors = tuple(round(factor, 4) for factor in lines(0.3, beta).block_factors(self.blocks))
        return View(mode, self.tasks[0], self.tasks, self.methods[0], beta=beta, factors=factors)

    def read(self, data: Any) -> View:
        """A view from what the page sent; each field has to be present and valid.

        Raises:
            ExplorerError: not an object, a missing field, an unknown name, no task, a number that is not finite or
                outside its slider, another number of factors than of blocks.
        """
        if not isinstance(data, Mapping):
            raise ExplorerError("The page sent no settings; reload it.")
        names = [entry.name for entry in fields(View) if entry.name != "parameters"]
        values = {name: self.field(name, data.get(name)) for name in names}
        return View(**values, parameters=read_parameters(values["method"], data.get("parameters")))

    def field(self, name: str, value: Any) -> Any:
        """One field of a view, checked.

        Raises:
            ExplorerError: as ``read``.
        """
        if name in LIMITS:
            return bounded(name, value)
        if name == "rest":
            return bounded("factor", value)
        if name == "factors":
            return self._factors(value)
        if name == "norms":
            if not isinstance(value, bool):
                raise ExplorerError("“α from the norms” is either ticked or not.")
            return value
        if name == "tasks":
            return self._tasks(value)
        if name == "method" and isinstance(value, str) and value in self.refused:
            raise ExplorerError(self.refused[value])
        choices = {"mode": (EDIT, MANY), "schedule": (LINES, CONSTANT, FREE)}
        return choice(name, value, (choices | {"target": self.tasks, "method": self.methods})[name])

    def _factors(self, value: Any) -> tuple[float, ...]:
        if not isinstance(value, list | tuple) or len(value) != self.blocks:
            raise ExplorerError(f"There must be {self.blocks} factors, one per block.")
        return tuple(bounded("factor", factor) for factor in value)

    def _tasks(self, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not all(isinstance(task, str) for task in value):
            raise ExplorerError("The tasks to merge must be a list of names.")
        if unknown := [task for task in value if task not in self.tasks]:
            raise ExplorerError(f"Unknown task {unknown[0][:40]!r}; choose among {', '.join(self.tasks)}.")
        if not value:
            raise ExplorerError("Tick at least one task to merge.")
        return tuple(task for task in self.tasks if task in value)


def choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """``value`` if it is one of ``choices``.

    Raises:
        ExplorerError: it is not.
    """
    if not isinstance(value, str) or value not in choices:
        raise ExplorerError(f"Unknown {name} {str(value)[:40]!r}; choose one of {', '.join(choices)}.")
    return value


def bounded(name: str, value: Any) -> float:
    """A finite number within ``LIMITS``, to four decimals (so that equal settings share one evaluation).

    Raises:
        ExplorerError: it is none.
    """
    low, high = LIMITS[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ExplorerError(f"{GREEK[name]} must be a number between {low:g} and {high:g}.")
    if not low <= value <= high:
        raise ExplorerError(f"{GREEK[name]} must lie between {low:g} and {high:g}; {value:g} does not.")
    return round(float(value), 4) + 0.0
