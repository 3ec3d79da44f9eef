"""What comes back from the workers: replies in order, news of ports at any time, and the end of a worker.

worker.receive ──► collect ──► take ──► journal ──► whoever asked
                      ├── dead, or overdue ──► recovery.py
                      └── drew from a stream that is not its own ──► reruns.py
"""

from __future__ import annotations

from _thread import get_ident
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

from paceline.engine.host.member import ERROR, OK, SHARED, UNFIT, Result
from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.pool.one_thread import in_use
from paceline.engine.supervisor.handle import Request
from paceline.engine.supervisor.recovery import WORK
from paceline.engine.supervisor.roster import HERE, Member, Slot
from paceline.engine.workers.base import Gone

if TYPE_CHECKING:
    from paceline.engine.supervisor.supervisor import Crew

_LOOK_AGAIN = 0.1  # seconds
_MOMENT = 5e-3


class Hearing:
    """The hearing half of a crew's traffic."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._looked = 0.0  # when it was last seen whether a worker is overdue

    def pump(self, timeout: float | None = None) -> bool:
        """Takes in what has come; if nothing has, waits for something, `timeout` seconds at the most (0: only looks).

        Replaces workers that have died, and ends those that are overdue, however much the others have to say.

        Returns False if nothing is under way, so that nothing can come.
        """
        crew = self._crew
        if crew.closed:
            return False
        me, outer = get_ident(), crew.inside
        if outer is not None and outer != me:
            raise in_use()
        crew.inside = me
        try:
            crew.check_outside()
            crew.mend()
            try:
                return self._pump(timeout)
            except BaseException as error:
                crew.distrust()
                if isinstance(error, KeyboardInterrupt):  # the user's own lines matter, not where we slept
                    raise error.with_traceback(None) from None
                raise
        finally:
            crew.inside = outer

    def _pump(self, timeout: float | None) -> bool:
        here = self._crew.slots[HERE]
        busy = self._busy()
        if here.busy:
            for slot in busy:
                self._collect(slot)
            if busy and monotonic() - self._looked >= _LOOK_AGAIN:  # work here must not hide that a worker hangs
                self._end_the_overdue(busy)
            self._work_here(here, alone=not busy)
            return True
        if not busy:
            return self._leave_threads()
        begin = perf_counter() if self._crew.trace is not None else 0.0
        if self._crew.aside.tainted:  # that waits for rows to be done too, and those wake only who waits for them
            timeout = _LOOK_AGAIN if timeout is None else min(timeout, _LOOK_AGAIN)
        limit = self._crew.recovery.time_left(busy, timeout)
        workers = [slot.worker for slot in busy]
        self._crew.steady = True
        in_time = timeout != 0.0 and busy[0].backend.wait(workers, limit)
        self._crew.steady = False
        if self._crew.trace is not None:
            self._crew.trace.add("wait", "wait", begin, perf_counter(), worker=HERE)
        for slot in busy:
            self._collect(slot)
        if not in_time or limit == 0.0:  # others may have answers whenever we look
            self._end_the_overdue(busy)
        self._leave_threads()
        return True

    def _end_the_overdue(self, busy: list[Slot]) -> None:
        self._looked = monotonic()
        self._crew.recovery.kill_the_overdue(busy)

    def _work_here(self, here: Slot, alone: bool) -> None:
        """Runs one request here; if nobody else is at work, as many as take a moment: whoever waits may have other
        things to do, but to come back to it after each of them would take longer than many a call."""
        end = perf_counter() + _MOMENT
        self._collect(here, most=1)
        while alone and here.busy and perf_counter() < end:
            self._collect(here, most=1)

    def _leave_threads(self) -> bool:
        crew = self._crew
        if not crew.aside.tainted or crew.busy or any(port.answers.due for port in crew.ports.values()):
            return False
        crew.aside.leave_threads()
        return True

    def hear(self, slot: Slot) -> None:
        """Takes in what a worker has said, without waiting."""
        if slot.worker is not None:
            self._collect(slot)

    def _busy(self) -> list[Slot]:
        ringing = {number for port in self._crew.ports.values() for number in port.ringing.rung}
        return [
            slot
            for number, slot in self._crew.slots.items()
            if number != HERE and slot.worker is not None and (slot.inflight or number in ringing)
        ]

    def _collect(self, slot: Slot, most: int = 1 << 30) -> None:
        """Takes replies in until none is left, or none is due."""
        while most > 0:
            self._crew.runs_here = slot.worker.backend == "inline"
            try:
                reply = slot.worker.receive()
            except Gone as gone:
                with UNINTERRUPTED:
                    self._crew.recovery.recover(slot, gone)
                return
            finally:
                self._crew.runs_here = False
            if reply is None or self._crew.closed:  # by a member in the middle of its call
                return
            kind, content = reply
            if kind == "news":
                number, item, result = content
                with UNINTERRUPTED:
                    if number in self._crew.ports:  # else it has been closed meanwhile
                        self._crew.ports[number].answers.hear(item, result)
                continue
            most -= 1
            with UNINTERRUPTED:
                self._take(slot, slot.inflight[0], *content)
                slot.inflight.popleft()
                if slot.redo is not None and not slot.inflight:
                    self._crew.aside.redo(slot)
                if slot.inflight:
                    slot.inflight[0].since = monotonic()
                self._crew.sending.feed(slot)
            if not slot.inflight and not slot.queue:
                slot.careful = False
                return

    def _take(self, slot: Slot, request: Request, answer: Any, spans: list[Any]) -> None:
        if request.op in WORK and self._crew.fruitless:
            self._crew.fruitless.pop(slot.number, None)
        for name, member, start, end in spans:
            kind = name if name in ("build", "rebuild", "map") else "call"
            self._crew.span(kind, name, start, slot.worker, member, end)
        if request.op == "ring":
            if request.method in self._crew.ports:  # else its rows were there before, and it has been closed
                self._crew.ports[request.method].answers.take(slot, request, answer)
        elif request.op == "bind":
            if request.method in self._crew.ports:
                for result in answer:
                    self._crew.ports[request.method].salvage.refused(result)
        elif request.op in ("build", "call", "map", "snapshot"):
            self._take_results(slot, request, answer)
            if request.op == "call" and request.record:
                members = [self._crew.members[result[0]] for result in answer]
                self._crew.shortening.add_cost(slot, members, monotonic() - request.since)
                self._crew.shortening.shorten(members)

    def _take_results(self, slot: Slot, request: Request, results: list[Result]) -> None:
        """Takes results in one by one: if something goes wrong with one, only those after it are asked again."""
        plain, journal, handle = request.op == "call", self._crew.shortening.journal_call, request.handle
        for result in results:
            if not plain or result[1] != OK:
                self.take_result(slot, request, result)
            else:  # as nearly always
                if request.record:
                    journal(self._crew.members[result[0]], request, result)
                if handle is not None:
                    handle.take(result, "")
            request.items.pop(result[0], None)

    def take_result(self, slot: Slot, request: Request, result: Result) -> None:
        """Takes one result in: into the journal first, and then to whoever asked."""
        index, kind, payload, checked, base = result
        if kind != OK and self._crew.aside.put(slot, request.part(index), result):
            return
        if kind in (SHARED, UNFIT):
            result = index, ERROR, payload, checked, base
        if request.op == "build":
            self.built(self._crew.members[index], result, self._where(slot, request, result))
            return
        if request.op == "call" and request.record and kind != SHARED:  # else it does not count: it will be rebuilt
            self._crew.shortening.journal_call(self._crew.members[index], request, result)
        elif request.op == "snapshot":
            self._crew.shortening.saved(result)
        elif request.op == "map" and kind == OK and request.method in self._crew.functions:
            self._crew.functions[request.method].learn(bool(checked))
        if request.handle is not None:
            request.handle.take(result, "" if kind == OK else self._where(slot, request, result))

    def built(self, member: Member, result: Result, note: str) -> None:
        """Tells whoever waits for a member that it stands, or why not."""
        member.stands = result[1] == OK
        if result[1] == OK:
            member.build_tries = 0
            member.snapshots = result[2]["snapshots"]
            member.recalls = result[2]["recalls"]
            member.stood = result[2]["stood"]
            member.isolated |= result[2]["isolated"]
        handle, member.awaited = member.awaited, None
        if handle is not None:
            handle.take(result, note)

    def give(self, request: Request, result: Result, note: str) -> None:
        """Answers the caller."""
        if request.op == "snapshot":
            self._crew.shortening.came(result[0])
        if request.handle is not None:
            request.handle.take(result, note)

    def _where(self, slot: Slot, request: Request, result: Result) -> str:
        if result[1] != ERROR:
            return ""
        index = result[0]
        what = f"item {index}" if request.op == "map" else f"member {index} (key {self._crew.members[index].key!r})"
        worker = slot.worker
        return f"in {what}, {request.call_name()}, worker {slot.number} ({worker.backend}, pid {worker.pid})"
