"""Pool: an ordered set of live members that answer calls in member order, wherever they live.

call · post · map · port ──► Crew ──► workers ──► Hosts ──► members
          ▲                   │
          └── answers ◄───────┘  in member order, the same on every backend
"""

from __future__ import annotations

import math
import os
from _thread import get_ident
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from paceline.engine.host.host import MAX_MESSAGE
from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.planning import budget
from paceline.engine.planning.auto import Pilot
from paceline.engine.planning.plan import Plan
from paceline.engine.pool import lifetimes
from paceline.engine.pool.arguments import (
    check_arguments,
    check_deadline,
    check_threads,
    check_trust,
    count_workers,
    keyed,
    make_members,
)
from paceline.engine.pool.inline_calls import run_straight, where_all_live_here
from paceline.engine.pool.map import MANY, Stream
from paceline.engine.pool.one_thread import in_use, one_thread
from paceline.engine.pool.packed_function import Mapped
from paceline.engine.pool.packing import pack_calls, pack_one
from paceline.engine.port.port import Port
from paceline.engine.port.rows import Spec
from paceline.engine.supervisor.handle import Handle, Outcome, Request
from paceline.engine.supervisor.moves import Spreading, spread
from paceline.engine.supervisor.roster import HERE, Event
from paceline.engine.supervisor.supervisor import Crew
from paceline.engine.trace import Trace
from paceline.engine.transport import codec
from paceline.engine.workers.base import Settings
from paceline.errors import BadInput, Closed, NotSendable, PacelineError
from paceline.seeds import Key

DEADLINE = 60.0
"""Seconds that a call may take on a named backend that can kill, unless the caller says otherwise."""

_WHY_PROCESSES = "calls have a deadline, which can be kept only in processes"


@dataclass(frozen=True)
class WorkerInfo:
    """One worker as `Pool.workers` lists it."""

    number: int
    pid: int
    backend: str
    members: tuple[int, ...]


class Pool:
    """An ordered set of live members, built from recipes where they live.

    Args:
        factories: One recipe per member: a callable without parameters. Lambdas and closures are fine.
        backend: "inline", "thread", "process", "ray", the name of one that another package adds, or "auto": measure
            the first calls here, then choose (`plan` says what and why).
        workers: How many workers share the members; 0 means here, in the caller's process; None: as many as the
            budget has CPU slots.
        seed: Root of every member's own random streams; or one for each process-wide generator, by its name.
        keys: Who the members are (ints, strings, tuples of them); by default their numbers. Streams follow keys.
        placement: Worker number per member (`HERE`, -1, is the caller's process); by default as `spreading` says.
        spreading: Gives a placement for (members, workers, how many the caller keeps); by default blocks of equal size.
        deterministic: Whether members answer the same when asked the same again; one flag, or one per member. The
            others (an LLM) are never asked again after a crash: they are told what they had answered.
        deadline: Seconds that one call may take before its worker is killed; None: 60 on a named backend that can kill;
            `math.inf`: as long as it likes. Under auto None is as long as it likes, wherever members live; with
            a deadline, here or of a call, map or port, they live in processes from then on, where it can be kept.
        restarts: How often a call that kills its worker is tried before it is a `WorkerLost`.
        snapshot_every: After so many calls a member that has `snapshot` and `restore` is asked for a snapshot, so
            that its journal stays short; earlier if its worker's calls would take about a second to be run again.
        snapshot_share: The share of the time that snapshots may take; they come less often then. None: any, but a
            hundredth for those that come earlier. For a minute after a death it is ten times the share.
        failed_builds: "raise" what a constructor raised, or "keep": every call of that member gives the error.
        max_message: Bytes that one argument tuple or answer may have.
        isolate: Under auto, nobody ever lives in the caller's process.
        trust: What workers may send back: "all", or "data" as `Plan.trust` says; then no member lives in the
            caller's process, and answers are not unpickled there.
        threads: How many rows of a port a worker that is a process runs at once, each on a thread: for members that
            wait. Rows of members that draw from process-wide generators are still run one by one.
        beside_threads: Whether members here run while threads of another pool run its members: then process-wide
            generators are not swapped for them, which the threads would notice, and to draw is an error.
        draw_alone: On threads: members that are seen to draw from process-wide generators are run one at a time, each
            with streams of its own; otherwise to draw there is an error.
        alone_first: Besides, each method of a member runs alone until it has been seen not to draw: where what ran
            beside others cannot be run again.
        trace: Records where the time goes.
    """

    def __init__(
        self,
        factories: Iterable[Callable[[], Any]],
        *,
        backend: str = "inline",
        workers: int | None = 1,
        seed: int | Mapping[str, int] = 0,
        keys: Sequence[Key] | None = None,
        placement: Sequence[int] | None = None,
        spreading: Spreading = spread,
        deterministic: bool | Sequence[bool] = True,
        deadline: float | None = None,
        restarts: int = 3,
        snapshot_every: int = 1000,
        snapshot_share: float | None = None,
        failed_builds: str = "raise",
        max_message: int = MAX_MESSAGE,
        isolate: bool = False,
        trust: str = "all",
        threads: int = 1,
        beside_threads: bool = False,
        draw_alone: bool = False,
        alone_first: bool = False,
        trace: Trace | None = None,
    ) -> None:
        members = make_members(list(factories), keys, deterministic)
        auto = backend == "auto"
        isolate = isolate or trust == "data"
        measures = auto and not isolate and deadline in (None, math.inf)
        count = count_workers(workers, auto, len(members) if members or measures else MANY)
        check_trust(trust, "process" if auto else backend, count)
        check_arguments(count, restarts, failed_builds, snapshot_share)
        check_threads(threads, backend)
        slice_ = budget.current().slice(max(1, count))
        self._crew = Crew(
            members,
            backend="process" if auto else backend,
            workers=0 if measures else count,
            settings=Settings(
                seed,
                trace is not None,
                max_message,
                beside_threads=beside_threads,
                draw_alone=draw_alone and not auto,
                alone_first=alone_first or not all(member.deterministic for member in members),
                threads=threads,
                may_leave=auto,
                data_only=trust == "data",
                budget=slice_,
            ),
            restarts=restarts,
            snapshot_every=snapshot_every,
            snapshot_share=snapshot_share,
            shrinks=auto,
            trace=trace,
            spreading=spreading,
            never_here=trust == "data" or (auto and not measures),
        )
        if measures:
            self._crew.pilot = Pilot(self._crew, None if workers in (None, 1) else workers)
        self._asked = Plan(backend=backend, workers=count, isolate=isolate, threads=threads, trust=trust)
        self._deadline = deadline
        self._check_deadline(deadline)
        self._crew.limit = self._limit(None)
        self._crew.builds_at_leisure = auto and self._crew.limit is None  # as what is built here does
        self._next = 0
        self._place(placement, 0 if measures else count)
        self._finalizer = lifetimes.begin(self, self._crew)
        try:
            self._build(failed_builds)
        except NotSendable as error:  # the recipe matters, not where among our lines it was packed
            self.close()
            raise error.with_traceback(None) from error.__cause__
        except BaseException:
            self.close()
            raise

    # -- calls ----------------------------------------------------------------------------------------

    def call(
        self,
        method: str,
        calls: Mapping[int, tuple[Any, ...]] | None = None,
        *,
        outcomes: bool = False,
        record: bool = True,
        deadline: float | None = None,
    ) -> dict[int, Any]:
        """Calls `method` of the members named in `calls` (member → arguments; None: all, without arguments).

        Runs everybody, then raises the lowest member's exception; with `outcomes=True` gives an `Outcome` each
        instead. `record=False` is a read: never journaled, never replayed, and without effect on random streams.

        Returns:
            The answers in member order, whatever the order of `calls`.
        """
        crew = self._crew
        me, outer = get_ident(), crew.inside
        if outer is not None and outer != me:
            raise in_use()
        crew.inside = me  # of the whole call: nobody else's comes between its question and its answers
        try:
            self._open()
            if record:  # a read must find things as they are
                self.round_begins()
            handle = self._submit(method, self.pack(calls), record, deadline, False)
            handle.finish()
            self.round_over(handle)
        finally:
            crew.inside = outer
        return dict(handle.outcomes()) if outcomes else handle.wait()

    def post(
        self,
        method: str,
        calls: Mapping[int, tuple[Any, ...]] | None = None,
        *,
        record: bool = True,
        deadline: float | None = None,
        apart: bool = False,
    ) -> Handle:
        """Like `call`, but does not wait. Calls of one member are run in the order of their posts.

        Args:
            apart: One message per member instead of one per worker, so that each can be ready by itself.
        """
        self._open().check_alone()
        if record:
            self.round_begins()
        return self.post_packed(method, self.pack(calls), record=record, deadline=deadline, apart=apart)

    def pack(self, calls: Mapping[int, tuple[Any, ...]] | None = None) -> dict[int, codec.Packed]:
        """Packs the arguments of calls, as for `call`; what several are given as one object is packed once.

        For whoever makes several posts that belong together: either all of them can be sent, or nothing is.

        Raises:
            NotSendable: names what cannot be packed.
            TooLarge: names who is given too much.
        """
        return pack_calls(calls, len(self._crew.members), self._crew.settings.max_message)

    def post_packed(
        self,
        method: str,
        calls: dict[int, codec.Packed],
        *,
        record: bool = True,
        deadline: float | None = None,
        apart: bool = False,
    ) -> Handle:
        """Posts what `pack` gave; `round_begins` is the caller's to say.

        Args:
            method: As for `call`.
            calls: Member → packed arguments.
            record: As for `call`.
            deadline: As for `call`.
            apart: As for `post`.
        """
        crew = self._open()
        me, outer = get_ident(), crew.inside
        if outer is not None and outer != me:
            raise in_use()
        crew.inside = me
        try:
            return self._submit(method, calls, record, deadline, apart)
        finally:
            crew.inside = outer

    def round_begins(self) -> None:
        """Under auto: something is about to be asked, and nothing is under way that could not wait, so everybody may
        move first. For whoever asks in several posts, or must not be kept from an interrupt by a move."""
        if self._crew.pilot is not None:
            self._crew.pilot.begin()

    def run_here(self, method: str, calls: Mapping[int, codec.Packed], take: Callable[[Handle], None]) -> None:
        """Makes calls at once, as far as everybody lives in the caller's process and nothing else is going on.

        For whoever makes many short ones. Those that cannot be made in this way, maybe all of them, are left to
        `post_packed`.

        Args:
            method: As for `call`.
            calls: What `pack` gave.
            take: Is given the answers of those that have been made, if there are any; if Ctrl-C comes, before that is
                raised. It is not interrupted, so it must not take long: it should keep the handle, and read it later.
        """
        crew = self._open()
        me, outer = get_ident(), crew.inside
        if outer is not None and outer != me:
            raise in_use()
        crew.inside = me
        try:
            slot = where_all_live_here(crew)
            if slot is not None:
                run_straight(crew, slot, method, calls, take)
        finally:
            crew.inside = outer

    def round_over(self, *handles: Handle) -> None:
        """Under auto: what was posted has been answered, and nothing else is under way, so it can be learned from."""
        if self._crew.pilot is not None and not self._crew.pilot.rests:
            self._crew.pilot.end(sum(map(len, handles)), sum(handle.nbytes() for handle in handles))

    def give_up(self, handle: Handle, members: Iterable[int]) -> None:
        """Nobody wants these members' answers any more: they are not asked again, and a worker that is busy with one of
        them is killed, where that can be done; whoever else lives there is rebuilt."""
        handle.unwanted.update(members)
        for slot in self._open().slots.values():
            first = slot.inflight[0] if slot.worker is not None and slot.inflight else None
            mine = first is not None and first.handle is handle and not handle.unwanted.isdisjoint(first.items)
            if mine and slot.worker.can_kill:
                slot.worker.kill()

    @one_thread
    def map(
        self,
        function: Callable[[Any], Any],
        items: Iterable[Any],
        *,
        keys: Iterable[Key] | None = None,
        outcomes: bool = False,
        deadline: float | None = None,
    ) -> list[Any]:
        """Runs `function` on every item, on all workers. Returns the results by index.

        Everything is run; then the lowest index's exception is raised, or with `outcomes=True` each result is an
        `Outcome`. An item whose worker dies is run again. Random streams follow the item's key: by default its index.
        """
        results = dict(self.stream(function, items, keys=keys, deadline=deadline))
        ordered = [results[index] for index in sorted(results)]
        if outcomes:
            return ordered
        for outcome in ordered:
            if outcome.error is not None:
                raise outcome.error
        return [outcome.answer for outcome in ordered]

    def stream(
        self,
        function: Callable[[Any], Any],
        items: Iterable[Any],
        *,
        keys: Iterable[Key] | None = None,
        deadline: float | None = None,
    ) -> Iterator[tuple[int, Outcome]]:
        """Like `map`, but yields (index, outcome) as items finish."""
        crew = self._open()
        crew.check_alone()
        number = self._number()
        stream = Stream(crew, number, keyed(items, keys), self._limit(deadline), self._packed)
        mapped = Mapped(function, crew.draws)
        if crew.place != "inline" or stream.slots[0].backend.name not in ("inline", "thread"):
            mapped.pack()  # before anything is handed out: what cannot be sent must not be found out in mid-run
        crew.functions[number] = mapped
        try:
            crew.start(stream.slots)
            yield from stream.run()
        finally:
            stream.abandon()
            del crew.functions[number]
            for slot in crew.slots.values():
                if slot.worker is not None and number in slot.defined:
                    slot.defined.remove(number)
                    crew.sending.submit(slot, Request("forget", {}, method=number))

    @one_thread
    def port(
        self,
        method: str,
        inputs: Spec,
        outputs: Spec,
        *,
        members: Sequence[int] | None = None,
        rows: Mapping[int, int] | None = None,
        deadline: float | None = None,
    ) -> Port:
        """Binds `method` to arrays: it is called with one view per input and output, this member's rows.

        Args:
            inputs: Name → (shape of one row, dtype); the caller writes these before `Port.post`.
            outputs: The same; the members write these.
            members: Who is bound; by default everybody.
            rows: How many rows each member has (the views then have that leading dimension); by default one.
            deadline: Seconds that one run of the method may take.
        """
        crew = self._open()
        chosen = list(range(len(crew.members))) if members is None else sorted(members)
        if len(set(chosen)) < len(chosen) or not all(0 <= member < len(crew.members) for member in chosen):
            raise BadInput(f"members={chosen}: each once, and from 0 to {len(crew.members) - 1}")
        number = self._number()
        port = crew.ports[number] = Port(crew, number, method, inputs, outputs, chosen, rows, self._limit(deadline))
        for slot in crew.slots.values():
            if port.book.lives_on(slot):
                crew.sending.submit(slot, crew.sending.binding(number))
        return port

    # -- places ---------------------------------------------------------------------------------------

    @property
    def workers(self) -> list[WorkerInfo]:
        """The workers that are running, and who lives there."""
        crew = self._open()
        return [
            WorkerInfo(number, slot.worker.pid, slot.worker.backend, self._residents(number))
            for number, slot in crew.slots.items()
            if slot.worker is not None and (number != HERE or self._residents(number))
        ]

    @property
    def place(self) -> str:
        """The backend that the members live on now: "inline" if all of them live in this process."""
        return self._crew.place

    @property
    def plan(self) -> Plan:
        """The plan in force, and why."""
        return self._asked if self._crew.pilot is None else self._crew.pilot.plan

    def begin_on(self, backend: str, workers: int, why: str, *, threads: int = 1) -> None:
        """Under auto: goes there at once, because it is known to be the place; it may still leave if it must. Whom a
        deadline keeps in processes stays there."""
        pilot = self._open().pilot
        if pilot is not None:
            pilot.begin_on(backend, workers, why, threads)

    def reconsider(self) -> None:
        """Under auto: measure and choose anew. A job calls this between episodes or at a full reset."""
        pilot = self._open().pilot
        if pilot is not None:
            pilot.reconsider()

    @property
    def events(self) -> list[Event]:
        """What happened without changing the result: lost workers, rebuilds, moves."""
        return list(self._crew.events)

    @one_thread
    def move(
        self, placement: Sequence[int] | Mapping[int, int], *, backend: str | None = None, workers: int | None = None
    ) -> None:
        """Moves members to other workers, by snapshot where they can give one, else by replay.

        Args:
            placement: Worker number per member (`HERE`, -1, is the caller's process); a mapping moves only some.
            backend: Another backend for all workers but the caller's process.
            workers: Another number of workers.
        """
        crew = self._open()
        target = dict(placement) if isinstance(placement, Mapping) else dict(enumerate(placement))
        self._drain()
        crew.moving.move(target, backend=backend, workers=workers)

    @one_thread
    def refill(
        self,
        factories: Iterable[Callable[[], Any]] = (),
        *,
        keys: Sequence[Key] | None = None,
        deterministic: bool | Sequence[bool] = True,
        failed_builds: str = "raise",
    ) -> None:
        """Ends all members and builds others in their place, as in a new pool, but in the workers that there are.

        Ports end with their members; a named backend only.

        Args:
            factories: As for `Pool`; none: workers wait for the next.
            keys: As for `Pool`.
            deterministic: As for `Pool`.
            failed_builds: As for `Pool`.
        """
        crew = self._open()
        if crew.pilot is not None:
            raise BadInput("members of a pool under auto cannot be replaced: name a backend")
        members = make_members(list(factories), keys, deterministic)
        for port in list(crew.ports.values()):
            port.close()
        self._drain()
        crew.moving.take_leave()
        crew.take_in(members)
        self._place(None, min(len(crew.slots) - 1, len(members)))
        self._build(failed_builds)

    @one_thread
    def snapshot(self) -> None:
        """Asks every member that has `snapshot` and `restore` for a snapshot; their journals start from there.

        One that raises, or takes too long, keeps its journal; `events` says so.
        """
        crew = self._open()
        able = [member.index for member in crew.members if member.snapshots]
        crew.settle_rings(able)
        handle = Handle(crew.hearing.pump, able)
        for number, items in self._by_slot(dict.fromkeys(able), False):
            crew.sending.submit(crew.slots[number], crew.shortening.saving(items, handle))
        handle.finish()

    # -- life -----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._crew.members)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every worker. May be called again.

        Raises nothing but Ctrl-C, when all is over: that ends at once the `close()` of a member here, and the waiting
        for workers.
        """
        lifetimes.end(self._finalizer, self._crew)

    # -- small things ---------------------------------------------------------------------------------

    def _open(self) -> Crew:
        self._crew.check_open()
        if self._crew.owner != os.getpid():
            raise Closed("this pool belongs to the process that this one was forked from; make a new one")
        self._crew.check_outside()
        return self._crew

    def _submit(
        self, method: str, calls: dict[int, codec.Packed], record: bool, deadline: float | None, apart: bool
    ) -> Handle:
        """Hands packed calls to their slots, for the thread that is within."""
        crew = self._crew
        limit = self._limit(deadline)
        if crew.ports:
            crew.settle_rings(calls)
        handle = Handle(crew.hearing.pump, calls)
        with UNINTERRUPTED:
            for number, items in self._by_slot(calls, apart):
                request = Request("call", items, method=method, record=record, handle=handle, deadline=limit)
                crew.sending.submit(crew.slots[number], request)
        return handle

    def _number(self) -> int:
        self._next += 1
        return self._next

    def _place(self, placement: Sequence[int] | None, workers: int) -> None:
        members = self._crew.members
        if placement is not None and len(placement) != len(members):
            raise BadInput(f"placement has {len(placement)} entries for {len(members)} members")
        for member, slot in zip(
            members, self._crew.spreading(len(members), workers, 0) if placement is None else placement, strict=True
        ):
            member.slot = slot
            if slot == HERE and self._crew.never_here:
                raise BadInput(
                    f"member {member.index} is placed in the caller's process: with trust='data', or under auto with a "
                    "deadline or isolate, members live in processes; give workers=1 or more, and another placement"
                )
            if member.slot not in self._crew.slots:
                raise BadInput(f"member {member.index} is placed on worker {member.slot}; there are {workers}")

    def _build(self, failed_builds: str) -> None:
        begin, pilot = perf_counter(), self._crew.pilot
        handle = self._crew.sending.build(self._crew.members)
        handle.finish()
        if pilot is not None:
            pilot.building = (perf_counter() - begin) / max(1, len(handle))
        if failed_builds == "raise" and handle.failures():
            raise handle.first_error()

    def _packed(self, index: int, value: Any) -> codec.Packed:
        return pack_one(index, value, self._crew.settings.max_message)

    def _by_slot(self, items: dict[int, Any], apart: bool) -> list[tuple[int, dict[int, Any]]]:
        members = self._crew.members
        if apart:
            return [(members[index].slot, {index: item}) for index, item in items.items()]
        by_slot: dict[int, dict[int, Any]] = {}
        for index, item in items.items():
            by_slot.setdefault(members[index].slot, {})[index] = item
        return list(by_slot.items())

    def _residents(self, number: int) -> tuple[int, ...]:
        return tuple(member.index for member in self._crew.members if member.slot == number)

    def _drain(self) -> None:
        while self._crew.busy:
            self._crew.hearing.pump(None)

    def _limit(self, deadline: float | None) -> float | None:
        if deadline is not None:
            self._check_deadline(deadline)
        limit = deadline or self._deadline or (math.inf if self._asked.backend == "auto" else DEADLINE)
        if limit == math.inf:
            return None
        if self._crew.pilot is not None and not self._crew.never_here:
            self._go_where_calls_can_be_ended(self._crew.pilot)
        return limit

    def _go_where_calls_can_be_ended(self, pilot: Pilot) -> None:
        """Under auto, before the first call with a deadline: all members go to processes, for good."""
        crew = self._crew
        self._drain()
        workers = self._asked.workers if crew.members else count_workers(pilot.workers, True, MANY)
        try:
            crew.moving.relocate("process", workers or 1)
        except PacelineError as error:
            error.add_note(f"{_WHY_PROCESSES}: leave the deadline out, or see to it that members can live there")
            raise
        crew.never_here = True
        pilot.settle("process", workers or 1, _WHY_PROCESSES)

    def _check_deadline(self, deadline: float | None) -> None:
        backend = self._crew.backend.name
        if self._asked.backend == "auto":
            backend = "process"  # where it goes for that
        elif len(self._crew.slots) == 1 and backend != "thread":
            backend = "inline"
        check_deadline(deadline, backend)
