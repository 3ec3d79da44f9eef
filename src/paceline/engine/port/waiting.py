"""How the caller waits for a port's rows.

help: run what lives here ──► spin while it may be soon ──► sleep until a worker knocks ──► look: are there enough?

Each wait looks after workers whose rows it does not need, ten times a second at the most: else those that have died or
hang would not be noticed as long as others are quicker.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, perf_counter
from typing import TYPE_CHECKING

from paceline.engine.host.bound_port import IDLE, NEWS
from paceline.engine.supervisor.roster import HERE
from paceline.engine.transport.spin import Patience
from paceline.errors import Closed

if TYPE_CHECKING:
    from paceline.engine.port.items import Book
    from paceline.engine.port.notices import Ringing
    from paceline.engine.supervisor.supervisor import Crew

_LOOK_AGAIN = 0.1


class Waiting:
    """Waits for the items of one port."""

    def __init__(self, crew: Crew, book: Book, ringing: Ringing) -> None:
        self._crew = crew
        self._book = book
        self._ringing = ringing
        self._patience = Patience()
        self._looked = 0.0  # when workers were last looked after without need

    def until_ready(self, goal: int, timeout: float | None) -> None:
        """Waits until so many items are done, or for `timeout` seconds."""
        if self._book.state.tobytes() == self._book.all_ready:
            return
        end = None if timeout is None else monotonic() + timeout
        self._help()
        if self._ready() < goal:
            start = perf_counter()
            if not self._spin(goal):
                self._sleep(goal, end)
            self._patience.learn(perf_counter() - start)
        if goal < self._book.outstanding or timeout is not None:
            self._look_after_the_others()

    def _look_after_the_others(self) -> None:
        """Rows that nothing waits for now are waited for later: their worker may have died, or hang."""
        now = monotonic()
        told = any(self._crew.slots[number].inflight for number in self._ringing.rung)
        if told or now - self._looked >= _LOOK_AGAIN:  # who was told by a message answers by one, which is to be heard
            self._looked = now
            self._crew.hearing.pump(0.0)

    def until_done(self, items: list[int]) -> None:
        """Waits until these items are done."""
        self._help()
        while not self._done(items):
            self._rest(_LOOK_AGAIN, lambda: self._done(items), lambda: True, eager=True)

    def _help(self) -> None:
        """Does first what is to be done here; the workers are busy meanwhile."""
        self._crew.check_outside()
        try:
            for worker in self._ringing.by_memory.values():
                self._crew.runs_here = worker.backend == "inline"
                worker.help()
        finally:
            self._crew.runs_here = False
        here = self._crew.slots[HERE]
        while here.busy:
            self._crew.hearing.pump(0.0)

    def _spin(self, goal: int) -> bool:
        workers = list(self._ringing.by_memory.values())
        if not workers:
            return False
        if goal < self._book.outstanding or len(workers) < len(self._ringing.rung):
            return self._patience.spin(lambda: self._ready() >= goal)
        state, all_ready = self._book.state, self._book.all_ready
        self._crew.steady = True  # looking at words changes nothing
        if self._book.outstanding == len(all_ready):
            # The rows are all there a moment before the last worker says that it has done everything.
            served = self._patience.spin(lambda: IDLE not in state.tobytes())
        else:
            served = self._patience.spin(lambda: all(worker.has_served() for worker in workers))
        self._crew.steady = False
        return served and (state.tobytes() == all_ready or self._ready() >= goal)

    def _sleep(self, goal: int, end: float | None) -> None:
        while self._ready() < goal:
            left = _LOOK_AGAIN if end is None else min(_LOOK_AGAIN, end - monotonic())
            if left <= 0:
                return
            # With another port, a worker may have rows of that to run when ours are done.
            eager = goal < self._book.outstanding or len(self._crew.ports) > 1
            self._rest(left, lambda: self._ready() >= goal, lambda: self._seem_ready(goal), eager)

    def _rest(self, seconds: float, enough: Callable[[], bool], until: Callable[[], bool], eager: bool) -> None:
        """Sleeps until a worker has something to tell; they are asked to knock.

        Args:
            eager: They knock after some of their rows too: to be woken takes a core from whoever has more to run.
            until: Threads look at this first.
        """
        workers = self._ringing.by_memory
        for worker in workers.values():
            worker.listen(until, eager)
        if not enough() and not self._crew.hearing.pump(seconds) and not enough():
            raise Closed("the pool was closed before its rows had been run")
        for worker in workers.values():
            worker.listen(None)

    def _seem_ready(self, goal: int) -> bool:
        """Whether the caller should look. Only looks itself, so that any thread may ask."""
        state = self._book.state.tobytes()
        return NEWS in state or len(state) - state.count(IDLE) >= goal

    def _ready(self) -> int:
        """How many items are done, and what they had to say has been heard."""
        book = self._book
        state = book.state.tobytes()
        if NEWS not in state:
            return len(state) - state.count(IDLE)
        for item in range(len(state)):
            if book.unheard(item, state):
                self._crew.hearing.hear(book.slot_of(item))
        state = book.state.tobytes()
        return sum(1 for item, mark in enumerate(state) if mark and not book.unheard(item, state))

    def _done(self, items: list[int]) -> bool:
        self._ready()
        book = self._book
        return all(book.state[item] and not book.unheard(item, book.state) for item in items)
