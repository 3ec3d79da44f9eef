"""A pool's workers, and who does what with them.

dispatch.py ──► Slot.queue ──► (at most 8 under way) ──► worker ──► replies, in order ──► replies.py ──► snapshots.py
                                                          │                              handles        journals
                 recovery.py ◄── dies, or is overdue ─────┤
                    reruns.py ◄── drew from a stream that is not its own
                   moves.py ◄── nothing is under way, and somebody wants to be elsewhere
"""

from __future__ import annotations

import logging
import os
from _thread import get_ident
from collections.abc import Iterable, Iterator
from dataclasses import replace
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.journal.snapshots import Shortening
from paceline.engine.pool.one_thread import in_use
from paceline.engine.pool.packed_function import Mapped
from paceline.engine.port.inline_round import not_here
from paceline.engine.randomness.isolation import on_a_worker_thread
from paceline.engine.supervisor.dispatch import JOURNALED, Sending
from paceline.engine.supervisor.handle import Request
from paceline.engine.supervisor.moves import GRACE, Moving, Spreading, spread
from paceline.engine.supervisor.recovery import WORK, Recovery
from paceline.engine.supervisor.replies import Hearing
from paceline.engine.supervisor.reruns import Aside
from paceline.engine.supervisor.roster import HERE, Event, Member, Slot
from paceline.engine.trace import Trace
from paceline.engine.workers.base import Gone, Settings, find
from paceline.errors import BadInput, Closed, PlanNotMet

if TYPE_CHECKING:
    from paceline.engine.planning.auto import Pilot
    from paceline.engine.port.port import Port

_QUIET = ("moved", "isolated", "spread", "interrupted")  # nothing is lost by these

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
        snapshot_share: float | None,
        shrinks: bool,
        trace: Trace | None,
        spreading: Spreading = spread,
        never_here: bool = False,
    ) -> None:
        self.members = members
        self.spreading = spreading
        self.settings = settings
        self.restarts = restarts
        self.snapshot_every = snapshot_every
        self.shrinks = shrinks
        self.never_here = (
            never_here  # no member may live in the caller's process: trust='data', or auto with a deadline
        )
        self.trace = trace
        self.pilot: Pilot | None = None
        self.events: list[Event] = []
        self.epoch = 0  # counts the times that somebody changed places
        # Counts whatever may end that rounds go straight (inline_round.py): requests, posts, voids, suspects, the end.
        # What is fed without a request of its own (rows made again, a worker that settles in) follows one of these.
        self.stirs = 0
        self.recovery = Recovery(self)
        self.aside = Aside(self)
        self.moving = Moving(self)
        self.sending = Sending(self)
        self.hearing = Hearing(self)
        self.shortening = Shortening(self, snapshot_share)
        self.ports: dict[int, Port] = {}
        self.functions: dict[int, Mapped] = {}
        self.draws: dict[Any, bool] = {}  # functions of maps that have been run, and whether they draw
        self.last_port: Port | None = None  # whose members have nothing of another port before them
        self.fruitless: dict[int, int] = {}  # slot → deaths that no request is to blame for, since its last answer
        self.called = False  # whether a call or a snapshot may be under way: a ring of the same member comes after it
        self.suspicious = False  # whether any slot is suspect
        self.steady = False  # nothing is half done: an interrupt now breaks nothing
        self.limit: float | None = None  # seconds that a snapshot or a farewell may take, as any call may
        self.builds_at_leisure = False  # what is built and replayed may take as long as it likes
        self.owner = os.getpid()
        self.closed = False
        self.runs_here = False  # a member in the caller's process is in the middle of a call
        self.inside: int | None = None  # the thread that is in the middle of a call to the pool: one_thread.py
        self.slots = {HERE: Slot(HERE, find("inline"))}
        self.backend = find(backend)
        self.slots.update({number: Slot(number, self.backend) for number in range(workers)})

    def take_in(self, members: list[Member]) -> None:
        """Others take the place of the members, who have left."""
        with UNINTERRUPTED:
            self.members, self.events, self.last_port = members, [], None
            self.epoch += 1
            self.stirs += 1
            for slot in self.slots.values():
                slot.replay, slot.doing = 0.0, ""

    def start(self, slots: Iterable[Slot]) -> None:
        """Starts the workers of these slots, all at once."""
        empty = [slot for slot in slots if slot.worker is None]
        if self.settings.data_only and any(slot.number == HERE for slot in empty):
            raise PlanNotMet(
                "no worker could be had, and with trust='data' no member runs in the caller's process: free memory or "
                "processes, or ask for fewer workers"
            )
        everybody = [*self.slots.values(), *empty]
        begin = perf_counter()
        for backend in {id(slot.backend): slot.backend for slot in empty}.values():
            mine = [slot for slot in empty if slot.backend is backend]
            settings = replace(self.settings, beside_threads=self.is_beside_threads(everybody))
            workers = backend.start([slot.number for slot in mine], settings)
            for slot, worker in zip(mine, workers, strict=True):
                slot.worker = worker
                slot.defined = set()
                slot.told = ()
                self.span("start", "start", begin, worker)

    def is_beside_threads(self, slots: Iterable[Slot]) -> bool:
        """Whether members here run beside threads, with workers in these slots."""
        return (
            self.settings.beside_threads or on_a_worker_thread() or any(slot.backend.name == "thread" for slot in slots)
        )

    # -- what is under way ----------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raises `Closed` if it has been closed."""
        if self.closed:
            raise Closed("this pool has been closed")

    def check_alone(self) -> None:
        """Raises `BadInput` if another thread is in the middle of a call to this pool."""
        inside = self.inside
        if inside is not None and inside != get_ident():
            raise in_use()

    def check_outside(self) -> None:
        """Raises `BadInput` if a member in the caller's process asks its own pool in the middle of its call."""
        if self.runs_here:
            self.check_alone()
            raise BadInput("a member has asked its own pool for something in the middle of its call; ask from outside")

    def distrust(self) -> None:
        """We were interrupted. Unless that was in mere waiting, every slot with something under way is suspect."""
        self.runs_here = False
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
        self.stirs += 1
        for slot in self.slots.values():
            if slot.suspect:
                slot.suspect = False
                if slot.worker is not None:
                    if slot.worker.backend == "inline":  # what its members hold can be held only once: they close first
                        slot.worker.say_goodbye()
                    else:
                        slot.worker.abandon()
                    self.recovery.recover(slot, Gone("was given up because the caller was interrupted"), blame=False)

    @property
    def on_threads(self) -> bool:
        """Whether workers run members on threads."""
        return len(self.slots) > 1 and (self.backend.name == "thread" or self.settings.threads > 1)

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
            if not self.hearing.pump(None):
                raise Closed("the pool was closed before its members had answered their calls")
        self.called = any(True for _ in self._journaled())

    def _journaled(self) -> Iterator[Request]:
        """The calls and snapshots that are under way."""
        for slot in self.slots.values():
            for request in (*slot.inflight, *slot.queue, *(slot.redo or ())):
                if request.op in JOURNALED:
                    yield request
        yield from (request for request in self.aside.tainted if request.op in JOURNALED)

    @property
    def place(self) -> str:
        """The backend that the members live on now."""
        return self.backend.name if any(member.slot != HERE for member in self.members) else "inline"

    # -- the end --------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether there is nothing to end: in a fork of the process that owns the workers, they are not ours."""
        return self.closed or self.owner != os.getpid()

    def close(self) -> None:
        """Ends every worker: those with nothing to do politely, the others at once."""
        if self.over:
            return
        with UNINTERRUPTED:  # whoever is interrupted has not begun, or has come to the end
            self.closed = True
            self.stirs += 1
            self.let_go()
            try:
                self.close_slots(self.slots.values())
            finally:
                for port in self.ports.values():
                    port.book.rows.release()
                self.ports.clear()

    def abandon(self) -> None:
        """Ends every worker from a finaliser: nothing is waited for."""
        if self.over:
            return
        self.closed = True
        self.stirs += 1
        for slot in self.slots.values():
            if slot.worker is not None:
                slot.worker.abandon()

    def let_go(self) -> None:
        """Ports forget how their members were run here: these may have left, and are not to be kept for that."""
        for port in self.ports.values():
            port.straight = not_here

    def close_slots(self, slots: Iterable[Slot]) -> None:
        """Ends the workers of these slots, all at the same time; at once, if Ctrl-C says so while we wait for them.

        To be called where `UNINTERRUPTED` is entered.
        """
        # Who lives here comes last, and keeps nobody else waiting.
        leaving = [_vacated(slot) for slot in sorted(slots, key=lambda slot: slot.number == HERE)]
        waited = False
        try:
            ends = [_told_to_leave(worker, grace) for worker, grace in leaving if worker is not None]
            waited = all(UNINTERRUPTED.interruptible(worker.close, max(0.0, end - monotonic())) for worker, end in ends)
        finally:
            if not waited:  # somebody does not want to wait, or something went wrong: then they end at once
                for worker, _ in leaving:
                    if worker is not None:
                        worker.abandon()

    def note(self, kind: str, text: str) -> None:
        """Recorded always; told once per kind, aloud if it is a loss."""
        if all(event.kind != kind for event in self.events):
            _log.log(logging.INFO if kind in _QUIET else logging.WARNING, "%s", text)
        self.events.append(Event(kind, text))

    def span(
        self, kind: str, name: str, start: float, worker: Any, member: int | None = None, end: float | None = None
    ) -> None:
        """Records what has been run, if anybody wants to know."""
        if self.trace is not None:
            stop = perf_counter() if end is None else end
            self.trace.add(kind, name, start, stop, worker=worker.number, pid=worker.pid, member=member)


def _vacated(slot: Slot) -> tuple[Any, float]:
    """Takes the worker out of a slot. Gives it, if there is one, and the seconds that it may take to end: none if it is
    at work."""
    working = any(request.op in (*WORK, "build") for request in slot.inflight)
    worker, slot.worker = slot.worker, None
    slot.queue.clear()
    slot.inflight.clear()
    return worker, 0.0 if working else GRACE


def _told_to_leave(worker: Any, grace: float) -> tuple[Any, float]:
    """Says goodbye. Gives until when it may take."""
    end = monotonic() + grace
    worker.say_goodbye()
    return worker, end
