"""Greedy: walks to the nearest thing worth having that is in sight, and wanders when nothing is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from paceline.policies.mind import (
    CLEAN,
    CLEANUP,
    COURIER,
    FORAGE,
    MOVES,
    NORTH,
    SOUTH,
    STAG_HUNT,
    STAY,
    TAG,
    TREASURE_HUNT,
    Array,
    Mind,
    behaviour,
)
from paceline.types import Seat

PATIENCE, BOREDOM = 15, 10  # turns that one waits beside a stag, and that it is not interested in stags after that


def greedy(seat: Seat) -> Mind:
    """Builds the greedy policy for a seat of a built-in world.

    Raises:
        BadInput: the seat is in another world.
    """
    known = (
        (FORAGE, Forager),
        (CLEANUP, Harvester),
        (COURIER, Carrier),
        (TREASURE_HUNT, Hunter),
        (STAG_HUNT, Stalker),
        (TAG, Tagger),
    )
    return behaviour("greedy", seat, known)  # type: ignore[no-any-return]


class Forager(Mind):
    """Goes to the nearest ripe bush."""

    wanted = "ripe"

    def choose(self, view: Mapping[str, Array]) -> int:
        """Answers what is seen."""
        blocked = self.obstacles(view)
        way = self.toward(blocked, view[self.wanted])
        return self.wander(blocked) if way is None else way


class Hunter(Forager):
    """Goes to the nearest gem."""

    wanted = "gem"


class Harvester(Mind):
    """Goes to the nearest apple; cleans what dirt it comes across; walks to and fro between river and orchard."""

    def choose(self, view: Mapping[str, Array]) -> int:
        """Answers what is seen."""
        blocked = self.obstacles(view)
        way = self.toward(blocked, view["apple"])
        if way is not None:
            return way
        return self.clean(blocked, view["dirt"]) or self.patrol(blocked, view)

    def clean(self, blocked: Array, dirt: Array) -> int | None:
        """Cleans, or goes where there is something to clean; None if no dirt is in sight."""
        if self.around(dirt).any():
            return CLEAN
        return self.toward(blocked, dirt)

    def patrol(self, blocked: Array, view: Mapping[str, Array]) -> int:
        """North until it stands in the river, then south until the orchard ends."""
        middle = self._reach, self._reach
        if view["river"][middle] or self._heading not in (NORTH, SOUTH):
            self._heading = SOUTH
        elif view["wall"][self._next(SOUTH)]:
            self._heading = NORTH
        return self.wander(blocked) if blocked[self._next(self._heading)] else self._heading

    def around(self, plane: Array) -> Array:
        """Its own cell and the eight around it."""
        near = slice(self._reach - 1, self._reach + 2)
        seen: Array = plane[near, near]
        return seen


class Carrier(Mind):
    """Goes to a parcel in sight, or with one to its house if that is in sight; else to some other cell in sight."""

    def reset(self, seed: int) -> None:
        """Begins an episode: wants nothing yet."""
        super().reset(seed)
        self._wish = (0, 0)  # a cell to go to, counted from where it stands; (0, 0): none

    def choose(self, view: Mapping[str, Array]) -> int:
        """Answers what is seen."""
        blocked = self.obstacles(view)
        way = self.toward(blocked, view["address"] if view["load"].any() else view["parcel"])
        if way is None:
            return self._stroll(blocked)
        self._wish = 0, 0
        return way

    def _stroll(self, blocked: Array) -> int:
        """Walks on to the cell it wished for; once there, or if there is no way, wishes for another."""
        way = self.toward(blocked, self._mark(self._wish))
        if way is None:
            self._wish = self._far()
            way = self.toward(blocked, self._mark(self._wish)) or self.wander(blocked)
        self._wish = self._wish[0] - MOVES[way][0], self._wish[1] - MOVES[way][1]
        return way

    def _far(self) -> tuple[int, int]:
        """Some cell at the edge of what is seen."""
        along = int(self._rng.integers(-self._reach, self._reach + 1))
        side = self._reach if self._rng.random() < 0.5 else -self._reach
        return (along, side) if self._rng.random() < 0.5 else (side, along)

    def _mark(self, cell: tuple[int, int]) -> Array:
        """The cell as a goal, unless it is out of sight or reached."""
        marked = np.zeros((2 * self._reach + 1,) * 2, bool)
        if max(map(abs, cell)) <= self._reach:
            marked[self._reach + cell[0], self._reach + cell[1]] = cell != (0, 0)
        return marked


class Stalker(Mind):
    """Goes beside a stag in sight and waits there; when it has waited long enough, it goes for hares for a while."""

    def reset(self, seed: int) -> None:
        """Begins an episode: full of patience."""
        super().reset(seed)
        self._waited = self._bored = 0  # turns

    def choose(self, view: Mapping[str, Array]) -> int:
        """Answers what is seen."""
        stag = view["stag"].astype(bool)
        blocked = self.obstacles(view) | stag
        self._bored = max(0, self._bored - 1)
        if not self._bored:
            beside = _beside(stag)
            if beside[self._reach, self._reach]:
                return self._wait(blocked, view["hare"])
            self._waited = 0
            way = self.toward(blocked, beside & ~blocked)
            if way is not None:
                return way
        return self._to_hares(blocked, view["hare"])

    def _wait(self, blocked: Array, hares: Array) -> int:
        self._waited += 1
        if self._waited <= PATIENCE:
            return STAY
        self._waited, self._bored = 0, BOREDOM
        return self._to_hares(blocked, hares)

    def _to_hares(self, blocked: Array, hares: Array) -> int:
        way = self.toward(blocked, hares)
        return self.wander(blocked) if way is None else way


def _beside(things: Array) -> Array:
    """The cells north, south, west and east of things."""
    beside = np.zeros_like(things)
    beside[1:] |= things[:-1]
    beside[:-1] |= things[1:]
    beside[:, 1:] |= things[:, :-1]
    beside[:, :-1] |= things[:, 1:]
    return beside


class Tagger(Mind):
    """If it is it, runs to the nearest agent that is not; else away from those that are."""

    def choose(self, view: Mapping[str, Array]) -> int:
        """Answers what is seen."""
        middle = self._reach, self._reach
        blocked, its = self.obstacles(view), view["it"].astype(bool)
        if its[middle]:
            others = view["agent"].astype(bool) & ~its
            way = self.toward(view["wall"].astype(bool) | its, others)
            return self.wander(blocked) if way is None else way
        return self._flee(blocked, its) if its.any() else self.wander(blocked)

    def _flee(self, blocked: Array, its: Array) -> int:
        """The move after which the nearest that is it is farthest."""
        rows, columns = (along - self._reach for along in its.nonzero())
        open_moves = [STAY, *(move for move in self._order if not blocked[self._next(move)])]

        def distance(move: int) -> int:
            row, column = MOVES[move]
            return int((abs(rows - row) + abs(columns - column)).min())

        return max(open_moves, key=distance)
