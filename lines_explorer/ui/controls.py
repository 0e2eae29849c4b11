"""The controls on the left of the page: those that several modes share, and each mode's own."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import gradio as gr

from lines_explorer.merging import METHODS
from lines_explorer.ui import texts, texts_modes
from lines_explorer.ui.handlers import Desk
from lines_explorer.ui.modes import EDIT, MANY, MODES, NEGATION, ROBUSTNESS, SOUP, knob_of
from lines_explorer.ui.view import LACKING, LIMITS, STEP

STATIC = Path(str(files("lines_explorer.ui"))) / "static"


def control_names(desk: Desk) -> tuple[str, ...]:
    """The controls in the order in which their values go through the page."""
    own = dict.fromkeys(mode.controls.get(name, name) for mode in MODES.values() for name in ("target", *mode.limits))
    return ("mode", "schedule", *own, "tasks", "method", "norms", "soup", "floor", *map(runs_of, desk.catalogue.runs))


def runs_of(task: str) -> str:
    """The control of a task's runs."""
    return f"runs_{task}"


def make_controls(desk: Desk) -> dict[str, Any]:
    """Every control by name: those that several modes share, then each mode's own."""
    chosen: dict[str, Any] = {"mode": _choice("mode", texts.MODES, EDIT)}
    if lacking := _lacking(desk):
        gr.HTML(lacking, elem_id="lx-lacking", apply_default_css=False)
    for mode in (EDIT, MANY, ROBUSTNESS, SOUP):  # what is subtracted is chosen as what is edited
        with gr.Group(elem_classes=f"lx-only lx-in-{mode}" + (" lx-in-negation" if mode == EDIT else "")):
            chosen |= _subject(desk, mode)
    chosen["schedule"] = _choice("schedule", texts.SCHEDULES, desk.catalogue.default().schedule)
    for mode in MODES:
        chosen |= _sliders(desk, mode)
    with gr.Group(elem_classes=f"lx-only lx-in-{MANY}"):
        _about_method()  # last: it may be long, and the sliders stay in sight
    return {name: chosen[name] for name in control_names(desk)}


def _lacking(desk: Desk) -> str:
    """Why some modes are greyed."""
    reasons = (why for mode, why in LACKING.items() if mode not in desk.catalogue.modes)
    return "".join(f"<p>{escape(why)}</p>" for why in reasons)


def in_mode(words: dict[str, str]) -> str:
    """Words of which the page shows those of its mode."""
    return "".join(f'<span class="lx-only lx-in-{mode}">{escape(text)}</span>' for mode, text in words.items())


def _subject(desk: Desk, mode: str) -> dict[str, Any]:
    """What a mode is about: a target, tasks and a method, or runs."""
    catalogue = desk.catalogue
    view = catalogue.default(mode)
    if mode == MANY:
        experts = [(desk.titles[name], name) for name in catalogue.tasks]
        methods = {name: method.title for name, method in METHODS.items()}
        return {"tasks": _ticks("tasks", experts, view.tasks), "method": _choice("method", methods, view.method)}
    name, choices = MODES[mode].controls.get("target", "target"), catalogue.targets(mode)
    found = {name: _choice(name, {task: desk.titles[task] for task in choices}, view.target if choices else None)}
    if mode == SOUP:
        found["soup"] = _choice("soup", texts_modes.SOUPS, view.soup)
        for number, (task, names) in enumerate(catalogue.runs.items()):
            with gr.Group(elem_classes="lx-runs", elem_id=f"lx-runs-{number}"):
                told = [(run_words(desk, run), run) for run in names]
                found[runs_of(task)] = _ticks("runs", told, names, f"lx-runs-choice-{number}")
    return found


def run_words(desk: Desk, name: str) -> str:
    """How a run was made: number, seed, learning rate."""
    known = {run.name: run.facts for runs in desk.suite.runs.values() for run in runs}
    if name not in known:
        return texts_modes.EXPERT_RUN
    return texts_modes.RUN.format(number=name.rpartition("/")[2], **known[name])


def _sliders(desk: Desk, mode: str) -> dict[str, Any]:
    """A mode's own sliders, and what else is set beside them."""
    row, view, found = MODES[mode], desk.catalogue.default(mode), {}

    def slider(field: str, value: float, step: float = STEP, classes: str = "") -> None:
        name = row.controls.get(field, field)
        found[name] = _slider(name, row.limits[field], value, step, classes)

    here = f"lx-only lx-in-{mode}"
    if "gamma" in row.limits:
        with gr.Group(elem_classes=f"{here} lx-lines"):
            slider("gamma", knob_of(mode, view.alpha, view.beta), 0.05)
    with gr.Group(elem_classes=f"{here} lx-lines"):
        if mode == MANY:
            label, info = texts.LABELS["norms"]
            found["norms"] = gr.Checkbox(view.norms, label=label, info=info, elem_id="lx-norms")
        slider("alpha", view.alpha, classes="lx-free" if mode == MANY else "")
        slider("beta", view.beta)
    with gr.Group(elem_classes=f"{here} lx-constant"):
        slider("scale", view.scale)
    if mode == NEGATION:
        with gr.Group(elem_classes=here):
            found["floor"] = _slider("floor", LIMITS["floor"], view.floor)
    return found


def _ticks(name: str, choices: list[tuple[str, str]], ticked: Any, place: str = "lx-tasks-choice") -> gr.CheckboxGroup:
    label, info = texts.LABELS[name]
    return gr.CheckboxGroup(choices, value=list(ticked), label=label, info=info, elem_id=place)


def _about_method() -> gr.HTML:
    """What the chosen method does and takes: filled in by the page."""
    return gr.HTML(
        html_template=(STATIC / "method.html").read_text(encoding="utf-8"),
        js_on_load="window.LinesExplorer?.syncParameters?.();",
        apply_default_css=False,
        elem_id="lx-about",
        title=texts.METHOD_WORDS["title"],
        defaults=texts.METHOD_WORDS["defaults"],
    )


def _choice(name: str, choices: dict[str, str], value: str) -> gr.Radio:
    label, info = texts.LABELS[name]
    options = [(title, key) for key, title in choices.items()]
    return gr.Radio(options, value=value, label=label, info=info, elem_id=f"lx-{name}", elem_classes="lx-choice")


def _slider(name: str, limits: tuple[float, float], value: float, step: float = STEP, classes: str = "") -> gr.Slider:
    label, info = texts.LABELS[name]
    low, high = limits
    return gr.Slider(
        low, high, value, step=step, label=label, info=info, buttons=[], elem_id=f"lx-{name}", elem_classes=classes
    )


def escape(text: str) -> str:
    """Text for a template: neither markup nor placeholders."""
    for plain, entity in (("&", "&amp;"), ("<", "&lt;"), ("{", "&#123;"), ("$", "&#36;"), ("`", "&#96;")):
        text = text.replace(plain, entity)
    return text
