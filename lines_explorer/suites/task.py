"""A suite.yaml's content, checked: what a suite is made of, before any of its files is opened."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lines_explorer.recipe import RUN
from lines_explorer.suites.schema import Where, read_checked

TEMPLATE = "a photo of a {}."
REPOSITORY = re.compile(r"[\w][\w.-]*(/[\w][\w.-]*)?")


@dataclass(frozen=True)
class Hub:
    """Weights on the Hugging Face hub: a repository, or one ``file`` of it."""

    repository: str
    revision: str | None = None
    file: str | None = None

    def __str__(self) -> str:
        return f"hub:{self.repository}" + (f"/{self.file}" if self.file else "")


Place = Path | Hub


@dataclass(frozen=True)
class Data:
    """Where a split's labelled pictures lie: one of ``folder`` (a subfolder per class), ``parquet`` files or ``hub``.

    ``image`` and ``label`` are column names; ``held_out`` says that the split is the part of these pictures that the
    reference's rule keeps for validation.
    """

    folder: Path | None = None
    parquet: tuple[Path, ...] = ()
    hub: str | None = None
    config: str | None = None
    split: str | None = None
    revision: str | None = None
    image: str = "image"
    label: str = "label"
    held_out: bool = False

    def __str__(self) -> str:
        named = "/".join(part for part in (self.hub, self.config, self.split) if part)
        return f"hub:{named}" if self.hub else str(self.folder or ", ".join(map(str, self.parquet)))


@dataclass(frozen=True)
class Task:
    """Labelled images and their class prompts.

    ``splits`` maps a split ("validation", "test" or a shift's name) to its parquet file with columns image and label,
    or to its Data; ``shifts`` maps those of them that are shifted sets to their titles.  ``head``: a file with the
    classifier.  ``names_known``: the data's own class names were given, so that they can be held against it.
    ``train``: the training pictures, where suite.yaml names them.
    """

    name: str
    title: str
    domain: str
    new_in_test: str
    classes: tuple[str, ...]
    prompts: tuple[str, ...]
    templates: tuple[str, ...]
    splits: Mapping[str, Path | Data] = field(hash=False)
    shifts: Mapping[str, str] = field(default_factory=dict, hash=False)
    head: Path | None = None
    names_known: bool = True
    train: Path | Data | None = None


@dataclass(frozen=True)
class Run:
    """One more fine-tuning run of a task, beside its expert; ``name`` is ``TASK/NUMBER``, numbered from 1.

    ``facts``: how it was made, by suite.yaml: ``seed``, ``rate``, and ``steps``, ``batch``, ``decay`` where given.
    """

    name: str
    place: Place
    facts: Mapping[str, int | float] = field(hash=False)


@dataclass(frozen=True)
class Description:
    """The checked content of a suite.yaml; paths are absolute."""

    name: str
    title: str
    architecture: str
    config: Path | None
    activation: str | None
    preprocess: Mapping[str, tuple[float, ...]] | None
    weights: Place
    text: Path | None
    experts: Mapping[str, Place]
    tasks: Mapping[str, Task]
    statistics: Mapping[str, Path]
    coefficients: Mapping[frozenset[str], Path]
    runs: Mapping[str, tuple[Run, ...]]


def read_description(folder: Path) -> Description:
    """Reads ``folder/suite.yaml``.

    Raises ExplorerError naming the file and the field when the YAML is damaged, a field is unknown, missing or wrong,
    or a path leads out of the suite's folder and of the folders named in ``LINES_EXPLORER_DATA``.
    """
    file = folder / "suite.yaml"
    content = read_checked(file)
    top, paths = Where(file), _Paths(folder)
    base, experts = content["base"], {str(name): place for name, place in content["experts"].items()}
    tasks = {str(name): _task(top / "tasks" / name, paths, str(name), row) for name, row in content["tasks"].items()}
    if extra := sorted(set(experts) - set(tasks)):
        raise (top / "experts").fail(
            f"has experts without a task of the same name: {', '.join(extra)}; known tasks are {', '.join(tasks)}"
        )
    measured = {str(name): path for name, path in content.get("statistics", {}).items()}
    if extra := sorted(set(measured) - set(experts)):
        raise (top / "statistics").fail(f"has statistics of {', '.join(extra)}, but no expert of that name")
    runs = {str(name): rows for name, rows in content.get("runs", {}).items()}
    if extra := sorted(set(runs) - set(experts)):
        raise (top / "runs").fail(
            f"has runs of {extra[0]}, which has no expert; known experts are {', '.join(experts)}"
        )
    at = top / "base"
    return Description(
        name=content["name"],
        title=content["title"],
        architecture=base["architecture"],
        config=paths.inside(at / "config", base["config"]) if "config" in base else None,
        activation=base.get("activation"),
        preprocess=_preprocess(base.get("preprocess")),
        weights=paths.weights(at / "weights", base["weights"]),
        text=paths.inside(top / "text", content["text"]) if "text" in content else None,
        experts={name: paths.weights(top / "experts" / name, place) for name, place in experts.items()},
        tasks=tasks,
        statistics={name: paths.inside(top / "statistics" / name, path) for name, path in measured.items()},
        coefficients=_coefficients(top / "coefficients", paths, content.get("coefficients", {}), experts),
        runs={name: _runs(top / "runs" / name, paths, name, rows) for name, rows in runs.items()},
    )


@dataclass(frozen=True)
class _Paths:
    """Paths of one suite: they stay inside its folder, or inside a folder that the user (not the suite) allows."""

    folder: Path

    def inside(self, where: Where, written: str) -> Path:
        try:
            path = (self.folder / Path(written).expanduser()).resolve()
        except (OSError, ValueError, RuntimeError) as fault:  # a NUL, a loop of links, ~nobody
            raise where.fail(f"is {written!r}, which is no path ({fault})") from fault
        allowed = [part for part in os.environ.get("LINES_EXPLORER_DATA", "").split(os.pathsep) if part]
        if not any(path.is_relative_to(Path(root).resolve()) for root in (self.folder, *allowed)):
            raise where.fail(
                f"is {written}, which lies outside the suite's folder; move it there, or name a folder that holds it "
                "in LINES_EXPLORER_DATA"
            )
        return path

    def several(self, where: Where, written: str | Sequence[str]) -> tuple[Path, ...]:
        """The files of one path, of several, or of a pattern with ``*``, in order."""
        found: list[Path] = []
        for text in [written] if isinstance(written, str) else written:
            path = self.inside(where, text)
            pattern = path.name if "*" in path.name else ""
            matches = sorted(match for match in path.parent.glob(pattern) if match.is_file()) if pattern else [path]
            if not matches:
                raise where.fail(f"is {text}, which no file matches; check the folder and the pattern")
            found += [self.inside(where, str(match)) for match in matches]
        return tuple(found)

    def weights(self, where: Where, value: str | Mapping[str, Any]) -> Place:
        if isinstance(value, str):
            return self.inside(where, value)
        file = value.get("file")
        if file and (file.startswith(("/", "~")) or ".." in file.split("/")):
            raise (where / "file").fail(f"is {file}, which is not a file of the repository; write its path in it")
        return Hub(_repository(where, value["hub"]), value.get("revision"), file)

    def data(self, where: Where, value: str | Mapping[str, Any], split: str) -> Path | Data:
        if isinstance(value, str):
            path = self.inside(where, value)
            return Data(folder=path) if os.path.isdir(path) else path
        columns = {key: value[key] for key in ("image", "label", "config", "revision") if key in value}
        if "folder" in value:
            return Data(folder=self.inside(where / "folder", value["folder"]))
        if "parquet" in value:
            return Data(parquet=self.several(where / "parquet", value["parquet"]), **columns)
        return Data(hub=_repository(where, value["hub"]), split=value.get("split", split), **columns)


def _runs(where: Where, paths: _Paths, task: str, rows: Sequence[Mapping[str, Any]]) -> tuple[Run, ...]:
    runs: list[Run] = []
    for number, row in enumerate(rows, start=1):
        at = where / (number - 1) / "file"
        place = paths.weights(at, row["file"])
        if place in [run.place for run in runs]:
            raise at.fail(f"is {row['file']}, which another run has already; name each once")
        facts = {key: value for key, value in row.items() if key != "file"}
        runs.append(Run(f"{task}{RUN}{number}", place, facts))
    return tuple(runs)


def _coefficients(
    where: Where, paths: _Paths, rows: Mapping[str, Mapping[str, Any]], experts: Mapping[str, Place]
) -> dict[frozenset[str], Path]:
    """Experts merged → file; each set of experts has one."""
    found: dict[frozenset[str], Path] = {}
    for name, row in rows.items():
        tasks, at = list(map(str, row["tasks"])), where / name / "tasks"
        if unknown := [task for task in tasks if task not in experts]:
            raise at.fail(f"names {unknown[0]}, which has no expert; known experts are {', '.join(experts)}")
        if len(set(tasks)) < len(tasks):
            raise at.fail(f"is {', '.join(tasks)}; name each expert once")
        if frozenset(tasks) in found:
            raise at.fail(f"is {', '.join(tasks)}, for which there are other coefficients already; keep one of the two")
        found[frozenset(tasks)] = paths.inside(where / name / "file", row["file"])
    return found


def _task(where: Where, paths: _Paths, name: str, row: Mapping[str, Any]) -> Task:
    splits = _splits(where / "splits", paths, row["splits"])
    shifts = row.get("shifts", {})
    if twice := sorted(set(splits) & set(shifts)):
        raise where.fail(f"has {twice[0]} both as a split and as a shift; rename one")
    for shift, value in shifts.items():
        at = where / "shifts" / shift
        splits[str(shift)] = paths.data(at, value.get("file") or value["data"], str(shift))
    classes, prompts, templates = _words(where, row, splits)
    return Task(
        name=name,
        title=row.get("title", name),
        domain=row.get("domain", "pictures"),
        new_in_test=row.get("new_in_test", "other pictures"),
        classes=classes,
        prompts=prompts,
        templates=templates,
        splits=splits,
        shifts={str(shift): str(value.get("title", shift)) for shift, value in shifts.items()},
        head=paths.inside(where / "head", row["head"]) if "head" in row else None,
        names_known="classes" in row,
        train=paths.data(where / "splits" / "train", train, "train") if (train := row["splits"].get("train")) else None,
    )


def _splits(where: Where, paths: _Paths, rows: Mapping[str, Any]) -> dict[str, Path | Data]:
    """The splits that are scored; without a validation split, a part of ``train`` is held out for it."""
    if unknown := sorted(set(rows) - {"train", "validation", "test"}):
        raise (where / unknown[0]).fail("is unknown; splits are train, validation and test, other sets are shifts")
    splits = {split: paths.data(where / split, rows[split], split) for split in ("validation", "test") if split in rows}
    if "train" in rows and "validation" not in rows:
        train = paths.data(where / "train", rows["train"], "train")
        found = train if isinstance(train, Data) else Data(parquet=(train,))
        splits = {"validation": Data(**{**vars(found), "held_out": True})} | splits
    if not splits:
        raise where.fail("has neither validation nor test nor train; name at least one")
    return splits


def _words(where: Where, row: Mapping[str, Any], splits: Mapping[str, Path | Data]) -> tuple[tuple[str, ...], ...]:
    """(classes, prompts, templates); class names are read from local data where suite.yaml gives none."""
    prompts = tuple(map(str, row.get("prompts", ())))
    classes = tuple(map(str, row.get("classes", prompts))) or _names_in_data(where, splits)
    prompts = prompts or tuple(name.replace("_", " ") for name in classes)
    if len(prompts) != len(classes):
        raise where.fail(f"has {len(classes)} classes and {len(prompts)} prompts; one each is needed")
    if twice := [name for name, count in Counter(classes).items() if count > 1]:
        raise (where / "classes").fail(f"has {twice[0]} twice; class names are unique")
    templates = tuple(map(str, row.get("templates", (TEMPLATE,))))
    for number, template in enumerate(templates):
        if template.count("{}") != 1:
            raise (where / "templates" / number).fail(f"needs {{}} once, where the prompt goes, got {template!r}")
    return classes, prompts, templates


def _names_in_data(where: Where, splits: Mapping[str, Path | Data]) -> tuple[str, ...]:
    from lines_explorer.suites.sources import open_source

    for data in splits.values():
        if isinstance(data, Path) or not data.hub:
            names = open_source(data).names()
            if names:
                return names
    raise (where / "classes").fail(
        "is missing: the data do not state class names here; list them (or prompts) in the order of the labels"
    )


def _preprocess(row: Mapping[str, Any] | None) -> dict[str, tuple[float, ...]] | None:
    return {key: tuple(map(float, row[key])) for key in ("mean", "std")} if row else None


def _repository(where: Where, written: str) -> str:
    if not REPOSITORY.fullmatch(written) or ".." in written:
        raise (where / "hub").fail(f"is {written}, which is not a name on the hub; write OWNER/NAME")
    return written
