"""What the page asks the server: quick looks at stored results, and evaluations that stream their counts.

Every method takes what a browser sent, trusts none of it, and answers with plain JSON values. Bad input becomes
``{"error": sentence}``; a fault is logged and becomes one sentence as well, so that the page never waits for ever.
"""

import json
import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS
from lines_explorer.recipe import Recipe
from lines_explorer.ui import figures, surface_figure, texts
from lines_explorer.ui.comparison import compare
from lines_explorer.ui.difference_figure import difference, explained
from lines_explorer.ui.discretion import openable, without_folders
from lines_explorer.ui.estimates import estimated_point
from lines_explorer.ui.facts import Facts
from lines_explorer.ui.guide import Guide
from lines_explorer.ui.links import Links, Page
from lines_explorer.ui.results import TEST, Results
from lines_explorer.ui.searching import Found, Hunt
from lines_explorer.ui.surface import Surface
from lines_explorer.ui.view import Catalogue, View

if TYPE_CHECKING:
    from lines_explorer.engine import Engine, Evaluation

Json = dict[str, Any]
PACE, POLL = 0.12, 0.05
TABS = 2000
log = logging.getLogger(__name__)


class Tickets:
    """The newest request of each open page, so that an evaluation nobody waits for any more can stop."""

    def __init__(self, most: int = TABS) -> None:
        self.newest: OrderedDict[str, int] = OrderedDict()
        self.turns: OrderedDict[tuple[str, int], threading.Lock] = OrderedDict()
        self.most, self.lock = most, threading.Lock()

    def take(self, tab: str, number: int) -> None:
        """Note that ``tab`` has asked for its request ``number``."""
        with self.lock:
            self.newest[tab] = max(number, self.newest.pop(tab, 0))
            while len(self.newest) > self.most:
                self.newest.popitem(last=False)

    def stale(self, tab: str, number: int) -> bool:
        """Whether ``tab`` has asked for something newer."""
        return self.newest.get(tab, 0) > number

    @contextmanager
    def turn(self, tab: str, number: int, stop: Callable[[], bool]) -> Iterator[None]:
        """Until it is left, nothing else that ``tab`` asks for under the same number is evaluated; ends as stopped.

        A page has one place in the engine's queue, where a newer request replaces its older one: what one view needs
        (its point, its lines, its test) comes one after the other.
        """
        with self.lock:
            turn = self.turns.pop((tab, number), None) or threading.Lock()
            self.turns[tab, number] = turn
            while len(self.turns) > self.most:
                self.turns.popitem(last=False)
        while not (mine := turn.acquire(timeout=POLL)) and not stop():
            pass
        try:
            yield
        finally:
            if mine:
                turn.release()


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
        self.catalogue = Catalogue(experts, tuple(METHODS), self.blocks, engine.refused)
        self.links = Links(self.suite.name, self.catalogue)
        self.titles = {name: task.title for name, task in self.suite.tasks.items()}
        self.tickets = Tickets()
        self.guide = Guide(Facts(self.results, self.catalogue), self.links)
        self.suite_word = openable(self.suite)

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
        drawn = figures.all_figures(numbers, self.titles, self.blocks)
        drawn["difference"] = self._difference(None, view)
        return numbers | {"figures": drawn}

    def look(self, view: View, page: Page) -> Json:
        """The part of ``live`` that depends on the view and the page alone."""
        schedule = view.curve(self.results.alpha(view))
        answer = {"link": self.links.write(view, page), "command": view.command(self.suite_word, schedule)}
        answer |= {"setting": texts.setting(schedule), "point": None, "trouble": bool(self.engine.store.trouble)}
        evaluation = self.results.peek(self.results.recipe(view, schedule))
        if evaluation and not self.results.missing_references():
            return answer | self._described(view, page, evaluation)
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
        if missing := self.results.missing_references():
            yield from self._evaluate(missing, asked)
            yield {"kind": "family", "family": self.family(view)}
        recipe = self.results.recipe(view, view.curve(self.results.alpha(view)))
        for evaluation in self._counted(self.results, recipe, None, asked):
            described = self._described(view, asked.page, evaluation)
            yield {"kind": "point", "number": number} | described | _progress(evaluation)
        pin = asked.page.pin
        if pin and not stop() and not self.results.peek(self._recipe(pin)):
            yield from self._evaluate([(self._recipe(pin), None)], asked)
            evaluation = self.results.peek(recipe)
            yield {"kind": "pinned", "number": number, "pinned": self._pinned(view, asked.page, evaluation)}

    def _lines(self, request: Mapping) -> Iterator[Json]:
        asked = self._read(request)
        stop = self._stop(asked)
        yield from self._evaluate(self.results.missing_references(), asked)
        for recipe in self.results.unstored(asked.view):
            if stop():
                return
            yield from self._evaluate([(recipe, None)], asked)
            yield {"kind": "family", "family": self.family(asked.view)}

    def _fill(self, request: Mapping) -> Iterator[Json]:
        asked = self._read(request)
        stop = self._stop(asked)
        yield from self._evaluate(self.results.missing_references(), asked)
        for recipe in Surface(self.results, asked.view).unstored():
            if stop():
                return
            yield from self._evaluate([(recipe, None)], asked)
            yield {"kind": "surface", "surface": self._surface(asked.view)}

    def _score_test(self, request: Mapping) -> Iterator[Json]:
        asked = self._read(request)
        yield from self._evaluate(self.test.missing_references(), asked, self.test)
        for evaluation in self._counted(self.test, self._recipe(asked.view), None, asked):
            progress = _progress(evaluation)
            point = self.test.point(asked.view, evaluation) if evaluation.complete else None
            yield {"kind": "test", "number": asked.number, "point": point} | progress

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
        yield from self._evaluate(self.results.missing_references(), asked)
        for step in hunt.steps() if not stop() else ():
            yield step.message() | number
            if isinstance(step, Found):
                return
            for evaluation in self._counted(self.results, step.recipe, None, asked):
                yield {"kind": "progress"} | number | _progress(evaluation)
                step.evaluation = evaluation if evaluation.complete else None
            if step.evaluation is None:
                return

    def _recipe(self, view: View) -> Recipe:
        return self.results.recipe(view, view.curve(self.results.alpha(view)))

    def _stop(self, asked: Asked) -> Callable[[], bool]:
        """Says whether the page has moved on."""
        return lambda: self.tickets.stale(asked.tab, asked.number)

    def _evaluate(self, work: list, asked: Asked, on: Results | None = None) -> Iterator[Json]:
        """Evaluate recipes one after the other, reporting only how far it is."""
        results = on or self.results
        for index, (recipe, score_on) in enumerate(work, start=1):
            for evaluation in self._counted(results, recipe, score_on, asked):
                progress = _progress(evaluation)
                yield {"kind": "progress", "number": asked.number, "step": [index, len(work)]} | progress

    def _counted(self, results: Results, recipe: Recipe, score_on: Any, asked: Asked) -> Iterator["Evaluation"]:
        """The growing evaluation, at a pace that a page can follow; always the last state, none once stopped."""
        stop = self._stop(asked)
        last, done = -math.inf, False
        with self.tickets.turn(asked.tab, asked.number, stop):
            while not (done or stop()):  # again if a request that had not noticed it is stale took the place
                for evaluation in self.engine.stream(recipe, score_on, results.split, stop, visitor=asked.tab):
                    if stop():
                        return
                    done = evaluation.complete
                    if done or time.monotonic() - last >= PACE:
                        last = time.monotonic()
                        yield evaluation

    def _described(self, view: View, page: Page, evaluation: "Evaluation") -> Json:
        """A point, and once it is complete the sentence about it and its difference from what is pinned."""
        if not evaluation.complete:
            return {"point": estimated_point(self.engine, view, evaluation)}
        if not (point := self.results.point(view, evaluation)):
            return {"point": None}
        schedule = evaluation.recipe.schedule
        about = {"sentence": texts.sentence(view, schedule, point, self._references(view), self.titles)}
        about["hover"] = figures.custom(texts.setting(schedule), point, {"mode": view.mode})
        return {"point": point, "pinned": self._pinned(view, page, evaluation)} | about

    def _pinned(self, view: View, page: Page, current: "Evaluation | None") -> Json | None:
        """The pinned point as the current view's plane shows it, and how the current one differs from it."""
        if not page.pin:
            return None
        schedule = page.pin.curve(self.results.alpha(page.pin))
        evaluation = self.results.peek(self.results.recipe(page.pin, schedule))
        factors = list(schedule.block_factors(self.blocks))
        about = {"view": page.pin.as_json(), "setting": texts.setting(schedule), "factors": factors}
        about |= {"alpha": schedule.alpha, "beta": schedule.beta, "kind": schedule.kind}
        if not evaluation or self.results.missing_references():
            return about | {"point": None, "differences": None, "figure": self._difference(None, view)}
        found = current and compare(self.results, evaluation, current, view.targets)
        about |= {"point": self.results.point(view, evaluation), "differences": found and explained(found)}
        return about | {"figure": self._difference(found, view)}

    def _difference(self, comparison: Json | None, view: View) -> figures.Figure:
        return difference(comparison, view.targets, self.titles, figures.tasks_height(len(self.titles)))

    def _references(self, view: View) -> Json:
        """The part of a family that the sentence compares with, without its lines."""
        names = [name for name in self.suite.tasks if name not in view.targets]
        base = self.results.stored(view, Recipe.base(self.suite.name))
        expert = self.results.stored(view, self.results.expert(view.target)) if view.mode == figures.EDIT else None
        return {"base": base, "expert": expert, "controls": names}

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

    read, recipe, guarded, streamed = _read, _recipe, _guarded, _streamed  # for the handlers of single panels


def _progress(evaluation: "Evaluation") -> Json:
    """Pictures scored and to be scored."""
    scores = evaluation.scores.values()
    return {"done": sum(score.n for score in scores), "total": sum(score.total for score in scores)}
