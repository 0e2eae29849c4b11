"""Where decoded images and results are kept between runs, and notices that are given once."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

LOG = logging.getLogger("lines_explorer")
_noticed: set[str] = set()
_lock = threading.Lock()


def cache_folder() -> Path:
    """``LINES_EXPLORER_CACHE`` or ``~/.cache/lines_explorer``; the folder need not exist or be writable."""
    return Path(os.environ.get("LINES_EXPLORER_CACHE") or Path.home() / ".cache" / "lines_explorer")


def notice(about: str, message: str) -> None:
    """Logs ``message`` as a warning, once per process for each ``about``."""
    with _lock:
        if about in _noticed:
            return
        _noticed.add(about)
    LOG.warning(message)
