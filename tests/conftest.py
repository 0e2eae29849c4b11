"""Shared fixtures: a cache folder of the tests' own, and the tiny suite."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("shared machines", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machines")


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """No test reads or writes the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LINES_EXPLORER_CACHE", str(folder))
        yield folder


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder for this test alone, and no notice given yet."""
    from lines_explorer.suites import cache

    monkeypatch.setenv("LINES_EXPLORER_CACHE", str(tmp_path / "fresh-cache"))
    monkeypatch.setattr(cache, "_noticed", set())
    return tmp_path / "fresh-cache"


@pytest.fixture(scope="session")
def tiny_suite_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny suite named ``tiny``, experts stored as deltas. Shared: copy it before changing anything."""
    from tiny import write_tiny_suite

    return write_tiny_suite(tmp_path_factory.mktemp("suites") / "tiny")


@pytest.fixture(scope="session")
def full_suite_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with experts stored as full weights."""
    from tiny import write_tiny_suite

    return write_tiny_suite(tmp_path_factory.mktemp("full") / "tiny", full_weights=True)


@pytest.fixture(scope="session")
def measured_suite_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny suite with statistics of every expert, as `build-suite statistics` makes them."""
    from tiny import write_tiny_suite

    from lines_explorer.training.statistics import Plan, build_statistics

    folder = write_tiny_suite(tmp_path_factory.mktemp("measured") / "tiny")
    file = folder / "suite.yaml"
    text = file.read_text(encoding="utf-8")
    for task in ("shapes", "colours", "places"):
        place = f"tasks/{task}/validation.parquet"
        text = text.replace(f"      validation: {place}\n", f"      validation: {place}\n      train: {place}\n")
    file.write_text(text, encoding="utf-8")
    build_statistics(folder, plan=Plan(pictures=30, batch=16))
    return folder


@pytest.fixture(scope="session")
def adaptive_suite_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny suite with AdaMerging's coefficients of all experts, and of shapes and places."""
    from tiny import write_tiny_suite

    from lines_explorer.training.adamerging import Plan, build_adamerging

    folder = write_tiny_suite(tmp_path_factory.mktemp("adaptive") / "tiny")
    for tasks in (None, ["places", "shapes"]):
        build_adamerging(folder, tasks, Plan(steps=40, rate=0.02), report=lambda line: None)
    return folder
