"""Calls that did not count, because of where they were made: set aside, and made again where they do.

stale    a watched member drew after all            ──► rebuilt in its place, swapped from the start
tainted  members drew on threads, under auto        ──► everybody moves to processes, once nothing is under way
unfit    one cannot be run on a thread, under auto  ──► everybody comes back here, the same
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline.engine.host.member import ERROR, OK, STALE, UNFIT, Result
from paceline.engine.host.thread_errors import in_a_line, speaks_of_threads
from paceline.engine.planning import budget
from paceline.engine.supervisor.handle import Request, as_error
from paceline.engine.supervisor.roster import HERE, Member, Slot
from paceline.errors import ReplayDiverged, SharedRandomness

if TYPE_CHECKING:
    from paceline.engine.supervisor.supervisor import Crew

_MADE_AGAIN = ("call", "map", "ring")
"""What is owed an answer. A member that leaves is rebuilt anyway, from its journal: nobody needs its snapshot."""


class Aside:
    """What a crew has set aside."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.tainted: list[Request] = []
        self.leaving = False  # whether everybody is on the way, and what was set aside has yet to be made again
        self._unfit = ""  # what one said who cannot be run on a thread

    def put(self, slot: Slot, request: Request, result: Result) -> bool:
        """Puts a call that did not count aside, to be made again. Returns False if it is to be answered as it is."""
        if self.leaves(slot, request, result):
            return request.op in _MADE_AGAIN
        if result[1] == STALE:
            self._note_stale(slot, request)
        return result[1] == STALE

    def counts(self, kind: int) -> bool:
        """Whether what came back is an answer, and not to be made again."""
        return kind in (OK, ERROR) or (kind != STALE and not self._crew.shrinks)

    def leaves(self, slot: Slot, request: Request, result: Result) -> bool:
        """Whether a call has to be made again in another place, because its member leaves threads: then it is kept."""
        _, kind, payload, _, _ = result
        if self.counts(kind) or (kind == STALE and not self._waits(slot, request)):
            return False
        if request.op in _MADE_AGAIN:
            self.tainted.append(request)
            self._unfit = in_a_line(as_error(payload)) if kind == UNFIT else self._unfit
        return True

    def _waits(self, slot: Slot, request: Request) -> bool:
        """Whether a stale call comes after one that waits for its member to leave: their order is kept."""
        if slot.backend.name == "thread":
            return self._crew.shrinks
        waiting = {member for earlier in self.tainted for member in self._members(earlier)}
        return not waiting.isdisjoint(self._members(request))

    def take_back(self, slot: Slot) -> list[Request]:
        """Gives the calls back whose members are about to be rebuilt where they are: they come before later ones."""
        mine = [request for request in self.tainted if request.op == "call" and self._lives_on(slot, request)]
        self.tainted = [request for request in self.tainted if request not in mine]
        return mine

    def _lives_on(self, slot: Slot, request: Request) -> bool:
        return all(self._crew.members[index].slot == slot.number for index in request.items)

    def cannot_arrive(self, error: BaseException) -> bool:
        """Whether that is why a member cannot be built, or is not what it was, where auto has brought it to threads."""
        if not self._crew.on_threads:
            return False
        unfit = speaks_of_threads(error) or isinstance(error, ReplayDiverged)
        self._unfit = in_a_line(error) if unfit else self._unfit
        return unfit or isinstance(error, SharedRandomness)

    def leave_threads(self) -> None:
        """Under auto, members that draw from process-wide generators go where these can be told apart; those that only
        the main thread may run come back to it."""
        again, self.tainted = self.tainted, []
        self.leaving = True
        try:
            if self._unfit:
                self._come_back()
            else:
                self._go_to_processes(again)
        except BaseException:  # interrupted on the way: they are still to be made again
            self.tainted = [*again, *self.tainted]
            raise
        finally:
            self.leaving = False
        for request in again:
            if request.op != "ring":
                for index in request.items:
                    self._crew.sending.submit(self._crew.slots[self._home(request, index)], request.part(index))
        for port in self._crew.ports.values():
            port.salvage.ring_set_aside()

    def _come_back(self) -> None:
        """Brings everybody here, to the caller's thread, for good."""
        why = f"a member cannot be run on a thread ({self._unfit})"
        self._crew.note("unfit", f"{why}: back here")
        self._crew.moving.relocate("inline", 1)
        self._unfit = ""
        if self._crew.pilot is not None:
            self._crew.pilot.settle("inline", 1, f"{why}: back here")

    def _go_to_processes(self, again: list[Request]) -> None:
        indices = sorted({member for request in again for member in self._members(request)})
        who = f"members {indices}" if indices else "members"  # which of those that are built, nobody knows
        self._crew.note("unshared", f"{who} draw from process-wide generators on threads: moving to processes")
        for index in indices:
            self._crew.members[index].isolated = True
        mine = budget.current() if self._crew.pilot is None else self._crew.pilot.budget()
        workers = max(1, min(len(self._crew.members), mine.slots))
        self._crew.moving.relocate("process", workers)
        if self._crew.pilot is not None:
            self._crew.pilot.settle("process", workers, "members drew from process-wide generators on threads")

    def _members(self, request: Request) -> list[int]:
        if request.op == "ring":
            members = self._crew.ports[request.method].book.members
            return [members[item] for item in request.items]
        return [] if request.op == "map" else list(request.items)

    def _home(self, request: Request, index: int) -> int:
        """The slot that a request about this member or map item belongs to."""
        if request.op != "map":
            return self._crew.members[index].slot
        workers = len(self._crew.slots) - 1
        return index % workers if workers else HERE

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
