"""What the page shows: one validated view, its link, its recipe and the command line that reproduces it.

Everything a browser sends is untrusted: ``Catalogue.read`` takes any JSON value and either gives a ``View`` or raises
an ``ExplorerError``; ``Catalogue.read_link`` takes any text and always gives a view, ignoring what it does not know.
"""

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import Schedule, constant, lines

EDIT, MANY = "edit", "many"
LINES, CONSTANT = "lines", "constant"
LIMITS: dict[str, tuple[float, float]] = {"alpha": (0.0, 1.5), "beta": (-0.5, 1.5), "scale": (0.0, 1.5)}
STEP = 0.01
LINK_LIMIT = 2000
TRUTH = {"1": True, "0": False}


@dataclass(frozen=True)
class View:
    """The state of the controls.

    Attributes:
        mode: ``edit`` one expert, or merge ``many``.
        target: edit: the task whose expert is edited.
        tasks: many: the merged tasks, in the suite's order.
        method: many: a key of ``merging.METHODS``.
        schedule: ``lines`` or ``constant``.
        alpha, beta: of LiNeS, within ``LIMITS``.
        scale: the constant λ, within ``LIMITS``.
        norms: many: α is the ratio of the norms, ``alpha`` is not used.
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
        """Names the set of lines the view belongs to: all views that differ in α, β, λ or the schedule share it."""
        return f"edit:{self.target}" if self.mode == EDIT else f"many:{self.method}:{','.join(self.tasks)}"

    def curve(self, alpha: float) -> Schedule:
        """The schedule, with ``alpha`` in place of the slider's when it comes from the norms."""
        if self.schedule == CONSTANT:
            return constant(self.scale)
        return lines(alpha if self.from_norms else self.alpha, self.beta)

    def recipe(self, suite: str, schedule: Schedule) -> Recipe:
        """The recipe of the view's tasks and method under any schedule."""
        return Recipe(suite, self.targets, "sum" if self.mode == EDIT else self.method, schedule=schedule)

    def link(self) -> str:
        """The view as a URL hash without ``#``; only what the mode uses."""
        used = {"mode": self.mode, "schedule": self.schedule}
        used |= {"target": self.target} if self.mode == EDIT else {"tasks": ",".join(self.tasks), "method": self.method}
        if self.schedule == CONSTANT:
            used["scale"] = f"{self.scale:g}"
        else:
            used |= {"norms": "1"} if self.from_norms else {"alpha": f"{self.alpha:g}"}
            used["beta"] = f"{self.beta:g}"
        return urlencode(used, safe=",")

    def command(self, suite: str, schedule: Schedule) -> str:
        """The command line that scores the same recipe."""
        words = ["python", "-m", "lines_explorer", "evaluate", "--suite", suite, "--tasks", ",".join(self.targets)]
        if self.mode == MANY:
            words += ["--method", self.method]
        if self.schedule == CONSTANT:
            words += ["--scale", f"{schedule.alpha:.12g}"]
        else:
            words += ["--alpha", f"{schedule.alpha:.12g}", "--beta", f"{schedule.beta:.12g}"]
        return shlex.join(words)


@dataclass(frozen=True)
class Catalogue:
    """What a visitor may choose from: the suite's tasks and the methods. Everything else is refused."""

    tasks: tuple[str, ...]
    methods: tuple[str, ...]

    def default(self, mode: str = EDIT) -> View:
        """The view of a page opened without a link."""
        return View(mode, self.tasks[0], self.tasks, self.methods[0], beta=0.7 if mode == EDIT else 0.3)

    def read(self, data: Any) -> View:
        """A view from what the page sent; each field has to be present and valid.

        Raises:
            ExplorerError: not an object, a missing field, an unknown name, no task, a number that is not finite or
                outside its slider.
        """
        if not isinstance(data, Mapping):
            raise ExplorerError("The page sent no settings; reload it.")
        view = {field.name: self._field(field.name, data.get(field.name)) for field in fields(View)}
        return View(**view)

    def read_link(self, link: Any) -> View:
        """A view from a URL hash: valid fields are taken, unknown and invalid ones ignored. Never raises."""
        given = {}
        if isinstance(link, str):
            given = dict(parse_qsl(link.lstrip("#")[:LINK_LIMIT], errors="replace"))
        view = self.default(MANY if given.get("mode") == MANY else EDIT)
        if "alpha" in given and "norms" not in given:
            view = replace(view, norms=False)
        for name, text in given.items():
            value = _typed(name, text)
            if value is not None:
                try:
                    view = replace(view, **{name: self._field(name, value)})
                except ExplorerError:
                    continue
        return view

    def _field(self, name: str, value: Any) -> Any:
        if name in LIMITS:
            return _number(name, value)
        if name == "norms":
            if not isinstance(value, bool):
                raise ExplorerError("“α from the norms” is either ticked or not.")
            return value
        if name == "tasks":
            return self._tasks(value)
        choices = {"mode": (EDIT, MANY), "schedule": (LINES, CONSTANT), "target": self.tasks, "method": self.methods}
        if not isinstance(value, str) or value not in choices[name]:
            raise ExplorerError(f"Unknown {name} {str(value)[:40]!r}; choose one of {', '.join(choices[name])}.")
        return value

    def _tasks(self, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not all(isinstance(task, str) for task in value):
            raise ExplorerError("The tasks to merge must be a list of names.")
        if unknown := [task for task in value if task not in self.tasks]:
            raise ExplorerError(f"Unknown task {unknown[0][:40]!r}; choose among {', '.join(self.tasks)}.")
        if not value:
            raise ExplorerError("Tick at least one task to merge.")
        return tuple(task for task in self.tasks if task in value)


def _typed(name: str, text: str) -> Any:
    """The text of a link's field as the type of that field; None for what no view has."""
    if name in LIMITS:
        try:
            return float(text)
        except ValueError:
            return None
    if name == "norms":
        return TRUTH.get(text)
    if name == "tasks":
        return [task for task in text.split(",") if task]
    return text if name in {field.name for field in fields(View)} else None


def _number(name: str, value: Any) -> float:
    """A finite number within the slider, to four decimals (so that equal settings share one evaluation)."""
    low, high = LIMITS[name]
    greek = {"alpha": "α", "beta": "β", "scale": "λ"}[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ExplorerError(f"{greek} must be a number between {low:g} and {high:g}.")
    if not low <= value <= high:
        raise ExplorerError(f"{greek} must lie between {low:g} and {high:g}; {value:g} does not.")
    return round(float(value), 4) + 0.0
