"""One map under way: hands items out to whoever is free, and gives results back as they finish.

    items ──► chunks of about a millisecond ──► one per worker, two if they are short ──► (index, outcome), as they come

Which worker runs an item, and in what chunk, changes nothing: an item is stateless, and its random streams follow its
key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any

from paceline.engine.planning.plan import Choice, Meter, choose
from paceline.engine.supervisor.handle import Handle, Outcome, Request
from paceline.engine.supervisor.roster import HERE, Slot
from paceline.engine.supervisor.supervisor import Crew
from paceline.engine.transport import codec
from paceline.errors import Closed, NotSendable, PlanNotMet
from paceline.seeds import Key

_CHUNK_SECONDS = 1e-3
_CHUNK_MOST = 64
_AHEAD = 2  # one in hand, one in the post
_SHORT = 20e-3  # seconds: of longer chunks none is sent ahead, for it would wait where another worker is free
MANY = 16
"""How many items are taken to be left where that is not known."""


class Stream:
    """A function on its way over the items."""

    def __init__(
        self,
        crew: Crew,
        number: int,
        items: Iterator[tuple[int, tuple[Key, Any]]],
        deadline: float | None,
        pack: Callable[[int, Any], codec.Packed],
    ) -> None:
        self._crew, self._number = crew, number
        self._items, self._deadline, self._pack = items, deadline, pack
        self._handles: list[tuple[Slot, Handle, float]] = []
        self._chunk = 1
        self._ahead = 1
        self._exhausted = False
        self._meter = Meter() if crew.pilot is not None and len(crew.slots) == 1 else None

    def run(self) -> Iterator[tuple[int, Outcome]]:
        """Yields (index, outcome) as items finish; those that have finished before Ctrl-C, too, before it is raised."""
        try:
            yield from self._run()
        except KeyboardInterrupt:  # items here are run as they are sent: one may have finished, and the next not
            yield from self._finished()
            raise

    def _run(self) -> Iterator[tuple[int, Outcome]]:
        self._hand_out()
        while self._handles:
            if self._meter is not None:
                self._meter.begin()
            if not self._crew.hearing.pump(None) and not any(handle.done for _, handle, _ in self._handles):
                raise Closed("the pool was closed while a map was under way")
            done = list(self._finished())
            if self._meter is not None:
                self._meter.end(len(done))
            yield from done
            self._spread_out()
            self._hand_out()

    @property
    def slots(self) -> list[Slot]:
        """Whoever works on it: all workers, or the caller if there are none."""
        return [slot for slot in self._crew.slots.values() if slot.number != HERE] or [self._crew.slots[HERE]]

    def abandon(self) -> None:
        """Nobody wants the rest: what has not been sent is taken back."""
        for slot in self._crew.slots.values():
            kept = [request for request in slot.queue if (request.op, request.method) != ("map", self._number)]
            slot.queue.clear()
            slot.queue.extend(kept)

    def _hand_out(self) -> None:
        for ahead in range(self._ahead):  # everybody gets one before anybody gets two
            for slot in self.slots:
                if not self._exhausted and sum(1 for busy, _, _ in self._handles if busy is slot) <= ahead:
                    self._send(slot)

    def _send(self, slot: Slot) -> None:
        chunk: dict[int, tuple[Key, codec.Packed]] = {}
        for index, (key, item) in self._items:
            chunk[index] = key, self._pack(index, item)
            if len(chunk) >= self._chunk:
                break
        self._exhausted = len(chunk) < self._chunk
        if chunk:
            handle = Handle(self._crew.hearing.pump, chunk)
            request = Request("map", chunk, method=self._number, handle=handle, deadline=self._deadline)
            self._handles.append((slot, handle, perf_counter()))
            self._crew.sending.submit(slot, request)

    def _finished(self) -> Iterator[tuple[int, Outcome]]:
        done = [entry for entry in self._handles if entry[1].done]
        self._handles = [entry for entry in self._handles if not entry[1].done]
        for _, handle, begun in done:
            outcomes = handle.outcomes()
            took = (perf_counter() - begun) / self._ahead
            self._chunk = min(_CHUNK_MOST, max(1, int(_CHUNK_SECONDS / max(took / len(outcomes), 1e-9))))
            # Here the second would be run before the first is given: no worker waits for it in the meantime.
            self._ahead = _AHEAD if took < _SHORT and self.slots[0].number != HERE else 1
            yield from outcomes.items()

    def _spread_out(self) -> None:
        """Under auto the first items are run here; what they took says where the others go."""
        pilot = self._crew.pilot
        if pilot is None or self._meter is None or self._exhausted or not self._meter.enough:
            return
        measured = self._meter.measured(sendable=self._sendable(), touches_globals=False)
        choice = choose(replace(measured, members=MANY, capped=pilot.workers is not None), pilot.budget())
        self._meter = None
        self._crew.note("spread", f"map: {choice.why}")
        if choice.backend != "inline":
            self._go_to(choice)

    def _go_to(self, choice: Choice) -> None:
        try:
            self._crew.moving.move({}, backend=choice.backend, workers=choice.workers)
            self._crew.start(self.slots)
        except PlanNotMet as error:
            self._crew.note("shrunk", f"{choice.workers} workers could not be had ({error}): staying here")
            self._crew.moving.move({}, backend=None, workers=0)

    def _sendable(self) -> bool:
        try:
            self._crew.functions[self._number].pack()
        except NotSendable:
            return False
        return True
