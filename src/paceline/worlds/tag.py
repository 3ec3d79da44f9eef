"""Tag: some agents are it, and chase the others; an agent that is tagged is it from then on.

An agent that is it and walks into one that is not tags it: a reward of 1 for the one, -1 for the other. The other is it
then, and must stand still for some turns, so that all can run away. To be it is all that changes hands: as many are it
at the end as at the beginning. Infos count for each agent how often it has `tagged` others, how often it was `caught`,
and in how many turns it `was_it`. Observations are the planes `wall`, `it` and `agent`; in its own cell of the plane
`it` an agent sees whether it is it. Actions are to stay and to go north, south, west, east.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

import numpy as np

from paceline.worlds.board import whole
from paceline.worlds.grid.entities import Agent, Entity, Wall
from paceline.worlds.grid.game import Game
from paceline.worlds.grid.world import World
from paceline.worlds.picture import SAND, Scene, checkered

ROCKS = 0.3  # of the places where a rock may be


class It(Entity):
    """The mark of an agent that is it."""

    layer = 10
    colour = (214, 58, 54)
    glyph = "!"


class Player(Agent):
    """Walks; if it is it, tags those that it walks into."""

    rest: int
    """How many turns an agent must stand still that has been tagged."""

    def reset(self) -> None:
        """Begins an episode."""
        self.is_it = False
        self.waits = 0  # for how many turns it must stand still

    def can_act(self) -> bool:
        """Not while it must stand still."""
        return not self.waits

    def act(self, world: World, action: int) -> float:
        """Moves; gives what that is worth."""
        before = self.place
        if self.walk(world, action):
            if self.is_it:
                world.empty("it", before)
                world.fill("it", self.place)
            return 0.0
        other = world.find("agent", before + world.moves[action]) if self.is_it and action else None
        return self._tag(world, cast(Player, other)) if other is not None else 0.0

    def _tag(self, world: World, other: Player) -> float:
        if other.is_it:
            return 0.0
        self.is_it, other.is_it = False, True
        world.empty("it", self.place)
        world.fill("it", other.place)
        other.waits = other.rest + 1  # the turn in which it is tagged is one
        other.earn(world, -1.0)
        self.counts["tagged"] += 1
        other.counts["caught"] += 1
        return 1.0


class Tag(Game):
    """A chase for 2 to 64 agents.

    Args:
        agents: How many agents there are.
        steps: How long an episode is.
        size: Rows and columns; by default the grid grows with the agents.
        its: How many agents are it; by default one in four, and at least one.
        rest: How many turns an agent must stand still that has been tagged.
        view: How far an agent sees, in each direction; "map": everything.
        sees: "onehot", "rgb" or "ascii".
        turn: "simultaneous" or "ordered".
        render_mode: "rgb_array", "ansi" or None.

    Raises:
        BadInput: an option is out of its limits.
    """

    name = "tag"
    kinds = (Wall, It, Player)
    counts = ("tagged", "caught", "was_it")

    def __init__(
        self,
        agents: int = 5,
        steps: int = 100,
        size: int | None = None,
        its: int | None = None,
        rest: int = 4,
        view: int | str = 5,
        sees: str = "onehot",
        turn: str = "simultaneous",
        render_mode: str | None = None,
    ) -> None:
        agents = whole("agents", agents, 2, 64)
        least = max(4, math.ceil(math.sqrt(2 * agents)))
        size = whole("size", max(10, math.ceil(math.sqrt(20 * agents))) if size is None else size, least, 256)
        self.its = whole("its", max(1, agents // 4) if its is None else its, 1, agents - 1)
        self.rest = whole("rest", rest, 0, 1_000_000)
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
        """Makes a player."""
        player = Player(number)
        player.rest = self.rest
        return player

    def populate(self, rng: np.random.Generator) -> None:
        """Strews rocks."""
        places = self.world.lattice()
        self.world.fill("wall", places[rng.random(len(places)) < ROCKS])

    def begin(self, rng: np.random.Generator) -> None:
        """Draws who is it."""
        for number in rng.choice(len(self.agents), self.its, replace=False).tolist():
            player = cast(Player, self.agents[number])
            player.is_it = True
            self.world.fill("it", player.place)

    def end_turn(self, rng: np.random.Generator) -> None:
        """Counts who is it, and how long those must still wait who were tagged."""
        for player in cast(list[Player], self.agents):
            player.counts["was_it"] += player.is_it
            player.waits = max(0, player.waits - 1)

    def measures(self) -> Mapping[str, float]:
        """How the chase goes.

        Returns:
            tags: How often an agent was tagged.
            longest_it: The most turns that one agent was it.
        """
        return {
            "tags": sum(agent.counts["tagged"] for agent in self.agents),
            "longest_it": max(agent.counts["was_it"] for agent in self.agents),
        }

    def scene(self) -> Scene:
        """Rocks on sand; those who are it stand on red."""
        world = self.world
        things = {"mark": world.shape("it"), "rock": world.shape("wall")}
        return Scene(checkered(world.height, world.width, SAND), things, self.cells())
