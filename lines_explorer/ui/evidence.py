"""The pictures behind the numbers: which ones two settings answer differently, and what is taken for what.

Which pictures change comes from stored right and wrong answers and costs nothing; predictions are computed for the
pictures shown, or for all pictures of one set when the confusion is asked for. The sets are those that the view's mode
scores (``Results.sets``): validation pictures of every task, or of one task and its shifted sets.
"""

import base64
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image

from lines_explorer.analysis import paired
from lines_explorer.analysis.flips import alternated, confusion, flips
from lines_explorer.engine import Evidence
from lines_explorer.errors import ExplorerError
from lines_explorer.recipe import Recipe
from lines_explorer.ui import texts, texts_modes
from lines_explorer.ui.comparison import PAIRED
from lines_explorer.ui.confusion_figure import confusions
from lines_explorer.ui.difference_figure import explain
from lines_explorer.ui.handlers import Asked, Desk, Json
from lines_explorer.ui.modes import NEGATION, Scored
from lines_explorer.ui.picture_texts import (
    BASE,
    BOTH,
    CONFUSION,
    EVIDENCE,
    EXPERT,
    GAINED,
    KINDS,
    LOST,
    PINNED,
    difference,
)
from lines_explorer.ui.results import number
from lines_explorer.ui.tickets import Tickets
from lines_explorer.ui.view import choice

AGAINST, DIRECTIONS = (BASE, EXPERT, PINNED), (BOTH, LOST, GAINED)
SIZE = 12
"""Pictures shown at once."""
THUMBNAIL = 64
MOST_START, MOST_KEPT = 10**7, 512


@dataclass(frozen=True)
class Choice:
    """What of the evidence is asked for.

    Attributes:
        against: ``base``, ``expert`` or ``pinned``; what the current model is compared with.
        of: one set, or None for all.
        label: the true class, or None for all; None unless ``of`` is one set.
        direction: ``lost`` (right → wrong), ``gained`` or ``both``.
        start: how many pictures to pass over.
    """

    against: str
    of: Scored | None
    label: int | None
    direction: str
    start: int


@dataclass(frozen=True)
class Changed:
    """A picture of a set that the two settings answer differently."""

    of: Scored
    row: int
    direction: str


class EvidenceDesk:
    """Answers the evidence view of a page. Holds no visitor's state, only the newest run per page."""

    def __init__(self, desk: Desk, evidence: Evidence) -> None:
        self.desk, self.evidence, self.tickets = desk, evidence, Tickets()
        self.engine, self.suite = desk.engine, desk.suite

    def changes(self, request: Any) -> Json:
        """Counts per set and one page of the pictures that change, from what is stored; uses no device."""
        return self.desk.guarded(self._changes, request)

    def predict(self, request: Any) -> Json:
        """Both settings' predictions for the pictures that ``changes`` shows, in the same order."""
        return self.desk.guarded(self._predict, request)

    def find(self, request: Any) -> Iterator[str]:
        """Evaluate what ``changes`` lacks, or count the confusion of one set; yields messages as JSON."""
        yield from self.desk.streamed(self._find, request)

    def _changes(self, request: Mapping) -> Json:
        asked, choice_ = self._asked(request)
        before, after = self._sides(asked, choice_)
        known, kind = self._known(asked, before, after), KINDS[texts_modes.WORDS[asked.view.mode].kind]
        answer: Json = {"number": asked.number, "against": choice_.against, "kind": kind}
        answer |= {"task": choice_.of.name if choice_.of else "", "sides": self._names(asked, choice_)}
        answer |= {"tasks": self._counts(known, kind["every"])}
        answer |= {"unknown": self._unknown(known, choice_), "classes": self._classes(known, choice_)}
        found = self._found(known, choice_)
        shown = found[choice_.start : choice_.start + SIZE]
        answer |= {"total": len(found), "start": choice_.start, "size": SIZE}
        answer["items"] = [self._item(changed) for changed in shown]
        wanted = bool(request["evidence"].get("confusion"))
        return answer | {"confusion": self._confusion(before, after, choice_.of) if wanted else None}

    def _predict(self, request: Mapping) -> Json:
        asked, choice_ = self._asked(request)
        before, after = self._sides(asked, choice_)
        shown = self._found(self._known(asked, before, after), choice_)[choice_.start : choice_.start + SIZE]
        rows: dict[Scored, list[int]] = {}
        for one in sorted(shown, key=lambda one: one.of.name):
            rows.setdefault(one.of, []).append(one.row)
        parts = {of: self.evidence.part(of.task, of.split, places) for of, places in rows.items()}
        by_recipe: dict[Recipe, list[Scored]] = {}
        for side in (before, after):
            for of in parts:
                by_recipe.setdefault(side(of), []).append(of)
        wanted = [(recipe, [parts[of] for of in sets]) for recipe, sets in by_recipe.items()]
        answers = self.evidence.answers(wanted, visitor=(asked.tab, "evidence")) if wanted else []
        if answers is None:
            return {"number": asked.number, "superseded": True}
        found = {
            (recipe, of): probabilities
            for (recipe, sets), row in zip(by_recipe.items(), answers, strict=True)
            for of, probabilities in zip(sets, row, strict=True)
        }
        told = []
        for one in shown:
            place = rows[one.of].index(one.row)
            sides = {"before": before(one.of), "after": after(one.of)}
            told.append({name: self._told(one, found[side, one.of][place]) for name, side in sides.items()})
        return {"number": asked.number, "predictions": told}

    def _find(self, request: Mapping) -> Iterator[Json]:
        asked, choice_ = self._asked(request)
        what = choice("request", request.get("what"), ("answers", "confusion"))
        before, after = self._sides(asked, choice_)
        of = choice_.of
        if what == "confusion" and not (of and before(of)):
            raise ExplorerError(
                "The confusion is counted for one task or set of which both models are there; choose one."
            )
        stop = self._stop(asked, request)
        if what == "answers":
            steps = self._find_answers(before, after, [of] if of else self.desk.results.sets(asked.view), stop)
        else:
            part = self.evidence.part(of.task, of.split)
            wanted = [(recipe, [part]) for recipe in dict.fromkeys((before(of), after(of)))]
            steps = ((looked.done, looked.total) for looked in self.evidence.look(wanted, stop))
        for done, total in steps:
            yield {"kind": "progress", "number": asked.number, "done": done, "total": total}
        if not stop():
            yield {"kind": "found", "number": asked.number, "what": what}

    def _find_answers(self, before: Callable, after: Callable, sets: Sequence[Scored], stop: Callable) -> Iterator:
        """(done, total) pictures: what is not stored is evaluated; where counts alone are, all are classified again."""
        lacking: dict[tuple[Recipe, str], list[str]] = {}
        for of in sets:
            for recipe in dict.fromkeys((before(of), after(of))):
                if recipe and self._right(recipe, of) is None:
                    lacking.setdefault((recipe, of.split), []).append(of.task)
        for (recipe, split), tasks in lacking.items():
            new = [task for task in tasks if self.engine.peek(recipe, [task], split) is None]
            for step in self.engine.stream(recipe, new, split, stop) if new else ():
                yield tuple(sum(getattr(score, end) for score in step.scores.values()) for end in ("n", "total"))
            parts = [(recipe, [self.evidence.part(task, split)]) for task in tasks if task not in new]
            for looked in self.evidence.look(parts, stop) if parts else ():
                yield looked.done, looked.total
            if stop():
                return

    def _asked(self, request: Any) -> tuple[Asked, Choice]:
        """The request, validated, its run noted: an older one of the page then stops.

        Raises:
            ExplorerError: as ``Desk.read``, and for a choice that there is not.
        """
        asked = self.desk.read(request)
        self.tickets.take(asked.tab, _run(request))
        given = request.get("evidence")
        if not isinstance(given, Mapping):
            raise ExplorerError("The page did not say which pictures to show; reload it.")
        against, name, start = given.get("against"), given.get("task"), given.get("start")
        if against is None:
            base = len(asked.view.targets) > 1 or asked.view.mode == NEGATION
            against = PINNED if asked.page.pin else BASE if base else EXPERT
        against = choice("comparison", against, AGAINST)
        if against == PINNED and not asked.page.pin:
            raise ExplorerError(EVIDENCE["none_pinned"])
        sets = {one.name: one for one in self.desk.results.sets(asked.view)}
        of = None if name == "" else sets[choice(texts_modes.WORDS[asked.view.mode].kind, name, tuple(sets))]
        if type(start) is not int or not 0 <= start < MOST_START:
            raise ExplorerError("The first picture to show must be a number from 0 on.")
        label = given.get("label")
        if label is not None:
            classes = len(self.suite.tasks[of.task].classes) if of else 0
            if type(label) is not int or not 0 <= label < classes:
                raise ExplorerError("Pictures are chosen by a true class of one task.")
        return asked, Choice(against, of, label, choice("direction", given.get("direction"), DIRECTIONS), start)

    def _stop(self, asked: Asked, request: Mapping) -> Callable[[], bool]:
        run = _run(request)
        return lambda: self.tickets.stale(asked.tab, run)

    def _sides(self, asked: Asked, choice_: Choice) -> tuple[Callable, Callable]:
        """Set → recipe, of what is compared with and of the current model.

        With one target the expert is that task's; with several each task has its own, and None where there is none.
        """
        current = self.desk.recipe(asked.view)
        if choice_.against == EXPERT:
            targets = asked.view.targets
            if len(targets) == 1:
                return lambda of: self.desk.results.expert(targets[0]), lambda of: current
            experts = {task: self.desk.results.expert(task) for task in self.suite.experts}
            return lambda of: experts.get(of.task), lambda of: current
        other = self.desk.recipe(asked.page.pin) if choice_.against == PINNED else Recipe.base(self.suite.name)
        return lambda of: other, lambda of: current

    def _names(self, asked: Asked, choice_: Choice) -> Json:
        several = len(asked.view.targets) > 1
        before = EVIDENCE["own" if several and choice_.against == EXPERT else choice_.against]
        setting = texts.setting(self.desk.recipe(asked.view).schedule)
        return {"before": before, "after": setting, "short": EVIDENCE[f"short_{choice_.against}"]}

    def _known(self, asked: Asked, before: Callable, after: Callable) -> dict[Scored, tuple | None]:
        """Every set of the view → ``_bits`` of both models."""
        return {of: self._bits(before(of), after(of), of) for of in self.desk.results.sets(asked.view)}

    def _labels(self, of: Scored) -> np.ndarray:
        return self.suite.images(of.task, of.split)[1].numpy()

    def _right(self, recipe: Recipe, of: Scored) -> np.ndarray | None:
        """Bool (n,): the right answers, stored or from a whole pass that is still kept."""
        if (bits := self.engine.stored_answers(recipe, [of.task], of.split).get(of.task)) is not None:
            return bits
        predicted = self._predicted(recipe, of)
        return None if predicted is None else predicted == self._labels(of)

    def _predicted(self, recipe: Recipe, of: Scored) -> np.ndarray | None:
        kept = self.evidence.kept([(recipe, [self.evidence.part(of.task, of.split)])])
        return None if kept is None else kept[0][0].argmax(axis=1)

    def _bits(self, before: Recipe | None, after: Recipe, of: Scored) -> tuple | None:
        """(before, after) right answers; each None while it is not known; None when there is nothing to compare."""
        return None if before is None else (self._right(before, of), self._right(after, of))

    def _shifted(self, of: Scored) -> bool:
        """Whether a set is no validation set: shown for the eye, never for a choice."""
        return of.split != self.desk.results.split

    def _counts(self, known: Mapping[Scored, tuple | None], every: str) -> list[Json]:
        """Per set and for ``every`` one: how many pictures change, and whether the difference may be noise."""
        rows = []
        for of, bits in known.items():
            about = {"task": of.name, "title": of.title, "role": "target" if of.target else "control"}
            about["note"] = EVIDENCE["shifted"] if self._shifted(of) else ""
            rows.append(self._count(about, [bits] if bits else []))
        rows.sort(key=lambda row: row["role"] != "target")
        together = {"task": "", "title": every, "role": "", "note": ""}
        return [self._count(together, [bits for bits in known.values() if bits]), *rows] if len(rows) > 1 else rows

    def _count(self, about: Json, pairs: Sequence[tuple]) -> Json:
        row = about | {"known": False}
        if not pairs or any(side is None for pair in pairs for side in pair):
            return row
        found = _difference(tuple((before.tobytes(), after.tobytes()) for before, after in pairs))
        numbers = {name: number(getattr(found, name)) for name in ("value", "low", "high")} | {"p": found.p}
        numbers |= {"lost": found.lost, "gained": found.gained, "n": found.n, "within": bool(found.within_noise)}
        said = texts.unbroken(explain(numbers | {"how": PAIRED}).replace("<br>", " "))
        value, ends = difference(numbers)
        return row | numbers | {"known": True, "points": value, "ends": ends, "said": said}

    def _unknown(self, known: Mapping[Scored, tuple | None], choice_: Choice) -> str | None:
        """Which side still lacks answers for what is chosen."""
        wanted = [known[choice_.of]] if choice_.of else list(known.values())
        pairs = [pair for pair in wanted if pair]
        if any(after is None for _, after in pairs):
            return "after"
        return "before" if any(before is None for before, _ in pairs) else None

    def _classes(self, known: Mapping[Scored, tuple | None], choice_: Choice) -> list[Json]:
        """The classes of the chosen set, with how many of their pictures change."""
        of = choice_.of
        bits = known[of] if of else None
        if not bits or any(side is None for side in bits):
            return []
        labels, classes = self._labels(of), self.suite.tasks[of.task].classes
        lost, gained = (np.bincount(labels[rows], minlength=len(classes)).tolist() for rows in flips(*bits))
        return [
            {"label": label, "title": title, "lost": lost[label], "gained": gained[label]}
            for label, title in enumerate(classes)
        ]

    def _found(self, known: Mapping[Scored, tuple | None], choice_: Choice) -> list[Changed]:
        """The pictures that change and are asked for; of all sets, one of each in turn."""
        lists = []
        for of in [choice_.of] if choice_.of else known:
            bits = known[of]
            if not bits or any(side is None for side in bits):
                continue
            rows = dict(zip((LOST, GAINED), flips(*bits), strict=True))
            wanted = [
                Changed(of, int(row), way) for way in rows for row in rows[way] if choice_.direction in (BOTH, way)
            ]
            if choice_.label is not None:
                labels = self._labels(of)
                wanted = [one for one in wanted if labels[one.row] == choice_.label]
            lists.append(sorted(wanted, key=lambda one: one.row))
        return alternated(lists)

    def _item(self, one: Changed) -> Json:
        images, labels = self.suite.images(one.of.task, one.of.split)
        label = self.suite.tasks[one.of.task].classes[int(labels[one.row])]
        about = {"task": one.of.name, "title": one.of.title, "row": one.row, "direction": one.direction}
        return about | {"label": label, "source": thumbnail(images[one.row].numpy())}

    def _told(self, one: Changed, probabilities: np.ndarray) -> Json:
        """What a model says of a picture: class, its probability, that of the true class."""
        label, best = int(self._labels(one.of)[one.row]), int(probabilities.argmax())
        shares = {"share": number(float(probabilities[best])), "true_share": number(float(probabilities[label]))}
        return {"label": self.suite.tasks[one.of.task].classes[best], "right": best == label} | shares

    def _confusion(self, before: Callable, after: Callable, of: Scored | None) -> Json | None:
        """The confusion of a set, if both models' predictions are kept."""
        if of is None or before(of) is None:
            return None
        predicted = [self._predicted(side(of), of) for side in (before, after)]
        if any(one is None for one in predicted):
            return None
        classes, labels = self.suite.tasks[of.task].classes, self._labels(of)
        pictures = CONFUSION["shifted" if self._shifted(of) else "validation"]
        return confusions(*(confusion(labels, one, len(classes)) for one in predicted), classes, pictures)


@lru_cache(MOST_KEPT)
def _difference(pairs: tuple[tuple[bytes, bytes], ...]) -> paired.PairedDifference:
    """Of right answers as bytes, kept because every page of pictures asks for the same again."""
    return paired.mean_paired_difference([tuple(np.frombuffer(side, dtype=bool) for side in pair) for pair in pairs])


def thumbnail(pixels: np.ndarray) -> str:
    """A picture uint8 (3, H, W) as the data URI of a PNG, no side longer than THUMBNAIL pixels."""
    image = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    file = io.BytesIO()
    image.save(file, "png")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


def _run(request: Mapping) -> int:
    run = request.get("run")
    if type(run) is not int or not 0 <= run < 2**53:
        raise ExplorerError("The page sent a request without a number; reload it.")
    return run
