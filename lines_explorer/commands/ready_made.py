"""``suites --preset``: the suite.yaml of a public suite, printed or written, as it is or with its revisions pinned."""

from __future__ import annotations

from pathlib import Path

from lines_explorer.commands.report import Report
from lines_explorer.suites import presets
from lines_explorer.suites.hub import newest_commit


def preset(name: str, out: Path | None = None, pin: bool = False) -> Report:
    """The suite.yaml of a ready-made suite; with ``out`` it is written there, otherwise it is the text.

    With ``pin`` every source on the hub gets the commit that the hub has now as its revision, so that the suite stays
    what it is.  Raises ExplorerError for an unknown name, a folder with another suite, or a hub that does not answer.
    """
    find = newest_commit if pin else None
    file = presets.write(name, out, find) if out is not None else None
    text = file.read_text(encoding="utf-8") if file else presets.text_of(name, find)
    said = f"{file}\n{text.splitlines()[0].removeprefix('# ')}" if file else text.rstrip("\n")
    return Report({"preset": name, "file": str(file) if file else None, "pinned": pin, "suite_yaml": text}, said)
