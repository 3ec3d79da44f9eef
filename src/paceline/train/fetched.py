"""Rows of rings as a learner on another machine has them: copies, each fetched once, before the first that reads it.

    Span ──► what of it is not here yet ── SharedArrays.fetch ──► the ring's arrays, whole within the span

A row keeps its number and is never changed, until the one that takes its place a ring's length later. So what is here
is two runs of numbers: of rows, and of ends. Where the ring itself is mapped, there is nothing to fetch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from paceline.engine import SharedArrays
from paceline.spaces import Array
from paceline.train.rings import Span, is_of_ends


class Fetched:
    """What a bank's learners read, by agent."""

    def __init__(self) -> None:
        self._copies: dict[str, _Copy] = {}

    def arrays(self, agent: str, shared: SharedArrays, span: Span) -> Mapping[str, Array]:
        """The arrays of an agent's ring, in which the rows of the span can be read."""
        if shared.mapped:
            return shared.arrays
        copy = self._copies.get(agent)
        if copy is None or copy.shared is not shared:  # the ring has grown, or the learner is a new one
            copy = self._copies[agent] = _Copy(shared)
        return copy.arrays(span)


@dataclass
class _Run:
    """Numbers lo … hi of what is here."""

    lo: int = 0
    hi: int = 0

    def missing(self, lo: int, hi: int) -> tuple[int, int]:
        """What of lo … hi is not here: its end, or all."""
        return (max(lo, self.hi), hi) if self.lo <= lo <= self.hi else (lo, hi)

    def add(self, lo: int, hi: int) -> None:
        """lo … hi are here now. What they took the places of is gone in the ring, too, and no span begins there."""
        if lo != self.hi:
            self.lo = lo
        self.hi = hi


@dataclass
class _Copy:
    shared: SharedArrays
    rows: _Run = field(default_factory=_Run)
    ends: _Run = field(default_factory=_Run)

    def arrays(self, span: Span) -> Mapping[str, Array]:
        room = self.shared.layout["rewards"][0][0]
        rows, ends = self.rows.missing(span.lo, span.hi), self.ends.missing(span.first_end, span.ends)
        parts = {False: places(*rows, room), True: places(*ends, room)}
        if any(parts.values()):
            self.shared.fetch({name: parts[is_of_ends(name)] for name in self.shared.layout})
            for run, missing in ((self.rows, rows), (self.ends, ends)):
                if missing[0] < missing[1]:
                    run.add(*missing)
        return self.shared.arrays


def places(lo: int, hi: int, room: int) -> list[tuple[int, int]]:
    """Where rows lo … hi lie: in one piece, or in two around the seam."""
    if lo >= hi:
        return []
    start, stop = lo % room, lo % room + hi - lo
    return [(start, stop)] if stop <= room else [(start, room), (0, stop - room)]
