"""The bar of stories and the lesson above the page, the search buttons and the list of terms: templates and words."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import gradio as gr

from lines_explorer.ui import glossary, lesson_texts, story_texts, texts
from lines_explorer.ui.guide import Guide
from lines_explorer.ui.searching import SEARCHED

STATIC = Path(str(files("lines_explorer.ui"))) / "static"
SEARCH_BUTTONS = ("title", "rule", "keep", "stop")


def boot(guide: Guide) -> dict[str, Any]:
    """What the scripts of stories, lesson, search and glossary begin with."""
    words = {"guide_texts": story_texts.GUIDE, "lesson_texts": lesson_texts.WORDS, "search_texts": texts.SEARCH}
    return {"guide": guide.names(), "glossary": glossary.as_json()} | words


def guide_bar(guide: Guide) -> gr.HTML:
    """The stories' buttons, the lesson's button, and the places where both are shown."""
    words = story_texts.GUIDE
    chips = "".join(
        f'<button type="button" data-lx-story="{name}" aria-pressed="false">{title}</button>'
        for name, title in guide.names()["stories"]
    )
    return gr.HTML(
        html_template=(STATIC / "guide.html").read_text(encoding="utf-8"),
        js_on_load=None,
        apply_default_css=False,
        elem_id="lx-guide",
        stories=words["stories"],
        lesson=words["lesson"],
        chips=chips,
    )


def search_words() -> dict[str, str]:
    """The words of the search buttons, and the modes that have them, for the template."""
    shown = " ".join(("lx-only", *(f"lx-in-{mode}" for mode in SEARCHED)))
    return {f"search_{name}": texts.SEARCH[name] for name in SEARCH_BUTTONS} | {"search_modes": shown}


def glossary_words() -> dict[str, str]:
    """The list of terms, for the template."""
    return {"words_title": glossary.TITLE, "words_list": glossary.listed()}
