"""A port that stays while the server behind it goes and comes: what a browser sees of a restart."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

CHUNK = 65536


class Wire:
    """Passes every connection to ``port`` on to ``target``, until it is cut."""

    def __init__(self, target: int) -> None:
        self.open: set[socket.socket] = set()
        self.listener: socket.socket | None = None
        self.port = 0
        self.mend(target)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def mend(self, target: int) -> None:
        """A server answers again, at the same port."""
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self.listener, target), daemon=True).start()

    def cut(self) -> None:
        """The server is gone: what is open breaks, and nothing new is taken."""
        _end(self.listener)
        for end in list(self.open):
            _end(end)
        self.open.clear()

    def _accept(self, listener: socket.socket, target: int) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", target))
            self.open |= {near, far}
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=_pass, args=(one, other), daemon=True).start()


def _pass(one: socket.socket, other: socket.socket) -> None:
    """Hands on what one end says until either is closed."""
    try:
        while data := one.recv(CHUNK):
            other.sendall(data)
    except OSError:
        pass
    for end in (one, other):
        _end(end)


def _end(end: socket.socket) -> None:
    """Closes a socket that another thread may be waiting on."""
    actions: tuple[Callable[[], None], ...] = (lambda: end.shutdown(socket.SHUT_RDWR), end.close)
    for action in actions:
        try:
            action()
        except OSError:
            pass
