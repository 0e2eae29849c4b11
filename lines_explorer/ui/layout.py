"""The page: controls on the left, what they do on the right. Built once; nothing of a visitor is kept here."""

import json
from pathlib import Path
from typing import Any

import gradio as gr
import plotly

from lines_explorer.engine import Engine
from lines_explorer.merging import METHODS
from lines_explorer.suites.needs import only_sets
from lines_explorer.ui import guide_panel, pictures, style, texts, texts_modes
from lines_explorer.ui.controls import STATIC, control_names, escape, in_mode, make_controls
from lines_explorer.ui.downloads import Downloads
from lines_explorer.ui.handlers import Desk
from lines_explorer.ui.links import FIGURES, HIDEABLE, QUANTITIES, Page
from lines_explorer.ui.methods import method_table
from lines_explorer.ui.modes import MODES
from lines_explorer.ui.view import LACKING, LIMITS

SCRIPTS = (
    "state.js", "history.js", "link.js", "free.js", "parameters.js", "figures.js", "readout.js", "tools.js",
    "surface.js", "linked.js", "glossary.js", "stories.js", "lessons.js", "search.js", "page.js", *pictures.SCRIPTS,
)  # fmt: skip
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
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
    """The style sheet: the role colours, page.css and those of single panels, and what each mode shows."""
    only = (f'body[data-lx-mode="{mode}"] .lx-only:not(.lx-in-{mode})' for mode in MODES)
    hidden = ",".join([*only, "body:not([data-lx-mode]) .lx-only:not(.lx-in-edit)"])
    sheets = ("page.css", "guide.css", *pictures.SHEETS)
    written = "".join((STATIC / name).read_text(encoding="utf-8") for name in sheets)
    return f"{style.css_variables()}{written}{hidden}{{display:none !important}}"


def scripts(root: str = "") -> str:
    """Script tags of Plotly and of the page, below ``root`` (empty: relative to the page)."""
    place = f"{root.rstrip('/')}/" if root else ""
    tags = (f'<script src="{place}gradio_api/file={path}"></script>' for path in script_files())
    return "".join(tags)


def script_files() -> list[Path]:
    """The only files besides Gradio's that the server hands out."""
    return [PLOTLY, *(STATIC / name for name in SCRIPTS)]


def boot(desk: Desk, downloads: bool = False) -> str:
    """All that the first picture needs, as JSON: it is part of the page, so nothing has to be asked for.

    With ``downloads`` the page offers the merged model.
    """
    view, page = desk.catalogue.default(), Page()
    data: dict[str, Any] = {"view": view.as_json(), "page": page.as_json()}
    data |= {"family": desk.family(view), "look": desk.look(view, page), "suite": desk.suite.name}
    data |= {"titles": desk.rows, "roles": style.ROLES, "phrases": texts.PHRASES, "controls": control_names(desk)}
    data |= {"table": {mode: row.as_json() | _words(mode) for mode, row in MODES.items()}}
    data |= {"runs": desk.catalogue.runs, "downloads": downloads}
    data |= {"lacking": {mode: why for mode, why in LACKING.items() if mode not in desk.catalogue.modes}}
    data |= {"buttons": texts.BUTTONS, "surface_texts": texts.SURFACE, "free_texts": texts.FREE_WORDS}
    data |= {"presets": texts.PRESETS, "hideable": HIDEABLE, "limits": LIMITS, "blocks": desk.blocks}
    data |= {"methods": method_table(desk.catalogue.refused), "method_texts": texts.METHOD_WORDS}
    data |= {"experts": {name: _mergeable(desk, name) for name in METHODS}}
    data |= {"panels": {name: title for name, (title, _) in texts.PANELS.items()}, "figures": FIGURES}
    data |= guide_panel.boot(desk.guide)
    return json.dumps(data | {"modes": {mode: desk.catalogue.default(mode).as_json() for mode in MODES}})


def _mergeable(desk: Desk, name: str) -> dict[str, Any]:
    """Which experts a method merges: how many, of which sets (None: any), and the sentences when it does not."""
    (fewest, most), sets = METHODS[name].experts, only_sets(desk.suite, name)
    only = texts.only(sets, len(desk.suite.experts)) if sets else ""
    return {"fewest": fewest, "most": most, "needs": texts.needs(fewest, most), "sets": sets or None, "only": only}


def _words(mode: str) -> dict[str, Any]:
    """A mode's words for table, test result and the state of a point."""
    return {name: getattr(texts_modes.WORDS[mode], name) for name in ("roles", "means", "evaluated")}


def build_page(engine: Engine, root: str = "", downloads: bool = False) -> gr.Blocks:
    """The page of one engine's suite; with ``downloads`` its visitors may take merged models away."""
    gr.set_static_paths([str(path) for path in script_files()])
    desk = Desk(engine)
    with gr.Blocks(title=texts.TITLE, analytics_enabled=False, fill_width=True) as page:
        gr.HTML(_header(engine), elem_id="lx-header")
        guide_panel.guide_bar(desk.guide)
        with gr.Row(elem_id="lx-main"):
            with gr.Column(elem_id="lx-controls"):
                controls = make_controls(desk)
            with gr.Column(elem_id="lx-views"):
                _foot()
                hub = _hub(desk, root, downloads)
                for name in texts.PANELS:
                    _panel(name, root)
                pictures.add(desk, scripts(root))
        _connect(page, desk, hub, controls)
    return page


def _hub(desk: Desk, root: str, downloads: bool) -> gr.HTML:
    """The one component that talks to the server; also summary, tools, key, notice."""
    files = Downloads(desk)

    def model(request: Any) -> dict[str, Any]:
        return files.model(request)

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
        boot=boot(desk, downloads),
        key_list=key,
        mode_notes=in_mode({mode: words.note for mode, words in texts_modes.WORDS.items()}),
        html_template=(STATIC / "hub.html").read_text(encoding="utf-8"),
        js_on_load=RUN_HUB + EVENTS,
        server_functions=[live, restore, surface, told, *([model] if downloads else [])],
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
    return in_mode({mode: getattr(words, field) for mode, words in texts_modes.WORDS.items()})


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
            title = in_mode({mode: row.roles[role] for mode, row in texts_modes.WORDS.items()})
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
    tasks = f"{len(suite.tasks)} task{'s' if len(suite.tasks) > 1 else ''}"
    facts = f"{tasks}, {engine.backend.layout.depth} blocks · {engine.backend.device}, {engine.precision}"
    return (
        f'<div class="lx-head"><h1>{texts.TITLE}</h1><p class="lx-lede">{texts.LEDE}</p>'
        f'<p class="lx-suite">{escape(suite.title)} · {facts}</p></div>'
    )


def _connect(page: gr.Blocks, desk: Desk, hub: gr.HTML, controls: dict[str, Any]) -> None:
    """Slider moves stay in the browser; only what is settled on, or asked for by a button, comes to the queue."""
    everything = list(controls.values())
    report = "(...values) => { window.LinesExplorer.controls(values); }"
    for control in everything:
        control.change(None, everything, None, js=report, trigger_mode="always_last")
    for mode, row in MODES.items():
        if "gamma" in row.limits:
            knob, alpha, beta = (controls[row.controls.get(name, name)] for name in ("gamma", "alpha", "beta"))
            from_knob = f"(...v) => window.LinesExplorer.fromKnob('{mode}', ...v)"
            knob.input(None, [knob, alpha, beta], [alpha, beta], js=from_knob)
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

    def search(event: gr.EventData):
        yield from desk.search(event._data)

    def tell(event: gr.EventData):
        yield from desk.tell(event._data)

    lines = ((hub.settle, settle), (hub.line, line), (hub.fill, fill), (hub.score, score))
    for trigger, work in (*lines, (hub.search, search), (hub.tell, tell)):
        trigger(work, None, hub, trigger_mode="always_last", show_progress="hidden", api_visibility="private", **DEVICE)
    page.load(desk.warm, None, None, show_progress="hidden", api_visibility="private")
