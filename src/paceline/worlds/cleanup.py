"""Cleanup: apples grow only while the river is clean, and who cleans it eats none meanwhile.

The river runs in the north, the orchard lies in the south, and waste keeps drifting into the river. The more of the
river is dirty, the slower apples grow; from a point on they do not grow at all, and that is where an episode begins.
An agent that walks onto an apple eats it: a reward of 1, for that agent alone. To clean clears the agent's own cell and
the eight around it. Observations are the planes `wall`, `river`, `dirt`, `soil`, `apple` and `agent`; actions are to
stay, to go north, south, west, east, and to clean.
"""

from __future__ import annotations

import numpy as np

from paceline.worlds.board import REACH, Array, whole
from paceline.worlds.grid.entities import Agent, Entity, Wall
from paceline.worlds.grid.game import Game
from paceline.worlds.grid.world import World
from paceline.worlds.picture import ORCHARD, RIVER, SAND, Scene, checkered

CLEAN = 5
WATER, BANK, TREES = 4, 3, 8  # rows of each, from north to south
HEIGHT = WATER + BANK + TREES
SOIL = 0.5  # of the orchard's cells
GROWTH = 0.02  # how likely an apple is to appear on a bare piece of soil, in a step, when the river is clean
DRIFT = 0.008  # how likely a clean piece of the river is to become dirty, in a step
CHOKED = 0.4  # from this part of the river on, nothing grows


class River(Entity):
    """Water."""

    colour = (88, 160, 210)
    glyph = "~"


class Dirt(Entity):
    """Waste in the river."""

    layer = 1
    colour = (84, 92, 52)
    glyph = "%"


class Soil(Entity):
    """Where apples may grow."""

    colour = (120, 92, 60)
    glyph = ","


class Apple(Entity):
    """Worth having: the agent that walks onto it eats it."""

    layer = 1
    value = 1.0
    colour = (206, 24, 34)
    glyph = "o"


class Neighbour(Agent):
    """Walks, eats the apples that it walks onto, and cleans."""

    def act(self, world: World, action: int) -> float:
        """Moves or cleans; gives what that is worth."""
        if self.walk(world, action):
            return self._eat(world)
        if action == CLEAN:
            self._clean(world)
        return 0.0

    def _eat(self, world: World) -> float:
        apple = world.find("apple", self.place)
        if apple is None:
            return 0.0
        world.empty("apple", self.place)
        self.counts["collected"] += 1
        return apple.value

    def _clean(self, world: World) -> None:
        stride = world.stride
        reached = [self.place + row * stride + column for row in (-1, 0, 1) for column in (-1, 0, 1)]
        self.counts["cleaned"] += int(world["dirt"][reached].sum())
        world.empty("dirt", reached)


class Cleanup(Game):
    """A social dilemma for 2 to 64 agents.

    Args:
        agents: How many agents there are.
        steps: How long an episode is.
        width: Columns; by default there are more of them with more agents.
        view: How far an agent sees, in each direction; "map": everything.
        sees: "onehot", "rgb" or "ascii".
        turn: "simultaneous" or "ordered".
        render_mode: "rgb_array", "ansi" or None.

    Raises:
        BadInput: an option is out of its limits.
    """

    name = "cleanup"
    kinds = (Wall, River, Dirt, Soil, Apple, Neighbour)
    actions = 6
    counts = ("collected", "cleaned")

    def __init__(
        self,
        agents: int = 6,
        steps: int = 300,
        width: int | None = None,
        view: int | str = REACH,
        sees: str = "onehot",
        turn: str = "simultaneous",
        render_mode: str | None = None,
    ) -> None:
        agents = whole("agents", agents, 2, 64)
        width = whole("width", max(12, 2 * agents) if width is None else width, max(6, agents // 2), 512)
        super().__init__(
            agents=agents,
            height=HEIGHT,
            width=width,
            steps=steps,
            view=view,
            sees=sees,
            turn=turn,
            render_mode=render_mode,
        )
        cells = self.world.inside.reshape(HEIGHT, width)
        self._river, self._bank = cells[:WATER].ravel(), cells[WATER:-TREES].ravel()
        self._soil = self._orchard = cells[-TREES:].ravel()

    def new_agent(self, number: int) -> Agent:
        """Makes a neighbour."""
        return Neighbour(number)

    def populate(self, rng: np.random.Generator) -> None:
        """Lays out river and orchard; so much of the river is dirty that nothing grows."""
        self._soil = self._orchard[rng.random(len(self._orchard)) < SOIL]
        self.world.fill("river", self._river)
        self.world.fill("soil", self._soil)
        choked = round(CHOKED * len(self._river)) + 1
        self.world.fill("dirt", rng.choice(self._river, choked, replace=False))

    def homes(self) -> Array:
        """The bank and the orchard."""
        return np.concatenate([self._bank, self._orchard])

    def end_turn(self, rng: np.random.Generator) -> None:
        """Apples grow, waste drifts in."""
        world = self.world
        growth = GROWTH * max(0.0, 1.0 - np.count_nonzero(world["dirt"][self._river]) / len(self._river) / CHOKED)
        # Both draws are as long in every turn: what agents do must not shift the draws that follow.
        grown = self._soil[rng.random(len(self._soil)) < growth]
        world.fill("apple", grown[world["agent"][grown] == 0])  # none under an agent: to eat one, walk onto it
        world.fill("dirt", self._river[rng.random(len(self._river)) < DRIFT])

    def scene(self) -> Scene:
        """River, bank and orchard."""
        world = self.world
        ground = checkered(world.height, world.width, SAND)
        ground[:WATER] = checkered(WATER, world.width, RIVER)
        ground[-TREES:] = checkered(TREES, world.width, ORCHARD)
        things = {name: world.shape(name) for name in ("dirt", "soil", "apple")}
        things["wave"] = world.shape("river") & ~things["dirt"]
        things["soil"] &= ~things["apple"]
        return Scene(ground, things, self.cells())
