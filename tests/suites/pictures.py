"""Tiny encoded pictures, and parquet files of them as `datasets` writes them; without torch."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

SIZE = 8


def png(shade: int, size: tuple[int, int] = (SIZE, SIZE)) -> bytes:
    """A picture of one colour, whose red is ``shade``."""
    file = io.BytesIO()
    Image.new("RGB", size, (shade, 0, 9)).save(file, "png")
    return file.getvalue()


def parquet(
    path: Path,
    cells: Sequence[object],
    labels: Sequence[object],
    names: Sequence[str] | None = None,
    columns: tuple[str, str] = ("image", "label"),
) -> Path:
    """Columns of cells and labels; with ``names`` the label is a ClassLabel."""
    image = {"_type": "Image"} if cells and isinstance(cells[0], dict) else {"dtype": "binary", "_type": "Value"}
    label = {"names": list(names), "_type": "ClassLabel"} if names else {"dtype": "int64", "_type": "Value"}
    info = {"info": {"features": {columns[0]: image, columns[1]: label}}}
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({columns[0]: list(cells), columns[1]: list(labels)})
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(info)}), path, row_group_size=2)
    return path
