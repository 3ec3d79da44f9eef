"""Courier: fetch parcels and carry each to its house, through rooms of which only a small part is in sight.

Parcels lie about in rooms joined by doors. To walk onto one picks it up, and only then its address is known: one of the
houses. To walk onto that house delivers it: a reward of 1, and a new parcel appears somewhere. One parcel can be
carried at a time. What is out of sight must be remembered, and found again through the doors. Observations are the
planes `wall`, `parcel`, `house`, `address` (the house to go to) and `load` (in the middle: something is carried);
actions are to stay and to go north, south, west, east.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np

from paceline.errors import BadInput
from paceline.worlds.board import MODES, REACH, Array, Board, Moves, Planes, choice, mode, whole
from paceline.worlds.picture import FLOOR, Scene, checkered, rgb, text

PLANES = ("wall", "parcel", "house", "address", "load")
ROOM = 3  # rows and columns of a room; walls between rooms take one more
LOOPS = 0.3  # of the walls that need no door for rooms to be joined, so many have one

Wall = tuple[tuple[int, int], tuple[int, int]]
"""Two rooms side by side, each by row and column."""


class Courier(gymnasium.Env[Array, Any]):
    """A delivery round for one agent.

    Args:
        steps: How long an episode is.
        rooms: Rows and columns of rooms.
        houses: How many houses there are.
        parcels: How many parcels wait at a time.
        render_mode: "rgb_array", "ansi" or None.

    Raises:
        BadInput: an option is out of its limits.
    """

    metadata: dict[str, Any] = {**MODES, "name": "courier"}  # noqa: RUF012 - so says Gymnasium

    def __init__(
        self,
        steps: int = 400,
        rooms: int = 3,
        houses: int = 4,
        parcels: int = 3,
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = mode(render_mode)
        self.steps = whole("steps", steps, 1, 1_000_000)
        self.rooms = whole("rooms", rooms, 2, 16)
        self.houses = whole("houses", houses, 1, self.rooms**2)
        self.parcels = whole("parcels", parcels, 1, self.rooms**2)
        side = (ROOM + 1) * self.rooms - 1
        self.board = Board(PLANES, side, side)
        self.spot = 0
        self.address = 0  # where the parcel that is carried must go; 0 if none is
        self.counts = dict.fromkeys(("moved", "collected", "delivered"), 0)
        self.observation_space = Planes(PLANES)
        self.action_space = Moves(5)
        self._time = 0
        self._doors = np.zeros(0, int)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begins an episode, in rooms of its own."""
        super().reset(seed=seed)
        self._time, self.address = 0, 0
        self.counts = dict.fromkeys(self.counts, 0)
        self.board.clear()
        self._build_rooms()
        self.board["house"][self._draw(self.houses)] = 1
        self.board["parcel"][self._draw(self.parcels)] = 1
        self.spot = int(self._draw(1)[0])
        return self._observation(), dict(self.counts)

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Moves; picks up and delivers what there is to.

        Raises:
            BadInput: it has not been reset, or there is no such action.
        """
        if not self.spot:
            raise BadInput("the courier is nowhere yet: call reset() before the first step")
        target = self.spot + self.board.moves[choice("the courier", action, 5)]
        if target != self.spot and not self.board["wall"][target]:
            self.spot = target
            self.counts["moved"] += 1
        reward = self._deliver() if self.address else self._collect()
        self._time += 1
        return self._observation(), reward, False, self._time >= self.steps, dict(self.counts)

    def render(self) -> Any:
        """An image or a coloured text, as the render mode says.

        Raises:
            BadInput: it was built without a render mode.
        """
        if self.render_mode is None:
            raise BadInput(
                "this world was built without a render mode; build it with render_mode='rgb_array' or 'ansi'"
            )
        return rgb(self._scene()) if self.render_mode == "rgb_array" else text(self._scene())

    def _collect(self) -> float:
        if self.board["parcel"][self.spot]:
            self.board["parcel"][self.spot] = 0
            houses = self.board["house"].nonzero()[0]
            self.address = int(self.np_random.choice(houses))
            self.board["address"][self.address] = 1
            self.counts["collected"] += 1
        return 0.0

    def _deliver(self) -> float:
        if self.spot != self.address:
            return 0.0
        self.board["address"][self.address] = 0
        self.address = 0
        self.counts["delivered"] += 1
        free = self._free()
        self.board["parcel"][self.np_random.choice(free[free != self.spot])] = 1
        return 1.0

    def _draw(self, count: int) -> Array:
        drawn: Array = self.np_random.choice(self._free(), count, replace=False)
        return drawn

    def _free(self) -> Array:
        """Where nothing is; doors are kept free too, because a house in one would look like a dead end."""
        free = self.board.free()
        return free[~np.isin(free, self._doors)]

    def _build_rooms(self) -> None:
        cells = self.board.inside.reshape(self.board.height, self.board.width)
        for line in range(ROOM, self.board.height, ROOM + 1):
            self.board["wall"][cells[line]] = 1
            self.board["wall"][cells[:, line]] = 1
        self._doors = np.array([cells[self._door(wall)] for wall in self._open_walls()])
        self.board["wall"][self._doors] = 0

    def _open_walls(self) -> Iterator[Wall]:
        """The walls that get a door: enough to join all rooms, and a few more."""
        walls = list(_walls(self.rooms))
        joined = {(row, column): (row, column) for row in range(self.rooms) for column in range(self.rooms)}
        for number in self.np_random.permutation(len(walls)):
            one, other = (_root(joined, room) for room in walls[number])
            if one != other or self.np_random.random() < LOOPS:
                joined[one] = other
                yield walls[number]

    def _door(self, wall: Wall) -> tuple[int, int]:
        """The cell of a door somewhere in the wall between two rooms; the second lies east or south of the first."""
        (row, column), (_, next_column) = wall
        along = int(self.np_random.integers(ROOM))
        if next_column > column:
            return row * (ROOM + 1) + along, column * (ROOM + 1) + ROOM
        return row * (ROOM + 1) + ROOM, column * (ROOM + 1) + along

    def _observation(self) -> Array:
        seen: Array = self.board.windows([self.spot])[0]
        seen[PLANES.index("load"), REACH, REACH] = self.address > 0
        return seen

    def _scene(self) -> Scene:
        board = self.board
        things = {"brick": board.shape("wall"), "house": board.shape("house") & ~board.shape("address")}
        things |= {"address": board.shape("address"), "parcel": board.shape("parcel")}
        agents = [board.cell(self.spot)]
        return Scene(checkered(board.height, board.width, FLOOR), things, agents, agents if self.address else [])


def _walls(rooms: int) -> Iterator[Wall]:
    for row in range(rooms):
        for column in range(rooms):
            if column + 1 < rooms:
                yield (row, column), (row, column + 1)
            if row + 1 < rooms:
                yield (row, column), (row + 1, column)


def _root(joined: dict[tuple[int, int], tuple[int, int]], room: tuple[int, int]) -> tuple[int, int]:
    while joined[room] != room:
        room = joined[room]
    return room
