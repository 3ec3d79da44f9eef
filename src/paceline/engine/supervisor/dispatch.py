"""What is asked of the workers: each has a queue, and a few requests under way.

submit ──► Slot.queue ──► feed: at most 8 under way ──► compose ──► worker.send
"""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic
from typing import TYPE_CHECKING, Any

from paceline.engine.host import tables
from paceline.engine.host.member import ERROR, Result
from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.supervisor.handle import Handle, Request
from paceline.engine.supervisor.messages import compose
from paceline.engine.supervisor.roster import Member, Slot
from paceline.errors import Closed, PlanNotMet, TooLarge

if TYPE_CHECKING:
    from paceline.engine.supervisor.supervisor import Crew

BUILD_DEADLINE = 300.0
JOURNALED = ("call", "snapshot")
"""What changes a journal when it is answered."""

_WINDOW = 8  # a socket queues ten packets; what is sent beyond would block or be kept in main anyway


class Sending:
    """The asking half of a crew's traffic."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    def submit(self, slot: Slot, request: Request) -> None:
        """Puts a request in its slot's queue and sends what may be sent."""
        self._crew.mend()
        self._crew.stirs += 1
        self._crew.called |= request.op in JOURNALED
        with UNINTERRUPTED:
            slot.queue.append(request)
            if slot.worker is not None or self._reopen(slot):
                self.feed(slot)

    def _reopen(self, slot: Slot) -> bool:
        """Starts the worker of a slot that has none, or has lost its own; whoever asks is told if that fails."""
        if self._crew.closed:
            raise Closed("this pool has been closed")
        try:
            self._crew.start([slot])
        except PlanNotMet as error:
            self._crew.recovery.without(slot, error)
            return False
        if slot.orphaned:
            slot.orphaned = False
            self._crew.recovery.settle_in(slot)
        return True

    def build(self, members: Iterable[Member]) -> Handle:
        """Builds members where they are placed."""
        chosen = list(members)
        handle = Handle(self._crew.hearing.pump, [member.index for member in chosen])
        by_slot: dict[int, list[Member]] = {}
        for member in chosen:
            by_slot.setdefault(member.slot, []).append(member)
        self._crew.start(self._crew.slots[number] for number in by_slot)
        for number, mine in by_slot.items():
            for member in mine:
                member.awaited = handle
            self.submit(self._crew.slots[number], self.building(mine))
        return handle

    def building(self, members: list[Member]) -> Request:
        """The request that builds these members, and replays their journals."""
        return Request("build", {member.index: None for member in members}, deadline=self._build_limit())

    def binding(self, port: int) -> Request:
        """The request that binds a port; a member that is given its rows once runs code of its own then."""
        return Request("bind", {}, method=port, deadline=self._build_limit())

    def _build_limit(self) -> float | None:
        return None if self._crew.builds_at_leisure else BUILD_DEADLINE

    def feed(self, slot: Slot) -> None:
        """Sends what may be sent: a few requests ahead, none while stale calls wait to be made again."""
        window = 1 if slot.careful else _WINDOW
        while slot.queue and len(slot.inflight) < window and slot.redo is None:
            request = self._next(slot)
            if request.op in ("build", *JOURNALED):
                self._answer_for_the_lost(request)
            message, descriptor = compose(self._crew, slot, request)
            if message is None:
                continue
            request.since = monotonic()
            self._send(slot, request, message, descriptor)

    def _next(self, slot: Slot) -> Request:
        """The next request of a slot. A function is defined there before the first item that needs it, and what main
        tells every worker is told before anything of the user's is built or defined."""
        request = slot.queue.popleft()
        if request.op == "map" and request.method not in slot.defined:
            slot.queue.appendleft(request)
            slot.defined.add(request.method)
            request = Request("define", {}, method=request.method)
        if request.op not in ("build", "define") or slot.worker.in_process:
            return request
        told = tables.current()
        if told is slot.told:
            return request
        slot.queue.appendleft(request)
        slot.told = told
        return Request("prepare", {}, method=told, deadline=BUILD_DEADLINE)

    def _send(self, slot: Slot, request: Request, message: tuple[Any, ...], descriptor: int | None) -> None:
        try:
            slot.worker.send(message, descriptor)
            slot.inflight.append(request)
        except (OSError, TooLarge) as error:  # out of descriptors, say: nothing has been sent, and the caller is told
            for index in request.items:
                self._answer(request, (index, ERROR, error, 0, None), "")
        except BaseException:
            slot.inflight.append(request)
            slot.suspect = self._crew.suspicious = True
            raise

    def _answer_for_the_lost(self, request: Request) -> None:
        for index in list(request.items):
            lost = self._crew.members[index].lost
            if lost is not None:
                del request.items[index]
                self._answer(request, (index, ERROR, lost, 0, None), "")

    def _answer(self, request: Request, result: Result, note: str) -> None:
        """Answers whoever waits for this: for a build that is not always whoever asked for it."""
        if request.op == "build":
            self._crew.hearing.built(self._crew.members[result[0]], result, note)
        else:
            self._crew.hearing.give(request, result, note)
