"""Terms: each meaning listed once, found in texts as whole words, the longest first."""

from __future__ import annotations

import re

from test_scripts import run_files

from lines_explorer.ui import glossary, lesson_texts, story_texts, texts

SPLIT = "LX.glossed(t, g, LX.termPattern(g))"


def glossed(text: str) -> list:
    return run_files(("glossary.js",), SPLIT, t=text, g=glossary.as_json())


def test_terms_are_found_once_whole_and_longest_first():
    pieces = glossed("Bases and base; the paper’s rule, a rule, Control, within\u00a0noise and noise, base.")
    assert "".join(p if isinstance(p, str) else p["text"] for p in pieces).startswith("Bases and base; the")
    found = [(p["key"], p["text"]) for p in pieces if not isinstance(p, str)]
    assert found == [("base", "base"), ("rule", "paper’s rule"), ("control", "Control"), ("noise", "within\u00a0noise")]


def test_no_text_changes_by_being_glossed():
    for text in (texts.LEDE, texts.SPLIT_NOTE, *texts.HINTS.values(), "", "<b>base</b> & $ {x}"):
        assert "".join(p if isinstance(p, str) else p["text"] for p in glossed(text)) == text


def test_every_word_leads_to_one_term():
    words = [word.lower() for term in glossary.TERMS.values() for word in term.words]
    assert len(words) == len(set(words))
    assert glossary.listed().count("<dd id=") == len(glossary.TERMS)


def test_every_term_occurs_in_some_text():
    spoken = " ".join([texts.LEDE, texts.SPLIT_NOTE, *texts.HINTS.values(), *lesson_texts.WORDS.values()])
    for module in (story_texts, lesson_texts, texts):
        spoken += open(module.__file__, encoding="utf-8").read()
    missing = [
        key for key, term in glossary.TERMS.items() if not any(re.search(re.escape(w), spoken) for w in term.words)
    ]
    assert missing == []
