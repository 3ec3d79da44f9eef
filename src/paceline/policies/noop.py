"""Noop: does nothing, in every world that says how."""

from __future__ import annotations

from typing import Any

from paceline.errors import BadInput
from paceline.types import Seat


class Noop:
    """Answers with the action that does nothing: the yardstick for worlds in which doing something may harm.

    Args:
        seat: Whose actions to take.

    Raises:
        BadInput: the seat's action space has no `noop`.
    """

    def __init__(self, seat: Seat) -> None:
        self._noop = getattr(seat.action_space, "noop", None)
        if self._noop is None:
            raise BadInput(
                f"noop cannot play {seat.mission!r}: {seat.action_space} does not say which action does nothing "
                "(an attribute `noop`)"
            )

    def reset(self, seed: int) -> None:
        """Begins an episode: nothing to do."""

    def act(self, obs: Any) -> Any:
        """Does nothing."""
        return self._noop

    def snapshot(self) -> None:
        """It has no state."""

    def restore(self, state: None) -> None:
        """Goes on from a snapshot: nothing to do."""
