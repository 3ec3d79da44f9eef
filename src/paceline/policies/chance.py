"""Chance: uniformly random actions over any action space."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from paceline.types import Seat


class Random:
    """Samples its seat's action space; the yardstick that every other policy must beat.

    Where an observation brings an `action_mask`, as is the custom of the field, only allowed actions are drawn.

    Args:
        seat: Whose actions to draw.
    """

    def __init__(self, seat: Seat) -> None:
        # A copy: the env's own space must not be seeded from here, nor drawn from.
        self._space = copy.deepcopy(seat.action_space)
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Begins an episode: the draws start anew."""
        self._space.seed(seed)

    def act(self, obs: Any) -> Any:
        """Draws an action."""
        mask = obs.get("action_mask") if isinstance(obs, Mapping) else None
        return self._space.sample() if mask is None else self._space.sample(mask=mask)

    def snapshot(self) -> Any:
        """The generator as it stands."""
        return copy.deepcopy(self._space)

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot."""
        self._space = copy.deepcopy(state)
