"""Owned streams: several owners in one process, each with the process-wide generators to itself while it has them.

    owner a ── switch ──► owner b ── switch ──► … ── switch(None) ──► the caller's own streams, as they were

For jobs that run objects where they are, because they belong to the caller and cannot be members of a pool: a member is
built where it lives. An owner's streams follow from its key and from what the caller has seeded.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.randomness.generators import GENERATORS
from paceline.engine.randomness.isolation import fresh_streams
from paceline.errors import SharedRandomness
from paceline.seeds import Key


def seeds_from_caller() -> dict[str, int]:
    """Draws a seed from each process-wide generator: what follows from them follows from what the caller has seeded.

    One for each, so that streams of the one generator that a caller has seeded do not depend on the others.
    """
    seeds = {"random": random.getrandbits(63), "numpy.random": int(np.random.randint(0, 2**63 - 1, dtype=np.int64))}
    torch = sys.modules.get("torch")
    return seeds if torch is None else {**seeds, "torch": int(torch.randint(0, 2**63 - 1, (1,)))}


class OwnedStreams:
    """Streams of the process-wide generators, by owner.

    Args:
        seeds: Generator → root of its streams, as `seeds_from_caller` gives them.
    """

    def __init__(self, seeds: Mapping[str, int]) -> None:
        self._seeds = dict(seeds)
        self._states: dict[Key, dict[str, Any]] = {}
        self._drawn: set[Key] = set()
        self._owner: Key | None = None
        self._outside: dict[str, object] = {}
        self._peek: tuple[object, ...] = ()
        self._still: tuple[object, ...] = ()

    @contextmanager
    def of(self, owner: Key) -> Iterator[None]:
        """Gives the generators to an owner, and back to the one that had them."""
        before = self.switch(owner)
        try:
            yield
        finally:
            self.switch(before)

    def switch(self, owner: Key | None) -> Key | None:
        """Gives the generators to an owner; None: to the caller, as they were. Returns the owner before it.

        Raises:
            SharedRandomness: an owner has drawn that was to hold still.
        """
        before = self._owner
        if owner == before:
            return before
        if self._still:
            self._vouch(before)
            self._owner = owner
            return before
        with UNINTERRUPTED:
            self._keep()
            self._owner = owner
            GENERATORS.restore(self._outside if owner is None else self._begun(owner))
            self._peek = GENERATORS.peek()
        return before

    def states(self, owner: Key) -> dict[str, Any]:
        """Where the streams of an owner stand."""
        if owner == self._owner and not self._still:
            self._keep()
        return self._begun(owner)

    def put(self, owner: Key, states: Mapping[str, Any]) -> None:
        """Has an owner go on from elsewhere."""
        self._states[owner] = dict(states)
        if owner == self._owner and not self._still:
            with UNINTERRUPTED:
                GENERATORS.load(states)
                self._peek = GENERATORS.peek()

    def have_drawn(self) -> set[Key]:
        """The owners that have ever drawn."""
        if self._owner is not None and not self._still:
            self._keep()
        return set(self._drawn)

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """What threads draw meanwhile leaves no trace: the generators stand where they stood, whoever has them.

        Owners that hold still are not shielded, because there it is an error.
        """
        if self._still:
            yield
            return
        before, peek = GENERATORS.save(), GENERATORS.peek()
        try:
            yield
        finally:
            if not self._still and GENERATORS.touched(peek):
                with UNINTERRUPTED:
                    GENERATORS.restore(before)
                    self._peek = GENERATORS.peek()

    def hold_still(self, still: bool) -> None:
        """From now on owners share the generators, because none of them draws: for work beside threads. Or no longer.

        No owner may have the generators when it is said.
        """
        self._still = GENERATORS.peek() if still else ()

    def _begun(self, owner: Key) -> dict[str, Any]:
        """The states of an owner; torch may have been imported since they were made."""
        mine = self._states.setdefault(owner, {})
        if len(mine) < len(GENERATORS.known()):
            self._states[owner] = mine = {**fresh_streams(self._seeds, owner), **mine}
        return dict(mine)

    def _keep(self) -> None:
        """Notes where the streams of the present owner stand."""
        if self._owner is None:
            self._outside = GENERATORS.save()
        elif GENERATORS.touched(self._peek):
            self._states[self._owner] = GENERATORS.save()
            self._drawn.add(self._owner)
            self._peek = GENERATORS.peek()

    def _vouch(self, owner: Key | None) -> None:
        if GENERATORS.touched(self._still):
            raise SharedRandomness(
                f"a process-wide random generator was drawn from while {owner!r} ran beside threads, and had not been "
                "before: such draws cannot be told apart. Use processes"
            )
