"""suite.yaml read and checked: what a suite is made of, before any file is opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lines_explorer.errors import ExplorerError


@dataclass(frozen=True)
class Task:
    """Labelled images and their class prompts.

    ``splits`` maps a split ("validation", "test" or a shift's name) to its parquet file; ``shifts`` maps those of
    them that are shifted sets to their titles.
    """

    name: str
    title: str
    domain: str
    new_in_test: str
    classes: tuple[str, ...]
    prompts: tuple[str, ...]
    templates: tuple[str, ...]
    splits: Mapping[str, Path] = field(hash=False)
    shifts: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Description:
    """The checked content of a suite.yaml; paths are absolute."""

    name: str
    title: str
    architecture: str
    config: Path
    weights: Path
    text: Path
    experts: Mapping[str, Path]
    tasks: Mapping[str, Task]


def read_description(folder: Path) -> Description:
    """Reads ``folder/suite.yaml``.

    Raises ExplorerError naming the file and the field when the YAML is damaged, or a field is missing or wrong.
    """
    import yaml

    file = folder / "suite.yaml"
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as fault:
        raise ExplorerError(f"{file} cannot be read ({fault.strerror}); a suite is a folder with it.") from fault
    except (yaml.YAMLError, UnicodeDecodeError) as fault:
        raise ExplorerError(f"{file} is damaged: {str(fault).splitlines()[0]}.") from fault
    base = _get(file, content, "base", dict)
    experts = _get(file, content, "experts", dict)
    tasks = {str(name): _task(file, folder, str(name), row) for name, row in _get(file, content, "tasks", dict).items()}
    if extra := sorted(map(str, set(experts) - set(tasks))):
        raise ExplorerError(f"{file}: experts without a task of the same name: {', '.join(extra)}.")
    return Description(
        name=_get(file, content, "name", str),
        title=_get(file, content, "title", str),
        architecture=_get(file, base, "architecture", str, "base"),
        config=_inside(file, folder, _get(file, base, "config", str, "base")),
        weights=_inside(file, folder, _get(file, base, "weights", str, "base")),
        text=_inside(file, folder, _get(file, content, "text", str)),
        experts={str(name): _inside(file, folder, path) for name, path in experts.items()},
        tasks=tasks,
    )


def _task(file: Path, folder: Path, name: str, row: Any) -> Task:
    where = f"tasks.{name}"
    shifts = row.get("shifts") or {} if isinstance(row, dict) else {}
    splits = dict(_get(file, row, "splits", dict, where))
    if twice := sorted(set(splits) & set(shifts)):
        raise ExplorerError(f"{file}: {where} has {twice[0]} both as a split and as a shift.")
    splits.update({shift: _get(file, value, "file", str, f"{where}.shifts.{shift}") for shift, value in shifts.items()})
    classes = tuple(map(str, _get(file, row, "classes", list, where)))
    prompts = tuple(map(str, _get(file, row, "prompts", list, where)))
    if len(prompts) != len(classes):
        raise ExplorerError(
            f"{file}: {where} has {len(classes)} classes and {len(prompts)} prompts; one each is needed."
        )
    return Task(
        name=name,
        title=_get(file, row, "title", str, where),
        domain=_get(file, row, "domain", str, where),
        new_in_test=_get(file, row, "new_in_test", str, where),
        classes=classes,
        prompts=prompts,
        templates=tuple(map(str, _get(file, row, "templates", list, where))),
        splits={str(split): _inside(file, folder, path) for split, path in splits.items()},
        shifts={str(shift): str(value.get("title", shift)) for shift, value in shifts.items()},
    )


def _get(file: Path, content: Any, key: str, kind: type, where: str = "") -> Any:
    label = f"{where}.{key}" if where else key
    if not isinstance(content, dict) or key not in content:
        raise ExplorerError(f"{file}: the field {label} is missing.")
    if not isinstance(content[key], kind) or not content[key]:
        raise ExplorerError(f"{file}: the field {label} must be a non-empty {kind.__name__}, got {content[key]!r}.")
    return content[key]


def _inside(file: Path, folder: Path, relative: Any) -> Path:
    path = (folder / str(relative)).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ExplorerError(f"{file}: {relative} lies outside the suite's folder.")
    return path
