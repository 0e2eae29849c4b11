"""Pinned sources: verified before they are unpacked, all or nothing."""

import io
import json
import tarfile
import zipfile

import pytest

from lines_explorer.training import sources


@pytest.fixture
def pinned(tmp_path, monkeypatch):
    """A cache with one archive, pinned as npm package 'shapes' 1.0."""
    monkeypatch.setenv("LINES_EXPLORER_BUILD", str(tmp_path / "cache"))
    archive = tmp_path / "cache/downloads/shapes-1.0.tgz"
    archive.parent.mkdir(parents=True)
    with tarfile.open(archive, "w:gz") as bundle:
        member = tarfile.TarInfo("package/circle.txt")
        member.size = 5
        bundle.addfile(member, io.BytesIO(b"round"))
    monkeypatch.setattr(sources, "PINS", tmp_path / "pins")
    sources.PINS.mkdir()
    row = {"kind": "npm", "name": "shapes", "version": "1.0", "file": archive.name, "sha256": sources.sha256(archive)}
    (sources.PINS / "some.json").write_text(json.dumps([row]))
    return archive


def test_fetch_unpacks_once(pinned):
    folder = sources.fetch("npm", "shapes")
    assert (folder / "package/circle.txt").read_text() == "round"
    pinned.unlink()
    assert sources.fetch("npm", "shapes") == folder, "nothing is downloaded again"


def test_fetch_refuses_an_exchanged_archive(pinned):
    pinned.write_bytes(pinned.read_bytes() + b"x")
    with pytest.raises(sources.SourceError, match=r"shapes-1.0.tgz has sha256 .*delete it"):
        sources.fetch("npm", "shapes")
    assert not (pinned.parents[1] / "unpacked").exists()


def test_fetch_names_an_unknown_source(pinned):
    with pytest.raises(sources.SourceError, match=r"no pin for npm package 'stars'"):
        sources.fetch("npm", "stars")


def test_a_damaged_archive_leaves_nothing_behind(tmp_path):
    damaged = tmp_path / "a.zip"
    with zipfile.ZipFile(damaged, "w") as bundle:
        bundle.writestr("a.txt", "a" * 5000)
        bundle.writestr("b.txt", "b" * 5000)
    damaged.write_bytes(damaged.read_bytes().replace(b"b" * 500, b"c" * 500))
    with pytest.raises(zipfile.BadZipFile):
        sources.unpack(damaged, tmp_path / "out" / "a")
    assert list((tmp_path / "out").iterdir()) == []


def test_an_archive_cannot_write_outside_its_folder(tmp_path):
    archive = tmp_path / "evil.tgz"
    with tarfile.open(archive, "w:gz") as bundle:
        member = tarfile.TarInfo("../../evil.txt")
        member.size = 1
        bundle.addfile(member, io.BytesIO(b"x"))
    with pytest.raises(tarfile.FilterError):
        sources.unpack(archive, tmp_path / "deep" / "out" / "evil")
    assert not list(tmp_path.rglob("evil.txt"))


def test_every_pin_is_complete():
    for (kind, name), pin in sources.pins().items():
        assert kind in sources.KINDS and name and pin.version and pin.file
        assert len(pin.sha256) == 64 and int(pin.sha256, 16)


def test_download_says_which_client_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("LINES_EXPLORER_BUILD", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(sources.SourceError, match="`npm` is not installed"):
        sources.download("npm", "shapes", "1.0")
