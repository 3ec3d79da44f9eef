"""Treasure hunt: agents compete for gems; a gem that is taken comes back somewhere else.

An agent that walks onto a gem takes it: a reward of 1. At the end of the same step the gem lies on another free cell,
drawn from the env's own generator, so the number of gems never changes. To walk into a wall or an agent costs 0.05.

Agents choose at the same time, and their moves are made one after another, in an order that the env's own generator
draws anew in every step:

    two want the same cell      the first in the order gets it; the other is blocked
    two want to change places   both are blocked; so are more of them in a ring
    a cell that is being left   is free for those who come after its agent in the order, and blocks those before it

An agent that is blocked stays where it is, and pays. The order of the dict of actions does not matter. Observations are
the planes `wall`, `gem` and `agent`; actions are to stay and to go north, south, west, east.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from paceline.worlds.arena import Arena
from paceline.worlds.board import MODES, whole
from paceline.worlds.picture import SAND, Scene, checkered

PLANES = ("wall", "gem", "agent")
CELLS_PER_GEM = 11  # by default
GEM = 1.0
BUMP = -0.05


class TreasureHunt(Arena):
    """A competition for 1 to 64 agents.

    Args:
        agents: How many agents there are.
        steps: How long an episode is.
        size: Rows and columns inside the walls.
        gems: How many gems there are at any time; by default one per eleven cells, if there is room.
        view: How far an agent sees, in each direction.
        render_mode: "rgb_array", "ansi" or None.

    Raises:
        BadInput: an option is out of its limits.
    """

    metadata: ClassVar[dict[str, Any]] = {**MODES, "name": "treasure_hunt"}

    def __init__(
        self,
        agents: int = 4,
        steps: int = 50,
        size: int = 21,
        gems: int | None = None,
        view: int = 4,
        render_mode: str | None = None,
    ) -> None:
        agents = whole("agents", agents, 1, 64)
        size = whole("size", size, least_size(agents), 256)
        # Agents and gems never share a cell, so a gem that is taken always finds another one.
        most = size * size - agents
        self.gems = whole("gems", min(round(size * size / CELLS_PER_GEM), most) if gems is None else gems, 1, most)
        self._taken: list[int] = []  # who has taken a gem in this step
        super().__init__(
            PLANES,
            5,
            ("collected",),
            agents=agents,
            height=size,
            width=size,
            steps=steps,
            render_mode=render_mode,
            reach=whole("view", view, 1, 16),
        )

    def _lay_out(self, rng: np.random.Generator) -> None:
        self.board["gem"][rng.choice(self.board.inside, self.gems, replace=False)] = 1

    def _act(self, turns: Sequence[int], choices: Sequence[int], rewards: list[float]) -> None:
        self._move(turns, choices)
        for who, moved in enumerate(self._moved):
            if choices[who] and not moved:
                rewards[who] = BUMP
        self._taken = self.board["gem"][self.spots].nonzero()[0].tolist()
        for who in self._taken:
            rewards[who] = GEM
            self.counts["collected"][who] += 1

    def _go_on(self, rng: np.random.Generator) -> None:
        # A number per agent in every step: what agents do must not shift the draws that follow.
        draws = rng.random(len(self.spots))
        if not self._taken:
            return
        gem = self.board["gem"]
        gem[self.spots] = 0
        free = self.board.free().tolist()
        for who in self._taken:
            gem[free.pop(int(draws[who] * len(free)))] = 1

    def _scene(self) -> Scene:
        board = self.board
        ground = checkered(board.height, board.width, SAND)
        return Scene(ground, {"gem": board.shape("gem")}, [board.cell(spot) for spot in self.spots])


def least_size(agents: int) -> int:
    """The smallest grid of which agents fill no more than half."""
    return max(3, math.ceil(math.sqrt(2 * agents)))
