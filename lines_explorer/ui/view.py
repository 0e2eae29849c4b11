"""What the page shows: one validated view, its recipe and the command line that reproduces it.

Everything a browser sends is untrusted: ``Catalogue.read`` takes any JSON value and either gives a ``View`` or raises
an ``ExplorerError``. How a view is written into a link and read back is in ``links``.
"""

import dataclasses
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import FREE, Schedule, constant, free, lines
from lines_explorer.ui.methods import Pairs, parameter_words, read_parameters
from lines_explorer.ui.modes import CONSTANT, EDIT, LINES, MANY, MODES, NEGATION, ROBUSTNESS, SOUP, SOUPS, UNIFORM

LIMITS: dict[str, tuple[float, float]] = {"factor": (-3.0, 3.0), "floor": (0.5, 1.0)}
"""Of numbers that go as far in every mode; those of α, β and λ are the mode's."""
SLIDERS = ("alpha", "beta", "scale")
GREEK = {"alpha": "α", "beta": "β", "scale": "λ", "factor": "A factor", "floor": "The floor of control"}
STEP = 0.01


@dataclass(frozen=True)
class View:
    """The state of the controls.

    Attributes:
        mode: a key of ``MODES``.
        target: the task that is edited, souped or subtracted.
        tasks: many: the merged tasks, in the suite's order.
        method: many: a key of ``merging.METHODS``.
        schedule: ``lines``, ``constant`` or ``free``.
        alpha, beta: of LiNeS, within the mode's limits.
        scale: the constant λ, within the mode's limits.
        norms: many: α is the ratio of the norms, ``alpha`` is not used.
        factors: free: λ of every block, from input to output.
        rest: free: the factor outside the blocks.
        runs: soup: the target's runs that may be in it, in the suite's order.
        soup: soup: all of ``runs`` (``uniform``), or those of them that help on validation (``greedy``).
        floor: negation: the share of zero-shot control accuracy that must be kept.
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
    runs: tuple[str, ...] = ()
    soup: str = UNIFORM
    floor: float = 0.95
    parameters: Pairs = ()

    @property
    def targets(self) -> tuple[str, ...]:
        """The tasks that the edit is for."""
        return self.tasks if self.mode == MANY else (self.target,)

    @property
    def experts(self) -> tuple[str, ...]:
        """The experts or runs to merge, a greedy soup's before any is left out."""
        return self.runs if self.mode == SOUP else self.targets

    @property
    def from_norms(self) -> bool:
        """Whether α is computed from the norms of the task vectors."""
        return self.mode == MANY and self.schedule == LINES and self.norms

    @property
    def family(self) -> str:
        """Names the set of lines the view belongs to: all views that differ in the factors alone share it."""
        return ":".join([self.mode, *self.words().values()])

    def words(self) -> dict[str, str]:
        """The fields that the mode is made of, as a link writes them; ``set``: the parameters that are not usual."""
        found = {name: _text(getattr(self, name)) for name in MODES[self.mode].fields}
        if set_ := parameter_words(self.parameters, ":") if self.mode == MANY else "":
            found["set"] = set_
        return found

    def curve(self, alpha: float) -> Schedule:
        """The schedule, with ``alpha`` in place of the slider's when it comes from the norms."""
        if self.schedule == CONSTANT:
            return constant(self.scale)
        if self.schedule == FREE:
            return free(self.factors, self.rest)
        return lines(alpha if self.from_norms else self.alpha, self.beta)

    def recipe(self, suite: str, schedule: Schedule, experts: tuple[str, ...] | None = None) -> Recipe:
        """The recipe of the view's experts (or of those that a greedy soup keeps) under any schedule."""
        method = {MANY: self.method, SOUP: "average"}.get(self.mode, "sum")
        parameters = self.parameters if self.mode == MANY else ()
        return Recipe(suite, self.experts if experts is None else experts, method, parameters, schedule)

    def command(self, suite: str, schedule: Schedule) -> str:
        """The command line that scores the same recipe; ``suite`` is a name, or stands for a folder."""
        words = ["python", "-m", "lines_explorer", "evaluate", "--suite", suite, "--tasks", ",".join(self.experts)]
        more = {MANY: ["--method", self.method], SOUP: ["--soup", self.soup]}
        words += more.get(self.mode, [])
        if self.mode == MANY:
            words += [word for pair in self.parameters for word in ("--set", parameter_words((pair,)))]
        if schedule.kind == CONSTANT:
            words += ["--scale", f"{schedule.alpha:.12g}"]
        elif schedule.kind == FREE:
            words += ["--factors", ",".join(f"{factor:.12g}" for factor in schedule.factors)]
            words += ["--rest", f"{schedule.rest:.12g}"]
        else:
            words += ["--alpha", f"{schedule.alpha:.12g}", "--beta", f"{schedule.beta:.12g}"]
        words += ["--score-on", self.target, "--shifts"] if self.mode == ROBUSTNESS else []
        return shlex.join(words)

    def as_json(self) -> dict[str, Any]:
        """The view as the page keeps and sends it."""
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}
        return plain | {"parameters": dict(self.parameters)}


@dataclass(frozen=True)
class Catalogue:
    """What a visitor may choose from.

    Attributes:
        tasks: those with an expert.
        methods: of merging.
        blocks: as many factors has a drawn λ.
        shifted: the tasks that have shifted sets.
        runs: task → its expert and further runs, for the tasks that have any.
        control: whether some task can be left out as control.
        refused: method → the sentence why this suite cannot have it.
    """

    tasks: tuple[str, ...]
    methods: tuple[str, ...]
    blocks: int
    shifted: tuple[str, ...] = ()
    runs: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict, hash=False)
    control: bool = True
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)

    def targets(self, mode: str) -> tuple[str, ...]:
        """The tasks that a mode can be about; none: the suite lacks what it needs."""
        own = {ROBUSTNESS: self.shifted, SOUP: tuple(self.runs), NEGATION: self.tasks if self.control else ()}
        return own.get(mode, self.tasks)

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that the suite has something for."""
        return tuple(mode for mode in MODES if self.targets(mode))

    def default(self, mode: str = EDIT) -> View:
        """The view of a page opened without a link; its free factors are those of its LiNeS."""
        start = MODES[mode].start
        factors = tuple(round(f, 4) for f in lines(start["alpha"], start["beta"]).block_factors(self.blocks))
        target = next(iter(self.targets(mode)), self.tasks[0])
        view = View(mode, target, self.tasks, self.methods[0], factors=factors, rest=start["alpha"], **start)
        return replace(view, runs=self.runs.get(target, ()) if mode == SOUP else ())

    def read(self, data: Any) -> View:
        """A view from what the page sent; each field has to be present and valid.

        Raises:
            ExplorerError: not an object, a missing field, an unknown name, no task, a number that is not finite or
                outside its slider, another number of factors than of blocks, a mode that the suite has nothing for.
        """
        if not isinstance(data, Mapping):
            raise ExplorerError("The page sent no settings; reload it.")
        view = self.default(self.field("mode", data.get("mode"), self.default()))
        for one in fields(View):
            view = self.with_field(view, one.name, data.get(one.name))
        return view

    def with_field(self, view: View, name: str, value: Any) -> View:
        """The view with one field changed; a soup of another task begins with all of that task's runs.

        Raises:
            ExplorerError: as ``read``.
        """
        changed = replace(view, **{name: self.field(name, value, view)})
        begins = name == "target" and view.mode == SOUP and changed.target != view.target
        return replace(changed, runs=self.runs[changed.target]) if begins else changed

    def field(self, name: str, value: Any, view: View) -> Any:
        """One field of a view, checked; ``view`` has the fields before it.

        Raises:
            ExplorerError: as ``read``.
        """
        if name in SLIDERS:
            return bounded(name, value, MODES[view.mode].limits[name])
        if name in ("rest", "floor"):
            return bounded("factor" if name == "rest" else name, value)
        if name == "norms":
            if not isinstance(value, bool):
                raise ExplorerError("“α from the norms” is either ticked or not.")
            return value
        if (special := getattr(self, f"_{name}", None)) is not None:
            return special(value, view)
        if name == "method" and isinstance(value, str) and value in self.refused:
            raise ExplorerError(self.refused[value])
        choices = {"schedule": (LINES, CONSTANT, FREE), "target": self.targets(view.mode), "soup": SOUPS}
        return choice(name, value, (choices | {"method": self.methods})[name])

    def _mode(self, value: Any, view: View) -> str:
        mode = choice("mode", value, tuple(MODES))
        if mode not in self.modes:
            raise ExplorerError(LACKING[mode])
        return mode

    def _factors(self, value: Any, view: View) -> tuple[float, ...]:
        if not isinstance(value, list | tuple) or len(value) != self.blocks:
            raise ExplorerError(f"There must be {self.blocks} factors, one per block.")
        return tuple(bounded("factor", factor) for factor in value)

    def _parameters(self, value: Any, view: View) -> Pairs:
        return read_parameters(view.method, value)

    def _tasks(self, value: Any, view: View) -> tuple[str, ...]:
        return _ticked(value, self.tasks, "task")

    def _runs(self, value: Any, view: View) -> tuple[str, ...]:
        return _ticked(value, self.runs[view.target], "run") if view.mode == SOUP else ()


LACKING = {
    ROBUSTNESS: "Robustness needs a shifted test set, and no task of this suite has one.",
    SOUP: "Soup needs several fine-tuning runs of one task, and no task of this suite has them; `build-suite runs` "
    "makes some.",
    NEGATION: "Negation needs a control task, and this suite has one task only.",
}
"""Why a mode cannot be chosen."""


def _ticked(value: Any, known: Sequence[str], what: str) -> tuple[str, ...]:
    """The names that are ticked, at least one, in the suite's order."""
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise ExplorerError(f"The {what}s to merge must be a list of names.")
    if unknown := [name for name in value if name not in known]:
        raise ExplorerError(f"Unknown {what} {unknown[0][:40]!r}; choose among {', '.join(known)}.")
    if not value:
        raise ExplorerError(f"Tick at least one {what} to merge.")
    return tuple(name for name in known if name in value)


def _text(value: Any) -> str:
    """A field as a link writes it."""
    if isinstance(value, tuple):
        return ",".join(value)
    return value if isinstance(value, str) else f"{value:g}"


def choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """``value`` if it is one of ``choices``.

    Raises:
        ExplorerError: it is not.
    """
    if not isinstance(value, str) or value not in choices:
        raise ExplorerError(f"Unknown {name} {str(value)[:40]!r}; choose one of {', '.join(choices)}.")
    return value


def bounded(name: str, value: Any, limits: tuple[float, float] | None = None) -> float:
    """A finite number within limits (default: ``LIMITS``), to four decimals (so that equal settings share one
    evaluation).

    Raises:
        ExplorerError: it is none.
    """
    low, high = limits or LIMITS[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ExplorerError(f"{GREEK[name]} must be a number between {low:g} and {high:g}.")
    if not low <= value <= high:
        raise ExplorerError(f"{GREEK[name]} must lie between {low:g} and {high:g}; {value:g} does not.")
    return round(float(value), 4) + 0.0
