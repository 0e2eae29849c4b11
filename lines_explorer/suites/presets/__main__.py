"""``python -m lines_explorer.suites.presets NAME FOLDER`` writes a ready-made suite.yaml; alone, it lists them."""

from __future__ import annotations

import sys

from lines_explorer.errors import ExplorerError
from lines_explorer.suites.presets import NAMES, write


def main(arguments: list[str]) -> int:
    """Exit code: 0 done, 2 bad input with one sentence on stderr."""
    if len(arguments) != 2:
        print("\n".join(NAMES))
        return 0 if not arguments else 2
    try:
        print(write(*arguments))
        return 0
    except ExplorerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
