"""The numbers, words and switches that a merge method takes: typed, bounded, each with a default."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lines_explorer.errors import ExplorerError

Value = bool | int | float | str


@dataclass(frozen=True)
class Parameter:
    """One parameter of a merge method; its type is that of ``default``.

    Attributes:
        name: keyword of the method's function, and key in recipes.
        summary: what it does, with its unit.
        default: the value of a recipe that does not name it.
        low, high: bounds of a number, both allowed.
        choices: the words allowed.
    """

    name: str
    summary: str
    default: Value
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()

    def read(self, value: Value) -> Value:
        """``value`` in the parameter's own type; 20.0 will do for the whole number 20, true for no number.

        Raises:
            ExplorerError: another type, a number out of bounds or not finite, or a word that is no choice.
        """
        kind = type(self.default)
        if kind is bool and isinstance(value, bool) or kind is str and value in self.choices:
            return value
        if kind in (int, float) and isinstance(value, int | float) and not isinstance(value, bool):
            if self.low <= value <= self.high and (kind is float or value == int(value)):
                return kind(value)
        raise ExplorerError(f"Parameter {self.name} must be {self.range}, not {value!r}; its default is {self.word}.")

    @property
    def word(self) -> str:
        """The default as it is written on a command line: ``20``, ``mean``, ``false``."""
        return written(self.default)

    @property
    def range(self) -> str:
        """What is allowed, in words."""
        if isinstance(self.default, bool):
            return "true or false"
        if isinstance(self.default, str):
            return f"one of {', '.join(self.choices)}"
        kind = "a whole number" if isinstance(self.default, int) else "a number"
        return f"{kind} from {self.low:.12g} to {self.high:.12g}"


def written(value: Value) -> str:
    """A parameter's value as text that ``--set`` and links take: 0.3, 20, mean, true."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else f"{value:.12g}"


def read_parameters(
    method: str, known: Sequence[Parameter], given: Mapping[str, Value] | Iterable[tuple[str, Value]]
) -> dict[str, Value]:
    """Every parameter of the method: the ``given`` values typed and checked, the others by default.

    Raises:
        ExplorerError: a name the method does not have, or a value its parameter refuses.
    """
    given, named = dict(given), {parameter.name: parameter for parameter in known}
    if unknown := [str(name) for name in given if name not in named]:
        has = f"its parameters are {', '.join(named)}" if named else "it has none"
        raise ExplorerError(f"The merge method {method} does not take these parameters: {', '.join(unknown)}; {has}.")
    return {name: parameter.read(given.get(name, parameter.default)) for name, parameter in named.items()}
