"""A port binds a method to arrays: one row per item, read and written in place by the worker that holds the member.

    main:    inputs[row] = …   post() ──► asked[item]=1, one ring per worker
    worker:  for each asked item: method(input rows…, output rows…), state[item]=READY
    main:    wait() ──► outputs[row], in place; nothing has been pickled

`post` rings each worker once however many members it holds. What a method returns beside its rows (an info dict, an
`Anew`) travels as a message and only if it is not None. Where memory is not shared (Ray) the rows travel in a message;
the host runs the same method on rows of the same arrays everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from paceline.engine import wire
from paceline.engine.arrays import Array
from paceline.engine.calls import Request, as_error
from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.journal import PortLog
from paceline.engine.roster import HERE, Slot
from paceline.engine.rows import Rows, Spec
from paceline.engine.seat import ERROR, OK, SHARED, STALE, Result
from paceline.engine.serving import IDLE, NEWS, READY
from paceline.engine.wait import Patience, publish
from paceline.errors import BadInput, Closed

if TYPE_CHECKING:
    from paceline.engine.crew import Crew
    from paceline.engine.recovery import Verdict
    from paceline.engine.serving import BoundPort

_LOOK_AGAIN = 0.1
_PLAIN: Result = (0, OK, None, 0, None)  # what an item that only wrote its rows has answered
_ROUNDS_PER_LOOK = 128  # how often journals are looked at: are they long enough for a snapshot?


class Port:
    """A method of some members, bound to arrays. Made by `Pool.port`."""

    def __init__(
        self,
        crew: Crew,
        number: int,
        method: str,
        inputs: Spec,
        outputs: Spec,
        members: Sequence[int],
        rows: Mapping[int, int] | None,
        deadline: float | None,
    ) -> None:
        self._crew = crew
        self._number = number
        self._method = method
        self._members = list(members)
        self._item = {member: item for item, member in enumerate(self._members)}
        self._rows = Rows(inputs, outputs, self._members, rows)
        self.inputs = self._rows.inputs
        self.outputs = self._rows.outputs
        self._asked_bytes, self._state_bytes = self._rows.asked, self._rows.state
        self._everyone = list(range(len(self._members)))
        self._zeros, self._ones = bytes(len(self._members)), bytes([1]) * len(self._members)
        self._all_ready = bytes([READY]) * len(self._members)
        self._waiting = bytearray(len(self._members))
        self.outstanding = 0  # how many items have been posted and not been fetched
        self._absorbed: set[int] = set()  # items whose answers are in the journal, and not yet with the caller
        self._rounds = 0
        self._everyone_by_slot: list[tuple[Slot, list[int]]] = []
        self._places_known: Any = None
        self._epoch = -1
        self._heard: dict[int, Result] = {}
        self._tries: dict[int, int] = {}
        self._aside: set[int] = set()  # items that drew on threads: they are rung again once their members have moved
        self._unable: dict[int, BaseException] = {}  # items that no worker can serve, and why
        self._alone: set[int] = set()  # slots whose items are rung one by one, to find the one that kills
        self._patience = Patience()
        self._ringing: dict[int, Any] = {}  # workers that answer by shared memory, by their numbers
        self._own: list[tuple[Slot, list[int]]] = []  # what is to be run here, all of it
        self._log = PortLog(method, self.inputs, self.outputs, self._rows.places)
        for item, member in enumerate(self._members):
            crew.members[member].journal.logs.append((self._log, item))
        self.rung: dict[int, float] = {}  # slot → when it was rung and has not answered
        self.deadline = deadline
        self.extras: dict[int, Any] = {}
        """What members returned beside their rows at the last `wait`."""
        self.errors: dict[int, BaseException] = {}
        """What members raised at the last `wait`."""

    # -- the caller's side ----------------------------------------------------------------------------

    def post(self, members: Iterable[int] | None = None) -> None:
        """Rings the workers of these members (None: all). Does not wait; the inputs are the workers' until `wait`.

        What the same members have been called for before is brought to its end first: they are run in order.

        Raises:
            BadInput: a member is still waited for, or is not bound to this port.
        """
        crew = self._crew
        if crew.closed or self._number not in crew.ports:
            raise Closed("this port, or its pool, has been closed")
        if crew.pilot is not None:
            crew.pilot.begin(through_port=True)
        items = self._chosen(members)
        if self.outstanding and any(self._waiting[item] for item in items):
            raise BadInput("a member that is posted has not been waited for since its last post")
        if crew.called:
            crew.settle_calls(self._members[item] for item in items)
        if crew.last_port is not self:
            self._come_after_others(items)
        crew.mend()
        try:
            with UNINTERRUPTED:
                self._ask(items, members is None)
        except BaseException:
            self._cancel()
            raise

    def check_idle(self, members: Iterable[int] | None = None) -> None:
        """Before inputs are written: they belong to whoever has been posted.

        Raises:
            BadInput: one of these members (None: anybody) is waited for, or is not bound to this port.
        """
        if self.outstanding and any(self._waiting[item] for item in self._chosen(members)):
            raise BadInput("a member that is posted has not been waited for since its last post")
        if members is not None:
            self._items(members)

    def _chosen(self, members: Iterable[int] | None) -> list[int]:
        return self._everyone if members is None else self._items(members)

    def wait(self, min_ready: int | None = None, *, timeout: float | None = None, outcomes: bool = False) -> list[int]:
        """Waits for `min_ready` of the posted members (None: all of them), or for `timeout` seconds.

        Returns the members whose rows are now there, in member order; `extras` holds what they returned beside.
        The lowest member's exception is raised, or with `outcomes=True` left in `errors`. If the caller is interrupted
        while rows are being run or fetched, the round is void: members are as they were before it.
        """
        if self._crew.closed:
            raise Closed("the pool was closed before its rows were fetched")
        self.extras, self.errors = {}, {}
        try:
            ready = self._wait(min_ready, timeout)
        except BaseException:
            if not self._crew.steady:
                self._cancel()
            self._crew.steady = False
            raise
        if self._crew.pilot is not None:
            self._crew.pilot.end(len(ready))
        if self.errors and not outcomes:
            raise self.errors[min(self.errors)]
        return ready

    def round(self) -> list[int]:
        """Posts to everybody and waits for all. Where all live here, in one go: nobody has to be rung, or waited for.

        Returns:
            All members; `extras` holds what they returned beside their rows.
        """
        home = self._home()
        if home is None:
            return self._post_and_wait()
        try:
            with UNINTERRUPTED:
                self._waiting[:] = self._ones
                self.outstanding = len(self._members)
                self._log.ring(None)
            nothing_to_tell = home.serve_everyone()
            if nothing_to_tell:
                self._close_round()
        except BaseException:
            self._cancel()
            raise
        return self._members.copy() if nothing_to_tell else self.wait()

    def _post_and_wait(self) -> list[int]:
        self.post()
        try:
            return self.wait()
        except KeyboardInterrupt:  # nobody will come back for it
            if self.outstanding:
                self._cancel()
            raise

    def _close_round(self) -> None:
        self.extras, self.errors = {}, {}
        with UNINTERRUPTED:
            self._log.served(None)
            self._waiting[:] = self._zeros
            self.outstanding = 0
            self._look_at_journals()

    def _home(self) -> BoundPort | None:
        """The port as the caller's own process serves it, if all members live here and nothing else is going on."""
        crew = self._crew
        if crew.called or crew.last_port is not self or crew.suspicious or crew.closed or crew.trace is not None:
            return None
        if self.outstanding or self._unable or (crew.pilot is not None and not crew.pilot.resting()):
            return None
        if self._epoch != crew.epoch or self._places_known is not crew.slots:
            self._by_slot(self._everyone, True)
        slot = self._everyone_by_slot[0][0] if len(self._everyone_by_slot) == 1 else None
        if slot is None or slot.busy or slot.worker is None or slot.worker.backend != "inline":
            return None
        bound: BoundPort | None = slot.worker.ports.get(self._number)
        return bound

    def close(self) -> None:
        """Unbinds the port; its arrays stay as they are."""
        if self._number not in self._crew.ports:
            return
        self.settle(set(self._members))
        del self._crew.ports[self._number]
        for slot in self._crew.slots.values():
            if slot.worker is not None and self.lives_on(slot):
                self._crew.submit(slot, Request("unbind", {}, method=self._number))
        for item, member in enumerate(self._members):
            journal = self._crew.members[member].journal
            journal.settle()
            journal.logs.remove((self._log, item))
        self.release()

    def release(self) -> None:
        """Gives the memory's descriptor back."""
        self._rows.release()

    def settle(self, members: set[int]) -> None:
        """Waits until what these members were posted is done, and takes it into their journals; `wait` fetches it."""
        posted = [item for item, member in enumerate(self._members) if member in members and self._waiting[item]]
        items = [item for item in posted if item not in self._aside]  # those have yet to be run, where they may be
        if not items:
            return
        self._help()
        while not all(self._done(item) for item in items):
            self._rest(_LOOK_AGAIN, lambda: all(self._done(item) for item in items), lambda: True)
        with UNINTERRUPTED:
            for item in items:
                self._absorb(item)

    def _ask(self, items: list[int], everyone: bool) -> None:
        self.outstanding += len(items)
        if everyone:
            self._log.ring(None)
            self._waiting[:] = self._ones
            self._state_bytes[:] = self._zeros
        else:
            self._log.ring(self._mask(items))
            for item in items:
                self._waiting[item] = 1
                self._state_bytes[item] = IDLE
        self._ring(items, everyone)
        if self._unable:
            self._answer_for_the_unable()

    def _answer_for_the_unable(self) -> None:
        for item, error in self._unable.items():
            if self._waiting[item] and not self._state_bytes[item]:
                self._give_up(item, error)

    def _come_after_others(self, items: list[int]) -> None:
        """Another port rang last: what it asked of these members comes first, in their journals too."""
        members = [self._members[item] for item in items]
        self._crew.settle_rings(members, but=self)
        with UNINTERRUPTED:
            for member in members:
                if len(self._crew.members[member].journal.logs) > 1:
                    self._crew.members[member].journal.settle()
            # Only if nobody of ours is left who may still have something of another port before them.
            whole = len(items) == len(self._members) or len(self._crew.ports) == 1
            self._crew.last_port = self if whole else None

    def _wait(self, min_ready: int | None, timeout: float | None) -> list[int]:
        goal = self.outstanding if min_ready is None else min(min_ready, self.outstanding)
        start = perf_counter()
        self._help()
        if not self._spin(goal):
            self._sleep(goal, None if timeout is None else monotonic() + timeout)
        self._patience.learn(perf_counter() - start)
        with UNINTERRUPTED:
            return self._harvest()

    def _cancel(self) -> None:
        """We were interrupted in the middle of a round: it never took place. Workers that may have begun it are given
        up, and their members rebuilt from journals that do not know of it."""
        for item in self._everyone:
            if self._waiting[item]:
                self._crew.slots[self.slot_of(item)].suspect = self._crew.suspicious = True
            if self._log.is_open(item):
                self._log.withdraw(item)
            self._waiting[item] = self._asked_bytes[item] = self._state_bytes[item] = 0
        self._heard.clear()
        self._absorbed.clear()
        self._aside.clear()
        self.outstanding = 0
        self._forget_rings()

    def _items(self, members: Iterable[int]) -> list[int]:
        try:
            items = [self._item[member] for member in members]
        except KeyError as error:
            raise BadInput(f"member {error.args[0]} is not bound to this port") from None
        if len(set(items)) < len(items):
            raise BadInput("a member is posted twice at once")
        return items

    def _mask(self, items: list[int]) -> Array:
        mask = np.zeros(len(self._members), np.uint8)
        mask[items] = 1
        return mask

    def _ring(self, items: Sequence[int], everyone: bool) -> None:
        now = monotonic()
        for slot, mine in self._by_slot(items, everyone):
            self.rung[slot.number] = now
            worker = slot.worker
            if worker is not None and worker.rings and not slot.busy and self._crew.trace is None:
                if everyone and worker.backend == "inline":
                    self._own.append((slot, mine))  # in `_help`, in one go
                else:
                    self._mark_as_asked(mine, everyone)
                publish()
                worker.ring()
                self._ringing[slot.number] = worker
            else:
                self._crew.submit(slot, self._request(mine))

    def _mark_as_asked(self, items: list[int], everyone: bool) -> None:
        first, last = items[0], items[-1]
        if everyone and last - first == len(items) - 1:  # in order, and in a block
            self._asked_bytes[first : last + 1] = self._ones[first : last + 1]
            return
        for item in items:
            self._asked_bytes[item] = 1

    def _by_slot(self, items: Sequence[int], everyone: bool) -> list[tuple[Slot, list[int]]]:
        slots = self._crew.slots
        if everyone and self._places_known is slots and self._epoch == self._crew.epoch:
            return self._everyone_by_slot
        by_slot: dict[int, list[int]] = {}
        for item in items:
            by_slot.setdefault(self.slot_of(item), []).append(item)
        found = [(slots[number], mine) for number, mine in by_slot.items()]
        if everyone:
            self._everyone_by_slot, self._places_known, self._epoch = found, slots, self._crew.epoch
        return found

    def _request(self, items: Iterable[int]) -> Request:
        return Request("ring", dict.fromkeys(items), method=self._number, deadline=self.deadline)

    # -- waiting --------------------------------------------------------------------------------------

    def _help(self) -> None:
        """Does first what is to be done here; the workers are busy meanwhile."""
        while self._own:
            slot, items = self._own.pop(0)
            if slot.worker.ports[self._number].serve_everyone():
                for item in items:
                    self._state_bytes[item] = READY
        for worker in self._ringing.values():
            worker.help()
        here = self._crew.slots[HERE]
        while here.busy:
            self._crew.pump(0.0)

    def _spin(self, goal: int) -> bool:
        workers = list(self._ringing.values())
        if not workers:
            return self._ready() >= goal
        if goal == self.outstanding and len(workers) == len(self.rung):
            self._crew.steady = True  # looking at words changes nothing
            if len(workers) == 1:
                served = self._patience.spin(workers[0].has_served)
            else:
                served = self._patience.spin(lambda: all(worker.has_served() for worker in workers))
            self._crew.steady = False
            return served and self._ready() >= goal
        return self._patience.spin(lambda: self._ready() >= goal)

    def _sleep(self, goal: int, end: float | None) -> None:
        while self._ready() < goal:
            left = _LOOK_AGAIN if end is None else min(_LOOK_AGAIN, end - monotonic())
            if left <= 0:
                return
            self._rest(left, lambda: self._ready() >= goal, lambda: self._seem_ready(goal))

    def _rest(self, seconds: float, enough: Callable[[], bool], until: Callable[[], bool]) -> None:
        """Sleeps until a worker has something to tell; they are asked to knock. Threads look at `until` first."""
        for worker in self._ringing.values():
            worker.listen(until)
        if not enough() and not self._crew.pump(seconds) and not enough():
            raise Closed("the pool was closed before its rows had been run")
        for worker in self._ringing.values():
            worker.listen(None)

    def _seem_ready(self, goal: int) -> bool:
        """Whether the caller should look. Only looks itself, so that any thread may ask."""
        state = self._state_bytes.tobytes()
        return NEWS in state or len(state) - state.count(IDLE) >= goal

    def _ready(self) -> int:
        """How many items are done, and what they had to say has been heard."""
        state = self._state_bytes.tobytes()
        if state == self._all_ready:
            return len(state)
        if NEWS in state:
            self._hear_all(state)
            state = self._state_bytes.tobytes()
            return sum(1 for item, mark in enumerate(state) if mark and not self._unheard(item, state))
        return len(state) - state.count(IDLE)

    def _done(self, item: int) -> bool:
        self._ready()
        return bool(self._state_bytes[item]) and not self._unheard(item, self._state_bytes)

    def _unheard(self, item: int, state: bytes | memoryview) -> bool:
        return state[item] == NEWS and item not in self._heard

    def _hear_all(self, state: bytes) -> None:
        for item in range(len(state)):
            if self._unheard(item, state):
                self._crew.hear(self._crew.slots[self.slot_of(item)])

    def _harvest(self) -> list[int]:
        state = self._state_bytes.tobytes()
        if state == self._all_ready and self.outstanding == len(state) and not self._absorbed:
            self._log.served(None)
            self._waiting[:] = self._zeros
            self._state_bytes[:] = self._zeros
            self.outstanding = 0
            self._forget_rings()
            return list(self._members)
        done = [i for i in range(len(state)) if self._waiting[i] and state[i] and not self._unheard(i, state)]
        for item in done:
            self._absorb(item)
            self._deliver(item)
        self.outstanding -= len(done)
        if not self.outstanding:
            self._forget_rings()
        return [self._members[item] for item in done]

    def _absorb(self, item: int) -> None:
        """Takes what an item has answered into its member's journal, once."""
        if item in self._absorbed:
            return
        self._absorbed.add(item)
        _, kind, _, _, base = self._heard.get(item, _PLAIN)
        if kind == ERROR:
            self._log.failed(item)
        else:
            self._log.served([item])
        if base is not None:
            self._crew.members[self._members[item]].journal.start_anew(base, (self._log, item))

    def _deliver(self, item: int) -> None:
        """Hands the caller what an item has answered beside its rows."""
        _, kind, payload, _, _ = self._heard.pop(item, _PLAIN)
        member = self._members[item]
        if kind == ERROR:
            error = self.errors[member] = as_error(payload)
            error.add_note(f"in member {member} (key {self._crew.members[member].key!r}), {self._method}()")
        elif payload is not None and (answer := wire.unpack(payload)) is not None:
            self.extras[member] = answer
        self._absorbed.discard(item)
        self._tries.pop(item, None)
        self._waiting[item] = 0
        self._state_bytes[item] = IDLE

    def _forget_rings(self) -> None:
        self.rung.clear()
        self._ringing.clear()
        self._own.clear()
        if self._alone:
            self._alone.clear()
        self._look_at_journals()

    def _look_at_journals(self) -> None:
        self._rounds += 1
        if self._rounds % _ROUNDS_PER_LOOK == 0:
            self._crew.shorten(self._crew.members[member] for member in self._members)

    # -- the crew's side ------------------------------------------------------------------------------

    def hear(self, item: int, result: Result) -> None:
        """Takes a message about an item in; a stale one is rebuilt and rung again."""
        if item in self._heard:
            return  # it has been answered for meanwhile
        member = self._crew.members[self._members[item]]
        slot = self._crew.slots[member.slot]
        index, kind, payload, checked, base = result
        shared = kind == SHARED and self._crew.shrinks
        if kind != STALE and not shared:
            self._heard[item] = (index, ERROR, payload, checked, base) if kind == SHARED else result
            if kind == ERROR:
                self._state_bytes[item] = NEWS  # as its worker does, if it has the port
            return
        self._state_bytes[item] = IDLE
        if shared:
            self._aside.add(item)
            self._crew.aside.tainted.append(self._request([item]))
            return
        slot.queue.appendleft(self._request([item]))
        self._crew.aside.isolate(slot, [member])

    def ring_set_aside(self) -> None:
        """Rings for the items that were set aside; their members live somewhere else now."""
        if not self._aside:
            return
        self._aside.clear()
        self.rung.clear()
        for slot in self._crew.slots.values():
            for request in self.rings_again(slot):
                self._crew.submit(slot, request)

    def members_of(self, items: Iterable[int]) -> list[int]:
        """Whose items these are."""
        return [self._members[item] for item in items]

    def slot_of(self, item: int) -> int:
        """Where an item's member lives."""
        return self._crew.members[self._members[item]].slot

    def lives_on(self, slot: Slot) -> bool:
        """Whether any of the port's members lives there."""
        return any(self._crew.members[member].slot == slot.number for member in self._members)

    def binding(self, slot: Slot) -> tuple[tuple[Any, ...], int | None]:
        """The message that binds this port on a worker, and the descriptor that goes with it."""
        mine = {m: item for m, item in self._item.items() if self._on(slot, m) and not self._crew.members[m].leaving}
        self._name_the_unable(mine)
        rows = {member: (item, self._rows.places[item]) for member, item in mine.items() if item not in self._unable}
        about = ("bind", self._number, self._method, rows, list(self.inputs))
        if slot.worker.in_process:
            return (*about, self._rows.arrays), None
        return (*about, self._rows.layout), self._rows.descriptor if slot.worker.shares_memory else None

    def _name_the_unable(self, mine: dict[int, int]) -> None:
        """Members whose worker dies whenever they are built are not there to be bound."""
        for member, item in mine.items():
            lost = self._crew.members[member].lost
            if lost is not None:
                self._unable[item] = lost
            else:
                self._unable.pop(item, None)
        self._answer_for_the_unable()

    def refused(self, slot: Slot, error: BaseException) -> None:
        """A worker could not bind the port: its items have this error until it can."""
        self._unable.update({item: error for item in self._everyone if self.slot_of(item) == slot.number})
        self._answer_for_the_unable()

    def ringing(self, slot: Slot, request: Request) -> tuple[Any, ...]:
        """The message that asks a worker to serve this port."""
        for item in [item for item in request.items if self._state_bytes[item]]:
            del request.items[item]  # it has been answered for meanwhile
        if slot.worker.shares_memory:
            # The host marks the rows as asked when it gets there: a worker that still has to bind must not see them.
            return "ring", self._number, list(request.items)
        return "ship", self._number, self.inputs, self._mask(list(request.items))

    def answered(self, slot: Slot, request: Request, answer: Any) -> None:
        """A worker that was asked by a message has served."""
        if answer is None:
            return
        outputs, state = answer
        for item in request.items:
            if state[item] == IDLE:
                continue  # it is not bound there, and has been answered for
            if state[item] == NEWS and item not in self._heard:
                continue  # stale: `hear` has had it rebuilt and rung again, so it is not done, even if the worker dies
            self._rows.take(item, outputs)
            self._asked_bytes[item] = 0
            self._state_bytes[item] = state[item]

    def lost(self, slot: Slot, dead: Any, victim: Request | None, verdict: Verdict | None) -> None:
        """A worker has died: whoever it had in hand is blamed (if anybody is to be), and given up after many tries."""
        self._ringing.pop(slot.number, None)
        self._own = [(other, items) for other, items in self._own if other is not slot]
        for item in self._everyone:
            if not self._waiting[item] or not self._state_bytes[item] or self.slot_of(item) != slot.number:
                continue
            if self._unheard(item, self._state_bytes):
                self._state_bytes[item] = IDLE  # what it had to say has died with its worker
            else:
                self._absorb(item)  # what has been answered belongs to the past that is replayed
        suspects = self._suspects(slot, dead, victim)
        if len(suspects) != 1:
            self._alone.add(slot.number)
        if verdict is None or len(suspects) != 1:
            return
        [item] = suspects
        self._tries[item] = self._tries.get(item, 0) + 1
        if self._tries[item] >= self._crew.restarts:
            self._give_up(item, verdict(self._members[item], f"{self._method}()"))

    def _suspects(self, slot: Slot, dead: Any, victim: Request | None) -> list[int]:
        pending = self._pending(slot)
        if victim is not None and (victim.op, victim.method) == ("ring", self._number):
            return [item for item in victim.items if item in pending]
        if dead.shares_memory and victim is None:
            return [item for item in pending if not self._asked_bytes[item]]  # begun and not finished
        return []

    def abandon(self, slot: Slot, error: BaseException) -> None:
        """There is no worker any more, and none can be had: whoever waits is told."""
        for item in self._pending(slot):
            self._give_up(item, error)

    def rang(self, worker: Any) -> bool:
        """Whether the worker has been told of rows by memory, and not by a message."""
        return self._ringing.get(worker.number) is worker

    @property
    def running(self) -> bool:
        """Whether rows that were asked for have not been run yet; those that were set aside do not count."""
        return any(
            self._waiting[item] and not self._state_bytes[item] and item not in self._aside for item in self._everyone
        )

    def has_pending(self, slot: Slot) -> bool:
        """Whether a worker still has rows to run."""
        return slot.number in self.rung and any(True for _ in self._unanswered(slot))

    def rings_again(self, slot: Slot, members: set[int] | None = None) -> list[Request]:
        """What a new worker has to be asked again (of these members only)."""
        pending = [item for item in self._pending(slot) if members is None or self._members[item] in members]
        for item in pending:
            self._asked_bytes[item] = 0
        if not pending:
            return []
        self.rung[slot.number] = monotonic()
        alone = slot.number in self._alone
        return [self._request([item]) for item in pending] if alone else [self._request(pending)]

    def _pending(self, slot: Slot) -> list[int]:
        return list(self._unanswered(slot))

    def _unanswered(self, slot: Slot) -> Iterator[int]:
        for item, member in enumerate(self._members):
            if self._waiting[item] and not self._state_bytes[item] and self._on(slot, member):
                yield item

    def _give_up(self, item: int, error: BaseException) -> None:
        self._log.withdraw(item)
        self._asked_bytes[item] = 0
        self._heard[item] = (self._members[item], ERROR, error, 0, None)
        self._state_bytes[item] = NEWS

    def _on(self, slot: Slot, member: int) -> bool:
        return self._crew.members[member].slot == slot.number
