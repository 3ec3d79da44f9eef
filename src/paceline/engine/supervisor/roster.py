"""Who is in a pool: its members, and the slots that its workers sit in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from paceline.engine.host.tables import Told
from paceline.engine.journal.journal import Journal
from paceline.engine.supervisor.handle import Handle, Request
from paceline.engine.transport import codec
from paceline.engine.workers.base import Backend
from paceline.errors import WorkerLost
from paceline.seeds import Key

HERE = -1
"""The worker that is the caller's own process."""


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
        self.journal = Journal(deterministic)
        self.slot = HERE
        self.isolated = not deterministic  # it cannot be asked again, so it must never turn out to be stale
        self.snapshots = False
        self.recalls = False
        self.stood = ""  # where it said that it stands when it was rebuilt
        self.snapshot_due = False
        self.build_tries = 0
        self.leaving = False  # it has been told to leave its slot, and is not to be built there again
        self.stands = False  # it has been built, and was so when last heard of
        self.awaited: Handle | None = None  # who waits for it to be built
        self.lost: WorkerLost | None = None  # its worker dies whenever it is built
        self._packed: codec.Packed | None = None

    @property
    def portable(self) -> bool:
        """Whether it can be rebuilt elsewhere as it is."""
        return self.deterministic or self.snapshots or self.recalls or not len(self.journal)

    def recipe(self, in_process: bool) -> Any:
        """The factory itself where nothing travels, else packed, once."""
        if in_process:
            return self.factory
        if self._packed is None:
            self._packed = codec.settle(codec.pack(self.factory))
        return self._packed


class Slot:
    """A worker's place in the crew; the worker in it may be replaced."""

    def __init__(self, number: int, backend: Backend) -> None:
        self.number = number
        self.backend = backend
        self.worker: Any = None
        self.queue: deque[Request] = deque()
        self.inflight: deque[Request] = deque()
        self.defined: set[int] = set()  # the functions of maps that the worker has been told
        self.told: Told = ()  # what the worker has been told before anything was built there
        self.redo: list[Request] | None = None  # stale calls, to be made again once everything sent has come back
        self.careful = False  # answers may be lost with a worker: one request at a time, so that it is known who kills
        self.builds_alone = False  # somebody's constructor or replay kills: build one by one
        self.replay = 0.0  # seconds that it took to run what a new worker would have to run again; or more
        self.overdue: float | None = None  # the deadline for which the worker was killed
        self.suspect = False  # we were interrupted in the middle of its traffic: what it knows and we know may differ
        self.doing = ""  # what is made here without a message, as long as it is not in the journals
        self.unkeepable = False  # under auto: its members go to a neighbour instead of a new worker
        self.orphaned = False  # its worker could not be replaced: whoever asks next tries again

    @property
    def busy(self) -> bool:
        """Whether something is under way here."""
        return bool(self.inflight or self.queue or self.redo)
