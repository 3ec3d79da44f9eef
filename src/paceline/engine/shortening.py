"""Journals, and the snapshots that keep them short."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from paceline.engine import wire
from paceline.engine.calls import Handle, Request, as_error
from paceline.engine.roster import Member
from paceline.engine.seat import ERROR, OK, Result

if TYPE_CHECKING:
    from paceline.engine.crew import Crew


class Shortening:
    """Writes the journals of a crew, and asks for snapshots when they have grown long."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    def journal_call(self, member: Member, request: Request, result: Result) -> None:
        """Takes an answered call into its member's journal."""
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
            due = member.snapshots and not member.snapshot_due and len(member.journal) >= self._crew.snapshot_every
            if due and not member.journal.open:
                member.snapshot_due = True
                by_slot.setdefault(member.slot, {})[member.index] = None
        for number, items in by_slot.items():
            self._crew.sending.submit(self._crew.slots[number], self.saving(items))

    def saving(self, items: dict[int, None], handle: Handle | None = None) -> Request:
        """The request that asks these members for snapshots."""
        return Request("snapshot", items, handle=handle, deadline=self._crew.limit)

    def saved(self, result: Result) -> None:
        """Takes a snapshot in; a member that cannot give one is rebuilt from its recipe."""
        index, kind, payload, _, base = result
        member = self._crew.members[index]
        member.snapshot_due = False
        if kind == OK:
            member.journal.start_anew(base)
        elif kind == ERROR:
            member.snapshots = False
            error = as_error(payload)
            if isinstance(error, NotImplementedError):  # it says itself that it has none
                return
            why = f"{type(error).__name__}: {wire.words(error)}"
            self._crew.note("unsaved", f"member {index} gave no snapshot and will not be asked again: {why}")
