"""Every kind of wrong file that the tests make, with the one sentence it gets.

``pytest -s tests/checkpoints/test_refusal_table.py`` prints the table and the count.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from makers import in_zip, pickled, safetensors_of, state, write, zip_of
from test_fitting import MIXED, PAIRS, clip_shapes
from test_hostile_pickles import ASSEMBLED, ONLY_NAMED, REALLY_RUNS
from test_wrong_files import CONTENT, PLACES

from lines_explorer.checkpoints import open_checkpoint, require_fit
from lines_explorer.errors import ExplorerError

LEAST = 60


def sentence(work: Callable[[], object]) -> str:
    with pytest.raises(ExplorerError) as caught:
        work()
    return str(caught.value)


def of_content(folder: Path, content: bytes) -> str:
    path = write(folder, "wrong.pt", content)
    return sentence(lambda: open_checkpoint(path))


def of_pair(folder: Path, shapes: dict[str, tuple[int, ...]]) -> str:
    clip = clip_shapes()
    base = open_checkpoint(write(folder, "base.pt", zip_of(state(clip), clip)))
    expert = open_checkpoint(write(folder, "expert.safetensors", safetensors_of(shapes)))
    return sentence(lambda: require_fit(base, expert))


def of_mixed(folder: Path, shapes: dict[str, tuple[int, ...]]) -> str:
    checkpoint = open_checkpoint(write(folder, "mixed.pt", zip_of(state(shapes), shapes)))
    return sentence(lambda: checkpoint.canonical)


def table(folder: Path) -> dict[tuple[str, str], str]:
    """(group, kind) → the sentence."""
    trace = str(folder / "trace")
    found = {("content", kind): of_content(folder, content) for kind, (content, _) in CONTENT.items()}
    for kind, make in REALLY_RUNS.items():
        found["runs code", kind] = of_content(folder, in_zip(pickle.dumps({"a": make(trace)}, 4)))
    for kind, make in ONLY_NAMED.items():
        found["calls", kind] = of_content(folder, in_zip(pickled({"a": make("")})))
    found |= {("assembled", kind): of_content(folder, in_zip(content)) for kind, content in ASSEMBLED.items()}
    found |= {("does not fit", kind): of_pair(folder, shapes) for kind, (shapes, _) in PAIRS.items()}
    found |= {("mixed", kind): of_mixed(folder, shapes) for kind, (shapes, _) in MIXED.items()}
    for kind, (make, _) in PLACES.items():
        place = folder / f"place {len(found)}"
        place.mkdir()
        found["place", kind] = sentence(lambda make=make, place=place: open_checkpoint(make(place)))
    assert not Path(trace).exists()
    return found


def test_more_than_sixty_kinds_get_one_sentence_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = table(tmp_path)
    print()
    for (group, kind), said in found.items():
        print(f"{group:12}  {kind:38}  {said.replace(str(tmp_path) + '/', '')[:150]}")
    print(f"{len(found)} kinds of wrong file, one sentence each")
    assert len(found) >= 4 * LEAST and len({kind for group, kind in found if group == "content"}) >= LEAST
    assert all(said.endswith(".") and "\n" not in said for said in found.values())
    assert len(set(found.values())) > 0.7 * len(found), "sentences say what is wrong, not only that something is"
