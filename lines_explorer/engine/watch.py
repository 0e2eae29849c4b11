"""Notices when the files of an open suite change on disk: new numbers would then belong to no known suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lines_explorer.errors import ExplorerError
from lines_explorer.merging import COEFFICIENTS, METHODS
from lines_explorer.suites import Suite

Stamp = tuple[int, int, int]


class SuiteWatch:
    """Remembers a suite's local files as they were when it was opened: its folder's own, experts, splits and heads.

    Folders of single pictures are not watched; they are decoded once.
    """

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._stamps = self._look()

    def check(self) -> None:
        """Raises ExplorerError when a file's content is not what it was; quick while nothing was touched."""
        stamps = self._look()
        if stamps == self._stamps:
            return
        touched = sorted(name for name in stamps.keys() | self._stamps if stamps.get(name) != self._stamps.get(name))
        if changed := self._changed(touched):
            raise ExplorerError(
                f"The files of suite {self._suite.name} changed while it was open ({changed}); stored results still "
                "hold, but for new ones start the program again."
            )
        self._stamps = stamps

    def _changed(self, touched: list[str]) -> str:
        """Which of the touched files hold something else now, as a short list; '' when none does."""
        try:
            now = Suite(self._suite.folder)
            if _hashes(now, self._suite) != _hashes(self._suite, self._suite):
                return ", ".join(touched[:3])
            problems = now.verify() if (self._suite.folder / "manifest.json").is_file() else []
        except (ExplorerError, OSError):
            return ", ".join(touched[:3])
        return ", ".join([name for name in touched if any(problem.startswith(f"{name} ") for problem in problems)][:3])

    def _look(self) -> dict[str, Stamp]:
        folder = self._suite.folder
        return {
            path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path): _stamp(path)
            for path in self._files()
        }

    def _files(self) -> Iterator[Path]:
        tasks = self._suite.tasks.values()
        places = [self._suite.folder, *self._suite.fine_tuned.values(), *self._suite.statistics.values()]
        places += self._suite.coefficients.values()
        places += [place for task in tasks for place in (*task.splits.values(), task.head)]
        for place in places:
            if isinstance(place, Path) and place.is_dir():
                yield from (path for path in place.iterdir() if path.is_file() and not path.name.startswith("."))
            elif isinstance(place, Path):
                yield place


def _hashes(suite: Suite, known: Suite) -> list[str]:
    """What the suite's results are kept under, for all runs and all coefficients that ``known`` has."""
    adaptive = [name for name, method in METHODS.items() if method.statistics == COEFFICIENTS]
    learned = [suite.hash_for(sorted(tasks), name) for tasks in known.coefficients for name in adaptive]
    return [suite.hash_for(list(known.fine_tuned)), *learned]


def _stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    return status.st_mtime_ns, status.st_size, status.st_ino
