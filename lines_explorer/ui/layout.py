"""The page: controls on the left, what they do on the right. Built once; nothing of a visitor is kept here."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import gradio as gr
import plotly

from lines_explorer.engine import Engine
from lines_explorer.merging import METHODS
from lines_explorer.ui import style, texts, texts_modes
from lines_explorer.ui.handlers import Desk
from lines_explorer.ui.links import FIGURES, HIDEABLE, QUANTITIES, Page
from lines_explorer.ui.modes import EDIT, MANY, MODES, NEGATION, ROBUSTNESS, SOUP, knob_of
from lines_explorer.ui.view import LACKING, LIMITS, STEP

STATIC = Path(str(files("lines_explorer.ui"))) / "static"
SCRIPTS = ("state.js", "history.js", "free.js", "figures.js", "readout.js", "tools.js", "page.js")
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
RUN_HUB = "window.LinesExplorer.start(element, props, server, trigger, watch);"
EVENTS = "/* events: 'apply' 'settle' 'line' 'fill' 'score' */"
DEVICE = {"concurrency_id": "device", "concurrency_limit": 16}


def theme() -> gr.themes.Base:
    """Gradio's base theme with bundled fonts; no request leaves the server.

    Regular and Bold only: Gradio 6.31 ships its SemiBold files without most letters.
    """
    sans = (gr.themes.LocalFont("IBM Plex Sans", weights=(400, 700)), "ui-sans-serif", "system-ui", "sans-serif")
    mono = (gr.themes.LocalFont("IBM Plex Mono", weights=(400, 700)), "ui-monospace", "monospace")
    return gr.themes.Base(primary_hue="blue", neutral_hue="slate", font=sans, font_mono=mono, radius_size="sm")


def css() -> str:
    """The style sheet: the role colours, page.css, and what each mode shows."""
    only = (f'body[data-lx-mode="{mode}"] .lx-only:not(.lx-in-{mode})' for mode in MODES)
    hidden = ",".join([*only, "body:not([data-lx-mode]) .lx-only:not(.lx-in-edit)"])
    sheet = (STATIC / "page.css").read_text(encoding="utf-8")
    return f"{style.css_variables()}{sheet}{hidden}{{display:none !important}}"


def scripts(root: str = "") -> str:
    """Script tags of Plotly and of the page, below ``root`` (empty: relative to the page)."""
    place = f"{root.rstrip('/')}/" if root else ""
    tags = (f'<script src="{place}gradio_api/file={path}"></script>' for path in script_files())
    return "".join(tags)


def script_files() -> list[Path]:
    """The only files besides Gradio's that the server hands out."""
    return [PLOTLY, *(STATIC / name for name in SCRIPTS)]


def boot(desk: Desk) -> str:
    """All that the first picture needs, as JSON: it is part of the page, so nothing has to be asked for."""
    view, page = desk.catalogue.default(), Page()
    data: dict[str, Any] = {"view": view.as_json(), "page": page.as_json()}
    data |= {"family": desk.family(view), "look": desk.look(view, page), "suite": desk.suite.name}
    data |= {"titles": desk.rows, "roles": style.ROLES, "phrases": texts.PHRASES, "controls": control_names(desk)}
    data |= {"table": {mode: row.as_json() | _words(mode) for mode, row in MODES.items()}}
    data |= {"runs": desk.catalogue.runs}
    data |= {"lacking": {mode: why for mode, why in LACKING.items() if mode not in desk.catalogue.modes}}
    data |= {"buttons": texts.BUTTONS, "surface_texts": texts.SURFACE, "free_texts": texts.FREE_WORDS}
    data |= {"presets": texts.PRESETS, "hideable": HIDEABLE, "limits": LIMITS, "blocks": desk.blocks}
    data |= {"experts": {name: (*method.experts, texts.needs(*method.experts)) for name, method in METHODS.items()}}
    data |= {"panels": {name: title for name, (title, _) in texts.PANELS.items()}, "figures": FIGURES}
    return json.dumps(data | {"modes": {mode: desk.catalogue.default(mode).as_json() for mode in MODES}})


def _words(mode: str) -> dict[str, Any]:
    """A mode's words for table and test result."""
    return {"roles": texts_modes.WORDS[mode].roles, "means": texts_modes.WORDS[mode].means}


def control_names(desk: Desk) -> tuple[str, ...]:
    """The controls in the order in which their values go through the page."""
    own = dict.fromkeys(mode.controls.get(name, name) for mode in MODES.values() for name in ("target", *mode.limits))
    return ("mode", "schedule", *own, "tasks", "method", "norms", "soup", "floor", *map(runs_of, desk.catalogue.runs))


def runs_of(task: str) -> str:
    """The control of a task's runs."""
    return f"runs_{task}"


def build_page(engine: Engine, root: str = "") -> gr.Blocks:
    """The page of one engine's suite."""
    gr.set_static_paths([str(path) for path in script_files()])
    desk = Desk(engine)
    with gr.Blocks(title=texts.TITLE, analytics_enabled=False, fill_width=True) as page:
        gr.HTML(_header(engine), elem_id="lx-header")
        with gr.Row(elem_id="lx-main"):
            with gr.Column(elem_id="lx-controls"):
                controls = _controls(desk)
            with gr.Column(elem_id="lx-views"):
                _foot()
                hub = _hub(desk, root)
                for name in texts.PANELS:
                    _panel(name, root)
        _connect(page, desk, hub, controls)
    return page


def _controls(desk: Desk) -> dict[str, Any]:
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
    return {name: chosen[name] for name in control_names(desk)}


def _lacking(desk: Desk) -> str:
    """Why some modes are greyed."""
    reasons = (why for mode, why in LACKING.items() if mode not in desk.catalogue.modes)
    return "".join(f"<p>{_escape(why)}</p>" for why in reasons)


def _in_mode(words: dict[str, str]) -> str:
    """Words of which the page shows those of its mode."""
    return "".join(f'<span class="lx-only lx-in-{mode}">{_escape(text)}</span>' for mode, text in words.items())


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


def _hub(desk: Desk, root: str) -> gr.HTML:
    """The one component that talks to the server; also summary, tools, key, notice."""

    def live(request: Any) -> dict[str, Any]:
        return desk.live(request)

    def restore(link: Any) -> dict[str, Any]:
        return desk.restore(link)

    def surface(request: Any) -> dict[str, Any]:
        return desk.surface(request)

    key = "".join(f'<li class="lx-key-{role}"><i></i>{text}</li>' for role, text in texts.KEY.items())
    return gr.HTML(
        value="",
        boot=boot(desk),
        key_list=key,
        mode_notes=_in_mode({mode: words.note for mode, words in texts_modes.WORDS.items()}),
        html_template=(STATIC / "hub.html").read_text(encoding="utf-8"),
        js_on_load=RUN_HUB + EVENTS,
        server_functions=[live, restore, surface],
        apply_default_css=False,
        head=scripts(root),
        elem_id="lx-hub",
        **_button_words(),
    )


def _foot() -> gr.HTML:
    """Table, downloads, split note, command line, link: filled in by the page."""
    note = texts.SHARE_NOTE.format(names=", ".join(HIDEABLE))
    return gr.HTML(
        html_template=(STATIC / "foot.html").read_text(encoding="utf-8"),
        js_on_load=None,
        apply_default_css=False,
        elem_id="lx-foot",
        split_note=texts.SPLIT_NOTE,
        share_note=note.replace("&", "&amp;"),
        **_button_words(),
    )


def _button_words() -> dict[str, str]:
    return {f"button_{name}": text for name, text in texts.BUTTONS.items()}


def _panel(name: str, root: str) -> gr.HTML:
    title, label = texts.PANELS[name]
    extra = {"surface": _surface_tools, "depth": _free_tools}.get(name, str)()
    return gr.HTML(
        html_template=(STATIC / "panel.html").read_text(encoding="utf-8"),
        name=name,
        title=title,
        describe=label,
        hint=_hint(name),
        extra=extra,
        tools=_panel_tools(name, title),
        js_on_load=f"window.LinesExplorer.mount('{name}', element);",
        apply_default_css=False,
        head=scripts(root),
        elem_id=f"lx-{name}-panel",
        elem_classes="lx-cell",
    )


def _hint(name: str) -> str:
    """A figure's hint; where the modes have their own, one for each."""
    field = {"plane": "better", "curve": "strokes", "depth": "depth"}.get(name)
    if field is None:
        return texts.HINTS[name]
    return _in_mode({mode: getattr(words, field) for mode, words in texts_modes.WORDS.items()})


def _panel_tools(name: str, title: str) -> str:
    """Buttons of a figure's head: enlarge, and downloads by Plotly's own export."""
    enlarge = texts.BUTTONS["enlarge"]
    buttons = f'<button type="button" data-lx-enlarge="{name}" aria-pressed="false">{enlarge}</button>'
    for form in ("svg", "png"):
        label = texts.DOWNLOAD.format(figure=title, format=form.upper())
        buttons += f'<button type="button" data-lx-save="{name}" data-format="{form}" aria-label="{label}">'
        buttons += f"{form.upper()}</button>"
    return buttons


def _surface_tools() -> str:
    """Which quantity the surface shows, and the button that fills its empty cells."""
    words, choices = texts.SURFACE, ""
    for quantity in QUANTITIES:
        title, only = texts.QUANTITIES[quantity], ""
        if quantity == "score":
            only = ' class="lx-only ' + " ".join(f"lx-in-{mode}" for mode, row in MODES.items() if row.rule) + '"'
        else:
            role = ("target", "control").index(quantity)
            title = _in_mode({mode: row.roles[role] for mode, row in texts_modes.WORDS.items()})
        choices += (
            f'<label{only}><input type="radio" name="lx-quantity" value="{quantity}"><span>{title}</span></label>'
        )
    return (
        f'<fieldset class="lx-quantity" title="{words["score"]}"><legend class="lx-unseen">{words["choose"]}</legend>'
        f'{choices}</fieldset><p class="lx-missing" data-lx="cells" hidden><span data-lx="cells-text"></span> '
        f'<button type="button" data-lx="run-fill">{words["fill"]}</button></p>'
    )


def _free_tools() -> str:
    """Presets and number boxes of the drawn λ; the page adds a box per block."""
    presets = "".join(
        f'<button type="button" data-lx-preset="{name}">{title}</button>' for name, title in texts.PRESETS.items()
    )
    return (
        f'<div class="lx-free-tools" data-lx="free" hidden><p class="lx-hint">{texts.FREE_WORDS["hint"]}</p>'
        f'<p class="lx-presets">{presets}</p><div class="lx-factors" data-lx="factors"></div></div>'
    )


def _header(engine: Engine) -> str:
    suite = engine.suite
    images = f"{len(suite.tasks)} tasks, {engine.backend.layout.depth} blocks"
    return (
        f'<div class="lx-head"><h1>{texts.TITLE}</h1><p class="lx-lede">{texts.LEDE}</p>'
        f'<p class="lx-suite">{_escape(suite.title)} · {images}</p></div>'
    )


def _escape(text: str) -> str:
    """Text for a template: neither markup nor placeholders."""
    for plain, entity in (("&", "&amp;"), ("<", "&lt;"), ("{", "&#123;"), ("$", "&#36;"), ("`", "&#96;")):
        text = text.replace(plain, entity)
    return text


def _connect(page: gr.Blocks, desk: Desk, hub: gr.HTML, controls: dict[str, Any]) -> None:
    """Slider moves stay in the browser; only what is settled on, or asked for by a button, comes to the queue."""
    everything = list(controls.values())
    report = "(...values) => { window.LinesExplorer.controls(values); }"
    for control in everything:
        control.change(None, everything, None, js=report, trigger_mode="always_last")
    for mode, row in MODES.items():
        if "gamma" in row.limits:
            knob, alpha, beta = (controls[row.controls.get(name, name)] for name in ("gamma", "alpha", "beta"))
            knob.input(None, [knob], [alpha, beta], js=f"(g) => window.LinesExplorer.fromKnob('{mode}', g)")
            for free in (alpha, beta):
                to_knob = f"(...v) => window.LinesExplorer.toKnob('{mode}', ...v)"
                free.input(None, [alpha, beta, knob], [knob], js=to_knob)
    hub.apply(None, None, everything, js="() => window.LinesExplorer.taken()")

    def settle(event: gr.EventData):
        yield from desk.settle(event._data)

    def line(event: gr.EventData):
        yield from desk.line(event._data)

    def fill(event: gr.EventData):
        yield from desk.fill(event._data)

    def score(event: gr.EventData):
        yield from desk.score_test(event._data)

    for trigger, work in ((hub.settle, settle), (hub.line, line), (hub.fill, fill), (hub.score, score)):
        trigger(work, None, hub, trigger_mode="always_last", show_progress="hidden", api_visibility="private", **DEVICE)
    page.load(lambda: None, None, None, show_progress="hidden", api_visibility="private")
