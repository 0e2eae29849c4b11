"""A folder of files that appears whole or not at all."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from lines_explorer.errors import ExplorerError

try:
    import fcntl
except ModuleNotFoundError:  # not on Windows: leftovers stay there
    fcntl = None

PARTIAL = ".partial"


@contextlib.contextmanager
def folder_beside(folder: Path, last: str, replaces: Collection[str] = ()) -> Iterator[Path]:
    """A temporary folder beside ``folder``; on success it takes its place, otherwise nothing of it stays.

    A new or empty ``folder`` comes into being by one rename. In one with files, those named in ``replaces`` go, the
    weights first, and the new ``last`` comes last: interrupted in between, it holds no model. What a killed process
    left beside is removed by the next one.

    Args:
        folder: where the files are wanted.
        last: the file without which the others are no model (the weights).
        replaces: names of files of an earlier model, which do not outlive it.

    Raises:
        OSError: the folder cannot be made or written.
    """
    folder = folder.absolute()
    _clear_leftovers(folder)
    new_parents = [parent for parent in folder.parents if not parent.exists()]
    staging = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=PARTIAL, dir=folder.parent))
        with _locked(staging):
            yield staging
            for file in staging.iterdir():
                with file.open("rb+") as written:
                    os.fsync(written.fileno())
                file.chmod(0o644)
            staging.chmod(0o755)
            _take_place(staging, folder, last, replaces)
    except BaseException:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)
        with contextlib.suppress(OSError):
            for parent in new_parents:
                parent.rmdir()
        raise


@contextlib.contextmanager
def told_in_a_sentence(folder: Path) -> Iterator[None]:
    """An operating system's refusal to write ``folder``, wrapped or not, becomes an ExplorerError with the remedy."""
    try:
        yield
    except (OSError, ExplorerError) as fault:
        reason = fault if isinstance(fault, OSError) else fault.__cause__
        if not isinstance(reason, OSError):
            raise
        raise ExplorerError(
            f"{folder} cannot be written ({reason.strerror or reason}); make room, or choose a folder you may write to."
        ) from reason


def _take_place(staging: Path, folder: Path, last: str, replaces: Collection[str]) -> None:
    with contextlib.suppress(OSError):  # a folder that is there and not empty, or a link to one
        os.rename(staging, folder)
        return
    folder.mkdir(exist_ok=True)
    for name in sorted({last, *replaces}, key=lambda name: not name.endswith(Path(last).suffix)):
        (folder / name).unlink(missing_ok=True)
    for file in sorted(staging.iterdir(), key=lambda file: (file.name == last, file.name)):
        os.replace(file, folder / file.name)
    staging.rmdir()


@contextlib.contextmanager
def _locked(staging: Path) -> Iterator[bool]:
    """Hold the lock of a temporary folder, which ends with the process; says whether nobody else had it."""
    if fcntl is None:
        yield False
        return
    handle = os.open(staging, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except OSError:  # held by another process, or a file system without locks
            free = False
        yield free
    finally:
        os.close(handle)


def _clear_leftovers(folder: Path) -> None:
    """Remove the temporary folders of processes that were killed."""
    for leftover in folder.parent.glob(f".{glob.escape(folder.name)}.*{PARTIAL}"):
        with contextlib.suppress(OSError), _locked(leftover) as free:
            if free:
                shutil.rmtree(leftover)
