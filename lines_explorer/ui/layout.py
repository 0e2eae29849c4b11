"""The page: controls on the left, what they do on the right. Built once; nothing of a visitor is kept here."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import gradio as gr
import plotly

from lines_explorer.engine import Engine
from lines_explorer.merging import METHODS
from lines_explorer.ui import guide_panel, pictures, style, texts
from lines_explorer.ui.handlers import Desk
from lines_explorer.ui.links import FIGURES, HIDEABLE, QUANTITIES, Page
from lines_explorer.ui.methods import method_table
from lines_explorer.ui.view import LIMITS, MANY, STEP

STATIC = Path(str(files("lines_explorer.ui"))) / "static"
SCRIPTS = (
    "state.js", "history.js", "free.js", "parameters.js", "figures.js", "readout.js", "tools.js",
    "glossary.js", "stories.js", "lessons.js", "search.js", "page.js", *pictures.SCRIPTS,
)  # fmt: skip
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
CONTROLS = (
    "mode", "target", "schedule", "gamma", "alpha", "beta", "scale",
    "tasks", "method", "norms", "alpha_many", "beta_many", "scale_many",
)  # fmt: skip
RUN_HUB = "window.LinesExplorer.start(element, props, server, trigger, watch);"
EVENTS = "/* events: 'apply' 'settle' 'line' 'fill' 'score' 'search' 'tell' */"
DEVICE = {"concurrency_id": "device", "concurrency_limit": 16}


def theme() -> gr.themes.Base:
    """Gradio's base theme with bundled fonts; no request leaves the server.

    Regular and Bold only: Gradio 6.31 ships its SemiBold files without most letters.
    """
    sans = (gr.themes.LocalFont("IBM Plex Sans", weights=(400, 700)), "ui-sans-serif", "system-ui", "sans-serif")
    mono = (gr.themes.LocalFont("IBM Plex Mono", weights=(400, 700)), "ui-monospace", "monospace")
    return gr.themes.Base(primary_hue="blue", neutral_hue="slate", font=sans, font_mono=mono, radius_size="sm")


def css() -> str:
    """The style sheet: the role colours, page.css and those of single panels."""
    sheets = ("page.css", "guide.css", *pictures.SHEETS)
    return style.css_variables() + "".join((STATIC / name).read_text(encoding="utf-8") for name in sheets)


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
    data |= {"titles": desk.titles, "roles": style.ROLES, "phrases": texts.PHRASES, "controls": CONTROLS}
    data |= {"buttons": texts.BUTTONS, "surface_texts": texts.SURFACE, "free_texts": texts.FREE_WORDS}
    data |= {"presets": texts.PRESETS, "hideable": HIDEABLE, "limits": LIMITS, "blocks": desk.blocks}
    data |= {"methods": method_table(desk.catalogue.refused), "method_texts": texts.METHOD_WORDS}
    data |= {"experts": {name: (*method.experts, texts.needs(*method.experts)) for name, method in METHODS.items()}}
    data |= {"panels": {name: title for name, (title, _) in texts.PANELS.items()}, "figures": FIGURES}
    data |= guide_panel.boot(desk.guide)
    return json.dumps(data | {"modes": {mode: desk.catalogue.default(mode).as_json() for mode in texts.MODES}})


def build_page(engine: Engine, root: str = "") -> gr.Blocks:
    """The page of one engine's suite."""
    gr.set_static_paths([str(path) for path in script_files()])
    desk = Desk(engine)
    with gr.Blocks(title=texts.TITLE, analytics_enabled=False, fill_width=True) as page:
        gr.HTML(_header(engine), elem_id="lx-header")
        guide_panel.guide_bar(desk.guide)
        with gr.Row(elem_id="lx-main"):
            with gr.Column(elem_id="lx-controls"):
                controls = _controls(desk)
            with gr.Column(elem_id="lx-views"):
                _foot()
                hub = _hub(desk, root)
                for name in texts.PANELS:
                    _panel(name, root)
                pictures.add(desk, scripts(root))
        _connect(page, desk, hub, controls)
    return page


def _controls(desk: Desk) -> dict[str, Any]:
    view, many, chosen = desk.catalogue.default(), desk.catalogue.default(MANY), {}
    experts = [(desk.titles[name], name) for name in desk.catalogue.tasks]
    chosen["mode"] = _choice("mode", texts.MODES, view.mode)
    with gr.Group(elem_classes="lx-edit"):
        chosen["target"] = _choice("target", {name: title for title, name in experts}, view.target)
    with gr.Group(elem_classes="lx-many"):
        label, info = texts.LABELS["tasks"]
        chosen["tasks"] = gr.CheckboxGroup(
            experts, value=list(many.tasks), label=label, info=info, elem_id="lx-tasks-choice"
        )
        chosen["method"] = _choice("method", {name: method.title for name, method in METHODS.items()}, many.method)
        _about_method()
    chosen["schedule"] = _choice("schedule", texts.SCHEDULES, view.schedule)
    with gr.Group(elem_classes="lx-edit lx-lines"):
        chosen["gamma"] = _slider("gamma", (0.0, 1.0), view.alpha, 0.05)
    with gr.Group(elem_classes="lx-edit lx-lines"):
        chosen["alpha"] = _slider("alpha", LIMITS["alpha"], view.alpha)
        chosen["beta"] = _slider("beta", LIMITS["beta"], view.beta)
    with gr.Group(elem_classes="lx-many lx-lines"):
        label, info = texts.LABELS["norms"]
        chosen["norms"] = gr.Checkbox(many.norms, label=label, info=info, elem_id="lx-norms")
        chosen["alpha_many"] = _slider("alpha_many", LIMITS["alpha"], many.alpha, classes="lx-free")
        chosen["beta_many"] = _slider("beta_many", LIMITS["beta"], many.beta)
    with gr.Group(elem_classes="lx-edit lx-constant"):
        chosen["scale"] = _slider("scale", LIMITS["scale"], view.scale)
    with gr.Group(elem_classes="lx-many lx-constant"):
        chosen["scale_many"] = _slider("scale_many", LIMITS["scale"], many.scale)
    return {name: chosen[name] for name in CONTROLS}


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


def _hub(desk: Desk, root: str) -> gr.HTML:
    """The one component that talks to the server; also summary, tools, key, notice."""

    def live(request: Any) -> dict[str, Any]:
        return desk.live(request)

    def restore(link: Any) -> dict[str, Any]:
        return desk.restore(link)

    def surface(request: Any) -> dict[str, Any]:
        return desk.surface(request)

    def told(request: Any) -> dict[str, Any]:
        return desk.told(request)

    key = "".join(f'<li class="lx-key-{role}"><i></i>{text}</li>' for role, text in texts.KEY.items())
    return gr.HTML(
        value="",
        boot=boot(desk),
        key_list=key,
        html_template=(STATIC / "hub.html").read_text(encoding="utf-8"),
        js_on_load=RUN_HUB + EVENTS,
        server_functions=[live, restore, surface, told],
        apply_default_css=False,
        head=scripts(root),
        elem_id="lx-hub",
        **_button_words(),
        **guide_panel.search_words(),
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
        **guide_panel.glossary_words(),
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
        hint=texts.HINTS[name],
        extra=extra,
        tools=_panel_tools(name, title),
        js_on_load=f"window.LinesExplorer.mount('{name}', element);",
        apply_default_css=False,
        head=scripts(root),
        elem_id=f"lx-{name}-panel",
        elem_classes="lx-cell",
    )


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
        title = texts.QUANTITIES[quantity]
        choices += f'<label><input type="radio" name="lx-quantity" value="{quantity}"><span>{title}</span></label>'
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
    gamma, alpha, beta = controls["gamma"], controls["alpha"], controls["beta"]
    gamma.input(None, [gamma], [alpha, beta], js="(g) => window.LinesExplorer.fromGamma(g)")
    for free in (alpha, beta):
        free.input(None, [alpha, beta, gamma], [gamma], js="(...v) => window.LinesExplorer.toGamma(...v)")
    hub.apply(None, None, everything, js="() => window.LinesExplorer.taken()")

    def settle(event: gr.EventData):
        yield from desk.settle(event._data)

    def line(event: gr.EventData):
        yield from desk.line(event._data)

    def fill(event: gr.EventData):
        yield from desk.fill(event._data)

    def score(event: gr.EventData):
        yield from desk.score_test(event._data)

    def search(event: gr.EventData):
        yield from desk.search(event._data)

    def tell(event: gr.EventData):
        yield from desk.tell(event._data)

    lines = ((hub.settle, settle), (hub.line, line), (hub.fill, fill), (hub.score, score))
    for trigger, work in (*lines, (hub.search, search), (hub.tell, tell)):
        trigger(work, None, hub, trigger_mode="always_last", show_progress="hidden", api_visibility="private", **DEVICE)
    page.load(lambda: None, None, None, show_progress="hidden", api_visibility="private")
