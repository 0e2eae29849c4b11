"""The table of merge methods, for ``suites``: what there is, and what each takes with ``--set``."""

from __future__ import annotations

from typing import Any

from lines_explorer.merging import METHODS, written


def method_rows() -> list[dict[str, Any]]:
    """Every merge method with its parameters, as JSON."""
    return [
        {
            "name": method.name,
            "title": method.title,
            "summary": method.summary,
            "equation": method.equation,
            "source": method.source,
            "experts": list(method.experts),
            "statistics": method.statistics or None,
            "parameters": [
                {"name": row.name, "summary": row.summary, "default": row.default, "range": row.range}
                for row in method.parameters
            ],
        }
        for method in METHODS.values()
    ]


def methods_text() -> str:
    """One line a method, and one for each of its parameters."""
    lines = ["merge methods: --method NAME --set PARAMETER=VALUE"]
    wide = max(len(name) for name in METHODS)
    for method in METHODS.values():
        lines.append(f"{method.name.ljust(wide)}  {method.title}: {method.summary}")
        for row in method.parameters:
            lines.append(f"{'':{wide}}    {row.name} = {written(row.default)}: {row.summary} ({row.range})")
    return "\n".join(lines)
