"""Calls that drew from a stream that is not their own: set aside, and made again where they draw from their own.

stale    a watched member drew after all        ──► rebuilt in its place, swapped from the start
tainted  members drew on threads, under auto    ──► everybody moves to processes, once nothing is under way
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline.engine import budget
from paceline.engine.calls import Request
from paceline.engine.roster import Member, Slot
from paceline.engine.seat import STALE

if TYPE_CHECKING:
    from paceline.engine.crew import Crew


class Aside:
    """What a crew has set aside."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.tainted: list[Request] = []

    def put(self, slot: Slot, request: Request, kind: int) -> bool:
        """Puts a call that did not count aside, to be made again. Returns False if it is to be answered as it is."""
        if self._crew.shrinks and slot.backend.name == "thread":
            if request.op == "snapshot":
                return False  # nobody needs it: its member will be rebuilt elsewhere, from its journal
            self.tainted.append(request)
            return True
        if kind == STALE:
            self._note_stale(slot, request)
        return kind == STALE

    def leave_threads(self) -> None:
        """Under auto, members that draw from process-wide generators go where these can be told apart."""
        again, self.tainted = self.tainted, []
        try:
            self._go_to_processes(again)
        except BaseException:  # interrupted on the way: they are still to be made again
            self.tainted = [*again, *self.tainted]
            raise
        for request in again:
            if request.op != "ring":
                for index in request.items:
                    self._crew.sending.submit(self._crew.slots[self._home(request, index)], request.part(index))
        for port in self._crew.ports.values():
            port.salvage.ring_set_aside()

    def _go_to_processes(self, again: list[Request]) -> None:
        indices = sorted({member for request in again for member in self._members(request)})
        self._crew.note(
            "unshared", f"members {indices} draw from process-wide generators on threads: moving to processes"
        )
        for index in indices:
            self._crew.members[index].isolated = True
        workers = max(1, min(len(self._crew.members), budget.current().slots))
        self._crew.moving.relocate("process", workers)
        if self._crew.pilot is not None:
            self._crew.pilot.settle("process", workers, "members drew from process-wide generators on threads")

    def _members(self, request: Request) -> list[int]:
        if request.op == "ring":
            members = self._crew.ports[request.method].book.members
            return [members[item] for item in request.items]
        return list(request.items) if request.op == "call" else []

    def _home(self, request: Request, index: int) -> int:
        """The slot that a request about this member or map item belongs to."""
        return index % (len(self._crew.slots) - 1) if request.op == "map" else self._crew.members[index].slot

    def _note_stale(self, slot: Slot, request: Request) -> None:
        """Everything sent after it will come back stale too; then all is made again, in order."""
        if slot.redo is None:
            slot.redo = []
        slot.redo.append(request)

    def redo(self, slot: Slot) -> None:
        requests, slot.redo = slot.redo or [], None
        stale = {index: self._crew.members[index] for request in requests for index in request.items}
        for request in reversed(requests):
            slot.queue.appendleft(request)
        self.isolate(slot, list(stale.values()))

    def isolate(self, slot: Slot, members: list[Member]) -> None:
        """Rebuilds members with their random streams swapped in from the start, before anything else is asked."""
        for member in members:
            member.isolated = True
        self._crew.note("isolated", f"members {[m.index for m in members]} draw from process-wide generators: isolated")
        for number, port in self._crew.ports.items():
            if port.book.lives_on(slot):
                slot.queue.appendleft(self._crew.sending.binding(number))
        slot.queue.appendleft(self._crew.sending.building(members))
        self._crew.sending.feed(slot)
