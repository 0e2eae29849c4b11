"""The merge methods as the page shows them: what each does, what it takes, and why one cannot be had."""

from collections.abc import Mapping
from typing import Any

from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS, Parameter, written
from lines_explorer.recipe import LARGEST_NUMBER, LONGEST_WORD, MOST_PARAMETERS

Pairs = tuple[tuple[str, Any], ...]
MOST_ON_A_SLIDER = 100


def method_table(refused: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Name → title, summary, equation, source, parameters and (or None) the sentence why the suite cannot have it."""
    return {
        name: {
            "title": method.title,
            "summary": method.summary,
            "equation": method.equation,
            "source": method.source,
            "refused": refused.get(name),
            "parameters": [_control(parameter) for parameter in method.parameters],
        }
        for name, method in METHODS.items()
    }


def _control(parameter: Parameter) -> dict[str, Any]:
    kinds = {bool: "switch", str: "word", int: "whole", float: "number"}
    about = {"name": parameter.name, "summary": parameter.summary, "default": parameter.default}
    about |= {"kind": kinds[type(parameter.default)], "choices": list(parameter.choices)}
    if not isinstance(parameter.default, bool | str):
        about |= {"low": parameter.low, "high": parameter.high}
        about["slider"] = parameter.high - parameter.low <= MOST_ON_A_SLIDER
    return about | {"written": parameter.word}


def read_parameters(method: str, value: Any) -> Pairs:
    """What a page sent as a method's parameters: those that differ from their defaults, numbers to four decimals.

    Raises:
        ExplorerError: not an object of plain values, a name that the method does not have, a value out of range.
    """
    if not isinstance(value, Mapping) or len(value) > MOST_PARAMETERS:
        raise ExplorerError("The method’s parameters must be names with values; reload the page.")
    for name, given in value.items():
        if not isinstance(name, str) or len(name) > LONGEST_WORD:
            raise ExplorerError("A parameter of the method has no readable name; reload the page.")
        word = isinstance(given, str) and len(given) <= LONGEST_WORD
        if not word and not (isinstance(given, bool | int | float) and abs(given) <= LARGEST_NUMBER):
            raise ExplorerError(f"Parameter {name} must be a number, a word, true or false.")
    return METHODS[method].canonical({name: round(v, 4) if type(v) is float else v for name, v in value.items()})


def parameter_words(parameters: Pairs, equals: str = "=", between: str = ",") -> str:
    """``k=30,combine=sum``."""
    return between.join(f"{name}{equals}{written(value)}" for name, value in parameters)


def parameters_from_link(text: str) -> dict[str, Any]:
    """``k:30,combine:sum`` → names and values, not checked yet.

    Raises:
        ExplorerError: a part that is not NAME:VALUE.
    """
    found: dict[str, Any] = {}
    for part in text.split(","):
        name, sign, value = part.partition(":")
        if not sign or not name:
            raise ExplorerError(f"{part[:40]!r} is not NAME:VALUE, such as k:30")
        found[name] = _typed(value)
    return found


def _typed(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text
