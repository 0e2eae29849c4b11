"""The few calls a checkpoint's pickle may make, answered without torch: tensors, arrays and plain containers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lines_explorer.checkpoints.pickles import Calls, Damaged, Global, Shell, Unpickler, dictionary
from lines_explorer.checkpoints.sources import shown
from lines_explorer.checkpoints.tensors import ITEM_SIZE, Region, Stored, row_major
from lines_explorer.errors import ExplorerError

LARGEST = 1 << 62
MOST_REPEATED = 1 << 20  # elements of a tensor that is larger than its storage, as an expanded buffer may be
STORAGES = {
    **{"DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16"},
    **{"LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8"},
    **{"ByteStorage": "uint8", "BoolStorage": "bool", "ComplexFloatStorage": "complex64"},
    **{"ComplexDoubleStorage": "complex128", "UntypedStorage": "uint8"},
}
NUMPY = {
    **{"f8": "float64", "f4": "float32", "f2": "float16", "i8": "int64", "i4": "int32", "i2": "int16", "i1": "int8"},
    **{"u8": "uint64", "u4": "uint32", "u2": "uint16", "u1": "uint8", "b1": "bool", "c8": "complex64"},
}

RANDOM_STATES = (
    *(f"numpy.random._pickle.__{kind}_ctor" for kind in ("randomstate", "generator", "bit_generator")),
    "numpy.random.bit_generator.__pyx_unpickle_SeedSequence",
)


@dataclass(eq=False, repr=False)
class Storage:
    """The numbers behind one or more tensors; ``place`` is known when the container has been read."""

    dtype: str
    numel: int
    place: Region | None = None
    root: Storage | None = None
    start: int = 0

    def region(self) -> tuple[Region, int]:
        """The bytes in the file, and the first element within them."""
        owner, start = (self.root, self.start) if self.root else (self, 0)
        if owner.place is None:
            raise Damaged("the numbers of a tensor are missing")
        return owner.place, start


@dataclass(eq=False, repr=False)
class PickledTensor:
    """A tensor as a pickle describes it: a view of a storage."""

    storage: Storage
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    def stored(self) -> Stored:
        """The same, checked against its storage. Raises Damaged when it reaches beyond it or repeats it too often."""
        (place, shift), size = self.storage.region(), ITEM_SIZE[self.dtype]
        available = min(place.size - shift * size, self.storage.numel * ITEM_SIZE[self.storage.dtype]) // size
        numel = math.prod(self.shape)
        last = self.start + sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))
        if numel and last >= available:
            raise Damaged(f"its shape {self.shape} needs more numbers than the {available} of its storage")
        if numel > max(available, MOST_REPEATED):
            raise Damaged(f"its shape {self.shape} repeats the {available} numbers of its storage")
        return Stored(self.dtype, self.shape, place, self.strides, shift + self.start)


@dataclass(eq=False, repr=False)
class NumpyType:
    """A numpy dtype: kind and size (``f4``), or ``O`` for objects; big-endian ones are told apart."""

    code: str
    big_endian: bool = False


@dataclass(eq=False, repr=False)
class Array:
    """A numpy array: the bytes of its numbers, or the objects of an object array."""

    code: str = ""
    shape: tuple[int, ...] = ()
    column_major: bool = False
    content: bytes | list[Any] = b""
    big_endian: bool = field(default=False)

    @property
    def is_numeric(self) -> bool:
        """Whether it holds numbers of a kind that torch knows."""
        return self.code in NUMPY and isinstance(self.content, bytes)

    def stored(self) -> Stored:
        """The array as a tensor. Raises Damaged when its bytes are too few or many, or in big-endian order."""
        dtype = NUMPY[self.code]
        if self.big_endian or not isinstance(self.content, bytes):
            raise Damaged("its numbers are big-endian or no numbers")
        if math.prod(self.shape) * ITEM_SIZE[dtype] != len(self.content):
            raise Damaged(f"its shape {self.shape} does not fit its {len(self.content)} bytes")
        strides = row_major(self.shape)
        if self.column_major:
            strides = tuple(math.prod(self.shape[:axis]) for axis in range(len(self.shape)))
        return Stored(dtype, self.shape, self.content, strides)


def counts(values: Any) -> tuple[int, ...]:
    """A shape or strides: at most 64 integers from 0 on. Raises Damaged."""
    if not isinstance(values, tuple | list) or len(values) > 64:
        raise Damaged("a shape is not a list of numbers")
    if not all(type(value) is int and 0 <= value < LARGEST for value in values):
        raise Damaged("a shape holds what is no size")
    return tuple(values)


def _called(name: Any) -> str:
    """A name for a message; of anything else only its kind, as its text may have no end."""
    return shown(name.path) if isinstance(name, Global) else f"a {type(name).__name__}"


def dtype_of(name: Any) -> str:
    """Name of a torch dtype given as ``torch.float32``. Raises Damaged for what is none."""
    if not isinstance(name, Global) or name.module != "torch" or name.name not in ITEM_SIZE:
        raise Damaged(f"{_called(name)} is not a dtype of dense tensors")
    return name.name


def storage_type(name: Any) -> str:
    """The dtype of a storage class such as ``torch.FloatStorage``. Raises Damaged for others (quantised ones)."""
    kind = name.name if isinstance(name, Global) and name.module.partition(".")[0] == "torch" else ""
    if kind not in STORAGES:
        raise Damaged(f"{_called(name)} is not a storage of dense tensors")
    return STORAGES[kind]


def _tensor(args: tuple, dtype: str | None = None) -> PickledTensor:
    if len(args) < 4 or not isinstance(args[0], Storage):
        raise Damaged("a tensor has no storage")
    storage, (start,), shape, strides = args[0], counts([args[1]]), counts(args[2]), counts(args[3])
    if len(shape) != len(strides):
        raise Damaged("a tensor's shape and strides do not fit")
    return PickledTensor(storage, start, shape, strides, dtype or storage.dtype)


def _tensor_v2(vm: Unpickler, args: tuple) -> PickledTensor:
    return _tensor(args)


def _tensor_v3(vm: Unpickler, args: tuple) -> PickledTensor:
    if len(args) < 7:
        raise Damaged("a tensor has no dtype")
    return _tensor(args, dtype_of(args[6]))


def _first(vm: Unpickler, args: tuple) -> Any:
    """A wrapper that adds nothing: a parameter is its tensor."""
    if not args:
        raise Damaged("a wrapper is empty")
    return args[0]


def _from_type(vm: Unpickler, args: tuple) -> Any:
    """A tensor of a subclass, or with attributes: ``(function, type, args, state)``."""
    if len(args) != 4 or not isinstance(args[0], Global) or not args[0].path.startswith("torch._utils._rebuild_"):
        raise Damaged("a tensor of a special class is not rebuilt from a plain one")
    return vm.call(args[0], args[2])


def _unsupported(what: str, remedy: str) -> Callable[[Unpickler, tuple], Any]:
    def refuse(vm: Unpickler, args: tuple) -> Any:
        raise ExplorerError(f"{vm.where} holds {what}; {remedy}.")

    return refuse


def _mapping(vm: Unpickler, args: tuple) -> dict[Any, Any]:
    """A dict, OrderedDict or Counter, of nothing, a dict or a list of pairs."""
    content = args[-1] if args and not isinstance(args[-1], Global | None) else {}
    pairs = content.items() if isinstance(content, dict) else content
    if not isinstance(content, dict | list | tuple) or not all(
        isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs
    ):
        raise Damaged("a dictionary is made of what are no pairs")
    vm.spend(len(content))
    return dictionary(pairs)


def _listed(vm: Unpickler, args: tuple) -> list[Any]:
    """A list, set or deque, kept as a list."""
    content = args[0] if args else []
    if not isinstance(content, list | tuple):
        raise Damaged("a list is made of what is no list")
    vm.spend(len(content))
    return list(content)


def _tupled(vm: Unpickler, args: tuple) -> tuple:
    return tuple(_listed(vm, args))


def _encoded(vm: Unpickler, args: tuple) -> bytes:
    """``_codecs.encode``: how old protocols write bytes."""
    if len(args) not in (1, 2) or not isinstance(args[0], str) or args[1:] not in ((), ("latin1",), ("latin-1",)):
        raise Damaged("bytes are encoded in an unknown way")
    vm.spend(len(args[0]))
    return args[0].encode("latin1")


def _bytes(vm: Unpickler, args: tuple) -> bytes:
    if len(args) == 2 and isinstance(args[0], str) and args[1] == "latin-1":
        return _encoded(vm, args)
    if args and not isinstance(args[0], bytes | bytearray):
        raise Damaged("bytes are made of something else")
    vm.spend(len(args[0]) if args else 0)
    return bytes(args[0]) if args else b""


def _reconstructed(vm: Unpickler, args: tuple) -> Shell:
    """``copyreg._reconstructor(cls, base, state)``: an instance in old protocols."""
    if len(args) != 3 or not isinstance(args[0], Global):
        raise Damaged("an instance has no class")
    return Shell(args[0].path)


def _member(vm: Unpickler, args: tuple) -> Shell:
    """``getattr(Enum, "NAME")``, as some Pythons write enumerations: the two names, nothing more."""
    owner, name = args if len(args) == 2 else (None, None)
    named = isinstance(owner, Global) and isinstance(name, str) and name.isidentifier() and name[0] != "_"
    if not named or owner.module == "builtins":
        raise vm.refusal(Global("builtins", "getattr"))
    return Shell(owner.path, (name,))


def _array(vm: Unpickler, args: tuple) -> Array:
    return Array()


def _array_state(array: Array, state: Any) -> None:
    """``(version, shape, dtype, column_major, content)``."""
    if not isinstance(state, tuple) or len(state) != 5 or not isinstance(state[2], NumpyType):
        raise Damaged("an array's state is not one")
    _, shape, kind, column_major, content = state
    if not isinstance(content, bytes | list):
        raise Damaged("an array's content is not one")
    array.code, array.big_endian = kind.code, kind.big_endian
    array.shape, array.column_major, array.content = counts(shape), bool(column_major), content


def _array_from_buffer(vm: Unpickler, args: tuple) -> Array:
    """``(buffer, dtype, shape, order)``, of protocol 5."""
    if len(args) != 4 or not isinstance(args[0], bytes | bytearray) or not isinstance(args[1], NumpyType):
        raise Damaged("an array has no content")
    vm.spend(len(args[0]))
    return Array(args[1].code, counts(args[2]), args[3] == "F", bytes(args[0]), args[1].big_endian)


def _numpy_type(vm: Unpickler, args: tuple) -> NumpyType:
    if not args or not isinstance(args[0], str):
        raise Damaged("a numpy dtype has no name")
    return NumpyType("O" if args[0] in ("O", "O8") else args[0].lstrip("<|=>"), args[0].startswith(">"))


def _numpy_type_state(kind: NumpyType, state: Any) -> None:
    """``(version, byte order, subarray, names, …)``: structured dtypes stay unknown."""
    if not isinstance(state, tuple) or len(state) < 4:
        raise Damaged("a numpy dtype's state is not one")
    kind.big_endian = state[1] == ">"
    if state[2] is not None or state[3] is not None:
        kind.code = ""


def _kept(name: str) -> Callable[[Unpickler, tuple], Shell]:
    return lambda vm, args: Shell(name, args)


CALLS: Calls = {
    "torch._utils._rebuild_tensor": _tensor_v2,
    "torch._utils._rebuild_tensor_v2": _tensor_v2,
    "torch._utils._rebuild_tensor_v3": _tensor_v3,
    "torch._utils._rebuild_parameter": _first,
    "torch._utils._rebuild_parameter_with_state": _first,
    "torch.nn.parameter.Parameter": _first,
    "torch.autograd.variable.Variable": _first,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch._tensor._rebuild_from_type": _from_type,
    "torch.jit._pickle.restore_type_tag": _first,
    **{f"torch.jit._pickle.build_{kind}list": _first for kind in ("int", "double", "bool", "tensor")},
    **{
        f"torch._utils._rebuild_{kind}": _unsupported(f"a {what} tensor", "convert it to a dense one and save it again")
        for kind, what in (("sparse_tensor", "sparse"), ("qtensor", "quantised"), ("nested_tensor", "nested"))
    },
    "torch._utils._rebuild_meta_tensor_no_storage": _unsupported(
        "a tensor without numbers (device meta)", "load the weights before saving it"
    ),
    "torch.storage._load_from_bytes": _unsupported(
        "tensors written by pickle.dump", "load it where it was made and save it with torch.save"
    ),
    "torch.Size": _tupled,
    "torch.device": _kept("torch.device"),
    "torch.dtype": _kept("torch.dtype"),
    "torch.serialization._get_layout": _kept("torch.layout"),
    "numpy.core.multiarray._reconstruct": _array,
    "numpy.core.numeric._frombuffer": _array_from_buffer,
    "numpy.core.multiarray.scalar": _kept("numpy.generic"),
    "numpy.dtype": _numpy_type,
    **{name: _kept("numpy.random") for name in RANDOM_STATES},
    **{f"collections.{kind}": _mapping for kind in ("OrderedDict", "defaultdict", "Counter")},
    "builtins.dict": _mapping,
    **{f"{kind}": _listed for kind in ("builtins.list", "builtins.set", "builtins.frozenset", "collections.deque")},
    "builtins.tuple": _tupled,
    "builtins.bytearray": _bytes,
    "builtins.bytes": _bytes,
    "builtins.getattr": _member,
    "_codecs.encode": _encoded,
    "copyreg._reconstructor": _reconstructed,
}
BUILDS = {
    Array: _array_state,
    NumpyType: _numpy_type_state,
    PickledTensor: lambda tensor, state: None,
}
