"""Stag hunt: hares for each alone, or a stag together; an agent that waits for a partner may wait in vain.

An agent that walks onto a hare takes it: a reward of 1. A stag is caught at the end of a turn in which enough agents
stand beside it (north, south, west or east of it): a reward of 5 for each of them. What is caught comes back somewhere
else. Stags wander; they stand still while an agent is beside them, and block the way. Infos count for each agent:

    stags       caught together with others
    hares       taken
    waited      turns that it has ended beside a stag that was not caught
    abandoned   how often it has left such a stag

Observations are the planes `wall`, `stag`, `hare` and `agent`; actions are to stay and to go north, south, west, east.
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
from paceline.worlds.picture import MEADOW, Scene, checkered

CELLS_PER_STAG, CELLS_PER_HARE = 72, 24  # by default
WANDER = 0.3  # how likely a stag is to take a step, in a turn


class Hare(Entity):
    """Worth something to one agent: the one that walks onto it."""

    value = 1.0
    colour = (186, 140, 96)
    glyph = "h"


class Stag(Entity):
    """Worth more, to several agents: those that stand beside it."""

    layer = 9
    value = 5.0
    passable = False
    has_transitions = True
    colour = (120, 70, 40)
    glyph = "S"

    def transition(self, world: World) -> None:
        """Takes a step, or none; none while an agent is beside it."""
        roll = world.rng.random() / WANDER  # drawn in any case: what agents do must not shift the draws that follow
        if roll < 1 and not hunters_beside(self, world):
            world.move(self, self.place + world.moves[1 + int(4 * roll)])


class Huntsman(Agent):
    """Walks, and takes the hares that it walks onto."""

    def reset(self) -> None:
        """Begins an episode."""
        self.took = False  # a hare, in this turn
        self.waits_for: list[Stag] = []

    def act(self, world: World, action: int) -> float:
        """Moves; gives what that is worth."""
        hare = world.find("hare", self.place) if self.walk(world, action) else None
        if hare is None:
            return 0.0
        world.empty("hare", self.place)
        self.took = True
        self.counts["hares"] += 1
        return hare.value


def hunters_beside(stag: Stag, world: World) -> list[Huntsman]:
    """The agents beside a stag."""
    found = (world.find("agent", stag.place + move) for move in world.moves[1:])
    return [cast(Huntsman, agent) for agent in found if agent is not None]


class StagHunt(Game):
    """A game of trust for 2 to 64 agents.

    Args:
        agents: How many agents there are.
        steps: How long an episode is.
        size: Rows and columns; by default the grid grows with the agents.
        stags: How many stags there are at any time; by default one per 72 cells.
        hares: How many hares there are at any time; by default one per 24 cells.
        hunters: How many agents it takes to catch a stag.
        view: How far an agent sees, in each direction; "map": everything.
        sees: "onehot", "rgb" or "ascii".
        turn: "simultaneous" or "ordered".
        render_mode: "rgb_array", "ansi" or None.

    Raises:
        BadInput: an option is out of its limits.
    """

    name = "stag_hunt"
    kinds = (Wall, Stag, Hare, Huntsman)
    counts = ("stags", "hares", "waited", "abandoned")

    def __init__(
        self,
        agents: int = 4,
        steps: int = 100,
        size: int | None = None,
        stags: int | None = None,
        hares: int | None = None,
        hunters: int = 2,
        view: int | str = 4,
        sees: str = "onehot",
        turn: str = "simultaneous",
        render_mode: str | None = None,
    ) -> None:
        agents = whole("agents", agents, 2, 64)
        least = max(4, math.ceil(math.sqrt(4 * agents)))
        size = whole("size", max(12, math.ceil(math.sqrt(36 * agents))) if size is None else size, least, 256)
        cells = size * size
        # With half of the cells for agents, stags and hares there is always another place for what was caught.
        most = cells // 2 - agents
        self.stags = whole("stags", max(1, cells // CELLS_PER_STAG) if stags is None else stags, 1, most // 2)
        self.hares = whole("hares", max(1, cells // CELLS_PER_HARE) if hares is None else hares, 0, most // 2)
        self.hunters = whole("hunters", hunters, 1, min(4, agents))
        self._caught: list[int] = []  # for each stag that was caught: by how many
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
        """Makes a huntsman."""
        return Huntsman(number)

    def populate(self, rng: np.random.Generator) -> None:
        """Lets stags and hares out."""
        self._caught = []
        places = rng.choice(self.world.inside, self.stags + self.hares, replace=False)
        for place in places[: self.stags].tolist():
            self.world.add(Stag(), place)
        self.world.fill("hare", places[self.stags :])

    def end_turn(self, rng: np.random.Generator) -> None:
        """Stags are caught, or waited for in vain; what was caught comes back."""
        # As many in every turn: what agents do must not shift the draws that follow.
        draws = rng.random(self.stags + len(self.agents)).tolist()
        huntsmen = cast(list[Huntsman], self.agents)
        caught = self._catch(huntsmen)
        taken = [agent for agent in huntsmen if agent.took]
        if not caught and not taken:
            return
        free = self.world.free().tolist()
        for stag, draw in zip(caught, draws, strict=False):
            self.world.remove(stag)
            self.world.add(stag, free.pop(int(draw * len(free))))
        for agent in taken:
            agent.took = False
            self.world.fill("hare", free.pop(int(draws[self.stags + agent.number] * len(free))))

    def _catch(self, huntsmen: list[Huntsman]) -> list[Stag]:
        """Rewards those who have caught a stag, and counts who waits. Returns the stags that were caught."""
        caught, waits_for = [], {agent.number: list[Stag]() for agent in huntsmen}
        for stag in cast(list[Stag], self.world.movers()):
            beside = hunters_beside(stag, self.world)
            if len(beside) >= self.hunters:
                caught.append(stag)
                self._caught.append(len(beside))
            for agent in beside:
                if stag in caught:
                    agent.earn(self.world, stag.value)
                    agent.counts["stags"] += 1
                else:
                    waits_for[agent.number].append(stag)
        for agent in huntsmen:
            left = [stag for stag in agent.waits_for if stag not in waits_for[agent.number] and stag not in caught]
            agent.counts["abandoned"] += len(left)
            agent.waits_for = waits_for[agent.number]
            agent.counts["waited"] += bool(agent.waits_for)
        return caught

    def measures(self) -> Mapping[str, float]:
        """How much the agents cooperate.

        Returns:
            stags: How many were caught.
            hunters_per_stag: By how many agents, on average; 0 if there was none.
            hares: How many were taken.
            abandoned: How often an agent has left a stag that was not caught.
            cooperation: Of all that agents have caught, the part that they have caught together; 0 if there is nothing.
        """
        total = {name: sum(agent.counts[name] for agent in self.agents) for name in self.counts}
        together, alone = total["stags"], total["hares"]
        return {
            "stags": len(self._caught),
            "hunters_per_stag": sum(self._caught) / max(1, len(self._caught)),
            "hares": alone,
            "abandoned": total["abandoned"],
            "cooperation": together / max(1, together + alone),
        }

    def scene(self) -> Scene:
        """Stags and hares on a meadow."""
        world = self.world
        things = {name: world.shape(name) for name in ("hare", "stag")}
        return Scene(checkered(world.height, world.width, MEADOW), things, self.cells())
