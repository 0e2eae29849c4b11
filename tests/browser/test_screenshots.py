"""Every mode at three widths in both themes, as pictures to look at; LINES_EXPLORER_SCREENSHOTS names their folder."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from lines_explorer.ui.modes import MODES

WIDTHS, SCHEMES = (1440, 1024, 390), ("light", "dark")
SETTLED = """([width, dark]) => {
    const fits = (host) => !host.offsetWidth || Math.abs(host._fullLayout.width - host.offsetWidth) <= 1;
    const ink = getComputedStyle(document.querySelector('#lx-views')).getPropertyValue('--lx-ink').trim();
    const drawn = [...document.querySelectorAll('.lx-figure.js-plotly-plot')];
    return window.innerWidth === width && document.body.classList.contains('dark') === dark
        && drawn.length >= 5 && drawn.every((host) => fits(host) && host._fullLayout.font.color === ink);
}"""


@pytest.fixture(scope="module")
def engine(runs_engine: Any) -> Any:
    return runs_engine


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    named = os.environ.get("LINES_EXPLORER_SCREENSHOTS")
    folder = Path(named) if named else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def width_of(picture: Path) -> int:
    """The width that a PNG file says it has."""
    head = picture.read_bytes()[:24]
    assert head.startswith(b"\x89PNG\r\n\x1a\n") and head[12:16] == b"IHDR"
    return struct.unpack(">I", head[16:20])[0]


def test_every_mode_is_pictured(open_page, folder: Path) -> None:
    """One page: its mode is changed by link, its width and theme as a window's are."""
    visit = open_page(width=WIDTHS[0])
    for mode in MODES:
        visit.go(f"#mode={mode}", f"mode={mode}&")
        for scheme in SCHEMES:
            visit.page.emulate_media(color_scheme=scheme)
            for width in WIDTHS:
                visit.page.set_viewport_size({"width": width, "height": 900})
                visit.page.wait_for_function(SETTLED, arg=[width, scheme == "dark"])
                picture = folder / f"{mode}-{width}-{scheme}.png"
                visit.page.screenshot(path=picture, full_page=True)
                assert width_of(picture) == width
                assert visit.page.evaluate("document.documentElement.scrollWidth") <= width, picture.name
    assert len({path.name for path in folder.glob("*.png")}) >= len(MODES) * len(WIDTHS) * len(SCHEMES)
