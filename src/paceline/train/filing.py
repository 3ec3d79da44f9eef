"""Filing: the rows of an epoch go to the rings of those that learn, and none is overwritten that may yet be read.

    an epoch's tape ── file ──► a Ring per agent ── window(agent) ──► the rows of its next update

A row is in use while an update under way reads it, and while a learner that died would be given it again. Where rings
are full, what is under way is waited for, and learners save themselves, before the oldest rows are overwritten, or all
that are kept go to larger memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.tape import Tape
from paceline.train.job import Job
from paceline.train.rings import Ring, Span

_ROOM = 4096  # rows of a ring at first, where it is not known how long an epoch can be


class Filing:
    """The rows of all agents that learn.

    Args:
        job: What is trained.
        free: Is called when rows are to be overwritten, or to go elsewhere: it must end what reads them, and call
            `forget` thereafter.
    """

    def __init__(self, job: Job, free: Callable[[], None]) -> None:
        self._job, self._free = job, free
        learning = [seat for recipe in job.recipes if recipe.learns for seat in recipe.seats]
        self.rings = {seat.agent: Ring(seat, self._room()) for seat in learning}
        """Agent → its rows."""
        self.since: dict[str, int] = dict.fromkeys(self.rings, 0)
        """Agent → the first row since its last update."""
        self._replayed: dict[str, int] = {}  # the first row that a replay of a learner would read

    @property
    def count(self) -> int:
        """How many rows there have been in all."""
        return sum(ring.count for ring in self.rings.values())

    def file(self, tape: Tape) -> None:
        """Files the rows of an epoch: world after world, each in the order of its turns."""
        for agent, ring in self.rings.items():
            tracks = [tape.tracks[world, agent].columns for world in range(self._job.worlds)]
            rows = sum(len(columns["rewards"]) for columns in tracks)
            if not ring.count:  # the mission need not have said how long an epoch is
                self._job.check_capacity(rows, [agent])
            self._make_room(agent, ring, rows)
            for columns in tracks:
                ring.extend(columns)

    def window(self, agent: str) -> Span:
        """The rows that an update of an agent would learn from."""
        return self.rings[agent].span(self._job.capacity, self.since[agent])

    def read(self, agent: str, span: Span) -> None:
        """An update of an agent reads these rows, and may read them again if its learner dies."""
        self.since[agent] = span.hi
        self._replayed.setdefault(agent, span.lo)

    def forget(self) -> None:
        """Learners have saved themselves: no update that is over can be run again."""
        self._replayed.clear()

    def _make_room(self, agent: str, ring: Ring, rows: int) -> None:
        """Sees to it that no row is overwritten, or moved, that an update, or the replay of one, still reads."""
        if self._overwrites(agent, ring, rows) and self._replayed:
            self._free()
        if self._overwrites(agent, ring, rows):
            ring.grow(max(2 * ring.room, ring.count - self._first_needed(agent, ring) + rows))

    def _overwrites(self, agent: str, ring: Ring, rows: int) -> bool:
        return ring.count + rows - self._first_needed(agent, ring) > ring.room

    def _first_needed(self, agent: str, ring: Ring) -> int:
        capacity = self._job.capacity
        kept = 0 if capacity is None else max(0, ring.count - capacity)
        return min(kept, self._replayed.get(agent, kept))

    def _room(self) -> int:
        job, rows = self._job, self._job.rows_per_epoch
        if rows is None:
            return _ROOM
        if job.capacity is None:
            return rows * job.timetable.epochs
        return min(rows * job.timetable.epochs, job.capacity + rows * (1 + job.timetable.epochs_behind()))

    # -- on disk and back --------------------------------------------------------------------------------------

    def save(self) -> dict[str, Any]:
        """The rows that are kept, and where each agent stands."""
        return {
            "since": dict(self.since),
            "rings": {agent: ring.save(self._job.capacity) for agent, ring in self.rings.items()},
        }

    def load(self, state: dict[str, Any]) -> None:
        """Goes on from what `save` gave."""
        self.since = dict(state["since"])
        for agent, ring in self.rings.items():
            ring.load(state["rings"][agent])
