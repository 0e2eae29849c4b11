"""The panels of single pictures, Evidence and Draw: closed at first, so that they cost nothing until opened."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import gradio as gr

from lines_explorer.engine import Evidence
from lines_explorer.ui.drawing import DrawingDesk
from lines_explorer.ui.evidence import EvidenceDesk
from lines_explorer.ui.handlers import Desk
from lines_explorer.ui.picture_texts import CONFUSION, DRAW, EVIDENCE, GROUNDS, INKS, KINDS, SHAPES
from lines_explorer.ui.texts import PHRASES

STATIC = Path(str(files("lines_explorer.ui"))) / "static"
SCRIPTS, SHEETS = ("evidence.js", "draw.js"), ("pictures.css",)
DEVICE = {"concurrency_id": "device", "concurrency_limit": 16}


def add(desk: Desk, head: str) -> None:
    """Adds both panels to the page being built; ``head`` has the script tags."""
    evidence = Evidence(desk.engine)
    _evidence(EvidenceDesk(desk, evidence), head)
    _drawing(DrawingDesk(desk, evidence), head)


def _evidence(answers: EvidenceDesk, head: str) -> None:
    def changes(request: Any) -> dict[str, Any]:
        return answers.changes(request)

    def predict(request: Any) -> dict[str, Any]:
        return answers.predict(request)

    def find(event: gr.EventData):
        yield from answers.find(event._data)

    words = EVIDENCE | {"offline": PHRASES["offline"]}
    plain = {f"confusion_{name}": CONFUSION[name] for name in ("title", "show", "after", "difference", "hint", "again")}
    panel = gr.HTML(
        value="",
        boot=json.dumps({"words": words, "confusion": CONFUSION}),
        html_template=_template("evidence.html"),
        js_on_load="window.LinesExplorer.startEvidence(element, props, server, trigger, watch); /* events: 'find' */",
        server_functions=[changes, predict],
        apply_default_css=False,
        head=head,
        elem_id="lx-evidence-panel",
        kind=KINDS["task"]["one"],
        **_words(EVIDENCE),
        **plain,
    )
    panel.find(
        find, None, panel, trigger_mode="always_last", show_progress="hidden", api_visibility="private", **DEVICE
    )


def _drawing(answers: DrawingDesk, head: str) -> None:
    def classify(request: Any) -> dict[str, Any]:
        return answers.classify(request)

    side = answers.suite.image_size
    boot = {"side": side, "words": DRAW | {"offline": PHRASES["offline"]}, "inks": INKS, "grounds": GROUNDS}
    boot["titles"] = answers.desk.titles
    shapes = "".join(f'<button type="button" data-draw="{name}">{title}</button> ' for name, title in SHAPES.items())
    words = _words(DRAW) | {"canvas": DRAW["canvas"].format(side=side)}
    gr.HTML(
        boot=json.dumps(boot),
        html_template=_template("draw.html"),
        js_on_load="window.LinesExplorer.startDrawing(element, props, server);",
        server_functions=[classify],
        apply_default_css=False,
        head=head,
        elem_id="lx-draw-panel",
        side=side,
        inks=_swatches("ink", INKS),
        grounds=_swatches("ground", GROUNDS),
        shape_buttons=shapes,
        **words,
    )


def _words(texts: dict[str, str]) -> dict[str, str]:
    """Texts as a template's names; ``class`` is no name in a template."""
    return {{"class": "class_"}.get(name, name): text for name, text in texts.items()}


def _swatches(kind: str, colours: dict[str, str]) -> str:
    """Radio buttons that are coloured dots; the first is chosen."""
    first = next(iter(colours))
    return "".join(
        f'<label title="{name}"><input type="radio" name="lx-{kind}" value="{name}" aria-label="{name}"'
        f'{" checked" if name == first else ""}><span style="background:{colour}"></span></label>'
        for name, colour in colours.items()
    )


def _template(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")
