"""A pool's workers and the traffic with them: what each has been asked, and what comes back.

submit ──► Slot.queue ──► (at most 8 under way) ──► worker ──► replies, in order ──► journal, handle
                                                      │
                 recovery.py ◄── dies, or is overdue ─┤
                    aside.py ◄── drew from a stream that is not its own
                   moving.py ◄── nothing is under way, and somebody wants to be elsewhere
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

from paceline.engine import wire
from paceline.engine.aside import Aside
from paceline.engine.backend import Gone, Settings, find
from paceline.engine.calls import Handle, Request, as_error
from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.isolation import on_a_worker_thread
from paceline.engine.mapped import Mapped
from paceline.engine.messages import compose
from paceline.engine.moving import Moving
from paceline.engine.recovery import WORK, Recovery
from paceline.engine.roster import HERE, Event, Member, Slot
from paceline.engine.seat import ERROR, OK, SHARED, STALE, Result
from paceline.engine.trace import Trace
from paceline.errors import Closed, PlanNotMet

if TYPE_CHECKING:
    from paceline.engine.pilot import Pilot
    from paceline.engine.port import Port

BUILD_DEADLINE = 300.0
_WINDOW = 8  # a socket queues ten packets; what is sent beyond would block or be kept in main anyway
_GRACE = 2.0
_JOURNALED = ("call", "snapshot")  # what changes a journal when it is answered
_QUIET = ("moved", "isolated", "spread")

_log = logging.getLogger("paceline")


class Crew:
    """Slots, members, and the traffic between them."""

    def __init__(
        self,
        members: list[Member],
        *,
        backend: str,
        workers: int,
        settings: Settings,
        restarts: int,
        snapshot_every: int,
        shrinks: bool,
        trace: Trace | None,
    ) -> None:
        self.members = members
        self.settings = settings
        self.restarts = restarts
        self.snapshot_every = snapshot_every
        self.shrinks = shrinks
        self.trace = trace
        self.pilot: Pilot | None = None
        self.events: list[Event] = []
        self.epoch = 0  # counts the times that somebody changed places
        self.recovery = Recovery(self)
        self.aside = Aside(self)
        self.moving = Moving(self)
        self.ports: dict[int, Port] = {}
        self.functions: dict[int, Mapped] = {}
        self.last_port: Port | None = None  # whose members have nothing of another port before them
        self.called = False  # whether a call or a snapshot may be under way: a ring of the same member comes after it
        self.suspicious = False  # whether any slot is suspect
        self.steady = False  # nothing is half done: an interrupt now breaks nothing
        self.limit: float | None = None  # seconds that a snapshot or a farewell may take, as any call may
        self.owner = os.getpid()
        self.closed = False
        self.slots = {HERE: Slot(HERE, find("inline"))}
        self.backend = find(backend)
        self.slots.update({number: Slot(number, self.backend) for number in range(workers)})

    # -- asking ---------------------------------------------------------------------------------------

    def submit(self, slot: Slot, request: Request) -> None:
        """Puts a request in its slot's queue and sends what may be sent."""
        self.mend()
        self.called |= request.op in _JOURNALED
        with UNINTERRUPTED:
            slot.queue.append(request)
            if slot.worker is not None or self._reopen(slot):
                self.feed(slot)

    def _reopen(self, slot: Slot) -> bool:
        """Starts the worker of a slot that has none, or has lost its own; whoever asks is told if that fails."""
        if self.closed:
            raise Closed("this pool has been closed")
        try:
            self.start([slot])
        except PlanNotMet as error:
            self.recovery.without(slot, error)
            return False
        if slot.orphaned:
            slot.orphaned = False
            self.recovery.settle_in(slot)
        return True

    def start(self, slots: Iterable[Slot]) -> None:
        """Starts the workers of these slots, all at once."""
        empty = [slot for slot in slots if slot.worker is None]
        everybody = [*self.slots.values(), *empty]
        begin = perf_counter()
        for backend in {id(slot.backend): slot.backend for slot in empty}.values():
            mine = [slot for slot in empty if slot.backend is backend]
            beside = on_a_worker_thread() or any(slot.backend.name == "thread" for slot in everybody)
            settings = replace(self.settings, beside_threads=beside)
            workers = backend.start([slot.number for slot in mine], settings)
            for slot, worker in zip(mine, workers, strict=True):
                slot.worker = worker
                slot.defined = set()
                self._span("start", "start", begin, worker)

    def build(self, members: Iterable[Member]) -> Handle:
        """Builds members where they are placed."""
        chosen = list(members)
        handle = Handle(self.pump, [member.index for member in chosen])
        by_slot: dict[int, list[Member]] = {}
        for member in chosen:
            by_slot.setdefault(member.slot, []).append(member)
        self.start(self.slots[number] for number in by_slot)
        for number, mine in by_slot.items():
            for member in mine:
                member.awaited = handle
            self.submit(self.slots[number], self.building(mine))
        return handle

    def building(self, members: list[Member]) -> Request:
        """The request that builds these members, and replays their journals."""
        return Request("build", {member.index: None for member in members}, deadline=BUILD_DEADLINE)

    def feed(self, slot: Slot) -> None:
        """Sends what may be sent: a few requests ahead, none while stale calls wait to be made again."""
        window = 1 if slot.careful else _WINDOW
        while slot.queue and len(slot.inflight) < window and slot.redo is None:
            request = self._next(slot)
            if request.op in ("build", *_JOURNALED):
                self._answer_for_the_lost(request)
            message, descriptor = compose(self, slot, request)
            if message is None:
                continue
            request.since = monotonic()
            self._send(slot, request, message, descriptor)

    def _next(self, slot: Slot) -> Request:
        """The next request of a slot; a function is defined there before the first item that needs it."""
        request = slot.queue.popleft()
        if request.op != "map" or request.method in slot.defined:
            return request
        slot.queue.appendleft(request)
        slot.defined.add(request.method)
        return Request("define", {}, method=request.method)

    def _send(self, slot: Slot, request: Request, message: tuple[Any, ...], descriptor: int | None) -> None:
        try:
            slot.worker.send(message, descriptor)
            slot.inflight.append(request)
        except OSError as error:  # out of descriptors, say: nothing has been sent, and whoever asked is told
            for index in request.items:
                self._answer(request, (index, ERROR, error, 0, None), "")
        except BaseException:
            slot.inflight.append(request)
            slot.suspect = self.suspicious = True
            raise

    def _answer_for_the_lost(self, request: Request) -> None:
        for index in list(request.items):
            lost = self.members[index].lost
            if lost is not None:
                del request.items[index]
                self._answer(request, (index, ERROR, lost, 0, None), "")

    def _answer(self, request: Request, result: Result, note: str) -> None:
        """Answers whoever waits for this: for a build that is not always whoever asked for it."""
        if request.op == "build":
            self.built(self.members[result[0]], result, note)
        else:
            self.give(request, result, note)

    # -- hearing --------------------------------------------------------------------------------------

    def pump(self, timeout: float | None = None) -> bool:
        """Takes in what has come; if nothing has, waits for something, `timeout` seconds at the most.

        Returns False if nothing is under way, so that nothing can come.
        """
        if self.closed:
            return False
        self.mend()
        try:
            return self._pump(timeout)
        except BaseException as error:
            self.distrust()
            if isinstance(error, KeyboardInterrupt):  # the user's own lines matter, not where we slept
                raise error.with_traceback(None) from None
            raise

    def distrust(self) -> None:
        """We were interrupted. Unless that was in mere waiting, every slot with something under way is suspect."""
        if self.steady:
            self.steady = False
            return
        for slot in self.slots.values():
            slot.suspect |= bool(slot.inflight or slot.redo) or any(
                slot.number in p.ringing.rung for p in self.ports.values()
            )
            self.suspicious |= slot.suspect

    def mend(self) -> None:
        """Replaces the workers of suspect slots: what they had been asked is in our journals and queues."""
        if self.suspicious:
            with UNINTERRUPTED:
                self._replace_suspects()

    def _replace_suspects(self) -> None:
        self.suspicious = False
        for slot in self.slots.values():
            if slot.suspect:
                slot.suspect = False
                if slot.worker is not None:
                    slot.worker.abandon()
                    self.recovery.recover(slot, Gone("was given up because the caller was interrupted"), blame=False)

    def _pump(self, timeout: float | None) -> bool:
        here = self.slots[HERE]
        if here.busy:
            for slot in self._busy():
                self._collect(slot)
            self._collect(here, most=1)
            return True
        busy = self._busy()
        if not busy:
            return self._leave_threads()
        begin = perf_counter() if self.trace is not None else 0.0
        limit = self.recovery.time_left(busy, timeout)
        workers = [slot.worker for slot in busy]
        self.steady = True
        in_time = busy[0].backend.wait(workers, limit)
        self.steady = False
        if self.trace is not None:
            self.trace.add("wait", "wait", begin, perf_counter(), worker=HERE)
        for slot in busy:
            self._collect(slot)
        if not in_time:
            self.recovery.kill_the_overdue(busy)
        self._leave_threads()
        return True

    def _leave_threads(self) -> bool:
        if not self.aside.tainted or self.busy or any(port.answers.due for port in self.ports.values()):
            return False
        self.aside.leave_threads()
        return True

    @property
    def busy(self) -> bool:
        """Whether anything is under way."""
        return any(slot.busy for slot in self.slots.values())

    @property
    def rung(self) -> bool:
        """Whether rows of a port have been posted and not been fetched."""
        return any(port.outstanding for port in self.ports.values())

    def settle_rings(self, members: Iterable[int], but: Port | None = None) -> None:
        """Sees to it that what ports have asked of these members is done before they are asked anything else."""
        chosen = set(members)
        for port in self.ports.values():
            if port is not but and port.outstanding:
                port.settle(chosen)

    def settle_calls(self, members: Iterable[int]) -> None:
        """Sees to it that calls and snapshots of these members are done before a port asks anything of them."""
        chosen = set(members)
        while any(not chosen.isdisjoint(request.items) for request in self._journaled()):
            if not self.pump(None):
                raise Closed("the pool was closed before its members had answered their calls")
        self.called = any(True for _ in self._journaled())

    def _journaled(self) -> Iterator[Request]:
        """The calls and snapshots that are under way."""
        for slot in self.slots.values():
            for request in (*slot.inflight, *slot.queue, *(slot.redo or ())):
                if request.op in _JOURNALED:
                    yield request
        yield from (request for request in self.aside.tainted if request.op in _JOURNALED)

    @property
    def place(self) -> str:
        """The backend that the members live on now."""
        return self.backend.name if any(member.slot != HERE for member in self.members) else "inline"

    def hear(self, slot: Slot) -> None:
        """Takes in what a worker has said, without waiting."""
        if slot.worker is not None:
            self._collect(slot)

    def _busy(self) -> list[Slot]:
        ringing = {number for port in self.ports.values() for number in port.ringing.rung}
        return [
            slot
            for number, slot in self.slots.items()
            if number != HERE and slot.worker is not None and (slot.inflight or number in ringing)
        ]

    def _collect(self, slot: Slot, most: int = 1 << 30) -> None:
        """Takes replies in until none is left, or none is due."""
        while most > 0:
            try:
                reply = slot.worker.receive()
            except Gone as gone:
                with UNINTERRUPTED:
                    self.recovery.recover(slot, gone)
                return
            if reply is None:
                return
            kind, content = reply
            if kind == "news":
                number, item, result = content
                with UNINTERRUPTED:
                    if number in self.ports:  # else it has been closed meanwhile
                        self.ports[number].answers.hear(item, result)
                continue
            most -= 1
            with UNINTERRUPTED:
                self._take(slot, slot.inflight[0], *content)
                slot.inflight.popleft()
                if slot.redo is not None and not slot.inflight:
                    self.aside.redo(slot)
                if slot.inflight:
                    slot.inflight[0].since = monotonic()
                self.feed(slot)
            if not slot.inflight and not slot.queue:
                slot.careful = False
                return

    def _take(self, slot: Slot, request: Request, answer: Any, spans: list[Any]) -> None:
        if request.op in WORK:
            slot.fruitless = 0
        for name, member, start, end in spans:
            kind = name if name in ("build", "rebuild", "map") else "call"
            self._span(kind, name, start, slot.worker, member, end)
        if request.op == "ring":
            if request.method in self.ports:  # else its rows were there before this answer, and it has been closed
                self.ports[request.method].answers.take(slot, request, answer)
        elif request.op == "bind":
            if answer is not None and request.method in self.ports:
                self.ports[request.method].salvage.refused(slot, as_error(answer))
        elif request.op in ("build", "call", "map", "snapshot"):
            for result in answer:
                self._take_result(slot, request, result)
                # Taken one by one: if we are interrupted here, only the others are asked again.
                request.items.pop(result[0], None)

    def _take_result(self, slot: Slot, request: Request, result: Result) -> None:
        index, kind, payload, checked, base = result
        if kind in (STALE, SHARED) and self.aside.put(slot, request.part(index), kind):
            return
        if kind == SHARED:
            result = index, ERROR, payload, checked, base
        if request.op == "build":
            self.built(self.members[index], result, self._where(slot, request, result))
            return
        if request.op == "call" and request.record and kind != SHARED:  # else it does not count: it will be rebuilt
            self._journal(self.members[index], request, result)
        elif request.op == "snapshot":
            self.saved(result)
        self.give(request, result, self._where(slot, request, result))

    def built(self, member: Member, result: Result, note: str) -> None:
        """Tells whoever waits for a member that it stands, or why not."""
        member.stands = result[1] == OK
        if result[1] == OK:
            member.build_tries = 0
            member.snapshots = result[2]["snapshots"]
            member.recalls = result[2]["recalls"]
            member.isolated |= result[2]["isolated"]
        handle, member.awaited = member.awaited, None
        if handle is not None:
            handle.take(result, note)

    def _journal(self, member: Member, request: Request, result: Result) -> None:
        index, kind, payload, checked, base = result
        packed = request.items[index]
        if member.deterministic:
            member.journal.add(("call", request.method, packed, checked), base)
        elif kind == OK:
            member.journal.add(("told", request.method, packed, wire.settle(payload)), base)
        self.shorten([member])

    def shorten(self, members: Iterable[Member]) -> None:
        """Asks those whose journals have grown long for snapshots, if they can give them: one message per worker."""
        by_slot: dict[int, dict[int, None]] = {}
        for member in members:
            due = member.snapshots and not member.snapshot_due and len(member.journal) >= self.snapshot_every
            if due and not member.journal.open:
                member.snapshot_due = True
                by_slot.setdefault(member.slot, {})[member.index] = None
        for number, items in by_slot.items():
            self.submit(self.slots[number], self.saving(items))

    def saving(self, items: dict[int, None], handle: Handle | None = None) -> Request:
        """The request that asks these members for snapshots."""
        return Request("snapshot", items, handle=handle, deadline=self.limit)

    def saved(self, result: Result) -> None:
        """Takes a snapshot in; a member that cannot give one is rebuilt from its recipe."""
        index, kind, payload, _, base = result
        member = self.members[index]
        member.snapshot_due = False
        if kind == OK:
            member.journal.start_anew(base)
        elif kind == ERROR:
            member.snapshots = False
            error = as_error(payload)
            if isinstance(error, NotImplementedError):  # it says itself that it has none
                return
            why = f"{type(error).__name__}: {wire.words(error)}"
            self.note("unsaved", f"member {index} gave no snapshot and will not be asked again: {why}")

    def give(self, request: Request, result: Result, note: str) -> None:
        """Answers the caller."""
        if request.handle is not None:
            request.handle.take(result, note)

    def _where(self, slot: Slot, request: Request, result: Result) -> str:
        if result[1] != ERROR:
            return ""
        index = result[0]
        what = f"item {index}" if request.op == "map" else f"member {index} (key {self.members[index].key!r})"
        worker = slot.worker
        return f"in {what}, {request.call_name()}, worker {slot.number} ({worker.backend}, pid {worker.pid})"

    # -- the end --------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends every worker: those with nothing to do politely, the others at once."""
        if self.closed or self.owner != os.getpid():
            return  # a fork of the process that owns the workers: they are not ours to end
        self.closed = True
        self.close_slots(self.slots.values())
        for port in self.ports.values():
            port.book.rows.release()
        self.ports.clear()

    def abandon(self) -> None:
        """Ends every worker from a finaliser: nothing is waited for."""
        if self.closed or self.owner != os.getpid():
            return
        self.closed = True
        for slot in self.slots.values():
            if slot.worker is not None:
                slot.worker.abandon()

    def close_slots(self, slots: Iterable[Slot]) -> None:
        """Ends the workers of these slots, all at the same time."""
        closing = []
        for slot in slots:
            worker, slot.worker = slot.worker, None
            if worker is not None:
                working = any(request.op in (*WORK, "build") for request in slot.inflight)
                closing.append((worker, monotonic() + (0.0 if working else _GRACE)))
                worker.say_goodbye()
            slot.queue.clear()
            slot.inflight.clear()
        try:
            for worker, end in closing:
                worker.close(max(0.0, end - monotonic()))
        except BaseException:  # somebody does not want to wait: then they end at once
            for worker, _ in closing:
                worker.abandon()
            raise

    def note(self, kind: str, text: str) -> None:
        """Recorded always; told once per kind, aloud if it is a loss."""
        if all(event.kind != kind for event in self.events):
            _log.log(logging.INFO if kind in _QUIET else logging.WARNING, "%s", text)
        self.events.append(Event(kind, text))

    def _span(
        self, kind: str, name: str, start: float, worker: Any, member: int | None = None, end: float | None = None
    ) -> None:
        if self.trace is not None:
            stop = perf_counter() if end is None else end
            self.trace.add(kind, name, start, stop, worker=worker.number, pid=worker.pid, member=member)
