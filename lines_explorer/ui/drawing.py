"""What a visitor draws, classified by several models. Pixels come as numbers, and nothing of them is stored."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lines_explorer.engine import Evidence
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.ui.handlers import Desk, Json
from lines_explorer.ui.results import number
from lines_explorer.ui.view import choice

MOST_CLASSES = 10


def pixels(value: Any, side: int) -> np.ndarray:
    """A drawing as uint8 (3, side, side).

    Args:
        value: a list of whole numbers from 0 to 255, row by row: side² of grey, or 3·side², red, green and blue of
            every pixel.
        side: the suite's image size, in pixels.

    Raises:
        ExplorerError: not a list, another length, or a number that is none of those.
    """
    grey, colour = side * side, 3 * side * side
    if not isinstance(value, list) or len(value) not in (grey, colour):
        found = f"{len(value)} numbers" if isinstance(value, list) else "none"
        raise ExplorerError(f"A drawing is a list of {grey} or {colour} numbers, not {found}; reload the page.")
    if not all(type(one) is int and 0 <= one <= 255 for one in value):
        raise ExplorerError("A drawing's numbers are whole and between 0 and 255; reload the page.")
    image = np.array(value, dtype=np.uint8).reshape(side, side, -1)
    return np.ascontiguousarray(np.broadcast_to(image, (side, side, 3)).transpose(2, 0, 1))


class DrawingDesk:
    """Answers the drawing view of a page."""

    def __init__(self, desk: Desk, evidence: Evidence) -> None:
        self.desk, self.evidence, self.suite = desk, evidence, desk.suite

    def classify(self, request: Any) -> Json:
        """The class probabilities of a drawing by base, expert, current and pinned model."""
        return self.desk.guarded(self._classify, request)

    def _classify(self, request: Mapping) -> Json:
        asked = self.desk.read(request)
        task = request.get("task")
        task = asked.view.targets[0] if task is None else choice("task", task, list(self.suite.tasks))
        part = self.evidence.drawn(task, pixels(request.get("pixels"), self.suite.image_size))
        models = {"base": Recipe.base(self.suite.name)}
        expert = asked.view.targets[0] if len(asked.view.targets) == 1 else task
        if expert in self.suite.experts:
            models["expert"] = self.desk.results.expert(expert)
        models["current"] = self.desk.recipe(asked.view)
        if asked.page.pin:
            models["pinned"] = self.desk.recipe(asked.page.pin)
        wanted = [(recipe, [part]) for recipe in dict.fromkeys(models.values())]
        answers = self.evidence.answers(wanted, visitor=(asked.tab, "draw"))
        if answers is None:
            return {"number": asked.number, "superseded": True}
        found = dict(zip((recipe for recipe, _ in wanted), (row[0][0] for row in answers), strict=True))
        return {"number": asked.number, "task": task} | self._told(
            task, {role: found[recipe] for role, recipe in models.items()}
        )

    def _told(self, task: str, found: Mapping[str, np.ndarray]) -> Json:
        """The likeliest classes in the suite's order, each with its probability per model; each model's first."""
        classes = self.suite.tasks[task].classes
        likeliest = np.max(list(found.values()), axis=0)
        shown = sorted(np.argsort(-likeliest, kind="stable")[:MOST_CLASSES].tolist())
        rows = [
            {"label": classes[place], "shares": {role: number(float(row[place])) for role, row in found.items()}}
            for place in shown
        ]
        best = {role: classes[int(row.argmax())] for role, row in found.items()}
        expert = "expert" in found
        return {"classes": rows, "best": best, "left": len(classes) - len(rows), "expert": expert}
