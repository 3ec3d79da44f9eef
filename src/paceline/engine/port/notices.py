"""How a port's workers are told that there are rows to run: by memory where they look at it, else by a message.

ring(items) ──► per worker: asked[item] = 1, one ring             (shared memory, nothing else under way there)
            └─► per worker: Request("ring", items) in its queue   (behind what it has been asked before)
"""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic
from typing import TYPE_CHECKING, Any

from paceline.engine.port.rows import block_of
from paceline.engine.supervisor.handle import Request
from paceline.engine.supervisor.roster import Slot
from paceline.engine.transport.spin import publish

if TYPE_CHECKING:
    from paceline.engine.port.items import Book
    from paceline.engine.supervisor.supervisor import Crew

_Place = tuple[Slot, list[int], slice | None]
"""A slot, the items that live there, and where their marks lie if they lie side by side."""


class Ringing:
    """The rings of one port."""

    def __init__(self, crew: Crew, number: int, book: Book, deadline: float | None) -> None:
        self._crew = crew
        self._number = number
        self._book = book
        self.deadline = deadline
        self.rung: dict[int, float] = {}  # slot → when it was rung and has not answered
        self.by_memory: dict[int, Any] = {}  # workers that answer by shared memory, by their numbers
        self.alone: set[int] = set()  # slots whose items are rung one by one, to find the one that kills
        self._places: list[_Place] = []  # of everybody
        self._known: Any = None  # the slots, and the epoch, for which that holds
        self._epoch = -1

    def ring(self, items: list[int], everyone: bool) -> None:
        """Rings each worker that has some of these once, and writes it down.

        Where all look at the memory nothing can go wrong in between, and they may begin before it is written down.
        """
        places = self._by_slot(items, everyone)
        at_once = True
        for slot, _, _ in places:
            at_once = at_once and self._looks(slot)
        if not at_once:
            self._book.write_down(items, everyone)
        for slot, mine, block in places:
            if at_once or self._looks(slot):
                self._ring_by_memory(slot, mine, block if everyone else None)
            else:
                self.rung[slot.number] = monotonic()
                self._crew.sending.submit(slot, self.request(mine))
        if at_once:
            self._book.write_down(items, everyone)

    def _looks(self, slot: Slot) -> bool:
        """Whether the worker looks at the memory, and has nothing else to do before."""
        worker = slot.worker
        idle = not slot.inflight and not slot.queue and slot.redo is None
        return idle and worker is not None and worker.rings and self._crew.trace is None

    def _ring_by_memory(self, slot: Slot, items: list[int], block: slice | None) -> None:
        book = self._book
        if block is not None:
            book.asked[block] = book.ones[block]
        else:
            for item in items:
                book.asked[item] = 1
        publish()
        slot.worker.ring()
        self.by_memory[slot.number] = slot.worker
        self.rung[slot.number] = monotonic()

    def _by_slot(self, items: list[int], everyone: bool) -> list[_Place]:
        slots = self._crew.slots
        if everyone and self._known is slots and self._epoch == self._crew.epoch:
            return self._places
        by_slot: dict[int, list[int]] = {}
        for item in items:
            by_slot.setdefault(self._book.slot_of(item).number, []).append(item)
        found = [(slots[number], mine, block_of(mine)) for number, mine in by_slot.items()]
        if everyone:
            self._places, self._known, self._epoch = found, slots, self._crew.epoch
        return found

    def places(self) -> list[_Place]:
        """Where the members live: slot, items there, and the block of their marks."""
        return self._by_slot(self._book.everyone, True)

    def only_slot(self) -> Slot | None:
        """Where all members live, if that is one place."""
        places = self.places()
        return places[0][0] if len(places) == 1 else None

    def request(self, items: Iterable[int]) -> Request:
        """The request that asks for these by a message."""
        return Request("ring", dict.fromkeys(items), method=self._number, deadline=self.deadline)

    def again(self, slot: Slot, members: set[int] | None = None) -> list[Request]:
        """What a new worker has to be asked again (of these members only), and is not about to be asked anyway."""
        book = self._book
        queued = {i for r in slot.queue if r.op == "ring" and r.method == self._number for i in r.items}
        due = [item for item in book.pending(slot) if item not in queued]
        pending = [item for item in due if members is None or book.members[item] in members]
        for item in pending:
            book.asked[item] = 0
        if not pending:
            return []
        self.rung[slot.number] = monotonic()
        return [self.request([item]) for item in pending] if slot.number in self.alone else [self.request(pending)]

    def message(self, slot: Slot, request: Request) -> tuple[Any, ...]:
        """What a worker is sent for a request of ours."""
        for item in [item for item in request.items if self._book.state[item]]:
            del request.items[item]  # it has been answered for meanwhile
        if slot.worker.shares_memory:
            # The host marks the rows as asked when it gets there: a worker that still has to bind must not see them.
            return "ring", self._number, list(request.items)
        items = list(request.items)
        numbers, inputs = self._book.rows.cut(items)
        return "ship", self._number, items, numbers, inputs

    def told_by_memory(self, worker: Any) -> bool:
        """Whether the worker has been told of rows by memory, and not by a message."""
        return self.by_memory.get(worker.number) is worker

    def has_pending(self, slot: Slot) -> bool:
        """Whether a worker still has rows to run."""
        return slot.number in self.rung and any(True for _ in self._book.pending(slot))

    def forget(self) -> None:
        """Everything that was rung for has been answered."""
        self.rung.clear()
        self.by_memory.clear()
        if self.alone:
            self.alone.clear()
