"""Opens a suite and serves its page; what a user can get wrong on the way becomes one clear sentence."""

import errno
import ipaddress
import os
import socket
import sys
from typing import Any

from lines_explorer.errors import ExplorerError

LOCAL = "127.0.0.1"
PORT = 7860


def serve(
    suite: str = "pocket", host: str = LOCAL, port: int = PORT, device: str = "auto",
    precision: str = "float32", downloads: bool | None = None,
) -> None:  # fmt: skip
    """Open ``suite`` on ``device`` and serve its page on ``host``:``port`` until interrupted; port 0 takes a free one.

    ``downloads`` says whether visitors may take merged models away; left out, only where this machine alone can open
    the page.

    Raises:
        ExplorerError: an unknown suite or device, a damaged asset, or a port that cannot be listened on.
    """
    port = check_port(host, port)
    from lines_explorer.engine import Engine
    from lines_explorer.suites import bill_sentence, open_suite
    from lines_explorer.ui.layout import build_page

    opened = open_suite(suite)
    if said := bill_sentence(opened):
        print(said, file=sys.stderr, flush=True)
    engine = Engine(opened, device=device, idle=True, precision=precision)
    allowed = _only_here(host) if downloads is None else downloads
    page = build_page(engine, os.environ.get("GRADIO_ROOT_PATH", ""), allowed)
    page.queue(api_open=False, max_size=256)
    page.launch(**launch_options(host, port), prevent_thread_lock=True)
    print(f"LiNeS Explorer is open at {page.local_url}  (stop with Ctrl+C)", file=sys.stderr, flush=True)
    page.block_thread()


def launch_options(host: str, port: int) -> dict[str, Any]:
    """Gradio's settings for a page that is private by default, offline, and keeps nothing of its visitors."""
    from lines_explorer.ui.layout import css, theme

    return {
        "server_name": host,
        "server_port": port,
        "theme": theme(),
        "css": css(),
        "share": False,
        "run_history": False,
        "enable_monitoring": False,
        "allowed_paths": [],
        "strict_cors": True,
        "max_file_size": "1kb",
        "footer_links": [],
        "quiet": True,
        "show_error": False,
    }


def _only_here(host: str) -> bool:
    """Whether the address is one that no other machine reaches; False as well where that is not known."""
    try:
        return ipaddress.ip_address("127.0.0.1" if host == "localhost" else host).is_loopback
    except ValueError:
        return False


def check_port(host: str, port: int) -> int:
    """The port to listen on: ``port``, or a free one for 0.

    Raises:
        ExplorerError: the port is in use or not allowed, or the host is not an address of this machine.
    """
    if not 0 <= port <= 65535:
        raise ExplorerError(f"There is no port {port}; choose one from 0 to 65535 with --port.")
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
            return probe.getsockname()[1]
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            sentence = f"Port {port} on {host} is in use; close what uses it or choose another with --port (0: any)."
        elif error.errno in (errno.EACCES, errno.EPERM):
            sentence = f"Port {port} needs more rights than this user has; choose one above 1023 with --port."
        else:
            sentence = f"Cannot listen on {host}, port {port} ({error.strerror or error}); check --host and --port."
        raise ExplorerError(sentence) from None
