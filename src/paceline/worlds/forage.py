"""Forage: agents gather berries from bushes that grow back; who comes first gets them.

Bushes stand in patches among rocks. An agent that walks onto a ripe bush gathers its berries: a reward of 1; the bush
is bare then, and ripe again after a while. Agents see seven by seven cells, and cannot stand in the same one; when two
want a cell in the same step, a draw decides. Observations are the planes `wall`, `ripe`, `bare` and `agent`; actions
are to stay and to go north, south, west, east.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from paceline.worlds.arena import Arena
from paceline.worlds.board import MODES, Array, whole
from paceline.worlds.picture import MEADOW, Scene, checkered

PLANES = ("wall", "ripe", "bare", "agent")
PATCH = 1.6  # how far bushes are from the middle of their patch, in cells
ROCKS = 0.3  # of the places where a rock may be


class Forage(Arena):
    """A foraging grid for 2 to 64 agents.

    Args:
        agents: How many agents there are.
        steps: How long an episode is.
        size: Rows and columns; by default the grid grows with the agents.
        bushes: How many bushes there are; by default two per agent, and four more, if there is room.
        regrow: How many steps a bush needs to be ripe again.
        render_mode: "rgb_array", "ansi" or None.

    Raises:
        BadInput: an option is out of its limits.
    """

    metadata: ClassVar[dict[str, Any]] = {**MODES, "name": "forage"}

    def __init__(
        self,
        agents: int = 8,
        steps: int = 300,
        size: int | None = None,
        bushes: int | None = None,
        regrow: int = 30,
        render_mode: str | None = None,
    ) -> None:
        agents = whole("agents", agents, 2, 64)
        size = whole("size", natural_size(agents) if size is None else size, least_size(agents), 256)
        most = size * size // 4
        self.bushes = whole("bushes", min(2 * agents + 4, most) if bushes is None else bushes, 1, most)
        self.regrow = whole("regrow", regrow, 1, 1_000_000)
        self._due: dict[int, list[int]] = {}  # time → the bushes that are ripe again then
        counts = ("collected", "contested")
        super().__init__(
            PLANES, 5, counts, agents=agents, height=size, width=size, steps=steps, render_mode=render_mode
        )

    def _lay_out(self, rng: np.random.Generator) -> None:
        self._due = {}
        self.board["wall"][self._rocks(rng)] = 1
        free = self.board.free()
        self.board["ripe"][rng.choice(free, self.bushes, replace=False, p=self._fertility(rng, free))] = 1

    def _rocks(self, rng: np.random.Generator) -> Array:
        # Only where row and column are odd: no two of them touch, so no cell is ever cut off.
        rows, columns = np.indices((self.board.height // 2, self.board.width // 2)).reshape(2, -1) * 2 + 1
        places = self.board.places(rows, columns)
        return places[rng.random(len(places)) < ROCKS]

    def _fertility(self, rng: np.random.Generator, places: Array) -> Array:
        """How likely each place is to have a bush: more so the nearer to the middle of a patch."""
        middles = rng.choice(places, max(2, self.bushes // 6))
        rows, columns = np.divmod(places, self.board.stride)
        apart = [(rows - row) ** 2 + (columns - column) ** 2 for row, column in map(self._row_column, middles)]
        # Of plain arithmetic, whose last bit is the same on every machine; that of an exponential is not.
        near = 1.0 / (1.0 + np.array(apart) / PATCH**2)
        likely: Array = (near * near * near).sum(0)
        likely /= likely.sum()
        return likely

    def _row_column(self, place: Any) -> tuple[int, int]:
        return divmod(int(place), self.board.stride)

    def _act(self, turns: Sequence[int], choices: Sequence[int], rewards: list[float]) -> None:
        wanted = [spot + self.board.moves[choice] for spot, choice in zip(self.spots, choices, strict=True)]
        self._move(turns, choices)
        ripe = self.board["ripe"]
        gathered = ripe[self.spots].nonzero()[0].tolist()
        for who in gathered:
            rewards[who] = 1.0
            self.counts["collected"][who] += 1
            self._bare(self.spots[who])
        self._count_the_late(wanted, {self.spots[who] for who in gathered})

    def _bare(self, place: int) -> None:
        self.board["ripe"][place], self.board["bare"][place] = 0, 1
        self._due.setdefault(self._time + self.regrow, []).append(place)

    def _count_the_late(self, wanted: Sequence[int], gone: set[int]) -> None:
        for who, place in enumerate(wanted):
            if place in gone and self.spots[who] != place:
                self.counts["contested"][who] += 1

    def _go_on(self, rng: np.random.Generator) -> None:
        for place in self._due.pop(self._time, ()):
            self.board["bare"][place], self.board["ripe"][place] = 0, 1

    def _scene(self) -> Scene:
        board = self.board
        things = {"rock": board.shape("wall"), "bush": board.shape("bare"), "berries": board.shape("ripe")}
        return Scene(checkered(board.height, board.width, MEADOW), things, [board.cell(spot) for spot in self.spots])


def natural_size(agents: int) -> int:
    """Rows and columns that give each agent some forty-five cells of its own."""
    return max(12, math.ceil(math.sqrt(45 * agents)))


def least_size(agents: int) -> int:
    """The smallest grid in which agents, rocks and bushes have room."""
    return max(6, math.ceil(math.sqrt(4 * agents)))
