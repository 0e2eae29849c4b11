"""Named stories: one claim, one click. Each is a view, often a pinned one, and a caption written from stored results.

A story is a function of ``Facts``. It chooses its tasks and settings by the numbers, and its words follow them; one
that a suite cannot tell (no other task, one expert) is left out, and one whose results are not stored says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lines_explorer.engine.curves import TURNED, reversed_recipe
from lines_explorer.errors import ExplorerError
from lines_explorer.ui import story_texts as say
from lines_explorer.ui.facts import Facts, Place, Row, Untold
from lines_explorer.ui.modes import CONSTANT, LINES
from lines_explorer.ui.texts import setting, unbroken
from lines_explorer.ui.view import View

SUM, AVERAGE = "sum", "average"


@dataclass(frozen=True)
class Story:
    """One story as the page shows it.

    Attributes:
        name, title: what it is called in links and on the page.
        caption: the claim, from the numbers stored now; while it cannot be told, what is missing.
        view, pin: the setting it opens, and the pinned one to compare with, if any.
        needs: what has to be evaluated before it can be told; empty when it is told.
    """

    name: str
    title: str
    caption: str
    view: View
    pin: View | None = None
    needs: tuple[Row, ...] = ()


Told = tuple[str, Place, Place | None]


def forgets(facts: Facts) -> Told:
    """The expert with the lowest control against the base."""
    expert = most_forgetful(facts)
    target = expert.view.target
    base = facts.place(facts.base(target))
    own, control = _own(facts, base, expert), facts.change(base, expert, facts.others(target))
    others, experts = len(facts.others(target)), len(facts.experts)
    return say.forgets(facts.titles[target], own, control, others, experts), expert, base


def shallow(facts: Facts) -> Told:
    """The same expert, edited as the paper's rule chooses."""
    expert = most_forgetful(facts)
    target = expert.view.target
    best = facts.best(facts.edited(target, LINES))
    own, control = _own(facts, expert, best), facts.change(expert, best, facts.others(target))
    return say.shallow(facts.titles[target], _what(best, facts), own, control, best.knob == 1), best, expert


def level(facts: Facts) -> Told:
    """The same expert under LiNeS and under the constant λ with the nearest control."""
    best, other, own = level_pair(facts, most_forgetful(facts).view.target)
    return _level(facts, best, other, own), best, other


def least(facts: Facts) -> Told:
    """The expert for which LiNeS gains least, or loses most, against a constant λ at the nearest control."""
    missing: list[Row] = []
    pairs = []
    for target in facts.experts:
        try:
            pairs.append(level_pair(facts, target))
        except Untold as untold:
            missing += untold.needs
    if missing:
        raise Untold(list(dict.fromkeys(missing)))
    best, other, own = min(pairs, key=lambda pair: pair[2]["value"])
    counts = tally(facts.verdicts([change for _, _, change in pairs]))
    return say.least(_level(facts, best, other, own), counts), best, other


def reversed_order(facts: Facts) -> Told:
    """λ from 0.3 to 1 over depth, and the same factors from 1 to 0.3."""
    first, turned = order_pair(facts)
    own, others = _own(facts, first, turned), facts.others(first.view.target)
    control = facts.change(first, turned, others) if others else None
    return say.reversed_order(facts.titles[first.view.target], own, control), turned, first


def chance(facts: Facts) -> Told:
    """The tasks on which the base may be guessing."""
    base = facts.place(facts.base(facts.experts[0]))
    known = {
        task: (facts.titles[task], base.numbers["tasks"][task]["value"], facts.classes(task)) for task in facts.tasks
    }
    nearest = min(known.values(), key=lambda row: row[1] * row[2])
    found = [known[task] for task in facts.guesses(base)]
    return say.chance(found, len(known), nearest), base, None


def transfer(facts: Facts) -> Told:
    """The expert and the task it was not trained on with the largest gain over the base."""
    experts = unedited(facts)
    pairs = []
    for expert in experts:
        base = facts.place(facts.base(expert.view.target))
        pairs += [(expert, base, task, facts.change(base, expert, [task])) for task in facts.others(expert.view.target)]
    expert, base, task, change = max(pairs, key=lambda pair: pair[3]["value"])
    counts = tally(facts.verdicts([found for *_, found in pairs]))
    return say.transfer(facts.titles[expert.view.target], facts.titles[task], change, counts), expert, base


def whole_sum(facts: Facts) -> Told:
    """All experts added with λ = 1, against the base."""
    base, added = facts.places([(knob, facts.merge(SUM, CONSTANT, knob)) for knob in (0.0, 1.0)])
    own = facts.change(base, added, facts.experts)
    return say.whole_sum(len(facts.experts), own, facts.ceiling()), added, None


def scaled(facts: Facts) -> Told:
    """The best constant λ on the sum, against λ = 1."""
    best, added = facts.best(facts.merged(SUM, CONSTANT)), facts.place(facts.merge(SUM, CONSTANT, 1.0))
    own = facts.change(added, best, facts.experts)
    return say.scaled(len(facts.experts), best.knob, own, facts.ceiling()), best, added


def layered(facts: Facts) -> Told:
    """The best LiNeS on the sum, against the best constant λ."""
    best, flat = (facts.best(facts.merged(SUM, schedule)) for schedule in (LINES, CONSTANT))
    own = facts.change(flat, best, facts.experts)
    counts = tally(facts.verdicts([facts.change(flat, best, [task]) for task in facts.experts]))
    return say.layered(_what(best, facts), flat.knob, own, counts), best, flat


def average(facts: Facts) -> Told:
    """Average and sum, each at its best constant λ."""
    mean, added = (facts.best(facts.merged(method, CONSTANT)) for method in (AVERAGE, SUM))
    own = facts.change(added, mean, facts.experts)
    return say.average(len(facts.experts), mean.knob, added.knob, own), mean, added


def _always(facts: Facts) -> bool:
    return True


def _control(facts: Facts) -> bool:
    return facts.has_control


def _several(facts: Facts) -> bool:
    return len(facts.experts) > 1


def _several_with_control(facts: Facts) -> bool:
    return _several(facts) and _control(facts)


def _deep(facts: Facts) -> bool:
    return facts.catalogue.blocks > 1


ROWS: dict[str, tuple[Callable[[Facts], bool], Callable[[Facts], Told]]] = {
    "forgets": (_control, forgets),
    "shallow": (_control, shallow),
    "level": (_control, level),
    "least": (_several_with_control, least),
    "reversed": (_deep, reversed_order),
    "transfer": (_control, transfer),
    "chance": (_always, chance),
    "sum": (_several, whole_sum),
    "scaled": (_several, scaled),
    "layered": (_several, layered),
    "average": (_several, average),
}
"""Story → whether a suite can tell it, and how it is told."""


def tellable(facts: Facts) -> list[str]:
    """Names of the stories that this suite can tell, in their order."""
    return [name for name, (able, _) in ROWS.items() if able(facts)]


def tell(facts: Facts, name: str) -> Story:
    """One story from what is stored now."""
    try:
        caption, place, pin = ROWS[name][1](facts)
        return Story(name, say.TITLES[name], unbroken(caption), place.view, pin and pin.view)
    except Untold as untold:
        caption = say.GUIDE["untold"].format(number=len(untold.needs))
        return Story(name, say.TITLES[name], caption, *_fallback(facts, name), tuple(untold.needs))
    except ExplorerError as error:
        return Story(name, say.TITLES[name], str(error), *_fallback(facts, name))


def all_stories(facts: Facts) -> list[Story]:
    """Every story that this suite can tell."""
    return [tell(facts, name) for name in tellable(facts)]


def _fallback(facts: Facts, name: str) -> tuple[View, View | None]:
    """What an untold story opens: a setting it speaks of, before it is known which one exactly."""
    target = facts.experts[0]
    if name in ("sum", "scaled"):
        return facts.merge(SUM, CONSTANT, 1.0), None
    if name in ("layered", "average"):
        return facts.merge(SUM if name == "layered" else AVERAGE, LINES if name == "layered" else CONSTANT, 0.5), None
    if name == "chance":
        return facts.base(target), None
    return facts.edit(target, gamma=1.0), None


def unedited(facts: Facts) -> list[Place]:
    """Every expert as it is. Raises ``Untold``."""
    return facts.places([(1.0, facts.edit(target, gamma=1.0)) for target in facts.experts])


def most_forgetful(facts: Facts) -> Place:
    """The expert with the largest loss of control against the base; the only one where there is no control."""
    experts = unedited(facts)
    if not facts.has_control:
        return experts[0]
    return min(experts, key=lambda expert: expert.control - facts.place(facts.base(expert.view.target)).control)


def level_pair(facts: Facts, target: str) -> tuple[Place, Place, dict[str, Any]]:
    """The paper's choice under LiNeS, the constant λ with the nearest control, and the targets' difference."""
    best = facts.best(facts.edited(target, LINES))
    other = facts.level(best, facts.edited(target, CONSTANT))
    return best, other, _own(facts, other, best)


def order_pair(facts: Facts) -> tuple[Place, Place]:
    """LiNeS with γ = 0.3 on the most forgetful expert, and the same factors in reverse order."""
    target = most_forgetful(facts).view.target
    schedule = reversed_recipe(facts.suite.name, target, facts.catalogue.blocks).schedule
    views = [facts.edit(target, gamma=TURNED), facts.drawn(target, schedule.factors, schedule.rest)]
    first, turned = facts.places([(TURNED, view) for view in views])
    return first, turned


def tally(verdicts: Sequence[int]) -> tuple[int, int, int]:
    """How many are better, within noise, worse."""
    return verdicts.count(1), verdicts.count(0), verdicts.count(-1)


def _own(facts: Facts, first: Place, second: Place) -> dict[str, Any]:
    return facts.change(first, second, [second.view.target])


def _level(facts: Facts, best: Place, other: Place, own: dict[str, Any]) -> str:
    return say.level(
        facts.titles[best.view.target], _what(best, facts), _inside(other, facts), (best.control, other.control), own
    )


def _what(place: Place, facts: Facts) -> str:
    """``LiNeS at α = 0.3, β = 0.7``."""
    return setting(place.view.curve(facts.alpha(place.view)))


def _inside(place: Place, facts: Facts) -> str:
    """``a constant λ = 0.5``, inside a sentence."""
    said = _what(place, facts)
    return said[0].lower() + said[1:] if said.startswith("A ") else said
