"""Pickles that run something: none of it runs here, wherever it hides, and the file is refused by the name it calls."""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import io
import operator
import os
import pickle
import posixpath
import runpy
import shutil
import subprocess
import sys
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from makers import CONTAINERS, Call, Name, Persistent, in_npy, in_stream, in_zip, pickled, state, write, zip_of

from lines_explorer.checkpoints import open_checkpoint
from lines_explorer.checkpoints.pickles import HARMLESS, Unpickler, Window
from lines_explorer.checkpoints.rebuilding import BUILDS, CALLS
from lines_explorer.errors import ExplorerError

TRACES: list[str] = []


class Runs:
    """Pickles as a call of ``function``."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.parts = (function, args)

    def __reduce__(self) -> Any:
        return self.parts


def leave(trace: str) -> None:
    """What a hostile file's own code would do."""
    Path(trace).touch()


class Trap(dict):
    """A class of which every step of unpickling leaves a trace."""

    def __new__(cls, trace: str = "") -> Trap:
        Trap.spring(trace)
        return super().__new__(cls)

    @staticmethod
    def spring(trace: str) -> None:
        """Leaves the trace."""
        if trace:
            leave(trace)

    def __setstate__(self, content: dict[str, str]) -> None:
        self.spring(content["trace"])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.spring(str(value))

    def __hash__(self) -> int:
        return hash(id(self))


class Appending(list):
    """A list that leaves a trace when something is appended."""

    def append(self, item: Any) -> None:
        """Leaves the trace."""
        leave(item)

    extend = append


def script(trace: str) -> str:
    """Python code that leaves a trace."""
    return f"__import__('pathlib').Path({trace!r}).touch()"


def run_file(trace: str) -> str:
    """A file of that code."""
    path = Path(trace).with_suffix(".py")
    path.write_text(script(trace))
    return str(path)


def copied(trace: str) -> tuple[str, str]:
    """A file, and where to copy it."""
    return run_file(trace), trace


REALLY_RUNS: dict[str, Callable[[str], Any]] = {
    "os.system": lambda t: Runs(os.system, f"touch {t}"),
    "os.popen": lambda t: Runs(os.popen, f"touch {t}"),
    "os.mkdir": lambda t: Runs(os.mkdir, t),
    "os.execvp in a child": lambda t: Runs(subprocess.run, ["touch", t]),
    "subprocess.Popen": lambda t: Runs(subprocess.check_output, ["touch", t]),
    "eval": lambda t: Runs(eval, script(t)),
    "exec": lambda t: Runs(exec, script(t)),
    "open": lambda t: Runs(open, t, "w"),
    "io.open": lambda t: Runs(io.open, t, "w"),
    "io.FileIO": lambda t: Runs(io.FileIO, t, "w"),
    "pathlib method": lambda t: Runs(Path.touch, Path(t)),
    "shutil.copy": lambda t: Runs(shutil.copy, *copied(t)),
    "runpy.run_path": lambda t: Runs(runpy.run_path, run_file(t)),
    "timeit.timeit": lambda t: Runs(timeit.timeit, "pass", script(t), timeit.default_timer, 1),
    "nested pickle.loads": lambda t: Runs(pickle.loads, pickle.dumps(Runs(leave, t))),
    "map of a list": lambda t: Runs(list, Runs(map, os.mkdir, [t])),
    "functools.partial": lambda t: Runs(Runs2(functools.partial, os.mkdir, t)),
    "functools.reduce": lambda t: Runs(functools.reduce, os.mkdir, [0o777], t),
    "operator.methodcaller": lambda t: Runs(Runs2(operator.methodcaller, "touch"), Path(t)),
    "getattr of a module": lambda t: Runs(Runs2(getattr, Runs2(importlib.import_module, "os"), "mkdir"), t),
    "__import__": lambda t: Runs(Runs2(getattr, Runs2(builtins.__import__, "os"), "mkdir"), t),
    "getattr of a class": lambda t: Runs(Runs2(getattr, Path, "touch"), Path(t)),
    "own function": lambda t: Runs(leave, t),
    "own class's __new__": lambda t: Runs(Trap, t),
}


class Runs2(Runs):
    """A call whose result is called in turn."""

    def __call__(self) -> None:
        """Only pretends to be a function, as pickle asks for one."""


def by_hand(name: str, *args: Any) -> Callable[[str], Any]:
    """A call of a function that may not exist here."""
    module, _, function = name.rpartition(".")
    return lambda trace: Call(module, function, *args)


ONLY_NAMED = {
    name: by_hand(name, *args)
    for name, *args in (
        ("posix.system", "true"),
        ("nt.system", "true"),
        ("os.execv", "/bin/true", []),
        ("os.remove", "x"),
        ("__builtin__.eval", "1"),
        ("builtins.compile", "1", "", "eval"),
        ("builtins.__import__", "os"),
        ("builtins.globals",),
        ("builtins.setattr", "a", "b", "c"),
        ("builtins.input",),
        ("builtins.type", "X", (), {}),
        ("socket.create_connection", ("localhost", 9)),
        ("socket.socket",),
        ("urllib.request.urlopen", "http://localhost:9"),
        ("http.client.HTTPConnection", "localhost"),
        ("ftplib.FTP", "localhost"),
        ("smtplib.SMTP", "localhost"),
        ("xmlrpc.client.ServerProxy", "http://localhost:9"),
        ("webbrowser.open", "http://localhost:9"),
        ("requests.get", "http://localhost:9"),
        ("ctypes.CDLL", "libc.so.6"),
        ("importlib.import_module", "os"),
        ("pickle.loads", b"."),
        ("_pickle.loads", b"."),
        ("marshal.loads", b""),
        ("shelve.open", "x"),
        ("logging.FileHandler", "x"),
        ("logging.config.listen",),
        ("multiprocessing.Process",),
        ("threading.Timer", 0, print),
        ("asyncio.run", None),
        ("code.interact",),
        ("pdb.run", "1"),
        ("cProfile.run", "1"),
        ("doctest.testfile", "x"),
        ("pty.spawn", "/bin/sh"),
        ("bdb.Bdb",),
        ("types.CodeType", 0),
        ("types.FunctionType", 0),
        ("weakref.finalize", 0),
        ("atexit.register", 0),
        ("sys.setrecursionlimit", 10),
        ("tempfile.mkstemp",),
        ("zipfile.ZipFile", "x", "w"),
        ("sqlite3.connect", "x"),
        ("operator.attrgetter", "system"),
        ("pip._internal.main", ["install", "x"]),
        ("setuptools.setup",),
        ("torch.load", "x"),
        ("torch.hub.load", "a", "b"),
        ("torch.jit.load", "x"),
        ("torch.serialization.load", "x"),
        ("torch.storage._load_from_bytes", b"x"),
        ("torch.utils.cpp_extension.load_inline", "x"),
        ("torch._inductor.codecache.PyCodeCache.load", "x"),
        ("numpy.load", "x"),
        ("numpy.f2py.crackfortran.getlincoef", "1", "x"),
        ("joblib.load", "x"),
        ("dill._dill._create_code", 0),
        ("cloudpickle.cloudpickle._make_function", 0),
        ("commands.getoutput", "true"),
        ("__main__.run",),
    )
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("kind", REALLY_RUNS)
def test_nothing_runs(tmp_path: Path, kind: str, container: str) -> None:
    trace = tmp_path / "trace"
    hostile = REALLY_RUNS[kind](str(trace))
    payload = pickle.dumps({"visual.proj": hostile}, 2 if container == "stream" else 4)
    path = write(tmp_path, "hostile.pt", CONTAINERS[container](payload))
    with pytest.raises(ExplorerError) as caught:
        open_checkpoint(path)
    assert not trace.exists()
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", REALLY_RUNS)
def test_the_same_pickles_do_run_in_pickle(tmp_path: Path, kind: str) -> None:
    """So that the test above means something."""
    trace = tmp_path / "trace"
    payload = pickle.dumps(REALLY_RUNS[kind](str(trace)))
    with contextlib.suppress(Exception):
        result = pickle.loads(payload)
        if hasattr(result, "read"):
            result.read()
            result.close()
    assert trace.exists()


@pytest.mark.parametrize("name", ONLY_NAMED)
def test_what_is_called_is_named(tmp_path: Path, name: str) -> None:
    payload = pickled({"a": ONLY_NAMED[name]("")})
    for content in (in_zip(payload), in_stream(payload), in_npy(payload)):
        path = write(tmp_path, "hostile.pt", content)
        with pytest.raises(ExplorerError) as caught:
            open_checkpoint(path)
        renamed = name.replace("__builtin__", "builtins")
        assert renamed in str(caught.value) or "pickle.dump" in str(caught.value)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_traps_beside_real_tensors_stay_shut(tmp_path: Path, protocol: int) -> None:
    """A file's own classes are records: no ``__new__``, ``__setstate__``, ``__setitem__`` or ``append`` runs."""
    trace = tmp_path / "trace"
    trap = Trap()
    dict.__setitem__(trap, "key", str(trace))
    trap.trace = str(trace)
    shapes = {"blocks.0.a": (2, 3)}
    content = {**state(shapes), "trap": trap, "list": Appending([str(trace)]), "keys": {trap: 1}}
    path = write(tmp_path, "a.pt", in_zip(pickled(content, protocol), {"0": 6}))
    pickle.loads(pickle.dumps(trap, protocol))
    assert trace.exists()
    trace.unlink()
    assert open_checkpoint(path).entries["blocks.0.a"].shape == (2, 3)
    assert not trace.exists()


ASSEMBLED = {
    "protocol 0 inside protocol 2": b"\x80\x02cos\nsystem\n(S'touch TRACE'\ntR.",
    "INST": b"\x80\x02(S'touch TRACE'\nios\nsystem\n.",
    "OBJ": b"\x80\x02(cos\nsystem\nX\x0b\x00\x00\x00touch TRACEo.",
    "NEWOBJ": b"\x80\x02cos\nsystem\nX\x0b\x00\x00\x00touch TRACE\x85\x81.",
    "NEWOBJ_EX": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x0btouch TRACE\x85}\x92.",
    "STACK_GLOBAL from the memo": b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94h\x00h\x01\x93\x8c\x0btouch TRACE\x85R.",
    "dotted name": b"\x80\x04\x8c\x07pathlib\x8c\x0aPath.touch\x93)R.",
    "method of a harmless class": b"\x80\x04\x8c\x0bcollections\x8c\x13OrderedDict.fromkeys\x93)R.",
    "EXT1": b"\x80\x02\x82\x01.",
    "EXT4": b"\x80\x02\x84\x01\x00\x00\x00.",
    "out of band buffer": b"\x80\x05\x97.",
    "persistent id": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "text persistent id": b"\x80\x02Pabc\n.",
    "call of a string": b"\x80\x02X\x01\x00\x00\x00a)R.",
    "call of a tensor's rebuilder with junk": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nK\x01\x85R.",
    "getattr of object": b"\x80\x02cbuiltins\ngetattr\ncbuiltins\nobject\nX\x0e\x00\x00\x00__subclasses__\x86R.",
    "getattr of a private name": b"\x80\x02cbuiltins\ngetattr\nctorch\nX\nX\x02\x00\x00\x00_a\x86R.",
    "codec that unpacks": b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00zip\x86R.",
    "dictionary with a list as key": b"\x80\x02}]K\x01s.",
    "dictionary with a colliding key": b"\x80\x02}\x8a\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01K\x01s.",
    "stack underflow": b"\x80\x02R.",
    "missing mark": b"\x80\x02t.",
    "unknown memo": b"\x80\x02h\x07.",
    "unknown opcode": b"\x80\x02\xff.",
    "no end": b"\x80\x02]",
    "endless text": b"\x80\x02c" + b"a" * 70_000,
    "number of 5,000 digits": b"\x80\x02I" + b"9" * 5000 + b"\n.",
    "length beyond the end": b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fa.",
    "length of 4 GB": b"\x80\x03B\xff\xff\xff\xffa.",
    "state for a number": b"\x80\x02K\x01}b.",
    "deep nesting": b"\x80\x02" + b"(" * 100_000 + b"t" * 100_000 + b".",
    "a list in itself": b"\x80\x02]q\x00h\x00a.",
    "a dict in itself": b"\x80\x02}q\x00X\x0a\x00\x00\x00state_dicth\x00s.",
}


@pytest.mark.parametrize("kind", ASSEMBLED)
def test_assembled_by_hand(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for wrap in CONTAINERS.values():
        path = write(tmp_path, "hostile.pt", wrap(ASSEMBLED[kind]))
        with pytest.raises(ExplorerError) as caught:
            open_checkpoint(path)
        assert "hostile.pt" in str(caught.value) and len(str(caught.value)) < 900
    assert not (tmp_path / "TRACE").exists()


def unfold(depth: int) -> bytes:
    """A list of ten times the list before, ``depth`` times: a small pickle of 10 ** depth items."""
    body = b"]X\x01\x00\x00\x00a" + b"a" + b"q\x00"
    for level in range(depth):
        body += b"cbuiltins\nlist\n(" + bytes([ord("h"), level]) * 10 + b"tl\x85R".replace(b"tl", b"l")
        body += bytes([ord("q"), level + 1])
    return b"\x80\x02" + body + b"."


def test_what_unfolds_is_refused_before_it_fills_memory(tmp_path: Path) -> None:
    path = write(tmp_path, "hostile.pt", unfold(9))
    with pytest.raises(ExplorerError):
        open_checkpoint(path)
    many = b"\x80\x02(" + b"K\x01" * 50_000 + b"lq\x000" + b"cbuiltins\nlist\nh\x00\x85R0" * 50_000 + b"N."
    with pytest.raises(ExplorerError, match="unfolds to far more than its size"):
        open_checkpoint(write(tmp_path, "hostile.pt", many))


def test_modules_in_each_other_end(tmp_path: Path) -> None:
    """Sixty modules that each contain the next one twice would be 2 ** 60 modules."""
    part = Call("a", "Leaf", state={"_parameters": {}, "_modules": {}})
    for _ in range(60):
        part = Call("a", "Pair", state={"_parameters": {}, "_modules": {"left": part, "right": part}})
    with pytest.raises(ExplorerError, match="contain each other without end"):
        open_checkpoint(write(tmp_path, "hostile.pt", in_zip(pickled(part))))


def doubled(levels: int) -> list:
    """A list that is small in a pickle and endless as text."""
    inner: list = ["x"]
    for _ in range(levels):
        inner = [inner, inner]
    return inner


def test_what_is_shared_is_neither_written_out_nor_walked_again(tmp_path: Path) -> None:
    """Sixty lists of two are 2 ** 60 items as text; a dict of 100,000 keys in 100,000 places is 10 ** 10 steps."""
    storage = Persistent(("storage", doubled(60), "0", "cpu", 6))
    wrong = [{"a": Call("torch._utils", "_rebuild_tensor_v2", storage, 0, (6,), (1,))}, {"a": doubled(60)}]
    wrong += [Call("torch._utils", "_rebuild_tensor_v3", 1, 0, (6,), (1,), False, None, doubled(60))]
    big = dict.fromkeys(map(str, range(20_000)), 1)
    wrong += [{str(n): big for n in range(20_000)}]
    parts = {str(n): Call("a", "B", state={"_parameters": {}, "_modules": big}) for n in range(2_000)}
    wrong += [Call("a", "B", state={"_parameters": {}, "_modules": parts})]
    for content in wrong:
        with pytest.raises(ExplorerError) as caught:
            open_checkpoint(write(tmp_path, "hostile.pt", in_zip(pickled(content), {"0": 6})))
        assert len(str(caught.value)) < 500


def test_names_are_not_looked_up(tmp_path: Path) -> None:
    """A module that a pickle names is not imported, not even for a harmless instance."""
    shapes = {"blocks.0.a": (2, 3)}
    content = state(shapes) | {
        "other": Call("antigravity_x.y", "Thing", state={"a": 1}),
        "function": Name("this_y", "f"),
    }
    before = set(sys.modules)
    checkpoint = open_checkpoint(write(tmp_path, "a.pt", zip_of(content, shapes)))
    assert set(checkpoint.entries) == set(shapes)
    assert not {name for name in set(sys.modules) - before if name.startswith(("antigravity", "this", "torch"))}


def test_harmless_names_are_classes_or_answered() -> None:
    """Of the standard library, only classes without effects may be named, and no function stays unanswered."""
    effects = {"builtins.open", "builtins.eval", "builtins.exec", "io.open", "builtins.type", posixpath.__name__}
    assert not HARMLESS & effects
    for name in HARMLESS:
        module, _, attribute = name.rpartition(".")
        found = getattr(importlib.import_module(module), attribute)
        assert isinstance(found, type) or name in CALLS or name == "typing.Any", name


def test_plain_values_come_out_as_pickle_gives_them() -> None:
    content = {"a": [1, -2, 2.5, None, True, "é\n", b"\x00\xff"], "b": ({}, (), (1,), (1, 2, 3, 4)), 3: {"c": 2**70}}
    for protocol in range(2, 6):
        payload = pickle.dumps(content, protocol)
        assert Unpickler("a", CALLS, BUILDS).load(Window(io.BytesIO(payload), 0, len(payload))) == content
