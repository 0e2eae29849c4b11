"""Checkpoints written by hand, without torch: right, wrong and hostile ones, in every container."""

from __future__ import annotations

import io
import json
import math
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lines_explorer.errors import ExplorerError

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
Shapes = Mapping[str, tuple[int, ...]]


def block(width: int) -> dict[str, tuple[int, ...]]:
    """One residual block as open_clip names it: name → shape."""
    return {
        **{"ln_1.weight": (width,), "ln_1.bias": (width,), "ln_2.weight": (width,), "ln_2.bias": (width,)},
        **{"attn.in_proj_weight": (3 * width, width), "attn.in_proj_bias": (3 * width,)},
        **{"attn.out_proj.weight": (width, width), "attn.out_proj.bias": (width,)},
        **{"mlp.c_fc.weight": (2 * width, width), "mlp.c_fc.bias": (2 * width,)},
        **{"mlp.c_proj.weight": (width, 2 * width), "mlp.c_proj.bias": (width,)},
    }


def visual_shapes(depth: int = 2, width: int = 8, patch: int = 4, dim: int = 6) -> dict[str, tuple[int, ...]]:
    """An image tower of 8 × 8 pixels, names ``visual.*``."""
    shapes: dict[str, tuple[int, ...]] = {
        **{"class_embedding": (width,), "positional_embedding": (1 + (8 // patch) ** 2, width), "proj": (width, dim)},
        **{"conv1.weight": (width, 3, patch, patch), "ln_pre.weight": (width,), "ln_pre.bias": (width,)},
        **{"ln_post.weight": (width,), "ln_post.bias": (width,)},
    }
    shapes |= {f"transformer.resblocks.{number}.{k}": v for number in range(depth) for k, v in block(width).items()}
    return {f"visual.{name}": shape for name, shape in shapes.items()}


def clip_shapes(depth: int = 2) -> dict[str, tuple[int, ...]]:
    """The image tower, the text tower and the temperature of a CLIP model."""
    text: dict[str, tuple[int, ...]] = {f"transformer.resblocks.0.{name}": shape for name, shape in block(4).items()}
    text |= {"token_embedding.weight": (9, 4), "positional_embedding": (5, 4), "text_projection": (4, 6)}
    return visual_shapes(depth) | text | {"ln_final.weight": (4,), "ln_final.bias": (4,), "logit_scale": ()}


def vision_shapes(depth: int = 2, width: int = 8) -> dict[str, tuple[int, ...]]:
    """An image tower as transformers names it."""
    shapes: dict[str, tuple[int, ...]] = {
        "vision_model.embeddings.class_embedding": (width,),
        "vision_model.embeddings.patch_embedding.weight": (width, 3, 4, 4),
        "vision_model.pre_layrnorm.weight": (width,),
        "vision_model.post_layernorm.weight": (width,),
        "visual_projection.weight": (6, width),
    }
    for number in range(depth):
        name = f"vision_model.encoder.layers.{number}.self_attn"
        shapes |= {f"{name}.{part}_proj.weight": (width, width) for part in "qkv"}
    return shapes


# --- safetensors


def header_of(shapes: Shapes, dtype: str = "F32", size: int = 4) -> dict[str, Any]:
    """The header that belongs to tensors of these shapes."""
    header, end = {}, 0
    for name, shape in shapes.items():
        start, end = end, end + size * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    return header


def safetensors(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file of any header, true or not."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def safetensors_of(shapes: Shapes, dtype: str = "F32", size: int = 4) -> bytes:
    """A right safetensors file, its numbers all alike."""
    return safetensors(header_of(shapes, dtype, size), b"\x01" * sum(size * math.prod(s) for s in shapes.values()))


# --- pickles of classes and functions that need not exist


class Name:
    """The name of a class or function, written as it stands."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self) -> None:
        """Only pretends to be a function, as pickle asks for one."""


class Call:
    """What a pickle writes for an instance: a call, then a state."""

    def __init__(self, module: str, name: str, *args: Any, state: Any = None) -> None:
        self.reduced = (Name(module, name), args) + ((state,) if state is not None else ())


class Persistent:
    """What a pickle writes for a storage."""

    def __init__(self, pid: Any) -> None:
        self.pid = pid


class Pickler(pickle._Pickler):  # type: ignore[name-defined, misc]
    """Writes ``Name``, ``Call`` and ``Persistent`` as what they stand for."""

    with_views = False

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        """Writes one object."""
        if isinstance(obj, Name):
            self.write(b"c" + f"{obj.module}\n{obj.name}\n".encode())
        else:
            super().save(obj, save_persistent_id)

    def reducer_override(self, obj: Any) -> Any:
        """A call's parts."""
        return obj.reduced if isinstance(obj, Call) else NotImplemented

    def persistent_id(self, obj: Any) -> Any:
        """A storage's description; the old stream's has one field more."""
        if not isinstance(obj, Persistent):
            return None
        return (*obj.pid, None) if self.with_views else obj.pid


def pickled(content: Any, protocol: int = 2, with_views: bool = False) -> bytes:
    """``content`` as pickle."""
    file = io.BytesIO()
    pickler = Pickler(file, protocol)
    pickler.with_views = with_views
    pickler.dump(content)
    return file.getvalue()


def tensor(key: int, shape: tuple[int, ...], numel: int | None = None, **changes: Any) -> Call:
    """A float32 tensor as torch.save describes it; ``changes``: start, strides, kind, parameter."""
    strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    kind, numel = changes.get("kind", Name("torch", "FloatStorage")), math.prod(shape) if numel is None else numel
    storage = Persistent(("storage", kind, str(key), "cpu", numel))
    hooks = Call("collections", "OrderedDict")
    args = (storage, changes.get("start", 0), shape, changes.get("strides", strides), False, hooks)
    made = Call("torch._utils", "_rebuild_tensor_v2", *args)
    return Call("torch._utils", "_rebuild_parameter", made, True, hooks) if changes.get("parameter") else made


def state(shapes: Shapes, **changes: Any) -> dict[str, Call]:
    """A state dict of tensors of these shapes, one storage each."""
    return {name: tensor(key, shape, **changes) for key, (name, shape) in enumerate(shapes.items())}


def module(shapes: Shapes, name: tuple[str, str] = ("open_clip.model", "Part"), **attributes: Any) -> Call:
    """Nested modules whose parameters have these names and shapes."""
    keys = {full: key for key, full in enumerate(shapes)}

    def part(prefix: str) -> Call:
        below = [full[len(prefix) :] for full in shapes if full.startswith(prefix)]
        here = [last for last in below if "." not in last]
        own = {last: tensor(keys[prefix + last], shapes[prefix + last], parameter=True) for last in here}
        children = dict.fromkeys(rest.split(".")[0] for rest in below if "." in rest)
        modules = {child: part(f"{prefix}{child}.") for child in children}
        body = {"training": True, "_parameters": own, "_buffers": {}, "_modules": modules}
        return Call(*name, state=body | (attributes if not prefix else {}))

    return part("")


# --- containers


def in_zip(payload: bytes, storages: Mapping[str, int] | None = None, **options: Any) -> bytes:
    """A pickle as torch.save puts it into a zip since 1.6; ``storages``: key → number of floats."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as archive:
        archive.writestr("archive/data.pkl", payload)
        archive.writestr("archive/version", b"3\n")
        for key, numel in (storages or {}).items():
            archive.writestr(f"archive/data/{key}", b"\x00\x00\x80?" * numel)
    return file.getvalue()


def zip_of(content: Any, shapes: Shapes, **options: Any) -> bytes:
    """What torch.save writes for ``content``, whose tensors have the storages of ``shapes``."""
    return in_zip(pickled(content), {str(key): math.prod(s) for key, s in enumerate(shapes.values())}, **options)


def in_stream(payload: bytes, keys: tuple[str, ...] = (), tail: bytes = b"", **system: Any) -> bytes:
    """A pickle as torch.save wrote it before 1.6."""
    system = {"protocol_version": PROTOCOL, "little_endian": True, "type_sizes": {}} | system
    return pickled(MAGIC) + pickled(PROTOCOL) + pickled(system) + payload + pickled(list(keys)) + tail


def stream_of(content: Any, shapes: Shapes) -> bytes:
    """What torch.save wrote for ``content`` before 1.6."""
    sizes = [math.prod(shape) for shape in shapes.values()]
    tail = b"".join(struct.pack("<q", size) + b"\x00\x00\x80?" * size for size in sizes)
    return in_stream(pickled(content, with_views=True), tuple(map(str, range(len(sizes)))), tail)


def in_system_info(payload: bytes) -> bytes:
    """A pickle in a place of the old stream where none is looked for."""
    return pickled(MAGIC) + pickled(PROTOCOL) + payload + pickled({}) + pickled([])


def in_tar(payload: bytes, storages: bytes = b"", tensors: bytes = b"") -> bytes:
    """A pickle as torch.save wrote it before 0.1.10, in a tar."""
    members = {"sys_info": pickled({}), "pickle": payload}
    members |= {"storages": storages or pickled(0) + pickled([]), "tensors": tensors or pickled(0)}
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def tar_of(arrays: Mapping[str, Any]) -> bytes:
    """A state dict of numpy arrays (float32, int64) in the oldest format of torch.save, which torch only reads."""
    kinds = {"float32": "FloatStorage", "int64": "LongStorage"}
    storages, tensors = pickled(len(arrays)), pickled(len(arrays))
    for key, array in enumerate(arrays.values()):
        storage = (key, "cpu", Name("torch", kinds[array.dtype.name]))
        storages += pickled(storage) + struct.pack("<q", array.size) + array.tobytes()
        strides = [math.prod(array.shape[axis + 1 :]) for axis in range(array.ndim)]
        sizes = (*array.shape, *strides, 0)
        tensors += pickled((100 + key, key, Name("torch", "FloatTensor")))
        tensors += struct.pack(f"<i4x{len(sizes)}q", array.ndim, *sizes)
    named = Call("collections", "OrderedDict", [[name, Persistent(100 + key)] for key, name in enumerate(arrays)])
    return in_tar(pickled(named), storages + pickled([]), tensors)


def in_npy(payload: bytes, header: bytes = b"{'descr': '|O', 'fortran_order': False, 'shape': (), }") -> bytes:
    """A pickle as numpy.save writes an object."""
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + payload


CONTAINERS: dict[str, Callable[[bytes], bytes]] = {
    "raw": lambda payload: payload,
    "zip": in_zip,
    "stream": in_stream,
    "system info": in_system_info,
    "tar": in_tar,
    "tar storages": lambda payload: in_tar(pickled({}), storages=payload),
    "npy": in_npy,
}


def write(folder: Path, name: str, content: bytes) -> Path:
    """A file of these bytes."""
    path = folder / name
    path.write_bytes(content)
    return path


def refused(work: Callable[[], object], expected: str, *named: str) -> None:
    """``work`` raises one sentence that matches ``expected`` and names all of ``named``."""
    with pytest.raises(ExplorerError, match=expected) as caught:
        work()
    message = str(caught.value)
    assert all(name in message for name in named), message
    assert message.endswith(".") and "\n" not in message and len(message) < 700
