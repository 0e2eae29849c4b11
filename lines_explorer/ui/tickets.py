"""Which request of each open page is the newest, and one after the other of what a request needs."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

POLL = 0.05
TABS = 2000


class Tickets:
    """The newest request of each open page, so that an evaluation nobody waits for any more can stop."""

    def __init__(self, most: int = TABS) -> None:
        self.newest: OrderedDict[str, int] = OrderedDict()
        self.turns: OrderedDict[tuple[str, int], threading.Lock] = OrderedDict()
        self.most, self.lock = most, threading.Lock()

    def take(self, tab: str, number: int) -> None:
        """Note that ``tab`` has asked for its request ``number``."""
        with self.lock:
            self.newest[tab] = max(number, self.newest.pop(tab, 0))
            while len(self.newest) > self.most:
                self.newest.popitem(last=False)

    def stale(self, tab: str, number: int) -> bool:
        """Whether ``tab`` has asked for something newer."""
        return self.newest.get(tab, 0) > number

    @contextmanager
    def turn(self, tab: str, number: int, stop: Callable[[], bool]) -> Iterator[None]:
        """Until it is left, nothing else that ``tab`` asks for under the same number is evaluated; ends as stopped.

        A page has one place in the engine's queue, where a newer request replaces its older one: what one view needs
        (its point, its lines, its test) comes one after the other.
        """
        with self.lock:
            turn = self.turns.pop((tab, number), None) or threading.Lock()
            self.turns[tab, number] = turn
            while len(self.turns) > self.most:
                self.turns.popitem(last=False)
        while not (mine := turn.acquire(timeout=POLL)) and not stop():
            pass
        try:
            yield
        finally:
            if mine:
                turn.release()
