"""Journals, and the snapshots that keep them short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from paceline.engine.host.member import ERROR, OK, Result
from paceline.engine.supervisor.handle import Handle, Request, as_error
from paceline.engine.supervisor.roster import Member, Slot
from paceline.engine.transport import codec

if TYPE_CHECKING:
    from paceline.engine.supervisor.supervisor import Crew


ROUNDS_PER_LOOK = 128
"""How often, in rounds of a port, journals are looked at: are they long enough for a snapshot?"""

SECONDS_PER_LOOK = 0.05
"""How often, in seconds, they are looked at where rounds take long."""

_FIRST = 0.5  # seconds before the first snapshot that has to keep to a share of the time
_REPLAY = 1.0  # seconds of a worker's work that may have to be run again
_SHARE = 0.01  # of the time that snapshots for the sake of time may take, unless the caller says otherwise
_AFTER_DEATH = 10  # after a death a tenth of that replay, and ten times that share: the next death is likely to be near
_NEAR = 60.0  # seconds
_MOST = 0.5  # the share that is never exceeded
_MESSAGE = 2e-4  # seconds that asking one worker takes
_BYTES_PER_SECOND = 1e9  # of a snapshot that is sent


class Shortening:
    """Writes the journals of a crew, and asks for snapshots when a replay would take long, or journals are long.

    The replay of a worker takes about as long as its members have run since their journals begin. Calls are timed when
    their answers come in, rounds of a port when they are over (round_clock.py). What a snapshot takes is measured by
    the worker that takes it: main may have had other things to do before it looked at the answer.
    """

    def __init__(self, crew: Crew, share: float | None) -> None:
        self._crew = crew
        self._share = share  # of the time that snapshots may take
        self._due = 0  # snapshots that have been asked for and have not come
        self._over = perf_counter() + _FIRST  # when the last had come
        self._each: float | None = None  # seconds that the snapshot of one member takes
        self._slow: set[int] = set()  # slots whose replay may have become long
        self._next_look = 0.0  # when those are looked at again
        self._death_is_near_until = 0.0

    def worker_died(self) -> None:
        """Has snapshots taken more often for a while."""
        self._death_is_near_until = perf_counter() + _NEAR

    @property
    def _haste(self) -> int:
        return _AFTER_DEATH if perf_counter() < self._death_is_near_until else 1

    def add_cost(self, slot: Slot, members: Sequence[Member], seconds: float) -> None:
        """Adds what these members of a slot took together for calls or rows that are in their journals now."""
        slot.replay += seconds
        if slot.replay >= _REPLAY / _AFTER_DEATH:
            self._slow.add(slot.number)
        for member in members:
            member.journal.seconds += seconds / len(members)

    def journal_call(self, member: Member, request: Request, result: Result) -> None:
        """Takes an answered call into its member's journal."""
        index, kind, payload, check, base = result
        packed = request.items[index]
        if member.deterministic:
            member.journal.add(("call", request.method, packed, payload if check is None else check), base)
        elif kind == OK:
            member.journal.add(("told", request.method, packed, codec.settle(payload)), base)

    def shorten(self, members: Iterable[Member]) -> None:
        """Asks for the snapshots that are due: of these members, if their journals have grown long, and of workers
        whose replay would take long. One message per worker."""
        every = self._crew.snapshot_every
        long = [m for m in members if m.snapshots and not m.snapshot_due and len(m.journal) >= every]
        if long:
            able = [member for member in long if not member.journal.open]
            self._ask(able if self._share is None else self._affordable(able))
        if self._slow and perf_counter() >= self._next_look:
            self._next_look = perf_counter() + SECONDS_PER_LOOK
            self._ask(self._affordable(self._slow_members()))

    def _slow_members(self) -> list[Member]:
        """Members that can be saved now, of workers whose replay would take long."""
        able: dict[int, list[Member]] = {number: [] for number in self._slow if number in self._crew.slots}
        self._slow.clear()  # what is slow and not saved now is back with the next cost
        for member in self._crew.members:
            if member.slot in able and member.snapshots and member.deterministic:  # else nothing is run again
                able[member.slot].append(member)
        slow: list[Member] = []
        for number, mine in able.items():
            replay = self._crew.slots[number].replay = sum(member.journal.seconds for member in mine)
            if replay >= _REPLAY / self._haste:
                slow += [m for m in mine if len(m.journal) and not m.snapshot_due and not m.journal.open]
        return slow

    def _affordable(self, members: list[Member]) -> list[Member]:
        """Those that may be asked now: all, if they stay within their share of the time since the last were saved, or
        none. The first of them alone, as long as it is not known what one takes."""
        waited = perf_counter() - self._over
        if not members or self._due or waited < 0:
            return []
        if self._each is None:
            return members[:1]
        by_slot = Counter(member.slot for member in members)
        takes = self._each * max(by_slot.values()) + _MESSAGE * len(by_slot)
        return members if takes <= waited * min(_MOST, (self._share or _SHARE) * self._haste) else []

    def _ask(self, members: list[Member]) -> None:
        self._due += len(members)
        by_slot: dict[int, dict[int, None]] = {}
        for member in members:
            member.snapshot_due = True
            by_slot.setdefault(member.slot, {})[member.index] = None
        for number, items in by_slot.items():
            self._crew.sending.submit(self._crew.slots[number], self.saving(items))

    def saving(self, items: dict[int, None], handle: Handle | None = None) -> Request:
        """The request that asks these members for snapshots."""
        return Request("snapshot", items, handle=handle, deadline=self._crew.limit)

    def saved(self, result: Result) -> None:
        """Takes a snapshot in; a member that cannot give one is rebuilt from its recipe."""
        index, kind, payload, nanoseconds, base = result
        member = self._crew.members[index]
        self.came(index)
        if kind == OK:
            size = 0 if base is None or base[0] is None else codec.size(base[0])
            takes = (nanoseconds or 0) * 1e-9 + size / _BYTES_PER_SECOND
            self._each = takes if self._each is None else 0.75 * self._each + 0.25 * takes
            member.journal.start_anew(base)
        elif kind == ERROR:
            member.snapshots = False
            error = as_error(payload)
            if isinstance(error, NotImplementedError):  # it says itself that it has none
                return
            why = f"{type(error).__name__}: {codec.words(error)}"
            self._crew.note("unsaved", f"member {index} gave no snapshot and will not be asked again: {why}")

    def came(self, index: int) -> None:
        """Notes that a member's snapshot is not waited for any more: it is there, or there will be none."""
        member = self._crew.members[index]
        if member.snapshot_due:
            member.snapshot_due = False
            self._due -= 1
            if not self._due:
                self._over = perf_counter()
