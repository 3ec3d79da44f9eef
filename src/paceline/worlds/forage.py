"""Forage: agents gather berries from bushes that grow back; who comes first gets them.

Bushes stand in patches among rocks. An agent that walks onto a ripe bush gathers its berries: a reward of 1; the bush
is bare then, and ripe again after a while. Agents see seven by seven cells, and cannot stand in the same one; when two
want a cell in the same step, a draw decides. Observations are the planes `wall`, `ripe`, `bare` and `agent`; actions
are to stay and to go north, south, west, east.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paceline.worlds.board import REACH, Array, whole
from paceline.worlds.grid.entities import Agent, Entity, Wall
from paceline.worlds.grid.game import Game
from paceline.worlds.grid.world import World
from paceline.worlds.picture import MEADOW, Scene, checkered

PATCH = 1.6  # how far bushes are from the middle of their patch, in cells
ROCKS = 0.3  # of the places where a rock may be


class Ripe(Entity):
    """A bush with berries."""

    value = 1.0
    colour = (190, 24, 54)
    glyph = "*"


class Bare(Entity):
    """A bush whose berries have been gathered."""

    colour = (72, 112, 62)
    glyph = "%"


class Forager(Agent):
    """Walks, and gathers the berries of the bush on which it stands."""

    def reset(self) -> None:
        """Begins an episode."""
        self.wanted = self.gathered = -1  # places, in this turn

    def act(self, world: World, action: int) -> float:
        """Moves; gives what that is worth."""
        self.wanted = self.place + world.moves[action]
        self.walk(world, action)
        bush = world.find("ripe", self.place)
        if bush is None:
            return 0.0
        world.empty("ripe", self.place)
        world.fill("bare", self.place)
        self.gathered = self.place
        self.counts["collected"] += 1
        return bush.value


class Forage(Game):
    """A foraging grid for 2 to 64 agents.

    Args:
        agents: How many agents there are.
        steps: How long an episode is.
        size: Rows and columns; by default the grid grows with the agents.
        bushes: How many bushes there are; by default two per agent, and four more, if there is room.
        regrow: How many steps a bush needs to be ripe again.
        view: How far an agent sees, in each direction; "map": everything.
        sees: "onehot", "rgb" or "ascii".
        turn: "simultaneous" or "ordered".
        render_mode: "rgb_array", "ansi" or None.

    Raises:
        BadInput: an option is out of its limits.
    """

    name = "forage"
    kinds = (Wall, Ripe, Bare, Forager)
    counts = ("collected", "contested")

    def __init__(
        self,
        agents: int = 8,
        steps: int = 300,
        size: int | None = None,
        bushes: int | None = None,
        regrow: int = 30,
        view: int | str = REACH,
        sees: str = "onehot",
        turn: str = "simultaneous",
        render_mode: str | None = None,
    ) -> None:
        agents = whole("agents", agents, 2, 64)
        size = whole("size", natural_size(agents) if size is None else size, least_size(agents), 256)
        most = size * size // 4
        self.bushes = whole("bushes", min(2 * agents + 4, most) if bushes is None else bushes, 1, most)
        self.regrow = whole("regrow", regrow, 1, 1_000_000)
        self._due: dict[int, list[int]] = {}  # time → the bushes that are ripe again then
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
        """Makes a forager."""
        return Forager(number)

    def populate(self, rng: np.random.Generator) -> None:
        """Strews rocks, and bushes in patches."""
        self._due = {}
        places = self.world.lattice()
        self.world.fill("wall", places[rng.random(len(places)) < ROCKS])
        free = self.world.free()
        self.world.fill("ripe", rng.choice(free, self.bushes, replace=False, p=self._fertility(rng, free)))

    def end_turn(self, rng: np.random.Generator) -> None:
        """Counts those who came too late for a bush; bushes become ripe again."""
        gone = set()
        for agent in self.agents:
            assert isinstance(agent, Forager)
            if agent.gathered >= 0:
                gone.add(agent.gathered)
                self._due.setdefault(self.world.turn + self.regrow, []).append(agent.gathered)
                agent.gathered = -1
        if gone:
            self._count_the_late(gone)
        if again := self._due.pop(self.world.turn, None):
            self.world.empty("bare", again)
            self.world.fill("ripe", again)

    def _count_the_late(self, gone: set[int]) -> None:
        for agent in self.agents:
            if agent.wanted in gone and agent.place != agent.wanted:  # type: ignore[attr-defined]
                agent.counts["contested"] += 1

    def _fertility(self, rng: np.random.Generator, places: Array) -> Array:
        """How likely each place is to have a bush: more so the nearer to the middle of a patch."""
        middles = rng.choice(places, max(2, self.bushes // 6))
        rows, columns = np.divmod(places, self.world.stride)
        apart = [(rows - row) ** 2 + (columns - column) ** 2 for row, column in map(self._row_column, middles)]
        # Of plain arithmetic, whose last bit is the same on every machine; that of an exponential is not.
        near = 1.0 / (1.0 + np.array(apart) / PATCH**2)
        likely: Array = (near * near * near).sum(0)
        likely /= likely.sum()
        return likely

    def _row_column(self, place: Any) -> tuple[int, int]:
        return divmod(int(place), self.world.stride)

    def scene(self) -> Scene:
        """Bushes and rocks on a meadow."""
        world = self.world
        things = {"rock": world.shape("wall"), "bush": world.shape("bare"), "berries": world.shape("ripe")}
        return Scene(checkered(world.height, world.width, MEADOW), things, self.cells())


def natural_size(agents: int) -> int:
    """Rows and columns that give each agent some forty-five cells of its own."""
    return max(12, math.ceil(math.sqrt(45 * agents)))


def least_size(agents: int) -> int:
    """The smallest grid in which agents, rocks and bushes have room."""
    return max(6, math.ceil(math.sqrt(4 * agents)))
