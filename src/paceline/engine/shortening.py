"""Journals, and the snapshots that keep them short."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import TYPE_CHECKING

from paceline.engine import wire
from paceline.engine.calls import Handle, Request, as_error
from paceline.engine.roster import Member
from paceline.engine.seat import ERROR, OK, Result

if TYPE_CHECKING:
    from paceline.engine.crew import Crew


ROUNDS_PER_LOOK = 128
"""How often, in rounds of a port, journals are looked at: are they long enough for a snapshot?"""

_FIRST = (
    2.0  # seconds before the first snapshot, if they may take only so much of the time: that long a rebuild may take
)


class Shortening:
    """Writes the journals of a crew, and asks for snapshots when they have grown long."""

    def __init__(self, crew: Crew, share: float | None) -> None:
        self._crew = crew
        self._share = share  # of the time that snapshots may take
        self._asked, self._due = 0.0, 0  # when the last were asked for, and how many have not come
        self._rests_until = 0.0 if share is None else perf_counter() + _FIRST

    def journal_call(self, member: Member, request: Request, result: Result) -> None:
        """Takes an answered call into its member's journal."""
        index, kind, payload, check, base = result
        packed = request.items[index]
        if member.deterministic:
            member.journal.add(("call", request.method, packed, payload if check is None else check), base)
        elif kind == OK:
            member.journal.add(("told", request.method, packed, wire.settle(payload)), base)

    def shorten(self, members: Iterable[Member]) -> None:
        """Asks those whose journals have grown long for snapshots, if they can give them: one message per worker."""
        every = self._crew.snapshot_every
        long = [m for m in members if m.snapshots and not m.snapshot_due and len(m.journal) >= every]
        if long and self._may():
            self._ask([member for member in long if not member.journal.open])

    def _ask(self, members: list[Member]) -> None:
        if not self._due:
            self._asked = perf_counter()
        self._due += len(members)
        by_slot: dict[int, dict[int, None]] = {}
        for member in members:
            member.snapshot_due = True
            by_slot.setdefault(member.slot, {})[member.index] = None
        for number, items in by_slot.items():
            self._crew.sending.submit(self._crew.slots[number], self.saving(items))

    def _may(self) -> bool:
        """Whether it is time again: what a rebuild would take is never more than what has passed since the last."""
        return self._share is None or (perf_counter() >= self._rests_until and not self._due)

    def saving(self, items: dict[int, None], handle: Handle | None = None) -> Request:
        """The request that asks these members for snapshots."""
        return Request("snapshot", items, handle=handle, deadline=self._crew.limit)

    def saved(self, result: Result) -> None:
        """Takes a snapshot in; a member that cannot give one is rebuilt from its recipe."""
        index, kind, payload, _, base = result
        member = self._crew.members[index]
        self._due -= member.snapshot_due
        member.snapshot_due = False
        if self._share is not None and not self._due:
            now = perf_counter()
            self._rests_until = now + (now - self._asked) / self._share
        if kind == OK:
            member.journal.start_anew(base)
        elif kind == ERROR:
            member.snapshots = False
            error = as_error(payload)
            if isinstance(error, NotImplementedError):  # it says itself that it has none
                return
            why = f"{type(error).__name__}: {wire.words(error)}"
            self._crew.note("unsaved", f"member {index} gave no snapshot and will not be asked again: {why}")
