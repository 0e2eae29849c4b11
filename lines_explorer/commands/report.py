"""A verb's answer, as one JSON object and as text for people."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Report:
    """``data`` is printed by ``--json``, ``text`` otherwise."""

    data: Mapping[str, Any]
    text: str

    def as_json(self) -> str:
        """One strict JSON object on one line; numbers that are not finite become ``null``."""
        return json.dumps(_finite(self.data), ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def percent(value: float | None) -> str:
    """``0.4867`` → ``48.7``; a missing or undefined number → ``–``."""
    return "–" if value is None or not math.isfinite(value) else f"{100 * value:.1f}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns two spaces apart: the first one left-aligned, the others right-aligned."""
    lines = [tuple(header), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines
    )
