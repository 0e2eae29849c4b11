"""The page of LiNeS Explorer: ``python app.py [--suite S] [--host H] [--port P] [--device D]``, also in a Space."""

import argparse
import os
import sys
from collections.abc import Sequence

from lines_explorer.errors import ExplorerError
from lines_explorer.ui import serve
from lines_explorer.ui.serving import LOCAL, PORT


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line's options; address and port default to Gradio's environment variables."""
    parser = argparse.ArgumentParser(description="Open LiNeS Explorer in a browser.")
    parser.add_argument("--suite", default="pocket", help="name of a suite, or a folder with a suite.yaml")
    parser.add_argument("--host", default=os.environ.get("GRADIO_SERVER_NAME", LOCAL), help="address to listen on")
    parser.add_argument("--port", type=int, default=os.environ.get("GRADIO_SERVER_PORT", PORT), help="0: any free port")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps")
    parser.add_argument("--precision", default="float32", help="float32; on a GPU also tf32, bf16, checked against it")
    wanted = {"1": True, "0": False}.get(os.environ.get("LINES_EXPLORER_DOWNLOADS", ""))
    parser.add_argument(
        "--downloads", default=wanted, action=argparse.BooleanOptionalAction,
        help="whether visitors may download merged models; if not said: only on a page for this machine alone",
    )  # fmt: skip
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the page; 0 when it was closed, 2 with one sentence on bad input."""
    chosen = options(arguments)
    try:
        serve(**vars(chosen))
    except ExplorerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
