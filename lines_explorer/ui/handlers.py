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
from typing import TYPE_CHECKING, Any

from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS
from lines_explorer.recipe import Recipe
from lines_explorer.ui import figures, texts
from lines_explorer.ui.results import TEST, Results
from lines_explorer.ui.view import Catalogue, View

if TYPE_CHECKING:
    from lines_explorer.engine import Engine, Evaluation

Json = dict[str, Any]
PACE = 0.12
TABS = 2000
log = logging.getLogger(__name__)


class Tickets:
    """The newest request of each open page, so that an evaluation nobody waits for any more can stop."""

    def __init__(self, most: int = TABS) -> None:
        self.newest: OrderedDict[str, int] = OrderedDict()
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


class Desk:
    """Answers one suite's page. Holds no visitor's state, only the newest ticket per page."""

    def __init__(self, engine: "Engine") -> None:
        self.engine, self.suite = engine, engine.suite
        self.results, self.test = Results(engine), Results(engine, TEST)
        self.catalogue = Catalogue(
            tuple(task for task in self.suite.tasks if task in self.suite.experts), tuple(METHODS)
        )
        self.titles = {name: task.title for name, task in self.suite.tasks.items()}
        self.blocks = engine.backend.layout.depth
        self.tickets = Tickets()

    def live(self, request: Any) -> Json:
        """What is known at once about a view: its stored point if there is one, its link and its command line.

        Takes ``{"view", "known", "tab", "number"}``; sends the family along when the page knows another one.
        """
        return self._guarded(self._live, request)

    def restore(self, link: Any) -> Json:
        """The controls for a URL hash; anything unknown in it is ignored."""
        view = self.catalogue.read_link(link)
        return {"view": self._as_json(view)}

    def settle(self, request: Any) -> Iterator[str]:
        """Evaluate the view's model, and what it is compared with if that is missing; yields messages as JSON."""
        yield from self._streamed(self._settle, request)

    def line(self, request: Any) -> Iterator[str]:
        """Evaluate what both lines still lack; sends the family again after every point."""
        yield from self._streamed(self._lines, request)

    def score_test(self, request: Any) -> Iterator[str]:
        """Evaluate the view's model on the test split."""
        yield from self._streamed(self._score_test, request)

    def family(self, view: View) -> Json:
        """A family with its figures."""
        numbers = self.results.family(view)
        return numbers | {"figures": figures.all_figures(numbers, self.titles, self.blocks)}

    def look(self, view: View) -> Json:
        """The part of ``live`` that depends on the view alone."""
        alpha = self.results.alpha(view)
        schedule = view.curve(alpha)
        answer = {"link": view.link(), "command": view.command(self.suite.name, schedule), "point": None}
        evaluation = self.results.peek(self.results.recipe(view, schedule))
        if evaluation and not self.results.missing_references():
            answer |= self._described(view, evaluation)
        return answer

    def _live(self, request: Mapping) -> Json:
        view, tab, number = self._read(request)
        self.tickets.take(tab, number)
        answer = self.look(view) | {"number": number}
        return answer if request.get("known") == view.family else answer | {"family": self.family(view)}

    def _settle(self, request: Mapping) -> Iterator[Json]:
        view, tab, number = self._read(request)
        self.tickets.take(tab, number)
        stop = lambda: self.tickets.stale(tab, number)  # noqa: E731
        if missing := self.results.missing_references():
            yield from self._evaluate(missing, stop, number)
            yield {"kind": "family", "family": self.family(view)}
        recipe = self.results.recipe(view, view.curve(self.results.alpha(view)))
        for evaluation in self._counted(self.results, recipe, None, stop):
            described = self._described(view, evaluation)
            yield {"kind": "point", "number": number} | described | _progress(evaluation)

    def _lines(self, request: Mapping) -> Iterator[Json]:
        view, tab, number = self._read(request)
        stop = lambda: self.tickets.stale(tab, number)  # noqa: E731
        yield from self._evaluate(self.results.missing_references(), stop, number)
        for recipe in self.results.unstored(view):
            if stop():
                return
            yield from self._evaluate([(recipe, None)], stop, number)
            yield {"kind": "family", "family": self.family(view)}

    def _score_test(self, request: Mapping) -> Iterator[Json]:
        view, tab, number = self._read(request)
        stop = lambda: self.tickets.stale(tab, number)  # noqa: E731
        yield from self._evaluate(self.test.missing_references(), stop, number, self.test)
        recipe = self.test.recipe(view, view.curve(self.results.alpha(view)))
        for evaluation in self._counted(self.test, recipe, None, stop):
            progress = _progress(evaluation)
            point = self.test.point(view, evaluation) if evaluation.complete else None
            yield {"kind": "test", "number": number, "point": point} | progress

    def _evaluate(self, work: list, stop: Callable[[], bool], number: int, on: Results | None = None) -> Iterator[Json]:
        """Evaluate recipes one after the other, reporting only how far it is."""
        results = on or self.results
        for index, (recipe, score_on) in enumerate(work, start=1):
            for evaluation in self._counted(results, recipe, score_on, stop):
                progress = _progress(evaluation)
                yield {"kind": "progress", "number": number, "step": [index, len(work)]} | progress

    def _counted(self, results: Results, recipe: Recipe, score_on: Any, stop: Callable) -> Iterator["Evaluation"]:
        """The growing evaluation, at a pace that a page can follow; always the last state, none once stopped."""
        last = -math.inf
        for evaluation in self.engine.stream(recipe, score_on=score_on, split=results.split, stop=stop):
            if stop():
                return
            if evaluation.complete or time.monotonic() - last >= PACE:
                last = time.monotonic()
                yield evaluation

    def _described(self, view: View, evaluation: "Evaluation") -> Json:
        """A point, and once it is complete the sentence about it."""
        point = self.results.point(view, evaluation)
        if not point or not evaluation.complete:
            return {"point": point}
        schedule = evaluation.recipe.schedule
        return {"point": point, "sentence": texts.sentence(view, schedule, point, self._references(view), self.titles)}

    def _references(self, view: View) -> Json:
        """The part of a family that the sentence compares with, without its lines."""
        names = [name for name in self.suite.tasks if name not in view.targets]
        base = self.results.peek(Recipe.base(self.suite.name))
        expert = self.results.peek(self.results.expert(view.target)) if view.mode == figures.EDIT else None
        points = {
            "base": base and self.results.point(view, base),
            "expert": expert and self.results.point(view, expert),
        }
        return points | {"controls": names}

    def _read(self, request: Any) -> tuple[View, str, int]:
        if not isinstance(request, Mapping):
            raise ExplorerError("The page sent no settings; reload it.")
        tab, number = request.get("tab"), request.get("number")
        if not isinstance(tab, str) or not 1 <= len(tab) <= 40 or type(number) is not int or not 0 <= number < 2**53:
            raise ExplorerError("The page sent a request without a number; reload it.")
        return self.catalogue.read(request.get("view")), tab, number

    def _as_json(self, view: View) -> Json:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(view).items()}

    def _guarded(self, work: Callable[[Any], Json], request: Any) -> Json:
        try:
            return work(request)
        except ExplorerError as error:
            return {"error": str(error)}
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
            yield json.dumps({"kind": "error", "number": number, "error": str(error)})
        except Exception:
            log.exception("an evaluation for the page failed")
            yield json.dumps({"kind": "error", "number": number, "error": texts.FAULT})


def _progress(evaluation: "Evaluation") -> Json:
    """Pictures scored and to be scored."""
    scores = evaluation.scores.values()
    return {"done": sum(score.n for score in scores), "total": sum(score.total for score in scores)}
