"""A page as the hash of its address: every control, what is shown of it, what is pinned, what a teacher hid.

``Links.read`` takes any text and always gives a page; unknown keys are passed over, and an unknown value of a known
key gives its default and one sentence for the visitor.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from lines_explorer.errors import ExplorerError
from lines_explorer.schedule import FREE
from lines_explorer.ui.methods import parameters_from_link
from lines_explorer.ui.modes import CONSTANT, EDIT, MODES
from lines_explorer.ui.view import SLIDERS, Catalogue, View, choice

LONGEST = 4000
TRUTH = {"1": True, "0": False}
SPLITS = ("validation", "test")
FIGURES = ("all", "plane", "surface", "curve", "depth", "tasks", "difference")
QUANTITIES = ("target", "control", "score")
GUIDE = re.compile(r"(story|lesson)-[a-z0-9]{1,30}")


def _places(name: str, *more: str) -> tuple[str, ...]:
    """The elements of a control, and of those that stand for it in other modes."""
    controls = dict.fromkeys([name, *(mode.controls.get(name, name) for mode in MODES.values())])
    return (*(f"#lx-{control}" for control in controls), *more)


HIDEABLE: dict[str, tuple[str, ...]] = {
    "mode": ("#lx-mode", "#lx-lacking", ".lx-mode-note"),
    "target": _places("target"),
    "tasks": ("#lx-tasks-choice",),
    "method": ("#lx-method", ".lx-about"),
    "parameters": (".lx-parameters", ".lx-defaults"),
    "runs": (".lx-runs", "#lx-soup"),
    "floor": ("#lx-floor",),
    "schedule": ("#lx-schedule",),
    "gamma": ("#lx-gamma", "#lx-gamma_robustness", "#lx-gamma_soup", "#lx-gamma_negation"),
    "alpha": _places("alpha", "#lx-norms"),
    "beta": _places("beta"),
    "scale": _places("scale"),
    "sentence": (".lx-sentence", ".lx-state"),
    "tools": (".lx-tools",),
    "stories": ("#lx-guide",),
    "search": (".lx-search", ".lx-searched"),
    "plane": ("#lx-plane-panel",),
    "surface": ("#lx-surface-panel",),
    "curve": ("#lx-curve-panel",),
    "depth": ("#lx-depth-panel",),
    "bars": ("#lx-tasks-panel",),
    "difference": ("#lx-difference-panel",),
    "evidence": ("#lx-evidence-panel",),
    "draw": ("#lx-draw-panel",),
    "table": (".lx-table",),
    "test": (".lx-split",),
    "command": (".lx-command",),
    "share": (".lx-share",),
}
"""What ``hide=`` may name, and the elements of the page that it hides."""


@dataclass(frozen=True)
class Page:
    """What a page shows besides its view.

    Attributes:
        split: ``validation``, or ``test`` while the test result of the point is shown beside it.
        figure: ``all`` figures, or the one that fills the page.
        quantity: what the α×β surface shows: ``target``, ``control`` or the weighted ``score``.
        hide: names of ``HIDEABLE``, in its order.
        pin: the pinned view A, if any.
        guide: ``story-NAME`` or ``lesson-STEP`` while that is open, otherwise empty.
    """

    split: str = SPLITS[0]
    figure: str = FIGURES[0]
    quantity: str = QUANTITIES[0]
    hide: tuple[str, ...] = ()
    pin: View | None = None
    guide: str = ""

    def as_json(self) -> dict[str, Any]:
        """The page as the browser keeps and sends it."""
        return {**vars(self), "hide": list(self.hide), "pin": self.pin and self.pin.as_json()}


@dataclass(frozen=True)
class Opened:
    """What a link opens, and a sentence for everything in it that could not be taken."""

    view: View
    page: Page
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Links:
    """Links of one suite's page."""

    suite: str
    catalogue: Catalogue

    def write(self, view: View, page: Page) -> str:
        """The hash, without ``#``: only what the view's mode and schedule use, and all of that."""
        words = {"suite": self.suite} | _of_view(view)
        words |= {"split": page.split, "view": page.figure, "surface": page.quantity}
        words |= {"hide": ",".join(page.hide)} if page.hide else {}
        words |= {"pin": urlencode(_of_view(page.pin), safe=",")} if page.pin else {}
        words |= {"guide": page.guide} if page.guide else {}
        return urlencode(words, safe=",:")

    def read(self, link: Any) -> Opened:
        """The view and page of a hash; never raises."""
        given = _words(link)
        problems = []
        if given.get("suite", self.suite) != self.suite:
            asked = given["suite"][:40]
            problems.append(f"The link was made for the suite {asked!r}; this page shows {self.suite}.")
        view = self._view(given, problems)
        return Opened(view, self._page(given, problems), tuple(problems))

    def read_page(self, data: Any) -> Page:
        """The page that a browser sent.

        Raises:
            ExplorerError: not an object, or a value that is not one of the choices.
        """
        if not isinstance(data, Mapping):
            raise ExplorerError("The page sent no settings; reload it.")
        pin = data.get("pin")
        return Page(
            split=choice("split", data.get("split"), SPLITS),
            figure=choice("view", data.get("figure"), FIGURES),
            quantity=choice("surface", data.get("quantity"), QUANTITIES),
            hide=_hidden(data.get("hide")),
            pin=None if pin is None else self.catalogue.read(pin),
            guide=_guide(data.get("guide", "")),
        )

    def _view(self, given: Mapping[str, str], problems: list[str]) -> View:
        asked = given.get("mode")
        view = self.catalogue.default(asked if asked in self.catalogue.modes else EDIT)
        if "alpha" in given and "norms" not in given:
            view = replace(view, norms=False)
        for name in vars(view):
            if name not in given or name == "parameters":
                continue
            try:
                view = self.catalogue.with_field(view, name, _typed(name, given[name]))
            except ExplorerError as error:
                kept = getattr(view, name)
                shown = "those of LiNeS" if name == "factors" else ",".join(kept) if isinstance(kept, tuple) else kept
                problems.append(f"In the link: {str(error).rstrip('.')}. The page shows {name} = {shown}.")
        if "set" in given:
            try:
                view = self.catalogue.with_field(view, "parameters", parameters_from_link(given["set"]))
            except ExplorerError as error:
                problems.append(f"In the link: {str(error).rstrip('.')}. The page shows {view.method} as it is usual.")
        return view

    def _page(self, given: Mapping[str, str], problems: list[str]) -> Page:
        page = Page()
        names = {"split": ("split", SPLITS), "view": ("figure", FIGURES), "surface": ("quantity", QUANTITIES)}
        for name, (field, choices) in names.items():
            if name in given:
                try:
                    page = replace(page, **{field: choice(name, given[name], choices)})
                except ExplorerError as error:
                    kept = getattr(page, field)
                    problems.append(f"In the link: {str(error).rstrip('.')}. The page shows {name} = {kept}.")
        asked = [name for name in given.get("hide", "").split(",") if name]
        if unknown := [name for name in asked if name not in HIDEABLE]:
            problems.append(f"In the link: there is nothing named {unknown[0][:40]!r} to hide.")
        page = replace(page, hide=_hidden([name for name in asked if name in HIDEABLE]))
        if GUIDE.fullmatch(given.get("guide", "")):
            page = replace(page, guide=given["guide"])
        return replace(page, pin=self._pin(given["pin"], problems)) if given.get("pin") else page

    def _pin(self, link: str, problems: list[str]) -> View | None:
        wrong: list[str] = []
        words = _words(link)
        pin = self._view(words, wrong)
        if wrong or "mode" not in words:
            problems.append("The link’s pinned point cannot be read, so nothing is pinned.")
            return None
        return pin


def _of_view(view: View) -> dict[str, str]:
    words = {"mode": view.mode} | view.words() | {"schedule": view.schedule}
    if view.schedule == CONSTANT:
        return words | {"scale": f"{view.scale:g}"}
    if view.schedule == FREE:
        return words | {"factors": ",".join(f"{factor:g}" for factor in view.factors), "rest": f"{view.rest:g}"}
    words |= {"norms": "1"} if view.from_norms else {"alpha": f"{view.alpha:g}"}
    return words | {"beta": f"{view.beta:g}"}


def _words(link: Any) -> dict[str, str]:
    if not isinstance(link, str):
        return {}
    return dict(parse_qsl(link.lstrip("#")[:LONGEST], keep_blank_values=True, errors="replace"))


def _typed(name: str, text: str) -> Any:
    """The text of a link's word as the type of that field; the text itself where it cannot be one."""
    try:
        if name in (*SLIDERS, "rest", "floor"):
            return float(text)
        if name == "factors":
            return [float(part) for part in text.split(",")]
    except ValueError:
        return text
    if name == "norms":
        return TRUTH.get(text, text)
    return [part for part in text.split(",") if part] if name in ("tasks", "runs") else text


def _hidden(names: Any) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) and name in HIDEABLE for name in names):
        raise ExplorerError("The page sent unknown names of things to hide; reload it.")
    return tuple(name for name in HIDEABLE if name in names)


def _guide(name: Any) -> str:
    if not isinstance(name, str) or name and not GUIDE.fullmatch(name):
        raise ExplorerError("The page sent an unknown story or lesson; reload it.")
    return name
