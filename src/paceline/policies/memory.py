"""Memory: like greedy, but it remembers what it has seen, and where it was.

It keeps track of its own place by counting its steps, and remembers bushes and when they may be ripe again, apples and
gems that it has passed, or a whole map of rooms with the parcels and houses in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from paceline.policies.greedy import Harvester
from paceline.policies.mind import (
    CLEANUP,
    COURIER,
    EAST,
    FORAGE,
    MOVES,
    STAY,
    TREASURE_HUNT,
    WEST,
    Array,
    Mind,
    behaviour,
    route,
)
from paceline.types import Seat

Cell = tuple[int, int]
"""A row and a column, counted from where the episode began."""

WORTH = 8  # how many steps of walking and waiting a remembered bush is worth, before it is better to look elsewhere
PATIENCE = 20  # how long a bare bush is guessed to need
RECHECK = 5  # … and how much longer, if the guess was wrong
CLEANERS = 3  # of so many agents, one cleans
STALE = 60  # how long a remembered apple or gem is believed in
FAR = 80  # how far from its start a map reaches, in each direction
UNSEEN, OPEN, WALL = range(3)


def memory(seat: Seat) -> Mind:
    """Builds the policy with memory for a seat of a built-in world.

    Raises:
        BadInput: the seat is in another world.
    """
    known = ((FORAGE, Gatherer), (CLEANUP, Member), (COURIER, Postman), (TREASURE_HUNT, Collector))
    return behaviour("memory", seat, known)  # type: ignore[no-any-return]


class Wayfarer(Mind):
    """Knows where it is: it counts the steps that went through."""

    def reset(self, seed: int) -> None:
        """Begins an episode: where it stands is the origin."""
        super().reset(seed)
        self._row, self._column = 0, 0
        self._now = 0
        self._last = STAY

    def act(self, obs: Any) -> int:
        """Chooses an action, once it knows where the last one has brought it."""
        view = {name: obs[number] for name, number in self._planes.items()}
        if self.went_through(view):
            self._row += MOVES[self._last][0]
            self._column += MOVES[self._last][1]
        self._now += 1
        action = self.choose(view)
        self._last = action if action < len(MOVES) else STAY
        return action

    def went_through(self, view: Mapping[str, Array]) -> bool:
        """Whether the last move did: the worlds of many say so in the middle of the agents' plane."""
        return bool(view["agent"][self._reach, self._reach])

    def cells(self, plane: Array) -> list[Cell]:
        """The cells where a plane is set."""
        rows, columns = plane.nonzero()
        top, left = self._row - self._reach, self._column - self._reach
        return list(zip((rows + top).tolist(), (columns + left).tolist(), strict=True))

    def away(self, cell: Cell) -> int:
        """How many steps a cell is away, at least."""
        return abs(cell[0] - self._row) + abs(cell[1] - self._column)

    def sees(self, cell: Cell) -> bool:
        """Whether a cell is in the window."""
        return max(abs(cell[0] - self._row), abs(cell[1] - self._column)) <= int(self._reach)

    def head_for(self, blocked: Array, cell: Cell) -> int | None:
        """The first step toward a cell, in sight or not; None if it cannot come nearer."""
        row, column = cell[0] - self._row, cell[1] - self._column
        apart = abs(self._rows - row) + abs(self._columns - column) + 1000 * blocked
        nearest = apart.min()
        return None if nearest >= self.away(cell) else self.toward(blocked, apart == nearest)

    def uncontested(self, view: Mapping[str, Array], plane: Array) -> Array:
        """Of what a plane shows, that to which nobody in sight is nearer."""
        wanted: Array = plane.astype(bool)
        others = np.argwhere(view["agent"]) - self._reach
        others = others[others.any(1)]  # without itself
        if not (len(others) and wanted.any()):
            return wanted
        rows, columns = self._rows - others[:, :1, None], self._columns - others[:, 1:, None]
        own = abs(self._rows) + abs(self._columns)
        wanted &= own <= (abs(rows) + abs(columns)).min(0)
        return wanted


class Gatherer(Wayfarer):
    """Remembers bushes, and comes back when they should be ripe again."""

    def reset(self, seed: int) -> None:
        """Begins an episode: knows of no bush."""
        super().reset(seed)
        self._ready: dict[Cell, int] = {}  # bush → when it is, or should be, ripe

    def choose(self, view: Mapping[str, Array]) -> int:
        """Answers what is seen."""
        self._remember(view)
        blocked = self.obstacles(view)
        way = self.toward(blocked, self.uncontested(view, view["ripe"]))
        if way is None:
            way = self._go_back(blocked)
        return self.wander(blocked) if way is None else way

    def _remember(self, view: Mapping[str, Array]) -> None:
        for cell in self.cells(view["ripe"]):
            self._ready[cell] = 0
        for cell in self.cells(view["bare"]):
            ready = self._ready.get(cell, 0)
            if ready == 0:  # it has just been emptied, or nobody knows when
                self._ready[cell] = self._now + PATIENCE
            elif ready <= self._now:
                self._ready[cell] = self._now + RECHECK

    def _go_back(self, blocked: Array) -> int | None:
        """Heads for the bush where the next berries are to be had; None if all are too far or too bare."""
        costs = {cell: max(self.away(cell), ready - self._now) for cell, ready in self._ready.items()}
        # What is in sight and ripe has been left to somebody nearer.
        costs = {cell: cost for cell, cost in costs.items() if self._ready[cell] or not self.sees(cell)}
        if not costs or min(costs.values()) > WORTH:
            return None
        best = min(costs, key=lambda cell: (costs[cell], self.away(cell), cell))
        return self.head_for(blocked, best)


class Collector(Wayfarer):
    """Remembers the gems that it has passed, and leaves to others those to which they are nearer."""

    wanted = "gem"

    def reset(self, seed: int) -> None:
        """Begins an episode: knows of nothing worth having."""
        super().reset(seed)
        self._passed: dict[Cell, int] = {}  # what is wanted → when it was seen

    def choose(self, view: Mapping[str, Array]) -> int:
        """Answers what is seen."""
        blocked = self.obstacles(view)
        way = self.fetch(blocked, view)
        return self.wander(blocked) if way is None else way

    def fetch(self, blocked: Array, view: Mapping[str, Array]) -> int | None:
        """Heads for the nearest in sight, or else for the nearest remembered; None if it knows of none."""
        wanted = self.uncontested(view, view[self.wanted])
        self._remember(wanted)
        way = self.toward(blocked, wanted)
        if way is None and self._passed:
            way = self.head_for(blocked, min(self._passed, key=lambda cell: (self.away(cell), cell)))
        return way

    def _remember(self, wanted: Array) -> None:
        fresh = {cell: seen for cell, seen in self._passed.items() if self._now - seen < STALE and not self.sees(cell)}
        self._passed = fresh | dict.fromkeys(self.cells(wanted), self._now)


class Member(Collector, Harvester):
    """Shares the work: one in a few keeps the river clean, the others remember the apples they have passed."""

    wanted = "apple"

    def reset(self, seed: int) -> None:
        """Begins an episode: knows of no apple."""
        super().reset(seed)
        self._along = (WEST, EAST)[self._order[0] % 2]

    def choose(self, view: Mapping[str, Array]) -> int:
        """Answers what is seen."""
        blocked = self.obstacles(view)
        if self.seat.index % CLEANERS == 0:
            return self._keep_clean(blocked, view)
        way = self.fetch(blocked, view)
        if way is None:
            way = self.clean(blocked, view["dirt"])
        return self.patrol(blocked, view) if way is None else way

    def _keep_clean(self, blocked: Array, view: Mapping[str, Array]) -> int:
        way = self.clean(blocked, view["dirt"])
        if way is not None:
            return way
        if not view["river"][self._reach - 1 : self._reach + 2].any(1).all():
            return self.patrol(blocked, view)  # not in the middle of the river yet
        if view["wall"][self._next(self._along)]:
            self._along = WEST if self._along == EAST else EAST
        return self.wander(blocked) if blocked[self._next(self._along)] else self._along


class Postman(Wayfarer):
    """Draws a map of the rooms, and knows where parcels and houses are."""

    def reset(self, seed: int) -> None:
        """Begins an episode: the map is empty."""
        super().reset(seed)
        self._begin_map()

    def _begin_map(self) -> None:
        self._row, self._column = 0, 0
        size = 2 * FAR + 1
        self._map = np.full((size, size), UNSEEN, np.uint8)
        self._parcels = np.zeros((size, size), bool)
        self._houses = np.zeros((size, size), bool)
        self._asked = np.zeros((size, size), bool)  # houses that are not the address
        self._seen = np.zeros((size, size), np.int32)  # when a cell was in sight

    def went_through(self, view: Mapping[str, Array]) -> bool:
        """Whether the last move did: only walls are in the way here, and they are on the map."""
        row, column = MOVES[self._last]
        return bool(self._map[FAR + self._row + row, FAR + self._column + column] == OPEN)

    def choose(self, view: Mapping[str, Array]) -> int:
        """Answers what is seen."""
        loaded = bool(view["load"].any())
        self._draw(view, loaded)
        houses = self._houses & ~self._asked
        for goals in (houses if loaded else self._parcels, self._edge(), self._oldest()):
            way = self._way(goals)
            if way is not None:
                return way
        return self.wander(self.obstacles(view))

    def _draw(self, view: Mapping[str, Array], loaded: bool) -> None:
        if max(abs(self._row), abs(self._column)) > FAR - self._reach - 1:
            self._begin_map()  # it has walked off the map
        top, left = FAR + self._row - self._reach, FAR + self._column - self._reach
        here = slice(top, top + 2 * self._reach + 1), slice(left, left + 2 * self._reach + 1)
        self._map[here] = np.where(view["wall"], WALL, OPEN)
        self._parcels[here] = view["parcel"]
        self._houses[here] = view["house"]
        self._seen[here] = self._now
        if loaded:
            self._asked[here] = view["house"] > view["address"]
        else:
            self._asked[:] = False

    def _way(self, goals: Array) -> int | None:
        place = FAR + self._row, FAR + self._column
        return route(self._map != OPEN, goals, place, self._order) if goals.any() else None

    def _edge(self) -> Array:
        """The cells from which something new may be seen: open ones beside unseen ones."""
        unseen = self._map == UNSEEN
        edge: Array = np.zeros_like(unseen)
        edge[1:-1, 1:-1] = unseen[:-2, 1:-1] | unseen[2:, 1:-1] | unseen[1:-1, :-2] | unseen[1:-1, 2:]
        edge &= self._map == OPEN
        return edge

    def _oldest(self) -> Array:
        """The open cells that have been out of sight for longest."""
        seen = np.where(self._map == OPEN, self._seen, self._now)
        oldest: Array = (seen == seen.min()) & (self._map == OPEN)
        return oldest
