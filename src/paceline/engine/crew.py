"""A pool's workers under supervision: what each has been asked, and what happens when one of them dies.

    submit ──► Slot.queue ──► (at most 8 under way) ──► worker ──► replies, in order ──► journal, handle
                                                          │ dies, or overruns a deadline and is killed
                                                          ▼
               a new worker ◄── build its members, replay their journals ◄── then ask again what was not answered

Because a worker answers in order, the first request without an answer is the one that it died in. If that request
names several members they are asked one by one the next time, so that the one that kills can be told from the others;
after `restarts` tries its answer is `WorkerLost`, and everybody else lives on.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

from paceline.engine import budget, wire
from paceline.engine.backend import Backend, Gone, Settings, find
from paceline.engine.calls import Handle, Request
from paceline.engine.host import ERROR, OK, STALE, Result
from paceline.engine.journal import Journal
from paceline.engine.trace import Trace
from paceline.errors import BadInput, CallTimeout, PlanNotMet, SharedRandomness, WorkerLost
from paceline.seeds import Key

if TYPE_CHECKING:
    from paceline.engine.pilot import Pilot
    from paceline.engine.port import Port

HERE = -1
"""The worker that is the caller's own process."""

BUILD_DEADLINE = 300.0
_WINDOW = 8  # a socket queues ten packets; what is sent beyond would block or be kept in main anyway
_GRACE = 2.0
_QUIET = ("moved", "isolated", "spread")
_ASKED_AGAIN = ("call", "map", "snapshot")  # everything else a new worker is told anyway

Verdict = Callable[..., WorkerLost]
"""(member or item, name of the call, whether it is an item of a map) → the error that says so."""

_log = logging.getLogger("paceline")


@dataclass(frozen=True)
class Event:
    """Something that happened to a pool and did not change its result."""

    kind: str
    text: str


class Member:
    """One member as main knows it: a recipe, a journal, a place."""

    def __init__(self, index: int, key: Key, factory: Callable[[], Any], deterministic: bool) -> None:
        self.index = index
        self.key = key
        self.factory = factory
        self.deterministic = deterministic
        self.journal = Journal()
        self.slot = HERE
        self.isolated = False
        self.snapshots = False
        self.snapshot_due = False
        self.build_tries = 0
        self.awaited: Handle | None = None  # who waits for it to be built
        self.lost: WorkerLost | None = None  # its worker dies whenever it is built
        self._packed: wire.Packed | None = None

    def recipe(self, in_process: bool) -> Any:
        """The factory itself where nothing travels, else packed, once."""
        if in_process:
            return self.factory
        if self._packed is None:
            self._packed = wire.settle(wire.pack(self.factory))
        return self._packed


class Slot:
    """A worker's place in the crew; the worker in it may be replaced."""

    def __init__(self, number: int, backend: Backend) -> None:
        self.number = number
        self.backend = backend
        self.worker: Any = None
        self.queue: deque[Request] = deque()
        self.inflight: deque[Request] = deque()
        self.redo: list[Request] | None = None  # stale calls, to be made again once everything sent has come back
        self.builds_alone = False  # somebody's constructor or replay kills: build one by one
        self.overdue: float | None = None  # the deadline for which the worker was killed

    @property
    def busy(self) -> bool:
        return bool(self.inflight or self.queue or self.redo)


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
        self.tainted: list[Request] = []  # calls that drew from a shared generator on threads, under auto
        self.ports: dict[int, Port] = {}
        self.functions: dict[int, Callable[[Any], Any]] = {}
        self.slots = {HERE: Slot(HERE, find("inline"))}
        self.backend = find(backend)
        self.slots.update({number: Slot(number, self.backend) for number in range(workers)})

    # -- asking ---------------------------------------------------------------------------------------

    def submit(self, slot: Slot, request: Request, *, first: bool = False) -> None:
        """Puts a request in its slot's queue and sends what may be sent."""
        if slot.worker is None:
            self.start([slot])
        (slot.queue.appendleft if first else slot.queue.append)(request)
        self._feed(slot)

    def start(self, slots: Iterable[Slot]) -> None:
        """Starts the workers of these slots, all at once."""
        empty = [slot for slot in slots if slot.worker is None]
        begin = perf_counter()
        for backend in {id(slot.backend): slot.backend for slot in empty}.values():
            mine = [slot for slot in empty if slot.backend is backend]
            workers = backend.start([slot.number for slot in mine], self.settings)
            for slot, worker in zip(mine, workers, strict=True):
                slot.worker = worker
                slot.queue.extendleft(Request("define", {}, method=number) for number in self.functions)
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
            self.submit(self.slots[number], self._building(mine))
        return handle

    def _building(self, members: list[Member]) -> Request:
        return Request("build", {member.index: None for member in members}, deadline=BUILD_DEADLINE)

    def _feed(self, slot: Slot) -> None:
        while slot.queue and len(slot.inflight) < _WINDOW and slot.redo is None:
            request = slot.queue.popleft()
            message, descriptor = self._message(slot, request)
            if message is None:
                continue
            if not slot.inflight:
                request.since = monotonic()
            slot.inflight.append(request)
            slot.worker.send(message, descriptor)

    def _message(self, slot: Slot, request: Request) -> tuple[tuple[Any, ...] | None, int | None]:
        op, items = request.op, request.items
        if op in ("build", "call", "snapshot"):
            self._answer_for_the_lost(request)
            if not items:
                return None, None
        if op == "build":
            return ("build", [self._recipe(slot, self.members[index]) for index in items]), None
        if op == "call":
            return ("call", request.method, request.record, list(items.items())), None
        if op == "map":
            return ("map", request.method, list(items.items())), None
        if op in ("snapshot", "drop"):
            return (op, list(items)), None
        if op == "define":
            function = self.functions[request.method]
            return ("define", request.method, function if slot.worker.in_process else wire.pack(function)), None
        if op == "bind":
            return self.ports[request.method].binding(slot)
        if op == "ring":
            return self.ports[request.method].ringing(slot, request), None
        return (op, request.method), None

    def _recipe(self, slot: Slot, member: Member) -> tuple[Any, ...]:
        base, entries = member.journal.replay()
        recipe = member.recipe(slot.worker.in_process)
        return member.index, member.key, recipe, base, entries, member.isolated, member.deterministic

    def _answer_for_the_lost(self, request: Request) -> None:
        for index in list(request.items):
            lost = self.members[index].lost
            if lost is not None:
                del request.items[index]
                self._give(request, (index, ERROR, lost, 0, None), "")

    # -- hearing --------------------------------------------------------------------------------------

    def pump(self, timeout: float | None = None) -> None:
        """Takes in what has come; if nothing has, waits for something, `timeout` seconds at the most."""
        here = self.slots[HERE]
        if here.busy:
            for slot in self._busy():
                self._collect(slot)
            self._collect(here, most=1)
            return
        busy = self._busy()
        if not busy:
            return
        begin = perf_counter() if self.trace is not None else 0.0
        busy[0].backend.wait([slot.worker for slot in busy], self._patience(busy, timeout))
        if self.trace is not None:
            self.trace.add("wait", "wait", begin, perf_counter(), worker=HERE)
        for slot in busy:
            self._collect(slot)
        self._kill_the_overdue(busy)
        if self.tainted and not self.busy:
            self._leave_threads()

    @property
    def busy(self) -> bool:
        """Whether anything is under way."""
        return any(slot.busy for slot in self.slots.values())

    @property
    def place(self) -> str:
        """The backend that the members live on now."""
        return self.backend.name if any(member.slot != HERE for member in self.members) else "inline"

    def hear(self, slot: Slot) -> None:
        """Takes in what a worker has said, without waiting."""
        if slot.worker is not None:
            self._collect(slot)

    def _busy(self) -> list[Slot]:
        ringing = {number for port in self.ports.values() for number in port.rung}
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
                self._recover(slot, gone)
                return
            if reply is None:
                return
            kind, content = reply
            if kind == "news":
                number, item, result = content
                self.ports[number].hear(item, result)
                continue
            most -= 1
            self._take(slot, slot.inflight.popleft(), *content)
            if slot.inflight:
                slot.inflight[0].since = monotonic()
            self._feed(slot)
            if not slot.inflight and not slot.queue:
                return

    def _take(self, slot: Slot, request: Request, answer: Any, spans: list[Any]) -> None:
        for name, member, start, end in spans:
            kind = name if name in ("build", "rebuild", "map") else "call"
            self._span(kind, name, start, slot.worker, member, end)
        if request.op == "ring":
            self.ports[request.method].answered(slot, request, answer)
        elif request.op in ("build", "call", "map", "snapshot"):
            for result in answer:
                self._take_result(slot, request, result)
        if slot.redo is not None and not slot.inflight:
            self._redo(slot)

    def _take_result(self, slot: Slot, request: Request, result: Result) -> None:
        index, kind, payload, _, base = result
        unshared = kind == STALE or isinstance(payload, SharedRandomness)
        if unshared and self._put_aside(slot, request.part(index), kind):
            return
        if request.op == "build":
            self._built(self.members[index], result, self._where(slot, request, index))
            return
        if request.op == "call" and request.record:
            self._journal(self.members[index], request, result)
        elif request.op == "snapshot":
            self._snapshot_taken(self.members[index], kind, base)
        self._give(request, result, self._where(slot, request, index))

    def _built(self, member: Member, result: Result, note: str) -> None:
        if result[1] == OK:
            member.build_tries = 0
            member.snapshots = result[2]["snapshots"]
            member.isolated |= result[2]["isolated"]
        handle, member.awaited = member.awaited, None
        if handle is not None:
            handle.take(result, note)

    def _journal(self, member: Member, request: Request, result: Result) -> None:
        index, kind, payload, checked, base = result
        packed = request.items[index]
        if isinstance(payload, SharedRandomness):
            return  # the call does not count: the member will be rebuilt as it was before
        if member.deterministic:
            member.journal.add(("call", request.method, packed, checked), base)
        elif kind == OK:
            member.journal.add(("told", request.method, packed, wire.settle(payload)), base)
        self.shorten(member)

    def shorten(self, member: Member) -> None:
        """Asks a member whose journal has grown long for a snapshot, if it can give one."""
        if member.snapshots and not member.snapshot_due and len(member.journal) >= self.snapshot_every:
            member.snapshot_due = True
            self.submit(self.slots[member.slot], Request("snapshot", {member.index: None}))

    def _snapshot_taken(self, member: Member, kind: int, base: Any) -> None:
        member.snapshot_due = False
        if kind == OK:
            member.journal.start_anew(base)
        else:
            member.snapshots = False  # its snapshot() raises: it is rebuilt from the recipe then

    def _give(self, request: Request, result: Result, note: str) -> None:
        if request.handle is not None:
            request.handle.take(result, note)

    def _where(self, slot: Slot, request: Request, index: int) -> str:
        what = f"item {index}" if request.op == "map" else f"member {index} (key {self.members[index].key!r})"
        worker = slot.worker
        return f"in {what}, {request.call_name()}, worker {slot.number} ({worker.backend}, pid {worker.pid})"

    # -- members that draw from process-wide generators unannounced -----------------------------------

    def _put_aside(self, slot: Slot, request: Request, kind: int) -> bool:
        """Puts a call that did not count aside, to be made again. Returns False if it is to be answered as it is."""
        if self.shrinks and slot.backend.name == "thread":
            self.tainted.append(request)
        elif kind == STALE:
            self._note_stale(slot, request)
        return kind == STALE or request in self.tainted

    def _leave_threads(self) -> None:
        """Under auto, members that draw from process-wide generators go where these can be told apart."""
        again, self.tainted = self.tainted, []
        indices = sorted({index for request in again if request.op == "call" for index in request.items})
        self.note("unshared", f"members {indices} draw from process-wide generators on threads: moving to processes")
        for index in indices:
            self.members[index].isolated = True
        self.relocate("process", max(1, min(len(self.members), budget.current().slots)))
        for request in again:
            for index in request.items:
                self.submit(self.slots[self._home(request, index)], request.part(index))

    def _home(self, request: Request, index: int) -> int:
        """The slot that a request about this member, port item or map item belongs to."""
        if request.op == "map":
            return index % (len(self.slots) - 1)
        return self.ports[request.method].slot_of(index) if request.op == "ring" else self.members[index].slot

    def _note_stale(self, slot: Slot, request: Request) -> None:
        """Everything sent after it will come back stale too; then all is made again, in order."""
        if slot.redo is None:
            slot.redo = []
        slot.redo.append(request)

    def _redo(self, slot: Slot) -> None:
        requests, slot.redo = slot.redo or [], None
        stale = {index: self.members[index] for request in requests for index in request.items}
        for request in reversed(requests):
            slot.queue.appendleft(request)
        self.isolate(slot, list(stale.values()))

    def isolate(self, slot: Slot, members: list[Member]) -> None:
        """Rebuilds members with their random streams swapped in from the start, before anything else is asked."""
        for member in members:
            member.isolated = True
        self.note("isolated", f"members {[m.index for m in members]} draw from process-wide generators: isolated")
        for number, port in self.ports.items():
            if port.lives_on(slot):
                slot.queue.appendleft(Request("bind", {}, method=number))
        slot.queue.appendleft(self._building(members))
        self._feed(slot)

    # -- death ----------------------------------------------------------------------------------------

    def _patience(self, busy: list[Slot], timeout: float | None) -> float | None:
        left = [self._left(slot) for slot in busy]
        limits = [limit for limit in (*left, timeout) if limit is not None]
        return max(0.0, min(limits)) if limits else None

    def _left(self, slot: Slot) -> float | None:
        """Seconds until the slot's call in hand is overdue."""
        deadline, since, calls = None, monotonic(), 1
        if slot.inflight:
            deadline, since, calls = slot.inflight[0].deadline, slot.inflight[0].since, len(slot.inflight[0].items)
        for port in self.ports.values():
            if slot.number in port.rung and port.deadline is not None:
                deadline, since = port.deadline, port.rung[slot.number]
        if deadline is None or not slot.worker.can_kill:
            return None
        begun = slot.worker.busy_since()
        # A worker that cannot say which call it has in hand gets the time of all of them.
        limit = max(begun, since) + deadline if begun is not None else since + deadline * max(1, calls)
        return limit - monotonic()

    def _kill_the_overdue(self, busy: list[Slot]) -> None:
        for slot in busy:
            if slot.worker is None or not (slot.inflight or self._rung(slot)):
                continue
            left = self._left(slot)
            if left is not None and left <= 0:
                slot.overdue = self._deadline(slot)
                slot.worker.kill()

    def _rung(self, slot: Slot) -> bool:
        return any(slot.number in port.rung for port in self.ports.values())

    def _deadline(self, slot: Slot) -> float | None:
        if slot.inflight:
            return slot.inflight[0].deadline
        return next((port.deadline for port in self.ports.values() if slot.number in port.rung), None)

    def _recover(self, slot: Slot, gone: Gone) -> None:
        """Replaces a dead worker: builds, replays, asks again."""
        dead, slot.worker = slot.worker, None
        under_way = [*(slot.redo or ()), *slot.inflight]
        waiting = [*under_way[1:], *slot.queue]
        self.note("lost", self._obituary(slot, dead, gone, under_way))

        def verdict(index: int, name: str, item: bool = False) -> WorkerLost:
            return self._verdict(slot, dead, gone, index, name, item)

        again = self._after_death(slot, under_way[0], verdict) if under_way else []
        for port in self.ports.values():
            port.lost(slot, under_way[0] if under_way else None, verdict)
        slot.redo, slot.overdue = None, None
        slot.inflight.clear()
        slot.queue = deque([*again, *(request for request in waiting if request.op in _ASKED_AGAIN)])
        self._refill(slot)

    def _refill(self, slot: Slot) -> None:
        try:
            self.start([slot])
        except PlanNotMet as error:
            self._without(slot, error)
            return
        self._settle_in(slot)
        self._feed(slot)

    def _settle_in(self, slot: Slot) -> None:
        """Puts before everything else what makes a new worker what the old one was."""
        mine = [member for member in self.members if member.slot == slot.number and member.lost is None]
        preamble = [self._building([m]) for m in mine] if slot.builds_alone else [self._building(mine)] if mine else []
        for number, port in self.ports.items():
            if port.lives_on(slot):
                preamble.append(Request("bind", {}, method=number))
                preamble += port.rings_again(slot)
        slot.queue.extendleft(reversed(preamble))

    def _after_death(self, slot: Slot, victim: Request, verdict: Verdict) -> list[Request]:
        """What becomes of the request that the worker died in."""
        if victim.op == "build":
            self._after_death_in_build(slot, victim, verdict)
        if victim.op not in _ASKED_AGAIN:
            return []
        if len(victim.items) > 1:
            return victim.singles()
        victim.tries += 1
        if victim.tries < self.restarts:
            return [victim]
        index = next(iter(victim.items))
        error = verdict(index, victim.call_name(), victim.op == "map")
        self._give(victim, (index, ERROR, error, 0, None), "")
        return []

    def _after_death_in_build(self, slot: Slot, victim: Request, verdict: Verdict) -> None:
        slot.builds_alone = True
        if len(victim.items) > 1:
            return
        member = self.members[next(iter(victim.items))]
        member.build_tries += 1
        if member.build_tries >= self.restarts:
            member.lost = verdict(member.index, victim.call_name())
            self._built(member, (member.index, ERROR, member.lost, 0, None), "")

    def _verdict(self, slot: Slot, dead: Any, gone: Gone, index: int, name: str, item: bool = False) -> WorkerLost:
        who = f"item {index}" if item else f"member {index} (key {self.members[index].key!r})"
        place = f"worker {slot.number} ({dead.backend}, pid {dead.pid})"
        words = f"\nits last words:\n{gone.last_words}" if gone.last_words else ""
        if slot.overdue is not None:
            return CallTimeout(
                f"{who} did not answer {name} within {slot.overdue:g} s in {self.restarts} tries; "
                f"{place} was killed each time{words}"
            )
        return WorkerLost(f"{who} lost its worker in {name} in {self.restarts} tries: {place} {gone.how}{words}")

    def _obituary(self, slot: Slot, dead: Any, gone: Gone, under_way: list[Request]) -> str:
        doing = under_way[0].call_name() if under_way else "nothing" if not self._rung(slot) else "a port's call"
        why = f" (overran its deadline of {slot.overdue:g} s)" if slot.overdue is not None else ""
        return f"worker {slot.number} ({dead.backend}, pid {dead.pid}) {gone.how}{why} while it ran {doing}: rebuilding"

    def _without(self, slot: Slot, error: PlanNotMet) -> None:
        """No worker can be had for this slot: shrink if the plan leaves that to us, else say so to whoever asked."""
        if not self.shrinks:
            requests, slot.queue = list(slot.queue), deque()
            for request in requests:
                for index in request.items:
                    self._give(request, (index, ERROR, error, 0, None), "")
            return
        target = next((s for s in self.slots.values() if s.worker is not None and s.number != HERE), self.slots[HERE])
        self.note(
            "shrunk", f"worker {slot.number} could not be kept ({error}); its members go to worker {target.number}"
        )
        self.start([target])
        moving = [member for member in self.members if member.slot == slot.number]
        for member in moving:
            member.slot = target.number
        if moving:
            target.queue.append(self._building(moving))
        for number, port in self.ports.items():
            if port.lives_on(target):
                target.queue.append(Request("bind", {}, method=number))
                target.queue.extend(port.rings_again(target))
        target.queue.extend(slot.queue)
        slot.queue.clear()
        self._feed(target)

    # -- moving ---------------------------------------------------------------------------------------

    def move(self, target: dict[int, int], *, backend: str | None, workers: int | None) -> None:
        """Moves idle members to other slots: snapshot or replay. Nothing is given up before the new place stands."""
        slots = self._slots_for(backend, workers)
        placed = {member.index: target.get(member.index, member.slot) for member in self.members}
        for index, number in placed.items():
            if number not in slots:
                raise BadInput(f"member {index} cannot move to worker {number}; there are {len(slots) - 1}")
        moving = [m for m in self.members if slots[placed[m.index]] is not self.slots.get(m.slot)]
        self.start(slots[placed[member.index]] for member in moving)
        self._shorten_all(moving)
        self._leave(moving)
        old, self.slots = self.slots, slots
        for member in moving:
            member.slot = placed[member.index]
        handle = self.build(moving)
        handle.finish()
        self._close_slots(slot for slot in old.values() if slot not in slots.values())
        self._bind_again()
        self.note("moved", f"members {[member.index for member in moving]} moved")
        if handle.failures():
            raise handle.first_error()

    def relocate(self, backend: str, workers: int) -> None:
        """Moves everybody: to so many workers of a backend, in blocks, or here."""
        everybody = len(self.members)
        here = backend == "inline"
        target = {i: HERE if here else i * workers // everybody for i in range(everybody)}
        self.move(target, backend=None if here else backend, workers=0 if here else workers)

    def _slots_for(self, backend: str | None, workers: int | None) -> dict[int, Slot]:
        count = len(self.slots) - 1 if workers is None else workers
        if backend is not None and backend != self.backend.name:
            self.backend = find(backend)
            return {HERE: self.slots[HERE], **{n: Slot(n, self.backend) for n in range(count)}}
        numbers = [HERE, *range(count)]
        return {n: self.slots[n] if n in self.slots else Slot(n, self.backend) for n in numbers}

    def _shorten_all(self, members: list[Member]) -> None:
        able = [member for member in members if member.snapshots]
        handle = Handle(self.pump, [member.index for member in able])
        for member in able:
            self.submit(self.slots[member.slot], Request("snapshot", {member.index: None}, handle=handle))
        handle.finish()

    def _leave(self, members: list[Member]) -> None:
        for member in members:
            slot = self.slots[member.slot]
            if slot.worker is not None:
                self.submit(slot, Request("drop", {member.index: None}))
        while self.busy:
            self.pump(None)

    def _bind_again(self) -> None:
        for number, port in self.ports.items():
            for slot in self.slots.values():
                if slot.worker is not None:
                    op = "bind" if port.lives_on(slot) else "unbind"
                    self.submit(slot, Request(op, {}, method=number))

    # -- the end --------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends every worker: those with nothing to do politely, the others at once."""
        self._close_slots(self.slots.values())
        for port in self.ports.values():
            port.release()
        self.ports.clear()

    def _close_slots(self, slots: Iterable[Slot]) -> None:
        closing = []
        for slot in slots:
            worker, slot.worker = slot.worker, None
            if worker is not None:
                closing.append((worker, monotonic() + (0.0 if slot.inflight else _GRACE)))
                worker.say_goodbye()
            slot.queue.clear()
            slot.inflight.clear()
        for worker, end in closing:
            worker.close(max(0.0, end - monotonic()))

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
