"""What stories and lessons are told from: stored results of named settings, and what of them is still missing.

Nothing is evaluated here. A question about a setting that is not stored raises ``Untold`` with the recipes that would
answer it; who wants the answer evaluates them and asks again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lines_explorer.analysis import (
    constrained_choice,
    may_be_chance,
    mean_accuracy,
    multi_task_choice,
    nearest_control,
    single_task_choice,
    verdicts,
)
from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS
from lines_explorer.recipe import Recipe
from lines_explorer.ui.comparison import difference
from lines_explorer.ui.modes import CONSTANT, EDIT, GAMMAS, LINES, MANY
from lines_explorer.ui.results import Numbers, Results
from lines_explorer.ui.view import FREE, Catalogue, View

if TYPE_CHECKING:
    from collections.abc import Mapping

Row = tuple[Recipe, tuple[str, ...] | None, str]
"""A recipe, the tasks to score it on (None: all), and the split."""
MOST_KEPT = 2000
NEITHER = 1.0


class Untold(Exception):
    """Something is not stored: ``needs`` says what."""

    def __init__(self, needs: Sequence[Row]) -> None:
        super().__init__(f"{len(needs)} results are not stored")
        self.needs = list(needs)


@dataclass(frozen=True)
class Place:
    """A stored setting: its view, the coefficient along its line, and its numbers."""

    view: View
    knob: float
    numbers: "Mapping[str, Any]"

    @property
    def target(self) -> float:
        """Mean accuracy of the target tasks."""
        return self.numbers["target"]["value"]

    @property
    def control(self) -> float:
        """Mean accuracy of the control tasks; nan where there are none."""
        return self.numbers["control"]["value"] if self.numbers["control"] else float("nan")


class Facts:
    """Answers about one suite, from its stored results."""

    def __init__(self, results: Results, catalogue: Catalogue) -> None:
        self.results, self.catalogue = results, catalogue
        suite = results.engine.suite
        self.suite, self.experts = suite, catalogue.tasks
        self.titles = {name: task.title for name, task in suite.tasks.items()}
        self.tasks = tuple(name for name, task in suite.tasks.items() if results.split in task.splits)
        self._differences: dict[tuple, Numbers] = {}

    @property
    def has_control(self) -> bool:
        """Whether an expert has any task beside its own."""
        return len(self.tasks) > 1

    def edit(self, target: str, schedule: str = LINES, **fields: Any) -> View:
        """The view of one expert; ``gamma`` stands for α = γ, β = 1 − γ."""
        if (gamma := fields.pop("gamma", None)) is not None:
            fields |= {"alpha": gamma, "beta": round(1 - gamma, 4)}
        return replace(self.catalogue.default(EDIT), target=target, schedule=schedule, **fields)

    def merge(self, method: str, schedule: str, knob: float) -> View:
        """The view of all experts merged: λ, or β beside the α of the norms."""
        view = replace(self.catalogue.default(MANY), method=method, schedule=schedule, norms=True)
        return replace(view, scale=knob) if schedule == CONSTANT else replace(view, beta=knob)

    def drawn(self, target: str, factors: Sequence[float], rest: float) -> View:
        """The view of one expert under factors of one's own."""
        return self.edit(target, FREE, factors=tuple(round(factor, 4) for factor in factors), rest=rest)

    def base(self, target: str) -> View:
        """The base, shown as the end of an expert's constant line."""
        return self.edit(target, CONSTANT, scale=0.0)

    def recipe(self, view: View) -> Recipe:
        """The recipe of a view."""
        return self.results.recipe(view, view.curve(self.alpha(view)))

    def alpha(self, view: View) -> float:
        """α of a view; the norms are read only where they are asked for."""
        return self.results.alpha(view) if view.from_norms else view.alpha

    def ceiling(self) -> float:
        """Mean accuracy of the experts, each on its own task."""
        own = self.results.engine.experts(self.results.split)
        return mean_accuracy([own[task] for task in self.experts]).value

    def places(self, views: Sequence[tuple[float, View]]) -> list[Place]:
        """The stored settings, in their order.

        Raises:
            Untold: one of them, the base or an expert is not stored.
        """
        recipes = [(knob, view, self.recipe(view)) for knob, view in views]
        needs: list[Row] = self.results.missing_references(views[0][1]) if views else []
        needs += [row for _, view, recipe in recipes for row in self.results.missing(view, recipe)]
        if needs:
            raise Untold(list(dict.fromkeys(needs)))
        return [Place(view, knob, self.results.stored(view, recipe)) for knob, view, recipe in recipes]

    def place(self, view: View, knob: float = NEITHER) -> Place:
        """One stored setting. Raises as ``places``."""
        return self.places([(knob, view)])[0]

    def edited(self, target: str, schedule: str) -> list[Place]:
        """One expert along its line, γ or λ from 1 to 0. Raises as ``places``."""
        knob = "gamma" if schedule == LINES else "scale"
        return self.places([(step, self.edit(target, schedule, **{knob: step})) for step in GAMMAS])

    def merged(self, method: str, schedule: str) -> list[Place]:
        """All experts merged, along the method's own grid. Raises as ``places``."""
        return self.places([(knob, self.merge(method, schedule, knob)) for knob in METHODS[method].grid])

    def best(self, places: Sequence[Place]) -> Place:
        """What the paper's rule chooses: 2·target + control for one expert, the target for several; normalized."""
        if places[0].view.mode == MANY:
            return places[multi_task_choice([(place.knob, _normalized(place)[0]) for place in places])]
        if not self.has_control:
            return places[single_task_choice([(place.knob, _normalized(place)[0], 0.0) for place in places])]
        return places[single_task_choice([(place.knob, *_normalized(place)) for place in places])]

    def keeps(self, places: Sequence[Place], floor: float) -> Place | None:
        """The best target among the places with control at least ``floor`` of the base's; None if there is none."""
        try:
            return places[constrained_choice([(place.knob, *_normalized(place)) for place in places], floor)]
        except ExplorerError:
            return None

    def level(self, place: Place, others: Sequence[Place]) -> Place:
        """The one of ``others`` whose control is nearest to that of ``place``."""
        return others[nearest_control([(other.target, other.control) for other in others], place.control)]

    def change(self, first: Place, second: Place, tasks: Sequence[str]) -> Numbers:
        """Accuracy of ``second`` minus ``first`` in the mean over ``tasks``, with ``before`` and ``after``.

        The other keys are those of ``comparison.compare``'s differences.
        """
        recipes = [self.recipe(place.view) for place in (first, second)]
        key = (self.suite.hash, *(recipe.hash() for recipe in recipes), tuple(tasks))
        if key not in self._differences:
            if len(self._differences) >= MOST_KEPT:
                self._differences.clear()
            self._differences[key] = self._change(recipes, list(tasks))
        return self._differences[key]

    def verdicts(self, changes: Sequence[Numbers]) -> list[int]:
        """1, 0 or −1 for each of several differences: better, within noise, worse, corrected for their number.

        Where the single answers are not stored, whether the intervals overlap stands for p.
        """
        ps = [found.get("p", NEITHER if found["within"] else 0.0) for found in changes]
        return verdicts([found["value"] for found in changes], ps)

    def others(self, target: str) -> tuple[str, ...]:
        """The control tasks of an expert."""
        return tuple(task for task in self.tasks if task != target)

    def classes(self, task: str) -> int:
        """How many classes a task has."""
        return len(self.suite.tasks[task].classes)

    def guesses(self, place: Place) -> list[str]:
        """The tasks on which a model may be guessing."""
        scores = self.results.peek(self.recipe(place.view)).scores
        return [task for task in self.tasks if may_be_chance(scores[task].accuracy, self.classes(task))]

    def _change(self, recipes: Sequence[Recipe], tasks: list[str]) -> Numbers:
        split = self.results.split
        scores = [self.results.peek(recipe, tasks).scores for recipe in recipes]
        means = [mean_accuracy([score[task].accuracy for task in tasks]) for score in scores]
        answers = [self.results.engine.stored_answers(recipe, tasks, split=split) for recipe in recipes]
        found = difference(tasks, *answers, *means)
        return found | {"before": means[0].value, "after": means[1].value}


def _normalized(place: Place) -> tuple[float, float]:
    """Target and control, normalized; nan where unknown."""
    sides = (place.numbers["target"], place.numbers["control"])
    return tuple(float("nan") if not side or side["normalized"] is None else side["normalized"] for side in sides)
