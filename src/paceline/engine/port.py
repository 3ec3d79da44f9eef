"""A port binds a method to arrays: one row per item, read and written in place by the worker that holds the member.

    main:    inputs[row] = …   post() ──► asked[item]=1, one ring per worker
    worker:  for each asked item: method(input rows…, output rows…), state[item]=READY
    main:    wait() ──► outputs[row], in place; nothing has been pickled

`post` rings each worker once however many members it holds. What a method returns beside its rows (an info dict, an
`Anew`) travels as a message and only if it is not None. Where memory is not shared (Ray) the rows travel in a message;
the host runs the same method on rows of the same arrays everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from paceline.engine import wire
from paceline.engine.arrays import Array, SharedArrays, plain_arrays
from paceline.engine.calls import Request, as_error
from paceline.engine.journal import PortLog
from paceline.engine.roster import HERE, Slot
from paceline.engine.seat import ERROR, STALE, Result
from paceline.engine.serving import IDLE, NEWS, READY
from paceline.engine.wait import Patience, publish
from paceline.errors import BadInput, Closed, SharedRandomness

if TYPE_CHECKING:
    from paceline.engine.crew import Crew
    from paceline.engine.recovery import Verdict

Spec = Mapping[str, tuple[Sequence[int], Any]]
"""Name → (shape of one row, dtype)."""

_LOOK_AGAIN = 0.1
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
        self._places = _places(self._members, rows)
        self._layout = _layout(inputs, outputs, self._places)
        self._shared = SharedArrays(self._layout) if hasattr(os, "memfd_create") else None
        self._arrays = self._shared.arrays if self._shared is not None else plain_arrays(self._layout)
        self.inputs: dict[str, Array] = {name: self._arrays[name] for name in inputs}
        self.outputs: dict[str, Array] = {name: self._arrays[name] for name in outputs}
        self._asked_bytes = self._arrays["asked"].data
        self._state_bytes = self._arrays["state"].data
        self._everyone = list(range(len(self._members)))
        self._zeros, self._ones = bytes(len(self._members)), bytes([1]) * len(self._members)
        self._all_ready = bytes([READY]) * len(self._members)
        self._waiting = bytearray(len(self._members))
        self._outstanding = 0
        self._rounds = 0
        self._everyone_by_slot: list[tuple[Slot, list[int]]] = []
        self._places_known: Any = None
        self._epoch = -1
        self._heard: dict[int, Result] = {}
        self._tries: dict[int, int] = {}
        self._alone: set[int] = set()  # slots whose items are rung one by one, to find the one that kills
        self._patience = Patience()
        self._ringing: list[Any] = []  # workers that answer by shared memory
        self._log = PortLog(method, self.inputs, self.outputs, self._places)
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
        """Rings the workers of these members (None: all). Does not wait.

        Raises:
            BadInput: a member is still waited for, or is not bound to this port.
        """
        crew = self._crew
        if self._number not in crew.ports:
            raise Closed("this port, or its pool, has been closed")
        if crew.pilot is not None:
            crew.pilot.begin(through_port=True)
        items = self._everyone if members is None else self._items(members)
        if self._outstanding and any(self._waiting[item] for item in items):
            raise BadInput("a member that is posted has not been waited for since its last post")
        self._outstanding += len(items)
        if members is None:
            self._log.ring(None)
            self._waiting[:] = self._ones
            self._state_bytes[:] = self._zeros
        else:
            self._log.ring(self._mask(items))
            for item in items:
                self._waiting[item] = 1
                self._state_bytes[item] = IDLE
        self._ring(items, members is None)

    def wait(self, min_ready: int | None = None, *, timeout: float | None = None, outcomes: bool = False) -> list[int]:
        """Waits for `min_ready` of the posted members (None: all of them), or for `timeout` seconds.

        Returns the members whose rows are now there, in member order; `extras` holds what they returned beside.
        The lowest member's exception is raised, or with `outcomes=True` left in `errors`.
        """
        self.extras, self.errors = {}, {}
        waiting = self._outstanding
        goal = waiting if min_ready is None else min(min_ready, waiting)
        start = perf_counter()
        self._help()
        if not self._spin(goal, goal == waiting):
            self._sleep(goal, None if timeout is None else monotonic() + timeout)
        self._patience.learn(perf_counter() - start)
        ready = self._harvest()
        if self._crew.pilot is not None:
            self._crew.pilot.end(len(ready))
        if self.errors and not outcomes:
            raise self.errors[min(self.errors)]
        return ready

    def close(self) -> None:
        """Unbinds the port; its arrays stay as they are."""
        if self._crew.ports.pop(self._number, None) is None:
            return
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
        if self._shared is not None:
            self._shared.close()

    def _items(self, members: Iterable[int]) -> list[int]:
        try:
            return [self._item[member] for member in members]
        except KeyError as error:
            raise BadInput(f"member {error.args[0]} is not bound to this port") from None

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
                for item in mine:
                    self._asked_bytes[item] = 1
                publish()
                worker.ring()
                if worker not in self._ringing:
                    self._ringing.append(worker)
            else:
                self._crew.submit(slot, self._request(mine))

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
        for worker in self._ringing:
            worker.help()
        here = self._crew.slots[HERE]
        while here.busy:
            self._crew.pump(0.0)

    def _spin(self, goal: int, everyone: bool) -> bool:
        workers = self._ringing
        if not workers:
            return self._ready() >= goal
        if everyone and len(workers) == len(self.rung):
            if len(workers) == 1:
                served = self._patience.spin(workers[0].has_served)
            else:
                served = self._patience.spin(lambda: all(worker.has_served() for worker in workers))
            return served and self._ready() >= goal
        return self._patience.spin(lambda: self._ready() >= goal)

    def _sleep(self, goal: int, end: float | None) -> None:
        while self._ready() < goal:
            left = _LOOK_AGAIN if end is None else min(_LOOK_AGAIN, end - monotonic())
            if left <= 0:
                return
            for worker in self._ringing:
                worker.listen(True)
            if self._ready() < goal:
                self._crew.pump(left)
            for worker in self._ringing:
                worker.listen(False)

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

    def _unheard(self, item: int, state: bytes) -> bool:
        return state[item] == NEWS and item not in self._heard

    def _hear_all(self, state: bytes) -> None:
        for item in range(len(state)):
            if self._unheard(item, state):
                self._crew.hear(self._crew.slots[self.slot_of(item)])

    def _harvest(self) -> list[int]:
        state = self._state_bytes.tobytes()
        if state == self._all_ready and self._outstanding == len(state):
            self._log.served(None)
            self._waiting[:] = self._zeros
            self._state_bytes[:] = self._zeros
            self._outstanding = 0
            self._forget_rings()
            return list(self._members)
        done = [i for i in range(len(state)) if self._waiting[i] and state[i] and not self._unheard(i, state)]
        self._log.served([item for item in done if item not in self._heard])
        for item in done:
            self._waiting[item] = 0
            self._state_bytes[item] = IDLE
            self._tries.pop(item, None)
            if item in self._heard:
                self._take(item, self._heard.pop(item))
        self._outstanding -= len(done)
        if not self._outstanding:
            self._forget_rings()
        return [self._members[item] for item in done]

    def _forget_rings(self) -> None:
        self.rung.clear()
        self._ringing.clear()
        if self._alone:
            self._alone.clear()
        self._rounds += 1
        if self._rounds % _ROUNDS_PER_LOOK == 0:
            for member in self._members:
                self._crew.shorten(self._crew.members[member])

    def _take(self, item: int, result: Result) -> None:
        _, kind, payload, _, base = result
        member = self._members[item]
        if kind == ERROR:
            self._log.failed(item)
            self.errors[member] = as_error(payload)
            return
        self._log.served([item])
        answer = wire.unpack(payload)
        if answer is not None:
            self.extras[member] = answer
        if base is not None:
            self._crew.members[member].journal.start_anew(base, (self._log, item))

    # -- the crew's side ------------------------------------------------------------------------------

    def hear(self, item: int, result: Result) -> None:
        """Takes a message about an item in; a stale one is rebuilt and rung again."""
        member = self._crew.members[self._members[item]]
        slot = self._crew.slots[member.slot]
        shared = isinstance(result[2], SharedRandomness) and self._crew.shrinks
        if result[1] != STALE and not shared:
            self._heard[item] = result
            return
        self._state_bytes[item] = IDLE
        if shared:
            self._crew.aside.tainted.append(self._request([item]))
            return
        slot.queue.appendleft(self._request([item]))
        self._crew.aside.isolate(slot, [member])

    def slot_of(self, item: int) -> int:
        """Where an item's member lives."""
        return self._crew.members[self._members[item]].slot

    def lives_on(self, slot: Slot) -> bool:
        """Whether any of the port's members lives there."""
        return any(self._crew.members[member].slot == slot.number for member in self._members)

    def binding(self, slot: Slot) -> tuple[tuple[Any, ...], int | None]:
        """The message that binds this port on a worker, and the descriptor that goes with it."""
        rows = {m: (i, self._places[i]) for m, i in self._item.items() if self._on(slot, m)}
        if slot.worker.in_process:
            return ("bind", self._number, self._method, rows, self._arrays), None
        shared = self._shared if slot.worker.shares_memory else None
        return ("bind", self._number, self._method, rows, self._layout), shared.fd if shared else None

    def ringing(self, slot: Slot, request: Request) -> tuple[Any, ...]:
        """The message that asks a worker to serve this port."""
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
            place = self._places[item]
            for name, rows in outputs.items():
                self._arrays[name][place] = rows[place]
            self._asked_bytes[item] = 0
            self._state_bytes[item] = state[item]

    def lost(self, slot: Slot, dead: Any, victim: Request | None, verdict: Verdict) -> None:
        """A worker has died: whoever it had in hand is blamed, and given up after too many tries."""
        self._ringing = [worker for worker in self._ringing if worker.number != slot.number]
        self._close_answered(slot)
        pending = [item for item in self._pending(slot) if item not in self._heard]
        if victim is not None and victim.op == "ring" and victim.method == self._number and len(victim.items) == 1:
            suspects = list(victim.items)
        elif dead.shares_memory and victim is None:
            suspects = [item for item in pending if not self._asked_bytes[item]]  # begun and not finished
        else:
            suspects = []
        if pending and not suspects:
            self._alone.add(slot.number)
        for item in suspects:
            self._tries[item] = self._tries.get(item, 0) + 1
            if self._tries[item] >= self._crew.restarts:
                self._give_up(item, verdict(self._members[item], f"{self._method}()"))

    def _close_answered(self, slot: Slot) -> None:
        """What has been answered and not been fetched yet belongs to the past that is replayed."""
        for item, member in enumerate(self._members):
            if self._waiting[item] and self._state_bytes[item] and self._on(slot, member):
                if item in self._heard and self._heard[item][1] == ERROR:
                    self._log.failed(item)
                else:
                    self._log.served([item])

    def abandon(self, slot: Slot, error: BaseException) -> None:
        """There is no worker any more, and none can be had: whoever waits is told."""
        for item in self._pending(slot):
            self._give_up(item, error)

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
        return [
            item
            for item, member in enumerate(self._members)
            if self._waiting[item] and self._on(slot, member) and not self._state_bytes[item]
        ]

    def _give_up(self, item: int, error: BaseException) -> None:
        self._log.withdraw(item)
        self._asked_bytes[item] = 0
        self._heard[item] = (self._members[item], ERROR, error, 0, None)
        self._state_bytes[item] = NEWS

    def _on(self, slot: Slot, member: int) -> bool:
        return self._crew.members[member].slot == slot.number


def _places(members: Sequence[int], rows: Mapping[int, int] | None) -> list[Any]:
    """Where each item's rows are: a number for one row, a slice if the caller gives numbers of rows."""
    if rows is None:
        return list(range(len(members)))
    places, start = [], 0
    for member in members:
        places.append(slice(start, start + rows[member]))
        start += rows[member]
    return places


def _layout(inputs: Spec, outputs: Spec, places: list[Any]) -> dict[str, tuple[tuple[int, ...], str]]:
    taken = inputs.keys() & outputs.keys() | (inputs.keys() | outputs.keys()) & {"asked", "state"}
    if taken:
        raise BadInput(f"array names must differ, and not be 'asked' or 'state': {sorted(taken)}")
    last = places[-1] if places else -1
    rows = last.stop if isinstance(last, slice) else last + 1
    layout = {
        name: ((rows, *shape), np.dtype(dtype).str) for name, (shape, dtype) in (*inputs.items(), *outputs.items())
    }
    return {**layout, "asked": ((len(places),), "|u1"), "state": ((len(places),), "|u1")}
