"""A lesson of predict → move → reveal. Every answer is read from stored results, so that it stays true with them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lines_explorer.errors import ExplorerError
from lines_explorer.ui import lesson_texts as say
from lines_explorer.ui.facts import Facts, Place, Row, Untold
from lines_explorer.ui.modes import CONSTANT, LINES
from lines_explorer.ui.stories import (
    SUM,
    level_pair,
    most_forgetful,
    order_pair,
)
from lines_explorer.ui.texts import percent, setting, unbroken
from lines_explorer.ui.view import View

FLOOR = 0.95
SHARE = {"low": 0, "high": 100, "step": 1, "unit": "%", "near": 5}
KNOB = {"low": 0, "high": 1, "step": 0.1, "unit": "", "near": 0.1}


@dataclass(frozen=True)
class Step:
    """One step as the page shows it.

    Attributes:
        name, title: what it is called.
        question: what is to be predicted.
        choices: what can be predicted, for a step of choices; otherwise empty.
        scale: of the slider with which a number is predicted, otherwise empty: ``low``, ``high``, ``step``, ``unit``,
            ``near`` (how far off still counts as predicted).
        right: index of the right choice, or the right number.
        start, end: the view in which the question is asked, and the one that shows the answer.
        move: what the visitor moves to get from one to the other.
        answer: what is seen, with the current numbers.
        needs: what has to be evaluated before the step can be taken; empty when nothing.
    """

    name: str
    title: str
    question: str = ""
    choices: tuple[str, ...] = ()
    scale: Mapping[str, Any] | None = None
    right: float | None = None
    start: View | None = None
    end: View | None = None
    move: str = ""
    answer: str = ""
    needs: tuple[Row, ...] = ()


Fields = dict[str, Any]


def _zero(facts: Facts) -> Fields:
    target, base = _target(facts)
    stat, classes = base.numbers["tasks"][target], facts.classes(target)
    ends = f"{percent(stat['low'])} to {percent(stat['high'])}"
    return {
        "question": say.zero_question(facts.titles[target], stat["n"], classes),
        "scale": SHARE,
        "right": 100 * stat["value"],
        "start": facts.edit(target, CONSTANT, scale=0.5),
        "end": base.view,
        "answer": say.zero_answer(facts.titles[target], percent(stat["value"]), ends, classes),
    }


def _expert(facts: Facts) -> Fields:
    target, base = _target(facts)
    expert = facts.place(facts.edit(target, CONSTANT, scale=1.0))
    own = facts.change(base, expert, [target])
    return {
        "question": say.expert_question(facts.titles[target], percent(own["before"])),
        "scale": SHARE,
        "right": 100 * own["after"],
        "start": base.view,
        "end": expert.view,
        "answer": say.expert_answer(own),
    }


def _others(facts: Facts) -> Fields:
    target, base = _target(facts)
    expert, others = facts.place(facts.edit(target, CONSTANT, scale=1.0)), facts.others(target)
    control = facts.change(base, expert, others)
    return {
        "question": say.others_question(facts.titles[target], len(others)),
        **_choices(control),
        "start": base.view,
        "end": expert.view,
        "answer": say.others_answer(control),
    }


def _half(facts: Facts) -> Fields:
    target, base = _target(facts)
    expert, half = facts.places([(scale, facts.edit(target, CONSTANT, scale=scale)) for scale in (1.0, 0.5)])
    share = half.numbers["target"]["normalized"] or 0.0
    values = [percent(place.target) for place in (half, expert, base)]
    return {
        "question": say.half_question(facts.titles[target]),
        "scale": SHARE | {"high": 120},
        "right": 100 * share,
        "start": expert.view,
        "end": half.view,
        "answer": say.half_answer(percent(share), *values),
    }


def _order(facts: Facts) -> Fields:
    first, turned = order_pair(facts)
    target = first.view.target
    own, others = facts.change(first, turned, [target]), facts.others(target)
    return {
        "question": say.order_question(facts.titles[target]),
        **_choices(own),
        "start": first.view,
        "end": turned.view,
        "answer": say.order_answer(own, facts.change(first, turned, others) if others else None),
    }


def _level(facts: Facts) -> Fields:
    best, other, own = level_pair(facts, _target(facts)[0])
    return {
        "question": say.level_question(facts.titles[best.view.target], setting(other.view.curve(other.view.alpha))),
        **_choices(own),
        "start": other.view,
        "end": best.view,
        "knob": best.knob,
        "answer": say.level_answer(own, (best.control, other.control)),
    }


def _rule(facts: Facts) -> Fields:
    target, _ = _target(facts)
    best = facts.best(facts.edited(target, LINES))
    return {
        "question": say.rule_question(facts.titles[target]),
        "scale": KNOB,
        "right": best.knob,
        "start": facts.edit(target, gamma=1.0),
        "end": best.view,
        "knob": best.knob,
        "answer": say.rule_answer(best.knob, *_shares(best)),
    }


def _keep(facts: Facts) -> Fields:
    target, _ = _target(facts)
    line = facts.edited(target, LINES)
    kept = facts.keeps(line, FLOOR)
    shown = kept or max(line, key=lambda place: place.control)
    return {
        "question": say.keep_question(facts.titles[target]),
        "scale": KNOB,
        "right": shown.knob,
        "start": facts.edit(target, gamma=1.0),
        "end": shown.view,
        "knob": shown.knob,
        "answer": say.keep_answer(kept and kept.knob, *_shares(shown)),
    }


def _noise(facts: Facts) -> Fields:
    target, _ = _target(facts)
    line = sorted(facts.edited(target, LINES), key=lambda place: place.knob)
    best = facts.best(line)
    at = line.index(best)
    beside = line[at + 1] if at == 0 else line[at - 1]
    own = facts.change(best, beside, [target])
    return {
        "question": say.noise_question(best.knob, beside.knob, facts.titles[target], own["n"]),
        **_choices(own),
        "start": best.view,
        "end": beside.view,
        "knob": beside.knob,
        "answer": say.noise_answer(own),
    }


def _sum(facts: Facts) -> Fields:
    base, added = facts.places([(knob, facts.merge(SUM, CONSTANT, knob)) for knob in (0.0, 1.0)])
    own = facts.change(base, added, facts.experts)
    return {
        "question": say.sum_question(len(facts.experts)),
        **_choices(own),
        "start": base.view,
        "end": added.view,
        "answer": say.sum_answer(own, facts.ceiling()),
    }


def _scale(facts: Facts) -> Fields:
    best, added = facts.best(facts.merged(SUM, CONSTANT)), facts.place(facts.merge(SUM, CONSTANT, 1.0))
    return {
        "question": say.scale_question(),
        "scale": KNOB,
        "right": best.knob,
        "start": added.view,
        "end": best.view,
        "knob": best.knob,
        "answer": say.scale_answer(best.knob, facts.change(added, best, facts.experts)),
    }


def _layered(facts: Facts) -> Fields:
    best, flat = (facts.best(facts.merged(SUM, schedule)) for schedule in (LINES, CONSTANT))
    own = facts.change(flat, best, facts.experts)
    return {
        "question": say.layered_question(flat.knob),
        **_choices(own),
        "start": flat.view,
        "end": best.view,
        "knob": best.knob,
        "answer": say.layered_answer(own, best.knob, facts.alpha(best.view)),
    }


def _split(facts: Facts) -> Fields:
    target, base = _target(facts)
    view = facts.edit(target, gamma=1.0)
    n = facts.place(view).numbers["target"]["n"]
    return {
        "question": say.split_question(),
        "choices": say.SPLIT_CHOICES,
        "right": 1.0,
        "start": base.view,
        "end": view,
        "answer": say.split_answer(n),
    }


def _several(facts: Facts) -> bool:
    return len(facts.experts) > 1


def _deep(facts: Facts) -> bool:
    return facts.catalogue.blocks > 1


def _control(facts: Facts) -> bool:
    return facts.has_control


def _always(facts: Facts) -> bool:
    return True


ROWS: dict[str, tuple[Callable[[Facts], bool], Callable[[Facts], Fields]]] = {
    "zero": (_always, _zero),
    "expert": (_always, _expert),
    "others": (_control, _others),
    "half": (_always, _half),
    "order": (_deep, _order),
    "level": (_control, _level),
    "rule": (_control, _rule),
    "keep": (_control, _keep),
    "noise": (_control, _noise),
    "sum": (_several, _sum),
    "scale": (_several, _scale),
    "layered": (_several, _layered),
    "split": (_always, _split),
}
"""Step → whether a suite can show it, and what it asks and answers."""


def steps(facts: Facts) -> list[str]:
    """Names of the steps that this suite can show, in their order."""
    return [name for name, (able, _) in ROWS.items() if able(facts)]


def step(facts: Facts, name: str) -> Step:
    """One step from what is stored now."""
    try:
        fields = ROWS[name][1](facts)
    except Untold as untold:
        return Step(name, say.TITLES[name], needs=tuple(untold.needs))
    except ExplorerError as error:
        return Step(name, say.TITLES[name], str(error))
    fields["move"] = say.MOVES[name].format(knob=fields.pop("knob", math.nan))
    fields |= {key: unbroken(fields[key]) for key in ("question", "move", "answer")}
    return Step(name, say.TITLES[name], **fields)


def lesson(facts: Facts) -> list[Step]:
    """All steps."""
    return [step(facts, name) for name in steps(facts)]


def _target(facts: Facts) -> tuple[str, Place]:
    """The expert that the lesson is about, the most forgetful one, and the base."""
    target = most_forgetful(facts).view.target
    return target, facts.place(facts.base(target))


def _choices(change: Mapping[str, Any]) -> Fields:
    """Rises, stays, falls; and which of them is right."""
    right = 1 if change["within"] else 0 if change["value"] > 0 else 2
    return {"choices": say.BETTER, "right": float(right)}


def _shares(place: Place) -> tuple[str, str]:
    """Normalized target and control, in percent."""
    sides = (place.numbers["target"], place.numbers["control"])
    return tuple(percent(side and side["normalized"]) for side in sides)
