"""What a visitor is told about the operator's machine: names, never its folders."""

import re
from pathlib import Path

from lines_explorer.errors import ExplorerError
from lines_explorer.suites import Suite, available, open_suite, presets

FOLDERS = re.compile(r"(?<![\w:/.~-])~?/(?:[^\s/`'\",;()]+/)+")


def openable(suite: Suite) -> str:
    """What the command line opens the same suite by: its name, or a placeholder for a folder of the operator's."""
    name = suite.folder.name
    known = name in available() or name in presets.NAMES
    return name if known and _opens(name, suite.folder) else f"path/to/{suite.name}"


def without_folders(message: str, suite: Suite) -> str:
    """The message with paths cut to what a visitor may know: the place within the suite, or a file's name."""
    return FOLDERS.sub("", message.replace(f"{suite.folder}/", "").replace(str(suite.folder), suite.name))


def _opens(name: str, folder: Path) -> bool:
    try:
        return open_suite(name).folder == folder
    except ExplorerError:
        return False
