"""The Hugging Face hub, or a folder that mirrors it: weights and data sets by name, with clear refusals.

``LINES_EXPLORER_HUB`` names a folder laid out as OWNER/NAME/files; what is in it is taken from there, through the same
calls, and nothing is asked of the network for it.  ``HF_HUB_OFFLINE=1`` keeps to what was downloaded before.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lines_explorer.errors import ExplorerError
from lines_explorer.suites.task import Data, Hub

if TYPE_CHECKING:
    import datasets

WEIGHTS = ("config.json", "adapter_config.json", "*.safetensors", "*.safetensors.index.json")
PICKLES = ("*.bin", "*.bin.index.json", "*.pt")


def mirror(repository: str) -> Path | None:
    """The repository's folder under ``LINES_EXPLORER_HUB``, if it is there."""
    root = os.environ.get("LINES_EXPLORER_HUB")
    folder = Path(root) / repository if root else None
    return folder if folder is not None and folder.is_dir() else None


def snapshot(hub: Hub) -> Path:
    """The folder (or the one file) of weights on this machine, downloaded at most once.

    Raises ExplorerError when it is not on the hub, not here while offline, or holds no weights.
    """
    folder = mirror(hub.repository) or _download(hub, (hub.file,) if hub.file else WEIGHTS)
    if hub.file:
        if not (folder / hub.file).is_file():
            raise ExplorerError(f"The hub's repository {hub.repository} has no file {hub.file}; check the name.")
        return folder / hub.file
    if not any(folder.glob("*.safetensors")) and mirror(hub.repository) is None:
        folder = _download(hub, (*WEIGHTS, *PICKLES))
    if not any(match for pattern in ("*.safetensors", *PICKLES) for match in folder.glob(pattern)):
        raise ExplorerError(f"The hub's repository {hub.repository} holds no weights; name another, or its file.")
    return folder


def load_data(data: Data) -> datasets.Dataset:
    """One split of a data set on the hub, as `datasets` gives it.

    Raises ExplorerError when the data set, its configuration or its split is not there, or not here while offline.
    """
    import datasets

    local = mirror(data.hub)
    try:
        return datasets.load_dataset(
            str(local) if local else data.hub, data.config, split=data.split, revision=None if local else data.revision
        )
    except Exception as fault:  # datasets raises a dozen kinds, some of them private
        raise _refusal(f"data set {data}", data.revision, fault) from fault


def _download(hub: Hub, patterns: tuple[str, ...]) -> Path:
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(huggingface_hub.snapshot_download(hub.repository, revision=hub.revision, allow_patterns=patterns))
    except (OSError, HfHubHTTPError, HFValidationError, ValueError) as fault:
        raise _refusal(f"model {hub.repository}", hub.revision, fault) from fault


def _refusal(what: str, revision: str | None, fault: Exception) -> ExplorerError:
    """One sentence: not here while offline, or what the hub said."""
    from huggingface_hub import constants

    named = f"The {what}" + (f" at revision {revision}" if revision else "")
    if constants.HF_HUB_OFFLINE or os.environ.get("HF_DATASETS_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        return ExplorerError(
            f"{named} is not in the local hub cache and HF_HUB_OFFLINE is set: unset it once to download, or put the "
            "files under OWNER/NAME in a folder named by LINES_EXPLORER_HUB."
        )
    why = (str(fault).strip().splitlines() or [type(fault).__name__])[0].rstrip(".")
    return ExplorerError(
        f"{named} cannot be had from the hub ({why}): check its name, configuration and split, and the network."
    )
