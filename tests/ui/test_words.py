"""Scripts and templates ask for words, marks and elements that exist."""

from __future__ import annotations

import re
from pathlib import Path

import lines_explorer.ui
from lines_explorer.ui import lesson_texts, story_texts, style, texts
from lines_explorer.ui.links import FIGURES, HIDEABLE, QUANTITIES

STATIC = Path(lines_explorer.ui.__file__).parent / "static"
SCRIPTS = "\n".join(path.read_text(encoding="utf-8") for path in sorted(STATIC.glob("*.js")))
TEMPLATES = "\n".join(path.read_text(encoding="utf-8") for path in sorted(STATIC.glob("*.html")))


def test_every_phrase_of_the_scripts_is_written_and_every_written_one_is_used():
    assert set(re.findall(r"phrases\.(\w+)", SCRIPTS)) == set(texts.PHRASES)


def test_every_word_of_stories_lesson_and_search_is_written():
    """``words.NAME`` in a script is a word of the table that the script was given."""
    given = {"stories": story_texts.GUIDE, "lessons": lesson_texts.WORDS, "search": texts.SEARCH}
    for name, table in given.items():
        asked = set(
            re.findall(r"(?<!guide_texts\.)\bwords\.(\w+)", (STATIC / f"{name}.js").read_text(encoding="utf-8"))
        )
        assert asked and asked <= set(table), name
    assert set(re.findall(r"guide_texts\.(\w+)", SCRIPTS)) <= set(story_texts.GUIDE)


def test_every_button_of_the_templates_has_its_word():
    assert set(re.findall(r"\$\{button_(\w+)\}", TEMPLATES)) | {"enlarge", "shrink"} == set(texts.BUTTONS)


def test_every_button_of_the_templates_does_something():
    buttons = set(re.findall(r'<button[^>]* data-lx="([\w-]+)"', TEMPLATES))
    clicks = SCRIPTS[SCRIPTS.index("clicks: {") : SCRIPTS.index("enlarge: (name)")]
    done = {first or second for first, second in re.findall(r'^ +(?:"([\w-]+)"|(\w+)):', clicks, flags=re.MULTILINE)}
    assert buttons | {"run-fill"} == done - {"clicks"}


def test_every_role_is_in_the_key_and_in_the_style_sheet():
    sheet = (STATIC / "page.css").read_text(encoding="utf-8")
    assert set(style.ROLES) | {"solid", "hollow", "estimate"} == set(texts.KEY)
    assert all(f".lx-key-{role} i" in sheet for role in texts.KEY)
    assert set(style.SYMBOLS) == set(style.ROLES)


def test_every_panel_has_words_and_can_fill_the_page():
    sheet = (STATIC / "page.css").read_text(encoding="utf-8")
    assert set(texts.PANELS) == set(texts.HINTS) == set(FIGURES) - {"all"}
    assert all(f'body[data-lx-figure="{name}"] #lx-{name}-panel' in sheet for name in texts.PANELS)
    assert set(texts.QUANTITIES) == set(QUANTITIES)


def test_what_a_link_can_hide_exists():
    ids = {"#lx-lacking", ".lx-runs"} | (
        {f"#lx-{name}-panel" for name in (*texts.PANELS, "evidence", "draw")}
        | {f"#lx-{name}" for name in texts.LABELS}
        | {"#lx-tasks-choice"}
    )
    classes = {name for names in re.findall(r'class="([^"]+)"', TEMPLATES) for name in names.split()}
    for places in HIDEABLE.values():
        for place in places:
            assert place in ids or place[1:] in classes, place


def test_no_text_is_written_twice():
    """Words for people are in ``texts`` (and the templates' fixed headings), not in the scripts."""
    spoken = [word for word in re.findall(r'"([A-Z][a-z]+ [a-z][^"]*)"', SCRIPTS)]
    assert spoken == []
