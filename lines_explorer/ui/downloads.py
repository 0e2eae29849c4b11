"""The merged model to take away, where the operator allows it: what ``merge`` writes, as one zip file."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradio.utils import get_upload_folder

from lines_explorer.merging import standard

if TYPE_CHECKING:
    from lines_explorer.recipe import Recipe
    from lines_explorer.ui.handlers import Desk

MOST = 3


class Downloads:
    """Models of one desk's suite as zip files, the last ``MOST`` asked for, for as long as the program runs.

    They lie below the one folder that Gradio hands files out from.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk, self._guard = desk, threading.Lock()
        self._kept: OrderedDict[str, Path] = OrderedDict()
        self._place: Path | None = None

    def model(self, request: Any) -> dict[str, Any]:
        """The path of a view's model, and its file name; or ``{"error": sentence}``."""
        return self._desk.guarded(self._model, request)

    def _model(self, request: Mapping[str, Any]) -> dict[str, Any]:
        path = self.zipped(self._desk.recipe(self._desk.read(request).view))
        return {"path": path.as_posix(), "name": path.name}

    def zipped(self, recipe: Recipe) -> Path:
        """The zip file of a recipe's model; written once, however many ask for it at the same time.

        Raises ExplorerError when there is no room for it on the disk.
        """
        from lines_explorer.commands.folder import told_in_a_sentence

        digest = standard(recipe).hash()
        with self._guard, told_in_a_sentence(Path(f"{digest}.zip")):
            path = self._kept.get(digest)
            if path is None or not path.exists():
                path = self._kept[digest] = self._written(recipe, digest)
            self._kept.move_to_end(digest)
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)[1].unlink(missing_ok=True)
            return path

    def _written(self, recipe: Recipe, digest: str) -> Path:
        """Beside its place first: a file that is handed out is whole."""
        from lines_explorer.commands.export import merge

        name = f"{self._desk.suite.name}-{digest}"
        with tempfile.TemporaryDirectory(dir=self._folder(), prefix=".") as beside:
            merge(self._desk.engine, recipe, Path(beside) / name)
            packed = Path(beside) / f"{name}.zip"
            with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as file:  # weights do not get smaller
                for part in sorted((Path(beside) / name).iterdir()):
                    file.write(part, f"{name}/{part.name}")
            return packed.rename(self._folder() / packed.name)

    def _folder(self) -> Path:
        if self._place is None or not self._place.is_dir():
            Path(get_upload_folder()).mkdir(parents=True, exist_ok=True)
            self._place = Path(tempfile.mkdtemp(dir=get_upload_folder(), prefix="lines-explorer-"))
            atexit.register(shutil.rmtree, self._place, ignore_errors=True)
        return self._place
