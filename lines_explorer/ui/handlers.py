"""What the page asks the server: quick looks at stored results, and evaluations that stream their counts.

Every method takes what a browser sent, trusts none of it, and answers with plain JSON values. Bad input becomes
``{"error": sentence}``; a fault is logged and becomes one sentence as well, so that the page never waits for ever.
"""

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS
from lines_explorer.recipe import Recipe
from lines_explorer.sweep.runs import runs
from lines_explorer.ui import figures, surface_figure, texts
from lines_explorer.ui.comparison import compare
from lines_explorer.ui.difference_figure import difference, explained
from lines_explorer.ui.discretion import openable, without_folders
from lines_explorer.ui.estimates import estimated_point
from lines_explorer.ui.facts import Facts
from lines_explorer.ui.guide import Guide
from lines_explorer.ui.links import Links, Page
from lines_explorer.ui.modes import MODES, shifted_name
from lines_explorer.ui.results import TEST, VALIDATION, Results, Work
from lines_explorer.ui.searching import Found, Hunt
from lines_explorer.ui.surface import Surface
from lines_explorer.ui.tickets import Tickets
from lines_explorer.ui.view import Catalogue, View

if TYPE_CHECKING:
    from lines_explorer.engine import Engine, Evaluation

Json = dict[str, Any]
PACE = 0.12
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Asked:
    """A request, validated: what to show, and from which page and moment it came."""

    view: View
    page: Page
    tab: str
    number: int


class Desk:
    """Answers one suite's page. Holds no visitor's state, only the newest ticket per page."""

    def __init__(self, engine: "Engine") -> None:
        self.engine, self.suite = engine, engine.suite
        self.results, self.test = Results(engine), Results(engine, TEST)
        self.blocks = engine.backend.layout.depth
        experts = tuple(task for task in self.suite.tasks if task in self.suite.experts)
        self.catalogue = Catalogue(
            experts,
            tuple(METHODS),
            self.blocks,
            tuple(task for task in experts if self.suite.tasks[task].shifts),
            {task: names for task, names in runs(self.suite).items() if len(names) > 1},
            len(self.suite.tasks) > 1,
            engine.refused,
        )
        self.links = Links(self.suite.name, self.catalogue)
        self.titles = {name: task.title for name, task in self.suite.tasks.items()}
        self.rows = self.titles | {
            shifted_name(name, shift): title
            for name, task in self.suite.tasks.items()
            for shift, title in task.shifts.items()
        }
        self.tickets = Tickets()
        self.guide = Guide(Facts(self.results, self.catalogue), self.links)
        self.suite_word = openable(self.suite)
        self._warm = False

    def warm(self) -> None:
        """Begins to read the stories' numbers, once, before anybody asks for them."""
        if not self._warm:
            self._warm = True
            threading.Thread(target=self.guide.told, name="lines-explorer-stories", daemon=True).start()

    def live(self, request: Any) -> Json:
        """What is known at once about a view: its stored point if there is one, its link and its command line.

        Takes ``{"view", "page", "known", "tab", "number"}``; sends the family along when the page knows another one.
        """
        return self._guarded(self._live, request)

    def restore(self, link: Any) -> Json:
        """The controls and the page for a URL hash, and a sentence for everything in it that could not be taken."""
        opened = self.links.read(link)
        problems = list(opened.problems)
        return {"view": opened.view.as_json(), "page": opened.page.as_json(), "problems": problems}

    def surface(self, request: Any) -> Json:
        """The α×β surface of a view's family, as far as it is stored, and the Pareto front of all that is."""
        return self._guarded(lambda asked: self._surface(self._read(asked).view), request)

    def told(self, request: Any) -> Json:
        """Every story and every step of the lesson, written from what is stored now; nothing is asked of a request."""
        return self._guarded(lambda _: self.guide.told(), request)

    def tell(self, request: Any) -> Iterator[str]:
        """Evaluate what the request's ``name`` (a story or a step) needs; sends stories and lesson at the end."""
        yield from self._streamed(self._tell, request)

    def search(self, request: Any) -> Iterator[str]:
        """Choose a point of the view's line by the request's ``rule``; sends the grid as it is evaluated."""
        yield from self._streamed(self._search, request)

    def settle(self, request: Any) -> Iterator[str]:
        """Evaluate the view's model, and what it is compared with if that is missing; yields messages as JSON."""
        yield from self._streamed(self._settle, request)

    def line(self, request: Any) -> Iterator[str]:
        """Evaluate what both lines still lack; sends the family again after every point."""
        yield from self._streamed(self._lines, request)

    def fill(self, request: Any) -> Iterator[str]:
        """Evaluate the missing cells of the surface, the nearest first; sends it again after every cell."""
        yield from self._streamed(self._fill, request)

    def score_test(self, request: Any) -> Iterator[str]:
        """Evaluate the view's model on the test split."""
        yield from self._streamed(self._score_test, request)

    def family(self, view: View) -> Json:
        """A family with its figures."""
        numbers = self.results.family(view)
        drawn = figures.all_figures(numbers, self.rows)
        drawn["difference"] = self._difference(None, view)
        return numbers | {"figures": drawn}

    def look(self, view: View, page: Page) -> Json:
        """The part of ``live`` that depends on the view and the page alone."""
        schedule = view.curve(self.results.alpha(view))
        answer = {"link": self.links.write(view, page), "command": view.command(self.suite_word, schedule)}
        answer |= {"setting": texts.setting(schedule), "point": None, "trouble": bool(self.engine.store.trouble)}
        evaluations = self.results.whole(view, self.results.recipe(view, schedule))
        if evaluations and not self.results.missing_references(view):
            return answer | self._described(view, page, evaluations)
        return answer | {"pinned": self._pinned(view, page, None)}

    def _live(self, request: Mapping) -> Json:
        asked = self._read(request)
        self.tickets.take(asked.tab, asked.number)
        answer = self.look(asked.view, asked.page) | {"number": asked.number}
        known = request.get("known") == asked.view.family
        return answer if known else answer | {"family": self.family(asked.view)}

    def _surface(self, view: View) -> Json:
        numbers = Surface(self.results, view).numbers()
        family = {"mode": view.mode}
        drawn = {"figures": surface_figure.surfaces(numbers), "front": surface_figure.front(numbers["front"], family)}
        return drawn | {"key": view.family, "missing": numbers["missing"], "points": numbers["front"]}

    def _settle(self, request: Mapping) -> Iterator[Json]:
        asked = self._read(request)
        view, number = asked.view, asked.number
        self.tickets.take(asked.tab, number)
        stop = self._stop(asked)
        if missing := self.results.missing_references(view):
            yield from self._evaluate(missing, asked)
            yield {"kind": "family", "family": self.family(view)}
        yield from self._choose_soup(view, asked)
        for evaluations, progress in self._whole(self.results, asked):
            described = self._described(view, asked.page, evaluations)
            yield {"kind": "point", "number": number} | described | progress
        pin = asked.page.pin
        if pin and not stop():
            yield from self._choose_soup(pin, asked)
            if (recipe := self._recipe(pin)) and (missing := self.results.missing(view, recipe)):
                yield from self._evaluate(missing, asked)
                current = self.results.whole(view, self._recipe(view))
                yield {"kind": "pinned", "number": number, "pinned": self._pinned(view, asked.page, current)}

    def _lines(self, request: Mapping) -> Iterator[Json]:
        asked = self._read(request)
        stop = self._stop(asked)
        yield from self._evaluate(self.results.missing_references(asked.view), asked)
        yield from self._choose_soup(asked.view, asked)
        for work in self.results.unstored(asked.view):
            if stop():
                return
            yield from self._evaluate([work], asked)
            yield {"kind": "family", "family": self.family(asked.view)}

    def _fill(self, request: Mapping) -> Iterator[Json]:
        asked = self._read(request)
        stop = self._stop(asked)
        yield from self._evaluate(self.results.missing_references(asked.view), asked)
        yield from self._choose_soup(asked.view, asked)
        for work in Surface(self.results, asked.view).unstored():
            if stop():
                return
            yield from self._evaluate([work], asked)
            yield {"kind": "surface", "surface": self._surface(asked.view)}

    def _score_test(self, request: Mapping) -> Iterator[Json]:
        asked = self._read(request)
        yield from self._evaluate(self.test.missing_references(asked.view), asked)
        yield from self._choose_soup(asked.view, asked)
        for evaluations, progress in self._whole(self.test, asked):
            point = self.test.point(asked.view, evaluations)
            whole = point and point["complete"] and len(evaluations) == len(self.test.parts(asked.view))
            yield {"kind": "test", "number": asked.number, "point": point if whole else None} | progress

    def _tell(self, request: Mapping) -> Iterator[Json]:
        asked, name = self._read(request), request.get("name")
        stop = self._stop(asked)
        while (needs := self.guide.needs(name)) and not stop():
            yield from self._evaluate(list(needs), asked)
        yield {"kind": "told", "told": self.guide.told()}

    def _search(self, request: Mapping) -> Iterator[Json]:
        asked = self._read(request)
        hunt = Hunt(self.results, asked.view, request.get("rule"))
        self.tickets.take(asked.tab, asked.number)
        stop, number = self._stop(asked), {"number": asked.number}
        yield from self._evaluate(self.results.missing_references(asked.view), asked)
        for step in hunt.steps() if not stop() else ():
            if isinstance(step, Found):
                yield {"kind": "family", "family": self.family(asked.view)}
            yield step.message() | number
            if isinstance(step, Found):
                return
            for evaluation in self._counted(step.recipe, None, self.results.split, asked):
                yield {"kind": "progress"} | number | _progress(evaluation)
                step.evaluation = evaluation if evaluation.complete else None
            if step.evaluation is None:
                return

    def _recipe(self, view: View) -> Recipe | None:
        return self.results.recipe(view, view.curve(self.results.alpha(view)))

    def _choose_soup(self, view: View, asked: Asked) -> Iterator[Json]:
        """Evaluate what a greedy soup's choice needs, one after the other; then the family is known anew."""
        chose, stop = False, self._stop(asked)
        while (unknown := self.results.soup(view)[1]) is not None and not stop():
            yield from self._evaluate([(unknown, (view.target,), VALIDATION)], asked)
            chose = True
        if chose and not stop():
            yield {"kind": "family", "family": self.family(view)}

    def _whole(self, on: Results, asked: Asked) -> Iterator[tuple[list["Evaluation"], Json]]:
        """The growing evaluations of all that the view scores, one split after the other, and how far it is."""
        view = asked.view
        recipe = None if self._stop(asked)() else on.recipe(view, view.curve(on.alpha(view)))
        done: list[Evaluation] = []
        parts = on.parts(view) if recipe else {}
        for index, (split, tasks) in enumerate(parts.items(), start=1):
            evaluation = None
            for evaluation in self._counted(recipe, tasks, split, asked):
                yield [*done, evaluation], _progress(evaluation) | {"step": [index, len(parts)]}
            if evaluation is None or not evaluation.complete:
                return
            done.append(evaluation)

    def _stop(self, asked: Asked) -> Callable[[], bool]:
        """Says whether the page has moved on."""
        return lambda: self.tickets.stale(asked.tab, asked.number)

    def _evaluate(self, work: Work, asked: Asked) -> Iterator[Json]:
        """Evaluate recipes one after the other, reporting only how far it is."""
        for index, (recipe, score_on, split) in enumerate(work, start=1):
            for evaluation in self._counted(recipe, score_on, split, asked):
                progress = _progress(evaluation)
                yield {"kind": "progress", "number": asked.number, "step": [index, len(work)]} | progress

    def _counted(self, recipe: Recipe, score_on: Any, split: str, asked: Asked) -> Iterator["Evaluation"]:
        """The growing evaluation, at a pace that a page can follow; always the last state, none once stopped."""
        stop = self._stop(asked)
        last, done = -math.inf, False
        with self.tickets.turn(asked.tab, asked.number, stop):
            while not (done or stop()):  # again if a request that had not noticed it is stale took the place
                for evaluation in self.engine.stream(recipe, score_on, split, stop, visitor=asked.tab):
                    if stop():
                        return
                    done = evaluation.complete
                    if done or time.monotonic() - last >= PACE:
                        last = time.monotonic()
                        yield evaluation

    def _described(self, view: View, page: Page, evaluations: list["Evaluation"]) -> Json:
        """A point, and once it is complete the sentence about it and its difference from what is pinned."""
        if len(evaluations) < len(self.results.parts(view)) or not all(part.complete for part in evaluations):
            return {"point": estimated_point(self.engine, view, evaluations, len(self.results.parts(view)))}
        if not (point := self.results.point(view, evaluations)):
            return {"point": None}
        schedule = evaluations[0].recipe.schedule
        about = {"sentence": texts.sentence(view, schedule, point, self._references(view), self.rows)}
        about["hover"] = figures.custom(texts.setting(schedule), point, {"mode": view.mode})
        return {"point": point, "pinned": self._pinned(view, page, evaluations)} | about

    def _pinned(self, view: View, page: Page, current: list["Evaluation"] | None) -> Json | None:
        """The pinned point as the current view's plane shows it, and how the current one differs from it."""
        if not page.pin:
            return None
        schedule = page.pin.curve(self.results.alpha(page.pin))
        recipe = self.results.recipe(page.pin, schedule)
        evaluations = self.results.whole(view, recipe)
        factors = list(schedule.block_factors(self.blocks))
        about = {"view": page.pin.as_json(), "setting": texts.setting(schedule), "factors": factors}
        about |= {"alpha": schedule.alpha, "beta": schedule.beta, "kind": schedule.kind}
        if not evaluations or self.results.missing_references(view):
            return about | {"point": None, "differences": None, "figure": self._difference(None, view)}
        found = current and compare(self.results, view, evaluations, current)
        about |= {"point": self.results.point(view, evaluations), "differences": found and explained(found)}
        return about | {"figure": self._difference(found, view)}

    def _difference(self, comparison: Json | None, view: View) -> figures.Figure:
        names = [one.name for one in self.results.sets(view)]
        titles = {name: self.rows[name] for name in names}
        return difference(comparison, view.targets, titles, figures.tasks_height(len(names)))

    def _references(self, view: View) -> Json:
        """The part of a family that the sentence compares with, without its lines."""
        names = [one.name for one in self.results.sets(view) if not one.target]
        base = self.results.stored(view, Recipe.base(self.suite.name))
        expert = self.results.stored(view, self.results.expert(view.target)) if MODES[view.mode].expert else None
        runs = {name: self.results.stored(view, self.results.expert(name)) for name in view.runs}
        return {"base": base, "expert": expert, "controls": names, "runs": runs, "soup": self.results.soup(view)[0]}

    def _read(self, request: Any) -> Asked:
        if not isinstance(request, Mapping):
            raise ExplorerError("The page sent no settings; reload it.")
        tab, number = request.get("tab"), request.get("number")
        if not isinstance(tab, str) or not 1 <= len(tab) <= 40 or type(number) is not int or not 0 <= number < 2**53:
            raise ExplorerError("The page sent a request without a number; reload it.")
        return Asked(self.catalogue.read(request.get("view")), self.links.read_page(request.get("page")), tab, number)

    def _guarded(self, work: Callable[[Any], Json], request: Any) -> Json:
        try:
            return work(request)
        except ExplorerError as error:
            return {"error": without_folders(str(error), self.suite)}
        except Exception:
            log.exception("the page's request failed")
            return {"error": texts.FAULT}

    def _streamed(self, work: Callable[[Any], Iterator[Json]], request: Any) -> Iterator[str]:
        number = request.get("number") if isinstance(request, Mapping) else None
        serial = 0
        try:
            for message in work(request):
                serial += 1
                yield json.dumps(message | {"serial": serial}, allow_nan=False)
            yield json.dumps({"kind": "end", "number": number})
        except ExplorerError as error:
            said = without_folders(str(error), self.suite)
            yield json.dumps({"kind": "error", "number": number, "error": said})
        except Exception:
            log.exception("an evaluation for the page failed")
            yield json.dumps({"kind": "error", "number": number, "error": texts.FAULT})

    read, guarded, streamed = _read, _guarded, _streamed  # for the handlers of single panels

    def recipe(self, view: View) -> Recipe:
        """The recipe of a view.

        Raises:
            ExplorerError: it is not known yet what a greedy soup keeps.
        """
        if (found := self._recipe(view)) is None:
            raise ExplorerError(texts.SOUP_UNKNOWN)
        return found


def _progress(evaluation: "Evaluation") -> Json:
    """Pictures scored and to be scored."""
    scores = evaluation.scores.values()
    return {"done": sum(score.n for score in scores), "total": sum(score.total for score in scores)}
