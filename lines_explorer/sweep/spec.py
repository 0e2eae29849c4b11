"""A sweep's SPEC.yaml: which points of a suite are scored, described as products of values.

suite: pocket                 # a suite's name or folder
split: val                    # val, test, or a shifted set (default val)
score_on: [digits, letters]   # default: every task that has the split
points:                       # one or more blocks; each is the product of all its values
  - tasks: [digits, letters]  # merged together; all, each (every expert alone), or a list of such lists
    method: [sum, ties]       # default sum
    parameters: {k: [10, 20]} # of the method
    schedule: [lines, root]   # with gamma, or with alpha and beta; default lines
    gamma: {from: 0, to: 1, points: 11}   # alpha = gamma, beta = 1 - gamma
    rule: reference           # or depth
  - tasks: all
    alpha: norms              # the norm ratio of the multi-task protocol, or numbers
    beta: [0.1, 0.2, 0.3]
  - tasks: each
    scale: [0.2, 0.4]         # one constant factor, instead of the above
  - tasks: [digits]
    factors: [[0, 0, 0.5, 1]] # drawn schedules, one factor per block
    rest: 0.5                 # their factor outside the blocks (default 1)

A list stands for several values, each combined with each of the others; equal points are scored once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import FREE, LIMIT, Schedule, constant, free, single_task
from lines_explorer.suites.schema import Field, Kind, Map, Record, Text, Where
from lines_explorer.sweep.measuring import alpha_from_norms

if TYPE_CHECKING:
    from lines_explorer.engine import Engine

MOST_POINTS, LARGEST = 100_000, 1 << 20
NORMS = "norms"


@dataclass(frozen=True)
class ListOf:
    """A non-empty list; with ``alone`` one item may stand without the list."""

    of: Kind
    alone: bool = False
    name: str = "list"

    def check(self, value: Any, where: Where) -> None:
        if self.alone and not isinstance(value, list):
            return self.of.check(value, where)
        if not isinstance(value, list) or not value:
            raise where.fail(f"must be a non-empty list, got {value!r}")
        for number, item in enumerate(value):
            self.of.check(item, where / number)

    def json_schema(self) -> dict[str, Any]:
        items = {"type": "array", "minItems": 1, "items": self.of.json_schema()}
        return {"anyOf": [self.of.json_schema(), items]} if self.alone else items


@dataclass(frozen=True)
class Number:
    """A finite number between −10 and 10, or the word ``also``."""

    also: str | None = None
    name: str = "number"

    def check(self, value: Any, where: Where) -> None:
        if self.also is not None and value == self.also:
            return
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LIMIT:
            words = f", or {self.also}" if self.also else ""
            raise where.fail(f"must be a number between -{LIMIT:g} and {LIMIT:g}{words}, got {value!r}")

    def json_schema(self) -> dict[str, Any]:
        number = {"type": "number", "minimum": -LIMIT, "maximum": LIMIT}
        return {"anyOf": [number, {"const": self.also}]} if self.also else number


@dataclass(frozen=True)
class Values:
    """A number, a list of numbers, or ``{from, to, points}``."""

    also: str | None = None
    name: str = "numbers"

    def check(self, value: Any, where: Where) -> None:
        kind = _RANGE if isinstance(value, dict) else ListOf(Number(self.also), alone=True)
        kind.check(value, where)

    def json_schema(self) -> dict[str, Any]:
        return {"anyOf": [_RANGE.json_schema(), ListOf(Number(self.also), alone=True).json_schema()]}


@dataclass(frozen=True)
class Count:
    """A whole number from 2 to 1001."""

    name: str = "count"

    def check(self, value: Any, where: Where) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not 2 <= value <= 1001:
            raise where.fail(f"must be a whole number from 2 to 1001, got {value!r}")

    def json_schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": 2, "maximum": 1001}


@dataclass(frozen=True)
class Anything:
    """A parameter's value; the method checks it."""

    name: str = "value"

    def check(self, value: Any, where: Where) -> None:
        if isinstance(value, dict) or value is None:
            raise where.fail(f"must be a number, a word, true or false, got {value!r}")

    def json_schema(self) -> dict[str, Any]:
        return {"type": ["number", "string", "boolean"]}


_RANGE = Record(
    {
        "from": Field(Number(), "first value", required=True),
        "to": Field(Number(), "last value", required=True),
        "points": Field(Count(), "how many values, both ends counted", required=True),
    }
)
_BLOCK = Record(
    {
        "tasks": Field(ListOf(ListOf(Text(), alone=True), alone=True), "experts to merge, all, or each", required=True),
        "method": Field(ListOf(Text(tuple(METHODS)), alone=True), "how task vectors are merged"),
        "parameters": Field(Map(ListOf(Anything(), alone=True)), "parameters of the method"),
        "schedule": Field(ListOf(Text(), alone=True), "curves over depth"),
        "gamma": Field(Values(), "alpha = gamma, beta = 1 - gamma"),
        "alpha": Field(Values(NORMS), "factor of the first block"),
        "beta": Field(Values(), "what the last block's factor adds to alpha"),
        "scale": Field(Values(), "one constant factor"),
        "factors": Field(ListOf(ListOf(Number())), "drawn schedules, one factor per block"),
        "rest": Field(Number(), "factor outside the blocks of drawn schedules"),
        "rule": Field(Text(("reference", "depth")), "tensors after the last block"),
    }
)
_SPEC = Record(
    {
        "suite": Field(Text(), "a suite's name or folder", required=True),
        "split": Field(Text(), "val, test, or a shifted set"),
        "score_on": Field(ListOf(Text(), alone=True), "tasks to score"),
        "points": Field(ListOf(_BLOCK), "blocks of points", required=True),
    }
)
_KNOBS = {"gamma": ("gamma",), "alpha and beta": ("alpha", "beta"), "scale": ("scale",), "factors": ("factors",)}


@dataclass(frozen=True)
class Spec:
    """A checked SPEC.yaml; ``blocks`` as written."""

    file: Path
    suite: str
    split: str
    score_on: tuple[str, ...] | None
    blocks: tuple[Mapping[str, Any], ...]

    def recipes(self, engine: Engine) -> list[Recipe]:
        """Every point once, in the order of the file.

        Raises:
            ExplorerError: an expert the suite lacks, a value the method or schedule refuses, too many points.
        """
        found: dict[str, Recipe] = {}
        for number, block in enumerate(self.blocks):
            where = Where(self.file) / "points" / number
            for recipe in _recipes(block, where, engine):
                found.setdefault(recipe.hash(), recipe)
                if len(found) > MOST_POINTS:
                    raise where.fail(f"goes beyond {MOST_POINTS:,} points; use fewer values")
        return list(found.values())


def read_spec(file: Path) -> Spec:
    """The checked spec.

    Raises:
        ExplorerError: one sentence that names the file and the field, for anything unreadable, unknown or missing.
    """
    try:
        data = file.read_bytes()
        if len(data) > LARGEST:
            raise ExplorerError(f"{file} has {len(data):,} bytes; a sweep's spec has at most {LARGEST:,}.")
        content = yaml.safe_load(data.decode("utf-8"))
    except OSError as fault:
        raise ExplorerError(f"{file} cannot be read ({fault.strerror}); name a YAML file.") from fault
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as fault:
        mark = getattr(fault, "problem_mark", None)
        place = f" in line {mark.line + 1}" if mark else ""
        raise ExplorerError(f"{file} is not YAML: {getattr(fault, 'problem', None) or 'damaged'}{place}.") from fault
    _SPEC.check(content, Where(file))
    for number, block in enumerate(content["points"]):
        _check_knobs(block, Where(file) / "points" / number)
    wanted = content.get("score_on")
    return Spec(
        file, content["suite"], content.get("split", "val"),
        None if wanted is None else tuple(_list(wanted)), tuple(content["points"]),
    )  # fmt: skip


def _check_knobs(block: Mapping[str, Any], where: Where) -> None:
    """Refuses a block that does not say what its coefficient is, or says it twice."""
    given = [words for words, keys in _KNOBS.items() if any(key in block for key in keys)]
    if len(given) != 1:
        raise where.fail(f"needs exactly one of {', '.join(_KNOBS)}, got {', '.join(given) or 'none'}")
    if given == ["alpha and beta"] and not ("alpha" in block and "beta" in block):
        raise where.fail("needs both alpha and beta")
    if "schedule" in block and given[0] in ("scale", "factors"):
        raise (where / "schedule").fail(f"contradicts {given[0]}; leave one of them out")
    if "rest" in block and given != ["factors"]:
        raise (where / "rest").fail("goes with factors; leave it out")


def _recipes(block: Mapping[str, Any], where: Where, engine: Engine) -> Iterator[Recipe]:
    names, parameters = list(block.get("parameters", {})), block.get("parameters", {})
    for tasks in _task_sets(block["tasks"], where / "tasks", engine):
        for method in _list(block.get("method", "sum")):
            for values in itertools.product(*(_list(parameters[name]) for name in names)):
                given = METHODS[method].canonical(dict(zip(names, values, strict=True)))
                for schedule in _schedules(block, engine, tasks, method, given):
                    yield Recipe(engine.suite.name, tasks, method, given, schedule, block.get("rule", "reference"))


def _task_sets(value: Any, where: Where, engine: Engine) -> list[tuple[str, ...]]:
    experts = tuple(engine.suite.experts)
    sets: list[tuple[str, ...]] = []
    nested = isinstance(value, list) and any(isinstance(item, list) for item in value)
    for item in value if nested else [value]:
        if item == "each":
            sets += [(name,) for name in experts]
        else:
            sets.append(experts if item == "all" else tuple(_list(item)))
    for tasks in sets:
        if unknown := [name for name in tasks if name not in experts]:
            raise where.fail(f"names {unknown[0]}, which is no expert; experts are {', '.join(experts)}")
    return sets


def _schedules(
    block: Mapping[str, Any], engine: Engine, tasks: tuple[str, ...], method: str, parameters: tuple
) -> Iterator[Schedule]:
    if "scale" in block:
        yield from map(constant, _numbers(block["scale"]))
    elif "factors" in block:
        yield from (free(factors, block.get("rest", 1.0)) for factors in block["factors"])
    else:
        for kind in _list(block.get("schedule", "lines")):
            if kind == FREE:
                raise ExplorerError("A free schedule is written as factors, not as schedule: free.")
            if "gamma" in block:
                yield from (single_task(gamma, kind) for gamma in _numbers(block["gamma"]))
            else:
                alphas = (
                    alpha_from_norms(engine, tasks, method, parameters) if alpha == NORMS else alpha
                    for alpha in _numbers(block["alpha"])
                )  # fmt: skip
                pairs = itertools.product(list(alphas), _numbers(block["beta"]))
                yield from (Schedule(kind, alpha, beta) for alpha, beta in pairs)


def _numbers(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        first, last, points = value["from"], value["to"], value["points"]
        return [round(first + (last - first) * step / (points - 1), 12) for step in range(points)]
    return _list(value)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
