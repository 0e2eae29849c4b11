"""The Hugging Face hub, or a folder that mirrors it: weights and data sets by name, with clear refusals.

``LINES_EXPLORER_HUB`` names a folder laid out as OWNER/NAME/files; what is in it is taken from there, through the same
calls, and nothing is asked of the network for it.  ``HF_HUB_OFFLINE=1`` keeps to what was downloaded before.  The
commit that a download came from is noted in the cache folder, so that it can be shown and written down as a revision.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from lines_explorer.checkpoints import written_beside
from lines_explorer.errors import ExplorerError
from lines_explorer.suites.cache import cache_folder
from lines_explorer.suites.task import Data, Hub

if TYPE_CHECKING:
    import datasets

WEIGHTS = ("config.json", "adapter_config.json", "*.safetensors", "*.safetensors.index.json")
PICKLES = ("*.bin", "*.bin.index.json", "*.pt")
MODEL, DATASET = "model", "dataset"
COMMIT = re.compile(r"[0-9a-f]{40}")


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
        rows = datasets.load_dataset(
            str(local) if local else data.hub, data.config, split=data.split, revision=None if local else data.revision
        )
    except Exception as fault:  # datasets raises a dozen kinds, some of them private
        raise _refusal(data, fault) from fault
    if local is None and (commit := loaded_commit(rows)):
        _note(data, commit)
    return rows


def loaded_commit(rows: datasets.Dataset) -> str | None:
    """The commit that a table came from, under which `datasets` keeps it; None for a local one."""
    folders = [Path(file["filename"]).parent.name for file in rows.cache_files]
    return folders[0] if folders and COMMIT.fullmatch(folders[0]) else None


def commit_of(place: Hub | Data) -> str | None:
    """The commit that a source on the hub is taken from: the one it names, or that of its last download.

    None before the first download, and for a repository that a mirror folder holds.
    """
    kind, repository, revision = _named(place)
    if mirror(repository) is not None:
        return None
    if COMMIT.fullmatch(revision or ""):
        return revision
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        commit = json.loads(_note_file(kind, repository, revision).read_text(encoding="utf-8"))["commit"]
        return commit if COMMIT.fullmatch(commit) else None
    return None


def newest_commit(place: Hub | Data) -> str:
    """The commit that the hub has now under a source's revision.  Raises ExplorerError when it cannot be asked."""
    import huggingface_hub

    kind, repository, revision = _named(place)
    try:
        return str(huggingface_hub.HfApi().repo_info(repository, repo_type=kind, revision=revision).sha)
    except Exception as fault:  # no network, no such repository, a proxy's answer
        raise _refusal(place, fault) from fault


def download_command(place: Hub | Data, folder: str = "HUB") -> str:
    """The command that fetches a source into ``folder``, laid out as ``LINES_EXPLORER_HUB`` expects it."""
    kind, repository, revision = _named(place)
    words = ["hf", "download", repository]
    words += [place.file] if isinstance(place, Hub) and place.file else []
    words += ["--repo-type", kind] if kind != MODEL else []
    words += ["--revision", revision] if revision else []
    return shlex.join([*words, "--local-dir", f"{folder}/{repository}"])


def _named(place: Hub | Data) -> tuple[str, str, str | None]:
    """Kind, repository and revision of a source."""
    if isinstance(place, Hub):
        return MODEL, place.repository, place.revision
    return DATASET, str(place.hub), place.revision


def _note_file(kind: str, repository: str, revision: str | None) -> Path:
    key = hashlib.sha256(json.dumps([kind, repository, revision]).encode()).hexdigest()[:32]
    return cache_folder() / "hub" / f"{key}.json"


def _note(place: Hub | Data, commit: str) -> None:
    """Notes the commit of a download in the cache folder, if that is one and the folder can be written."""
    kind, repository, revision = _named(place)
    if not COMMIT.fullmatch(commit):
        return
    note = {"kind": kind, "repository": repository, "revision": revision, "commit": commit}
    with contextlib.suppress(OSError), written_beside(_note_file(kind, repository, revision)) as beside:
        beside.write_text(json.dumps(note), encoding="utf-8")


def _download(hub: Hub, patterns: tuple[str, ...]) -> Path:
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        folder = Path(huggingface_hub.snapshot_download(hub.repository, revision=hub.revision, allow_patterns=patterns))
    except (OSError, HfHubHTTPError, HFValidationError, ValueError) as fault:
        raise _refusal(hub, fault) from fault
    _note(hub, folder.name)
    return folder


def _refusal(place: Hub | Data, fault: Exception) -> ExplorerError:
    """One sentence: what to download and how while offline, or what the hub said."""
    from huggingface_hub import constants

    what = f"model {place.repository}" if isinstance(place, Hub) else f"data set {place}"
    named = f"The {what}" + (f" at revision {place.revision}" if place.revision else "")
    if constants.HF_HUB_OFFLINE or os.environ.get("HF_DATASETS_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        root = os.environ.get("LINES_EXPLORER_HUB") or "HUB"
        return ExplorerError(
            f"{named} is not on this machine and HF_HUB_OFFLINE is set: unset it, or run "
            f"`{download_command(place, root)}` where there is a network, bring the folder here and set "
            f"LINES_EXPLORER_HUB={root}."
        )
    why = (str(fault).strip().splitlines() or [type(fault).__name__])[0].rstrip(".")
    return ExplorerError(
        f"{named} cannot be had from the hub ({why}): check its name, configuration and split, and the network."
    )
