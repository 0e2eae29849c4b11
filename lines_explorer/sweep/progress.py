"""A progress bar for many points: on a terminal only, nothing in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from lines_explorer.recipe import Recipe
from lines_explorer.sweep.measuring import Tick


@contextmanager
def progress(label: str, total: int | None = None) -> Iterator[Tick]:
    """A tick that counts points on stderr; ``total`` may be reached early or passed."""
    with tqdm(total=total, unit=" points", desc=label, disable=None, leave=False) as bar:

        def tick(recipe: Recipe) -> None:
            bar.total = None if bar.total is None else max(bar.total, bar.n + 1)
            bar.update()

        yield tick
