"""A member's own streams of the process-wide generators, for jobs that write members to disk and go on from there.

A snapshot that a pool takes has them with it. What a member gives of itself in a call has not, so it asks here.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from paceline.engine.generators import GENERATORS
from paceline.engine.isolation import SWAPPED_IN


class OwnStreams:
    """A member whose streams can be saved and put back."""

    def streams(self) -> dict[str, Any] | None:
        """Where its streams stand, to be called as a read; None: it has never drawn."""
        return SWAPPED_IN[-1].drawn() if SWAPPED_IN else None

    def take_streams(self, states: Mapping[str, Any]) -> None:
        """Goes on with streams from where `streams` found them."""
        for name in states:
            import_module(name)  # a generator that is not there yet has no state to be set
        GENERATORS.load(states)
