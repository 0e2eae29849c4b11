"""What may stand in a suite.yaml: one table, from which both the checks and ``suite.schema.json`` follow.

A kind says what a value must be.  ``check`` raises ExplorerError with one sentence that names the file, the key's path
and what to do; ``json_schema`` says the same to an editor.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml

from lines_explorer.errors import ExplorerError

LARGEST = 8 << 20  # bytes of a suite.yaml; the 20 public tasks with all their names need 50 kB


@dataclass(frozen=True)
class Where:
    """A place in a suite.yaml, for messages: ``tasks.birds.classes``."""

    file: Path
    path: str = ""

    def __truediv__(self, key: object) -> Where:
        return Where(self.file, f"{self.path}.{key}" if self.path else str(key))

    def fail(self, message: str) -> ExplorerError:
        """An error ``FILE: the field PATH MESSAGE.``"""
        end = "" if message.endswith((".", "?")) else "."
        return ExplorerError(f"{self.file}: the field {self.path or '(top)'} {message}{end}")


class Kind(Protocol):
    """What a value may be."""

    name: str

    def check(self, value: Any, where: Where) -> None:
        """Raises ExplorerError when ``value`` is not of this kind."""

    def json_schema(self) -> dict[str, Any]:
        """The same as a JSON schema."""


@dataclass(frozen=True)
class Text:
    """A non-empty text; ``among`` lists the only ones allowed."""

    among: tuple[str, ...] = ()
    name: str = "text"

    def check(self, value: Any, where: Where) -> None:
        if not isinstance(value, str) or not value.strip():
            raise where.fail(f"must be a non-empty text, got {_short(value)}; {_quote_it(value)}")
        if self.among and value not in self.among:
            raise where.fail(f"must be one of {', '.join(self.among)}, got {value}")

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1} | ({"enum": list(self.among)} if self.among else {})


@dataclass(frozen=True)
class Texts:
    """A non-empty list of texts; whole numbers are read as their digits."""

    name: str = "list of texts"

    def check(self, value: Any, where: Where) -> None:
        if not isinstance(value, list) or not value:
            raise where.fail(f"must be a non-empty list of texts, got {_short(value)}")
        for number, item in enumerate(value):
            if isinstance(item, bool) or not isinstance(item, str | int) or not str(item).strip():
                raise (where / number).fail(f"must be a text, got {_short(item)}; {_quote_it(item)}")

    def json_schema(self) -> dict[str, Any]:
        return {"type": "array", "minItems": 1, "items": {"type": ["string", "integer"]}}


@dataclass(frozen=True)
class Numbers:
    """A list of ``count`` numbers."""

    count: int
    name: str = "list of numbers"

    def check(self, value: Any, where: Where) -> None:
        numbers = isinstance(value, list) and all(isinstance(x, int | float) and x == x for x in value)
        if not numbers or len(value) != self.count:
            raise where.fail(f"must be a list of {self.count} numbers, got {_short(value)}")

    def json_schema(self) -> dict[str, Any]:
        return {"type": "array", "minItems": self.count, "maxItems": self.count, "items": {"type": "number"}}


@dataclass(frozen=True)
class Number:
    """A finite number of at least ``least``, not ``least`` itself where it is ``above``; ``whole`` ones only."""

    least: float = 0.0
    above: bool = False
    whole: bool = False
    name: str = "number"

    def check(self, value: Any, where: Where) -> None:
        kinds = int if self.whole else int | float
        if isinstance(value, bool) or not isinstance(value, kinds) or not self._holds(value):
            what = "a whole number" if self.whole else "a number (1e-4 is written 1.0e-4 in YAML)"
            raise where.fail(
                f"must be {what} {'above' if self.above else 'of at least'} {self.least:g}, got {_short(value)}"
            )

    def json_schema(self) -> dict[str, Any]:
        bound = "exclusiveMinimum" if self.above else "minimum"
        return {"type": "integer" if self.whole else "number", bound: self.least}

    def _holds(self, value: float) -> bool:
        return (value > self.least if self.above else value >= self.least) and value < float("inf")


@dataclass(frozen=True)
class Items:
    """A non-empty list of values of one kind."""

    of: Kind
    name: str = "list"

    def check(self, value: Any, where: Where) -> None:
        if not isinstance(value, list) or not value:
            raise where.fail(f"must be a non-empty list, got {_short(value)}")
        for number, item in enumerate(value):
            self.of.check(item, where / number)

    def json_schema(self) -> dict[str, Any]:
        return {"type": "array", "minItems": 1, "items": self.of.json_schema()}


@dataclass(frozen=True)
class Map:
    """A mapping from names of one's own to values of one kind."""

    of: Kind
    name: str = "mapping"

    def check(self, value: Any, where: Where) -> None:
        if not isinstance(value, dict) or not value:
            raise where.fail(f"must be a non-empty mapping of names, got {_short(value)}")
        for key, item in value.items():
            if isinstance(key, bool) or not isinstance(key, str | int):
                raise where.fail(f"has the name {_short(key)}, which is not a text; {_quote_it(key)}")
            if not str(key).strip() or "/" in str(key) or str(key).startswith("."):
                raise where.fail(f"has the name {_short(key)}; a name has no / and does not begin with a dot")
            self.of.check(item, where / key)

    def json_schema(self) -> dict[str, Any]:
        return {"type": "object", "minProperties": 1, "additionalProperties": self.of.json_schema()}


@dataclass(frozen=True)
class Field:
    """One key of a Record."""

    kind: Kind
    about: str
    required: bool = False


@dataclass(frozen=True)
class Record:
    """A mapping with known keys; of ``one_of`` exactly one must be there."""

    fields: Mapping[str, Field]
    one_of: tuple[str, ...] = ()
    name: str = "mapping"

    def check(self, value: Any, where: Where) -> None:
        if not isinstance(value, dict):
            raise where.fail(f"must be a mapping with {', '.join(self.fields)}, got {_short(value)}")
        for key in value:
            if key not in self.fields:
                raise (where / key).fail(f"is unknown; {_did_you_mean(key, self.fields)}")
        for key, row in self.fields.items():
            if key in value:
                row.kind.check(value[key], where / key)
            elif row.required:
                raise (where / key).fail(f"is missing: {row.about}")
        given = [key for key in self.one_of if key in value]
        if self.one_of and len(given) != 1:
            raise where.fail(f"needs exactly one of {', '.join(self.one_of)}, got {', '.join(given) or 'none'}")

    def json_schema(self) -> dict[str, Any]:
        properties = {key: row.kind.json_schema() | {"description": row.about} for key, row in self.fields.items()}
        schema: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": properties}
        if required := [key for key, row in self.fields.items() if row.required]:
            schema["required"] = required
        if self.one_of:
            schema["oneOf"] = [{"required": [key]} for key in self.one_of]
        return schema


@dataclass(frozen=True)
class Either:
    """A text (a path), or a list of them, or a Record: told apart by the YAML type."""

    kinds: tuple[Kind, ...] = field(default_factory=tuple)
    name: str = "either"

    def check(self, value: Any, where: Where) -> None:
        types = {Text: str, Texts: list, Record: dict}
        for kind in self.kinds:
            if isinstance(value, types[type(kind)]):
                return kind.check(value, where)
        raise where.fail(f"must be a {' or a '.join(kind.name for kind in self.kinds)}, got {_short(value)}")

    def json_schema(self) -> dict[str, Any]:
        return {"anyOf": [kind.json_schema() for kind in self.kinds]}


PATH, PATHS = Text(), Either((Text(), Texts()))
REVISION = Field(Text(), "branch, tag or (best: it cannot change) commit on the hub")
WEIGHTS = Either(
    (
        PATH,
        Record(
            {
                "hub": Field(Text(), "repository on the Hugging Face hub, OWNER/NAME", required=True),
                "revision": REVISION,
                "file": Field(Text(), "the one file to take from it (default: its weights and config.json)"),
            }
        ),
    )
)
DATA = Either(
    (
        PATH,
        Record(
            {
                "folder": Field(PATH, "folder with one subfolder of pictures for each class"),
                "parquet": Field(PATHS, "parquet file, files, or a pattern with *"),
                "hub": Field(Text(), "data set on the Hugging Face hub, OWNER/NAME"),
                "config": Field(Text(), "configuration of the hub's data set"),
                "split": Field(Text(), "split of the hub's data set (default: this split's name)"),
                "revision": REVISION,
                "image": Field(Text(), "column that holds the encoded picture (default: image)"),
                "label": Field(Text(), "column that holds the class number or name (default: label)"),
            },
            one_of=("folder", "parquet", "hub"),
        ),
    )
)
SHIFT = Record(
    {
        "title": Field(Text(), "what the page calls this shifted test set"),
        "file": Field(PATH, "its parquet file"),
        "data": Field(DATA, "its pictures, written as a split's"),
    },
    one_of=("file", "data"),
)
TASK = Record(
    {
        "title": Field(Text(), "what the page calls the task (default: its name)"),
        "domain": Field(Text(), "what kind of pictures these are"),
        "new_in_test": Field(Text(), "what is new in the test split"),
        "classes": Field(Texts(), "class names as the data states them, in the order of its labels"),
        "prompts": Field(Texts(), "what stands for {} in the templates, one for each class (default: the classes)"),
        "templates": Field(Texts(), "texts with {} (default: a photo of a {}.)"),
        "head": Field(PATH, "file with the classifier's weight (classes, D), instead of prompts"),
        "splits": Field(Map(DATA), "pictures of validation and test (or train, of which a part is held out)", True),
        "shifts": Field(Map(SHIFT), "further test sets with the same classes"),
    }
)
PREPROCESS = Record(
    {
        "mean": Field(Numbers(3), "mean per channel of pictures in 0…1", required=True),
        "std": Field(Numbers(3), "standard deviation per channel", required=True),
    }
)
BASE = Record(
    {
        "architecture": Field(Text(), "name of an open_clip architecture, or of your own config", required=True),
        "config": Field(PATH, "open_clip model config (JSON, with preprocess_cfg) of an architecture of your own"),
        "weights": Field(WEIGHTS, "checkpoint file or folder of the pre-trained model", required=True),
        "activation": Field(Text(("gelu", "quickgelu")), "quickgelu for OpenAI's weights and what grew out of them"),
        "preprocess": Field(PREPROCESS, "how pictures are normalised (default: CLIP's mean and std)"),
    }
)
RUN = Record(
    {
        "file": Field(WEIGHTS, "its checkpoint, written as an expert's", required=True),
        "seed": Field(Number(whole=True), "the seed of its pictures' order and views", required=True),
        "rate": Field(Number(above=True), "its learning rate", required=True),
        "steps": Field(Number(least=1, whole=True), "fine-tuning steps"),
        "batch": Field(Number(least=1, whole=True), "pictures in a step"),
        "decay": Field(Number(), "weight decay"),
    }
)
LEARNED = Record(
    {
        "tasks": Field(Texts(), "the experts that are merged, in any order", required=True),
        "file": Field(PATH, "the coefficients, as `build-suite adamerging` wrote them", required=True),
    }
)
SUITE = Record(
    {
        "name": Field(Text(), "a short name for the suite", required=True),
        "title": Field(Text(), "what the page calls the suite", required=True),
        "base": Field(BASE, "the pre-trained model", required=True),
        "experts": Field(Map(WEIGHTS), "task → checkpoint of the base fine-tuned on it", required=True),
        "runs": Field(Map(Items(RUN)), "task → further fine-tuning runs on it, for soups"),
        "text": Field(PATH, "safetensors with unit text vectors (classes, templates, D) of each task"),
        "statistics": Field(Map(PATH), "task → what `build-suite statistics` measured on its training pictures"),
        "coefficients": Field(Map(LEARNED), "name → what `build-suite adamerging` learned for exactly these experts"),
        "tasks": Field(Map(TASK), "labelled pictures and their classes", required=True),
    }
)


def suite_schema() -> dict[str, Any]:
    """The JSON schema of a suite.yaml, for editors: what ``suite.schema.json`` holds."""
    about = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "suite.yaml of LiNeS Explorer"}
    return about | SUITE.json_schema()


def read_checked(file: Path) -> dict[str, Any]:
    """The content of a suite.yaml, every key known and every value of its kind.

    Raises ExplorerError naming the file, the key's path and the remedy.
    """
    try:
        text = file.read_bytes()
        if len(text) > LARGEST:
            raise ExplorerError(f"{file} has {len(text):,} bytes; a suite.yaml has at most {LARGEST:,}.")
        content = yaml.load(text.decode("utf-8"), Loader=_Strict)  # noqa: S506 (a SafeLoader)
    except OSError as fault:
        raise ExplorerError(f"{file} cannot be read ({fault.strerror}); a suite is a folder with it.") from fault
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as fault:
        raise ExplorerError(f"{file} is damaged: {_yaml_fault(fault)}.") from fault
    SUITE.check(content, Where(file))
    return content


class _Strict(yaml.SafeLoader):
    """Refuses a key that is written twice (plain YAML lets the second win)."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode):
                if key_node.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key_node.value} is written twice", key_node.start_mark
                    )
                seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def _yaml_fault(fault: Exception) -> str:
    mark = getattr(fault, "problem_mark", None)
    problem = getattr(fault, "problem", None) or (str(fault).splitlines() or [type(fault).__name__])[0]
    return f"{problem} (line {mark.line + 1})" if mark else problem


def _did_you_mean(key: Any, known: Mapping[str, Field]) -> str:
    close = difflib.get_close_matches(str(key), known, n=1)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"


def _quote_it(value: Any) -> str:
    wrong = value is not None and not isinstance(value, str | list | dict)
    return "write it in quotes" if wrong else "write a text"


def _short(value: Any) -> str:
    return reprlib.repr(value)
