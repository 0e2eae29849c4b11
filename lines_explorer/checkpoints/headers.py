"""The header of a safetensors file, believed only as far as the file bears it out."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lines_explorer.checkpoints.sources import SourceFile, damaged, refuse_other_kinds, shown
from lines_explorer.checkpoints.tensors import ITEM_SIZE, Region, Stored, row_major
from lines_explorer.errors import ExplorerError

MOST_HEADER_BYTES = 32 << 20
MOST_DIMENSIONS = 64
DTYPES = {
    **{"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "BOOL": "bool"},
    **{"I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8"},
    **{"U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8"},
    **{"F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu", "C64": "complex64"},
}
WHAT = "safetensors"


@dataclass(frozen=True)
class Header:
    """Tensors of a safetensors file by name, none of them read, and the text metadata."""

    entries: Mapping[str, Stored]
    metadata: Mapping[str, str]


def read_header(file: SourceFile) -> Header:
    """The header, checked against the file.

    Raises ExplorerError, naming file and tensor, when the header is no JSON object of the format, names a tensor
    twice, gives an unknown dtype, a wrong shape, or bytes that are not there, overlap or have holes between them.
    """
    start = file.read(0, min(64, file.size))
    refuse_other_kinds(file.path, start)
    if len(start) < 8:
        raise damaged(file.path, WHAT, "it is shorter than a header")
    length = int.from_bytes(start[:8], "little")
    if length > file.size - 8:
        raise damaged(file.path, WHAT, "the header is longer than the file")
    if length > MOST_HEADER_BYTES:
        raise ExplorerError(f"{file.path}: its header is {length:,} bytes, too long for a checkpoint; save it again.")
    header = _json(file, file.read(8, length))
    facts = header.pop("__metadata__", {})
    if not isinstance(facts, dict) or not all(isinstance(value, str) for value in facts.values()):
        raise damaged(file.path, WHAT, "__metadata__ must map text to text")
    entries = {name: _entry(file, name, row, 8 + length) for name, row in header.items()}
    _require_gapless(file, entries, 8 + length)
    return Header(entries, facts)


def _json(file: SourceFile, text: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise ExplorerError(f"{file.path}: '{shown(twice)}' is named twice in its header; save it again.")
        return found

    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as fault:
        raise damaged(file.path, WHAT, "the header is not JSON") from fault
    if not isinstance(header, dict):
        raise damaged(file.path, WHAT, "the header is not a JSON object")
    return header


def _entry(file: SourceFile, name: str, row: object, data: int) -> Stored:
    """One tensor's row; ``data`` is where the tensors begin in the file."""
    wrong = f"{file.path}: tensor '{shown(name)}'"
    if not isinstance(row, dict) or not {"dtype", "shape", "data_offsets"} <= row.keys():
        raise ExplorerError(f"{wrong} lacks dtype, shape or data_offsets in the header; save the file again.")
    dtype = DTYPES.get(row["dtype"]) if isinstance(row["dtype"], str) else None
    if dtype is None:
        raise ExplorerError(f"{wrong} has the unknown dtype {shown(row['dtype'])}; convert it to F32, F16 or BF16.")
    shape, offsets = row["shape"], row["data_offsets"]
    if not _counts(shape) or len(shape) > MOST_DIMENSIONS:
        raise ExplorerError(f"{wrong} has the impossible shape {shown(shape)}; save the file again.")
    if not _counts(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= file.size - data:
        raise ExplorerError(
            f"{wrong} is said to lie at {shown(offsets)}, but the file has {file.size - data} bytes of tensors: "
            "it is truncated or damaged; download or copy it again."
        )
    size = math.prod(shape) * ITEM_SIZE[dtype]
    if size != offsets[1] - offsets[0]:
        raise ExplorerError(
            f"{wrong} of shape {shown(tuple(shape))} and dtype {row['dtype']} needs {size} bytes, but the header "
            f"gives it {offsets[1] - offsets[0]}; save the file again."
        )
    place = Region(file, data + offsets[0], size)
    return Stored(dtype, tuple(shape), place, row_major(tuple(shape)))


def _counts(values: object) -> bool:
    """Whether ``values`` is a list of integers from 0 on."""
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _require_gapless(file: SourceFile, entries: Mapping[str, Stored], data: int) -> None:
    """The tensors must fill the file without overlap: a hole or a shared byte is a lie or a hidden payload."""
    end, previous = data, ""
    placed = [(entry.place, name) for name, entry in entries.items() if isinstance(entry.place, Region)]
    for place, name in sorted(placed, key=lambda pair: (pair[0].offset, pair[0].size)):
        if place.offset < end:
            both = f"'{shown(previous)}' and '{shown(name)}'"
            raise ExplorerError(f"{file.path}: tensors {both} overlap in the file; save it again.")
        if place.offset > end:
            raise ExplorerError(
                f"{file.path}: {place.offset - end} bytes before tensor '{shown(name)}' belong to no tensor; "
                "save it again."
            )
        end, previous = place.offset + place.size, name
    if end != file.size:
        raise ExplorerError(
            f"{file.path}: {file.size - end} bytes at its end belong to no tensor; download or save it again."
        )
