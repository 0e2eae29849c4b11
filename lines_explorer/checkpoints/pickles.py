"""Reads pickles without running them.

A pickle is a program: it names functions and calls them.  Here the program is interpreted by hand.  Names stay names
(``Global``), instances of classes become inert records (``Shell``), and the few calls that rebuild tensors, arrays and
plain containers are answered by the functions of ``rebuilding``.  Nothing is imported, looked up or called by name, so
the classes of a pickled module need not exist, and a hostile file has nothing to get hold of.
"""

from __future__ import annotations

import pickletools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from lines_explorer.checkpoints.sources import shown
from lines_explorer.errors import ExplorerError

MOST_OPCODES = 8_000_000
LONGEST_LINE = 1 << 16
LARGEST_KEY = 1 << 60  # larger integers can be chosen to collide in a dictionary
RENAMED = {"__builtin__": "builtins", "copy_reg": "copyreg", "numpy._core": "numpy.core"}
HARMLESS = frozenset(
    {
        *(f"builtins.{name}" for name in "object dict list tuple set frozenset bytearray bytes complex".split()),
        *(f"builtins.{name}" for name in "slice range int float str bool getattr".split()),
        *(f"collections.{name}" for name in "OrderedDict defaultdict Counter deque".split()),
        *(f"datetime.{name}" for name in "datetime date time timedelta timezone".split()),
        *(f"pathlib.{name}" for name in "Path PurePath PosixPath PurePosixPath WindowsPath PureWindowsPath".split()),
        *("argparse.Namespace", "types.SimpleNamespace", "functools.partial", "decimal.Decimal", "uuid.UUID"),
        *("_codecs.encode", "copyreg._reconstructor", "random.Random", "fractions.Fraction", "typing.Any"),
    }
)


@dataclass(frozen=True)
class Global:
    """The name of a class or function; never looked up."""

    module: str
    name: str

    @property
    def path(self) -> str:
        """``module.name``."""
        return f"{self.module}.{self.name}"


@dataclass(eq=False, repr=False)
class Shell:
    """What a pickle says of an instance: its class's name, what it was made from, its state and its items."""

    name: str
    args: tuple = ()
    state: Any = None
    items: list = field(default_factory=list)

    @property
    def attributes(self) -> dict:
        """The instance's ``__dict__``, as far as the pickle gives one."""
        state = self.state[0] if isinstance(self.state, tuple) and self.state else self.state
        return state if isinstance(state, dict) else {}


class Damaged(ValueError):
    """The pickle breaks the rules of its format; the message says how."""


class Window:
    """A part of a file, read forward; keeps a broken length from reading more than there is."""

    def __init__(self, file: BinaryIO, offset: int, size: int) -> None:
        self._file, self._end, self._at = file, offset + size, offset

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes."""
        self._file.seek(self._at)
        content = self._file.read(max(0, min(size, self._end - self._at)))
        self._at += len(content)
        return content

    def readline(self) -> bytes:
        """A line of at most 64 KiB, as text opcodes need."""
        self._file.seek(self._at)
        line = self._file.readline(min(LONGEST_LINE, self._end - self._at))
        self._at += len(line)
        return line

    def skip(self, size: int) -> None:
        """Goes ``size`` bytes forward, or back."""
        self._at += size

    def tell(self) -> int:
        """Position in the file."""
        return self._at

    @property
    def left(self) -> int:
        """Bytes up to the end."""
        return self._end - self._at


Calls = dict[str, Callable[["Unpickler", tuple], Any]]


class Unpickler:
    """Interprets one or more pickles of a file.

    Args:
        where: what a message calls the file.
        calls: dotted name → the function that answers a call of it.
        builds: kind of object → the function that takes its state.
        persistent: answers persistent ids; without it there must be none.
    """

    def __init__(
        self,
        where: str,
        calls: Calls,
        builds: dict[type, Callable[[Any, Any], None]],
        persistent: Callable[[Any], Any] | None = None,
    ) -> None:
        self.where = where
        self._calls, self._builds, self._persistent = calls, builds, persistent
        self._budget = 0

    def load(self, window: Window) -> Any:
        """The object of the next pickle, made of dicts, lists, tuples, numbers, text and inert records.

        Raises ExplorerError when the pickle is damaged, too long, or names or calls what no checkpoint needs.
        """
        self._stack: list[Any] = []
        self._marked: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._budget = window.left + 10_000
        try:
            for count, (opcode, argument) in enumerate(_opcodes(window)):
                if count > MOST_OPCODES:
                    raise ExplorerError(
                        f"{self.where} has more steps than any checkpoint needs; save only its weights."
                    )
                if opcode == "STOP":
                    return self._pop()
                HANDLERS[opcode](self, argument)
        except KeyError as fault:
            raise self._damaged(f"{fault} is unknown") from fault
        except (ValueError, RecursionError) as fault:
            raise self._damaged(str(fault)) from fault
        raise self._damaged("it does not end")

    def spend(self, amount: int) -> None:
        """Counts what a call copies: all together may not exceed the file's size."""
        self._budget -= amount
        if self._budget < 0:
            raise ExplorerError(f"{self.where} unfolds to far more than its size; do not use it.")

    def call(self, function: Any, args: Any) -> Any:
        """What calling ``function`` gives: the answer of ``calls``, or a record where it is a class."""
        if not isinstance(function, Global) or not isinstance(args, tuple):
            raise Damaged("it calls what is not a function")
        if function.path in self._calls:
            return self._calls[function.path](self, args)
        if not function.name.rpartition(".")[2].lstrip("_")[:1].isupper() and function.path not in HARMLESS:
            raise self.refusal(function)
        return Shell(function.path, args)

    def refusal(self, function: Global) -> ExplorerError:
        """The error of a file that names or calls what no checkpoint needs."""
        return ExplorerError(
            f"{self.where} wants to run {shown(function.path)}, which no checkpoint needs; it was not run: do not open "
            "the file with torch.load, and get the weights as safetensors from a source you trust."
        )

    def _damaged(self, why: str) -> ExplorerError:
        return ExplorerError(
            f"{self.where} is truncated or damaged and cannot be read as a pickle ({shown(why)}); download or copy it "
            "again."
        )

    def _pop(self) -> Any:
        if not self._stack:
            raise Damaged("its stack is empty")
        return self._stack.pop()

    def _top(self) -> Any:
        if not self._stack:
            raise Damaged("its stack is empty")
        return self._stack[-1]

    def _to_mark(self) -> list[Any]:
        """The objects since the last mark, which is taken away."""
        if not self._marked:
            raise Damaged("a mark is missing")
        items, self._stack = self._stack, self._marked.pop()
        return items

    def push(self, value: Any) -> None:
        """Puts a value on the stack."""
        self._stack.append(value)

    def mark(self, _: Any) -> None:
        """MARK: what follows belongs together."""
        self._marked.append(self._stack)
        self._stack = []

    def name(self, module: Any, name: Any) -> None:
        """GLOBAL, STACK_GLOBAL: a name. Refused when it is one of the standard library's that can do harm."""
        if not isinstance(module, str) or not isinstance(name, str):
            raise Damaged("a name is not text")
        for old, new in RENAMED.items():
            if module == old or module.startswith(old + "."):
                module = new + module[len(old) :]
        found = Global(module, name)
        if module.partition(".")[0] in sys.stdlib_module_names and found.path not in HARMLESS and module != "__main__":
            raise self.refusal(found)
        self.push(found)

    def new(self, cls: Any, args: Any) -> None:
        """NEWOBJ, OBJ, INST: an instance of a class."""
        self.push(self.call(cls, args))

    def build(self, _: Any) -> None:
        """BUILD: gives the object below its state; no ``__setstate__`` exists here to be run."""
        state, target = self._pop(), self._top()
        if isinstance(target, Shell):
            target.state = state
        elif type(target) in self._builds:
            self._builds[type(target)](target, state)
        elif not isinstance(target, dict | list):  # these keep remarks as attributes, such as _metadata
            raise Damaged("a state is given to what has none")

    def extend(self, items: list[Any]) -> None:
        """APPEND, APPENDS, ADDITEMS: adds to the list (or set, or record) on top."""
        target = self._top()
        target = target.items if isinstance(target, Shell) else target
        if not isinstance(target, list):
            raise Damaged("something is appended to what is not a list")
        target.extend(items)

    def set_items(self, items: list[Any]) -> None:
        """SETITEM, SETITEMS: adds pairs to the dictionary (or record) on top."""
        target = self._top()
        if len(items) % 2:
            raise Damaged("a key has no value")
        pairs = zip(items[::2], items[1::2], strict=True)
        if isinstance(target, Shell):
            target.items.extend(pairs)
        elif isinstance(target, dict):
            target.update(dictionary(pairs))
        else:
            raise Damaged("a key is set in what is not a dictionary")

    def identified(self, pid: Any) -> None:
        """PERSID, BINPERSID: something that lies elsewhere in the file, such as a storage."""
        if self._persistent is None:
            raise Damaged("it refers to a storage, but holds none")
        self.push(self._persistent(pid))

    def remember(self, slot: int | None) -> None:
        """PUT, MEMOIZE: remembers the object on top."""
        self._memo[len(self._memo) if slot is None else slot] = self._top()

    def recall(self, slot: int) -> None:
        """GET: the object remembered before."""
        if slot not in self._memo:
            raise Damaged("it refers to an object that it does not hold")
        self.push(self._memo[slot])


def dictionary(pairs: Any) -> dict[Any, Any]:
    """A dict of pairs whose keys are names or numbers. Raises Damaged for other keys."""
    found = {}
    for key, value in pairs:
        parts = key if isinstance(key, tuple) else (key,)
        for part in parts:
            if not isinstance(part, str | bytes | int | Global | Shell | None):
                raise Damaged("a dictionary's key is neither text nor number")
            if isinstance(part, int) and abs(part) >= LARGEST_KEY:
                raise Damaged("a dictionary's key is a number too large")
        found[key] = value
    return found


def _opcodes(window: Window) -> Iterator[tuple[str, Any]]:
    for opcode, argument, _ in pickletools.genops(window):
        yield opcode.name, argument


def _text_global(vm: Unpickler, argument: str) -> None:
    module, _, name = argument.partition(" ")
    vm.name(module, name)


def _stack_global(vm: Unpickler, _: Any) -> None:
    name = vm._pop()
    vm.name(vm._pop(), name)


def _reduce(vm: Unpickler, _: Any) -> None:
    args = vm._pop()
    vm.push(vm.call(vm._pop(), args))


def _new_with_keywords(vm: Unpickler, _: Any) -> None:
    keywords, args = vm._pop(), vm._pop()
    if not isinstance(keywords, dict):
        raise Damaged("keywords are not a dictionary")
    vm.new(vm._pop(), args)


def _old_instance(vm: Unpickler, argument: str) -> None:
    args = tuple(vm._to_mark())
    _text_global(vm, argument)
    vm.new(vm._pop(), args)


def _old_object(vm: Unpickler, _: Any) -> None:
    cls, *args = vm._to_mark() or [None]
    vm.new(cls, tuple(args))


def _tuple(size: int) -> Callable[[Unpickler, Any], None]:
    def make(vm: Unpickler, _: Any) -> None:
        items = [vm._pop() for _ in range(size)]
        vm.push(tuple(reversed(items)))

    return make


def _pop_or_mark(vm: Unpickler, _: Any) -> None:
    if vm._stack:
        vm._pop()
    else:
        vm._to_mark()


def _set_one(vm: Unpickler, _: Any) -> None:
    value = vm._pop()
    vm.set_items([vm._pop(), value])


def _refuse_elsewhere(vm: Unpickler, _: Any) -> None:
    raise Damaged("it refers to something outside the file")


LITERALS = (
    "INT LONG LONG1 LONG4 BININT BININT1 BININT2 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE "
    "SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8"
).split()
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}

HANDLERS: dict[str, Callable[[Unpickler, Any], None]] = {
    **{name: Unpickler.push for name in LITERALS},
    **{name: lambda vm, _, value=value: vm.push(value) for name, value in CONSTANTS.items()},
    **{name: lambda vm, _: None for name in ("PROTO", "FRAME")},
    **{name: lambda vm, _: vm.push([]) for name in ("EMPTY_LIST", "EMPTY_SET")},
    **{name: Unpickler.remember for name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE")},
    **{name: Unpickler.recall for name in ("GET", "BINGET", "LONG_BINGET")},
    **{name: lambda vm, _: vm.extend(vm._to_mark()) for name in ("APPENDS", "ADDITEMS")},
    **{name: lambda vm, _: vm.push(tuple(vm._to_mark())) for name in ("TUPLE", "FROZENSET")},
    **{name: _refuse_elsewhere for name in ("EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER")},
    "MARK": Unpickler.mark,
    "POP": _pop_or_mark,
    "POP_MARK": lambda vm, _: vm._to_mark() and None,
    "DUP": lambda vm, _: vm.push(vm._top()),
    "EMPTY_DICT": lambda vm, _: vm.push({}),
    "LIST": lambda vm, _: vm.push(vm._to_mark()),
    "DICT": lambda vm, _: vm.push({}) if not (items := vm._to_mark()) else (vm.push({}), vm.set_items(items))[1],
    "APPEND": lambda vm, _: vm.extend([vm._pop()]),
    "SETITEM": _set_one,
    "SETITEMS": lambda vm, _: vm.set_items(vm._to_mark()),
    "TUPLE1": _tuple(1),
    "TUPLE2": _tuple(2),
    "TUPLE3": _tuple(3),
    "GLOBAL": _text_global,
    "STACK_GLOBAL": _stack_global,
    "INST": _old_instance,
    "OBJ": _old_object,
    "REDUCE": _reduce,
    "NEWOBJ": _reduce,
    "NEWOBJ_EX": _new_with_keywords,
    "BUILD": Unpickler.build,
    "PERSID": Unpickler.identified,
    "BINPERSID": lambda vm, _: vm.identified(vm._pop()),
}
