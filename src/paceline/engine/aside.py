"""Calls that did not count, because of where they were made: set aside, and made again where they do.

stale    a watched member drew after all            ──► rebuilt in its place, swapped from the start
tainted  members drew on threads, under auto        ──► everybody moves to processes, once nothing is under way
unfit    one cannot be run on a thread, under auto  ──► everybody comes back here, the same
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paceline.engine import budget, wire
from paceline.engine.calls import Request, as_error
from paceline.engine.roster import Member, Slot
from paceline.engine.seat import ERROR, STALE, Result
from paceline.errors import ReplayDiverged

if TYPE_CHECKING:
    from paceline.engine.crew import Crew


class Aside:
    """What a crew has set aside."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.tainted: list[Request] = []
        self._unfit = ""  # what one said who cannot be run on a thread

    def put(self, slot: Slot, request: Request, result: Result) -> bool:
        """Puts a call that did not count aside, to be made again. Returns False if it is to be answered as it is."""
        _, kind, payload, _, _ = result
        if kind == ERROR:
            if request.op != "call" or not self.cannot_be_here(payload):
                return False
            self.tainted.append(request)
            return True
        if self._crew.shrinks and slot.backend.name == "thread":
            if request.op == "snapshot":
                return False  # nobody needs it: its member will be rebuilt elsewhere, from its journal
            self.tainted.append(request)
            return True
        if kind == STALE:
            self._note_stale(slot, request)
        return kind == STALE

    def cannot_be_here(self, payload: Any, *, arriving: bool = False) -> bool:
        """Whether an error says that its member belongs to another thread, where auto has brought it to threads.

        Args:
            payload: The error.
            arriving: Whether it has just come: that it is not what it was says so, too.
        """
        if not self._crew.shrinks or not self._crew.on_threads:
            return False
        error = as_error(payload)
        words = f"{type(error).__name__}: {wire.words(error)}".partition("\n")[0]
        says_so = "thread" in words.lower() or (arriving and isinstance(error, ReplayDiverged))
        self._unfit = words if says_so else self._unfit
        return says_so

    def leave_threads(self) -> None:
        """Under auto, members that draw from process-wide generators go where these can be told apart; those that only
        the main thread may run come back to it."""
        again, self.tainted = self.tainted, []
        try:
            if self._unfit:
                self.come_back()
            else:
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

    def come_back(self) -> None:
        """Brings everybody here, to the caller's thread, for good."""
        why = f"a member cannot be run on a thread ({self._unfit})"
        self._crew.note("unfit", f"{why}: back here")
        self._crew.moving.relocate("inline", 1)
        self._unfit = ""
        if self._crew.pilot is not None:
            self._crew.pilot.settle("inline", 1, f"{why}: back here")

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
