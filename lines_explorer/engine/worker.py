"""One thread drives the device: the visitors' runs in turn, and when nobody waits, what may be asked next."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Sequence

from lines_explorer.engine.runs import Key, Run, Ticket, Turns

Stop = Callable[[], bool]
MOST_BRIEF = 8
LAST_WORDS = 10.0  # seconds that the end of the program waits for a batch


class Worker:
    """Takes requests from any thread and has them driven one after the other by ``drive(run, stop)``.

    ``drive`` works until the run is done or ``stop`` says True, publishing as it goes.  The thread lives while there
    is work; when the program ends (Ctrl-C) it is stopped first: Python must not go from under a computing thread.
    """

    def __init__(self, drive: Callable[[Run, Stop], None]) -> None:
        self._drive = drive
        self._guard = threading.Lock()
        self._runs: dict[Key, Run] = {}
        self._turns, self._brief = Turns(), Turns()
        self._brief_last = False
        self._newest: dict[Hashable, Ticket] = {}
        self._idle: deque[Run] = deque()
        self.busy = False
        self._ending, self._threads = threading.Event(), deque[threading.Thread](maxlen=1)
        weakref.finalize(self, _stop, self._ending, self._threads)

    def join(self, run: Run, visitor: Hashable | None = None) -> Ticket:
        """A place at the run in progress for the same request, or at this new one, which then waits for its turn.

        A visitor has one place: an older one of the same visitor is left.  None is a visitor of its own each time.
        """
        with self._guard:
            run = self._runs.setdefault(run.key, run)
            ticket = Ticket(run, object() if visitor is None else visitor)
            run.waiting += 1
            if not run.started:
                (self._brief if run.brief else self._turns).add(ticket.visitor, run)
            if visitor is not None:
                self._dismiss(visitor)
                self._newest[visitor] = ticket
            self._begin()
        return ticket

    def dismiss(self, visitor: Hashable) -> None:
        """Gives the visitor's place up, if it has one: it was answered in another way."""
        with self._guard:
            self._dismiss(visitor)

    def leave(self, ticket: Ticket) -> None:
        """Gives the place up; a run that nobody waits for stops after its batch, or never begins."""
        with self._guard:
            self._drop(ticket)

    def suggest(self, runs: Sequence[Run]) -> None:
        """What to do while nobody waits, best first; replaces what was suggested before."""
        with self._guard:
            self._idle = deque(runs)
            if self._idle:
                self._begin()

    def interlude(self) -> bool:
        """Does the brief runs that wait, MOST_BRIEF at most, within a longer one; says whether there was any.

        For the thread that drives, between two batches.  The model may hold other weights afterwards.
        """
        for count in range(MOST_BRIEF):
            with self._guard:
                if (run := self._brief.next()) is None:
                    return count > 0
                run.started = True
            self._do(run)
        return True

    def _dismiss(self, visitor: Hashable) -> None:
        if (older := self._newest.get(visitor)) is not None:
            self._drop(older)
            older.run.wake()

    def _drop(self, ticket: Ticket) -> None:
        if ticket.left:
            return
        ticket.left = True
        ticket.run.waiting -= 1
        if ticket.run.waiting == 0 and not ticket.run.idle:
            self._forget(ticket.run)
        if self._newest.get(ticket.visitor) is ticket:
            del self._newest[ticket.visitor]

    def _forget(self, run: Run) -> None:
        if self._runs.get(run.key) is run:
            del self._runs[run.key]

    def _begin(self) -> None:
        if not self.busy:
            self.busy = True
            self._threads.append(threading.Thread(target=self._work, name="lines-explorer-device", daemon=True))
            self._threads[0].start()

    def _work(self) -> None:
        """One run after another until none is left."""
        while (run := self._next()) is not None:
            self._do(run)

    def _do(self, run: Run) -> None:
        """Drives a run.  One that fails tells its listeners, and does not harm the next."""
        fault: BaseException | None = None
        try:
            self._drive(run, lambda: self._unwanted(run))
        except BaseException as caught:
            fault = caught
        with self._guard:
            self._forget(run)
        run.end(fault)

    def _next(self) -> Run | None:
        with self._guard:
            if self._ending.is_set():
                return None
            lines = (self._turns, self._brief) if self._brief_last else (self._brief, self._turns)
            run = lines[0].next() or lines[1].next()
            self._brief_last = run is not None and run.brief
            while run is None and self._idle:
                suggested = self._idle.popleft()
                if suggested.key not in self._runs:
                    run = self._runs[suggested.key] = suggested
            if run is None:
                self.busy = False
            else:
                run.started = True
            return run

    def _unwanted(self, run: Run) -> bool:
        """Whether nobody waits for the run, and it is no idle work or the time is not idle any more."""
        with self._guard:
            unwanted = self._ending.is_set() or (run.waiting == 0 and (not run.idle or self._any_due()))
            if unwanted:
                self._forget(run)  # so that nobody joins what is about to stop
            return unwanted

    def _any_due(self) -> bool:
        return self._turns.any_due() or self._brief.any_due()


def _stop(ending: threading.Event, threads: Sequence[threading.Thread]) -> None:
    """Has the thread stop after its batch, and waits for it a while."""
    ending.set()
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(LAST_WORDS)
