"""Treasure hunt: agents compete for gems; a gem that is taken comes back somewhere else.

An agent that walks onto a gem takes it: a reward of 1. At the end of the same step the gem lies on another free cell,
drawn from the env's own generator, so the number of gems never changes. To walk into a wall or an agent costs 0.05.

In simultaneous turns agents choose at the same time, and their moves are made one after another, in an order that the
env's own generator draws anew in every turn:

    two want the same cell      the first in the order gets it; the other is blocked
    two want to change places   both are blocked; so are more of them in a ring
    a cell that is being left   is free for those who come after its agent in the order, and blocks those before it

An agent that is blocked stays where it is, and pays. The order of the dict of actions does not matter. In ordered turns
(`turn="ordered"`) agents move in the order of their numbers, and each sees what those before it have done. Observations
are the planes `wall`, `gem` and `agent`; actions are to stay and to go north, south, west, east.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from paceline.worlds.board import whole
from paceline.worlds.grid.entities import Agent, Entity, Wall
from paceline.worlds.grid.game import Game
from paceline.worlds.grid.world import World
from paceline.worlds.picture import SAND, Scene, checkered

CELLS_PER_GEM = 11  # by default
BUMP = -0.05


class Gem(Entity):
    """Worth having: the agent that walks onto it takes it."""

    value = 1.0
    colour = (64, 190, 220)
    glyph = "*"


GEM = Gem.value


class Hunter(Agent):
    """Walks, and takes the gems that it walks onto."""

    def reset(self) -> None:
        """Begins an episode."""
        self.taken = False  # a gem, in this turn

    def act(self, world: World, action: int) -> float:
        """Moves; gives what that is worth."""
        if not self.walk(world, action):
            return BUMP if action else 0.0
        gem = world.find("gem", self.place)
        if gem is None:
            return 0.0
        world.empty("gem", self.place)
        self.taken = True
        self.counts["collected"] += 1
        return gem.value


class TreasureHunt(Game):
    """A competition for 1 to 64 agents.

    Args:
        agents: How many agents there are.
        steps: How long an episode is.
        size: Rows and columns inside the walls.
        gems: How many gems there are at any time; by default one per eleven cells, if there is room.
        view: How far an agent sees, in each direction; "map": everything.
        sees: "onehot", "rgb" or "ascii".
        turn: "simultaneous" or "ordered".
        render_mode: "rgb_array", "ansi" or None.

    Raises:
        BadInput: an option is out of its limits.
    """

    name = "treasure_hunt"
    kinds = (Wall, Gem, Hunter)
    counts = ("collected",)

    def __init__(
        self,
        agents: int = 4,
        steps: int = 50,
        size: int = 21,
        gems: int | None = None,
        view: int | str = 4,
        sees: str = "onehot",
        turn: str = "simultaneous",
        render_mode: str | None = None,
    ) -> None:
        agents = whole("agents", agents, 1, 64)
        size = whole("size", size, least_size(agents), 256)
        # Agents and gems never share a cell, so a gem that is taken always finds another one.
        most = size * size - agents
        self.gems = whole("gems", min(round(size * size / CELLS_PER_GEM), most) if gems is None else gems, 1, most)
        super().__init__(
            agents=agents,
            height=size,
            width=size,
            steps=steps,
            view=view,
            sees=sees,
            turn=turn,
            render_mode=render_mode,
        )

    def new_agent(self, number: int) -> Agent:
        """Makes a hunter."""
        return Hunter(number)

    def populate(self, rng: np.random.Generator) -> None:
        """Strews gems."""
        self.world.fill("gem", rng.choice(self.world.inside, self.gems, replace=False))

    def end_turn(self, rng: np.random.Generator) -> None:
        """Gems that were taken come back."""
        # A number per agent in every turn: what agents do must not shift the draws that follow.
        draws = rng.random(len(self.agents))
        takers = [hunter for hunter in cast(list[Hunter], self.agents) if hunter.taken]
        if not takers:
            return
        free, back = self.world.free().tolist(), []
        for hunter in takers:
            back.append(free.pop(int(draws[hunter.number] * len(free))))
            hunter.taken = False
        self.world.fill("gem", back)

    def scene(self) -> Scene:
        """Gems on sand."""
        world = self.world
        return Scene(checkered(world.height, world.width, SAND), {"gem": world.shape("gem")}, self.cells())


def least_size(agents: int) -> int:
    """The smallest grid of which agents fill no more than half."""
    return max(3, math.ceil(math.sqrt(2 * agents)))
