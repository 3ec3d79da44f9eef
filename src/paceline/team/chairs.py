"""Chairs: the seats of an episode, each with who plays it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from paceline.team.players import Player
from paceline.types import Seat


@dataclass(frozen=True)
class Chair:
    """A seat of an episode, and who plays it.

    Attributes:
        name: What the team calls it.
        episode: Mission and index: what its random streams follow, with the agent.
        seat: The agent's place.
        player: Who plays it.
        most: The most seats that the player has in an episode of this mission, which its rows are counted by; 0: as
            many as in this one.
    """

    name: Hashable
    episode: tuple[str, int]
    seat: Seat
    player: Player
    most: int = 0

    def playing(self, episode: tuple[str, int]) -> Chair:
        """The same chair in another episode."""
        return replace(self, episode=episode)
