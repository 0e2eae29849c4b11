"""Pictures of a suite: from folders and parquet, preprocessed as open_clip does, cached once, refused by name."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pictures import SIZE, parquet, png
from PIL import Image

from lines_explorer.checkpoints import sha256
from lines_explorer.errors import ExplorerError
from lines_explorer.suites import fingerprint, images
from lines_explorer.suites.sources import FolderSource, ParquetSource, open_source
from lines_explorer.suites.task import Data, Task


def task(*classes: str, known: bool = True) -> Task:
    return Task("birds", "Birds", "", "", classes, classes, ("{}",), {}, names_known=known)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes; names with case, blanks and depth; something that is no picture."""
    for number, name in enumerate(("great_tit/1.PNG", "great_tit/more/2.png", "wren/a b.png", "wren/notes.txt")):
        file = tmp_path / "birds" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png(10 * number) if file.suffix != ".txt" else b"no picture")
    (tmp_path / "birds" / ".hidden").mkdir()
    return tmp_path / "birds"


def test_a_folder_of_pictures_by_class(folder: Path, fresh_cache: Path) -> None:
    source = open_source(Data(folder=folder))
    assert source.names() == ("great_tit", "wren")
    pixels, labels = images.cached_images(source, task("wren", "great tit"), SIZE)
    assert labels.tolist() == [1, 1, 0] and labels.dtype == np.int64
    assert pixels.shape == (3, 3, SIZE, SIZE) and pixels.dtype == np.uint8
    assert pixels[:, 0, 0, 0].tolist() == [0, 10, 20]
    before = source.digest()
    assert before == FolderSource(folder).digest()
    (folder / "wren" / "a b.png").write_bytes(png(77))
    assert FolderSource(folder).digest() != before
    with pytest.raises(ExplorerError, match="class wren, which suite.yaml has not"):
        images.decode(source, task("great tit"), SIZE)


def test_a_hash_is_remembered_until_the_files_change(
    folder: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hashed() -> tuple[str, int]:
        read.clear()
        return fingerprint.path_sha256(folder), len(read)

    read: list[Path] = []
    monkeypatch.setattr(fingerprint, "sha256", lambda path: read.append(path) or sha256(path))
    assert hashed()[1] == hashed()[1] == 4, "small files are read"
    monkeypatch.setattr(fingerprint, "SMALL", 0)
    assert hashed()[1] == hashed()[1] == 4, "files that changed a moment ago are read"
    monkeypatch.setattr(fingerprint, "SETTLED", -10.0)
    first = hashed()
    assert first[1] == 4 and hashed() == (first[0], 0)
    (folder / "wren/notes.txt").write_bytes(b"No picture")
    changed = hashed()
    assert changed[0] != first[0] and changed[1] == 4 and hashed()[1] == 0
    (folder / "wren/notes.txt").rename(folder / "wren/other.txt")
    assert hashed()[0] not in (first[0], changed[0])


def test_empty_and_missing_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExplorerError, match="is no folder"):
        FolderSource(tmp_path / "nowhere").labels()
    with pytest.raises(ExplorerError, match="has no pictures in class subfolders"):
        FolderSource(tmp_path).labels()


@pytest.mark.parametrize(
    "cells", [[{"bytes": png(n), "path": None} for n in range(5)], [png(n) for n in range(5)]], ids=["image", "binary"]
)
def test_parquet_files_one_after_the_other(tmp_path: Path, fresh_cache: Path, cells: list) -> None:
    one = parquet(tmp_path / "a.parquet", cells[:3], [0, 1, 1], ["robin", "wren"], ("img", "kind"))
    two = parquet(tmp_path / "b.parquet", cells[3:], [1, 0], ["robin", "wren"], ("img", "kind"))
    source = open_source(Data(parquet=(one, two), image="img", label="kind"))
    pixels, labels = images.cached_images(source, task("robin", "wren"), SIZE)
    assert labels.tolist() == [0, 1, 1, 1, 0]
    assert pixels[:, 0, 3, 3].tolist() == [0, 1, 2, 3, 4]
    assert [name.rpartition(": ")[2] for name, _ in source.pictures([1, 4])] == [
        "the image in row 1",
        "the image in row 4",
    ]
    assert [content == png(n) for n, (_, content) in zip((1, 4), source.pictures([1, 4]), strict=True)] == [True, True]
    with pytest.raises(ExplorerError, match="no column image; it has img, kind"):
        open_source(Data(parquet=(one,))).labels()


@pytest.mark.parametrize("labels", [["wren", "robin"], [True, False], [1, 0]], ids=["names", "bools", "numbers"])
def test_kinds_of_labels(tmp_path: Path, labels: list) -> None:
    source = ParquetSource((parquet(tmp_path / "a.parquet", [png(0), png(1)], labels),))
    assert images.class_numbers(source, task("robin", "wren")).tolist() == [1, 0]


REFUSED = {
    "another name": (["robin", "finch"], [0, 1], True, "class 1 is finch there and wren here"),
    "another order": (["wren", "robin"], [0, 1], True, "in order: class 0 is wren"),
    "another order of prompts": (["wren", "robin"], [0, 1], False, "in order: class 0 is wren"),
    "more classes": (["robin", "wren", "tit"], [0, 1], False, r"\(3\) are not those of task birds in suite.yaml \(2\)"),
    "label too large": (None, [0, 2], True, "labels must be 0 to 1"),
    "label missing": (None, [0, None], True, "some pictures have no label"),
    "no rows": (["robin", "wren"], [], True, "hold no pictures"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_labels_that_do_not_fit_are_refused(tmp_path: Path, kind: str) -> None:
    names, labels, known, message = REFUSED[kind]
    file = parquet(tmp_path / "a.parquet", [png(0)] * len(labels), labels, names)
    with pytest.raises(ExplorerError, match=message):
        images.class_numbers(ParquetSource((file,)), task("robin", "wren", known=known))


def test_other_words_for_the_same_classes_pass_where_only_prompts_were_given(tmp_path: Path) -> None:
    file = parquet(tmp_path / "a.parquet", [png(0)] * 2, [0, 1], ["AnnualCrop", "Forest"])
    crops = task("annual crop land", "forest", known=False)
    assert images.class_numbers(ParquetSource((file,)), crops).tolist() == [0, 1]
    with pytest.raises(ExplorerError, match="AnnualCrop there and annual crop land here"):
        images.class_numbers(ParquetSource((file,)), task("annual crop land", "forest"))


def test_classes_that_differ_in_case_alone_are_kept_apart(tmp_path: Path) -> None:
    for name in ("A", "a", "b c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").write_bytes(png(0))
    assert images.class_numbers(FolderSource(tmp_path), task("a", "A", "b c")).tolist() == [1, 0, 2]
    file = parquet(tmp_path / "x.parquet", [png(0)] * 2, [0, 1], ["A", "a"])
    with pytest.raises(ExplorerError, match="in order: class 0 is A there and a here"):
        images.class_numbers(ParquetSource((file,)), task("a", "A"))
    shouted = parquet(tmp_path / "y.parquet", [png(0)] * 2, [0, 1], ["GREAT_TIT", "Wren"])
    assert images.class_numbers(ParquetSource((shouted,)), task("great tit", "wren")).tolist() == [0, 1]


def test_missing_class_names_are_noticed(tmp_path: Path, fresh_cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = ParquetSource((parquet(tmp_path / "a.parquet", [png(0)] * 2, [0, 1]),))
    images.class_numbers(source, task("robin", "wren"))
    assert "their order is taken from suite.yaml unchecked" in caplog.text


CORRUPT = {
    "truncated": png(1, (64, 64))[:70],
    "text": b"<html>not found</html>",
    "empty": b"",
    "nothing": None,
    "bomb": None,
}


@pytest.mark.parametrize("kind", CORRUPT)
def test_a_corrupt_picture_is_refused_by_name(
    tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    content = CORRUPT[kind]
    if kind == "bomb":
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
        content = png(1, (64, 64))
    file = parquet(tmp_path / "a.parquet", [png(0), png(1), content], [0, 1, 1], ["robin", "wren"])
    with pytest.raises(ExplorerError, match="a.parquet: the image in row 2 cannot be decoded"):
        images.cached_images(ParquetSource((file,)), task("robin", "wren"), SIZE)
    assert not list((fresh_cache / "images").glob("*")), "nothing half-made may stay"
    if content is not None:
        (tmp_path / "birds/wren").mkdir(parents=True)
        (tmp_path / "birds/wren/bad picture.png").write_bytes(content)
        with pytest.raises(ExplorerError, match="wren/bad picture.png cannot be decoded"):
            images.decode(FolderSource(tmp_path / "birds"), task("wren"), SIZE)


@pytest.mark.parametrize("size", [(8, 8), (20, 13), (13, 20), (31, 32), (9, 8), (100, 3), (5, 5), (17, 17)])
@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "P", "1", "CMYK", "LA"])
def test_pixels_are_those_of_the_usual_transform(size: tuple[int, int], mode: str) -> None:
    """open_clip's evaluation transform (torchvision: resize the shorter side, centre crop), in Pillow's words."""
    random = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(random).convert(mode).save(file, "tiff")
    with Image.open(io.BytesIO(file.getvalue())) as image:
        width, height = size
        if min(size) != SIZE:
            wide = width > height
            long = int(SIZE * max(size) / min(size))
            image = image.resize((long, SIZE) if wide else (SIZE, long), Image.Resampling.BICUBIC)
        left, top = int(round((image.width - SIZE) / 2)), int(round((image.height - SIZE) / 2))
        expected = np.asarray(image.crop((left, top, left + SIZE, top + SIZE)).convert("RGB"))
    assert np.array_equal(images.pixels("x", file.getvalue(), SIZE).transpose(1, 2, 0), expected)


def test_the_cache_is_keyed_by_data_classes_size_and_transform(
    tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(*names: str, size: int = SIZE) -> int:
        images.cached_images(source, task(*names), size)
        return len(list((fresh_cache / "images").glob("*.images.npy")))

    source = FolderSource(tmp_path / "birds")
    for name in ("robin", "wren"):
        (tmp_path / "birds" / name).mkdir(parents=True)
        (tmp_path / "birds" / name / "1.png").write_bytes(png(1, (30, 20)))
    assert count("robin", "wren") == count("robin", "wren") == 1
    assert count("wren", "robin") == 2
    assert count("robin", "wren", size=6) == 3
    monkeypatch.setattr(images, "TRANSFORM", "another")
    assert count("robin", "wren") == 4
    (tmp_path / "birds/wren/1.png").write_bytes(png(2))
    source = FolderSource(tmp_path / "birds")
    assert count("robin", "wren") == 5


def filled(folder: Path, shades: range) -> list[FolderSource]:
    for shade in shades:
        (folder / str(shade) / "wren").mkdir(parents=True)
        (folder / str(shade) / "wren/1.png").write_bytes(png(shade))
    return [FolderSource(folder / str(shade)) for shade in shades]


def test_the_least_recently_used_go_first(tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = 3 * 64 * 64
    monkeypatch.setenv("LINES_EXPLORER_CACHE_GB", str(3.5 * one / 1e9))
    sources = filled(tmp_path / "data", range(4))
    kept = [images.cached_images(source, task("wren"), 64)[0] for source in sources[:3]]
    stems = {}
    for age, shade in ((300, 1), (200, 2), (100, 0)):
        (file,) = [f for f in (fresh_cache / "images").glob("*.images.npy") if np.load(f)[0, 0, 0, 0] == shade]
        os.utime(file, (file.stat().st_atime, file.stat().st_mtime - age))
        stems[shade] = file
    images.cached_images(sources[2], task("wren"), 64)  # used again
    os.utime(stems[2])
    images.cached_images(sources[3], task("wren"), 64)
    assert [stems[shade].exists() for shade in (0, 1, 2)] == [True, False, True]
    assert not stems[1].with_name(stems[1].name.replace(".images.", ".labels.")).exists()
    assert kept[1][0, 0, 0, 0] == 1, "what is mapped stays readable"
    assert sum(file.stat().st_size for file in stems.values() if file.exists()) < 3.5 * one


def test_what_a_killed_process_left_is_removed(tmp_path: Path, fresh_cache: Path) -> None:
    (fresh_cache / "images").mkdir(parents=True)
    old, new = fresh_cache / "images/.old.images.npy", fresh_cache / "images/.new.images.npy"
    old.write_bytes(b"x"), new.write_bytes(b"x")
    os.utime(old, (0, 0))
    images.cached_images(filled(tmp_path / "data", range(1))[0], task("wren"), SIZE)
    assert (old.exists(), new.exists()) == (False, True)


@pytest.mark.parametrize("limit", ["0.000000001", "many", "-1"])
def test_a_split_over_the_limit_stays_in_memory(
    tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, limit: str
) -> None:
    monkeypatch.setenv("LINES_EXPLORER_CACHE_GB", limit)
    (source,) = filled(tmp_path / "data", range(1))
    if limit[0] != "0":
        with pytest.raises(ExplorerError, match=f"LINES_EXPLORER_CACHE_GB is {limit}"):
            images.cached_images(source, task("wren"), SIZE)
        return
    assert images.cached_images(source, task("wren"), SIZE)[0].shape == (1, 3, SIZE, SIZE)
    assert "LINES_EXPLORER_CACHE_GB" in caplog.text and not list((fresh_cache / "images").glob("*"))


def test_processes_share_the_cache(tmp_path: Path, fresh_cache: Path) -> None:
    (source,) = filled(tmp_path / "data", range(1))
    work = (
        "import sys; from lines_explorer.suites import images; from lines_explorer.suites.sources import FolderSource\n"
        "from lines_explorer.suites.task import Task; from pathlib import Path\n"
        "task = Task('birds', '', '', '', ('wren',), ('wren',), ('{}',), {})\n"
        f"pixels = images.cached_images(FolderSource(Path(sys.argv[1])), task, {SIZE})[0]\n"
        "print(pixels.shape[0], type(pixels).__name__)"
    )
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", work, str(source.folder)]
    running = [subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0].split() for process in running] == [["1", "memmap"]] * 2
    stems = {file.name.split(".")[0] for file in (fresh_cache / "images").iterdir()}
    assert len(stems) == 1 and len(list((fresh_cache / "images").iterdir())) == 2
