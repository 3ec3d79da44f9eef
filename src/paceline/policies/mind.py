"""What scripted policies share: they read windows by the names of their planes, find ways, and wander.

    window ── by name ──► what blocks, what is wanted ── route ──► the first step of a shortest way
                                                     └── none ──► wander

A window is what the built-in worlds show: planes of zeros and ones around the agent, whose names the observation space
gives as `planes`. Any other world that shows itself this way can be played too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from paceline.errors import BadInput
from paceline.types import Seat

Array = np.ndarray[Any, Any]

STAY, NORTH, SOUTH, WEST, EAST, CLEAN = range(6)
MOVES = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
"""What the actions do, as (row, column); the order is that of the worlds."""

_FIXED = frozenset({"seat", "_planes", "_reach", "_rows", "_columns"})  # what a mind is born with, and never changes
KEEP_ON = 0.9  # how likely a wanderer is to go on as before


class Mind:
    """A scripted policy for one seat; a behaviour says what to `choose`.

    All that it keeps between steps can be saved and restored.

    Args:
        seat: Its place; the observation space must have `planes`.
    """

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self._planes = {name: number for number, name in enumerate(seat.observation_space.planes)}
        size: int = seat.observation_space.shape[1]
        self._reach = size // 2
        self._rows, self._columns = np.indices((size, size)) - self._reach  # of the window's cells, from the middle
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Begins an episode: forgets everything."""
        self._rng = np.random.default_rng(seed)
        # Each prefers other ways among equally short ones, or all would walk in line.
        self._order: list[int] = (self._rng.permutation(4) + 1).tolist()
        self._heading: int = self._order[0]

    def act(self, obs: Any) -> int:
        """Chooses an action."""
        return self.choose({name: obs[number] for name, number in self._planes.items()})

    def choose(self, view: Mapping[str, Array]) -> int:
        """Answers what is seen, plane by plane, with an action."""
        raise NotImplementedError

    def snapshot(self) -> dict[str, Any]:
        """All that it keeps in mind."""
        return copy.deepcopy({name: value for name, value in vars(self).items() if name not in _FIXED})

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from a snapshot."""
        vars(self).update(copy.deepcopy(dict(state)))

    # -- ways ----------------------------------------------------------------------------------------------

    def toward(self, blocked: Array, goals: Array) -> int | None:
        """The first step of a shortest way to a goal in sight, if there is one."""
        if not goals.any():
            return None
        size = 2 * self._reach + 3  # with a border around it, so that a way never leaves the window
        walls, wanted = np.ones((size, size), bool), np.zeros((size, size), bool)
        walls[1:-1, 1:-1], wanted[1:-1, 1:-1] = blocked, goals
        return route(walls, wanted, (self._reach + 1, self._reach + 1), self._order)

    def wander(self, blocked: Array) -> int:
        """Goes on as before, mostly; turns where it cannot."""
        open_ways = [action for action in self._order if not blocked[self._next(action)]]
        if not open_ways:
            return STAY
        if self._heading not in open_ways or self._rng.random() > KEEP_ON:
            self._heading = open_ways[int(self._rng.integers(len(open_ways)))]
        return self._heading

    def obstacles(self, view: Mapping[str, Array]) -> Array:
        """What cannot be walked on now: walls and others, but not oneself."""
        blocked = view["wall"].astype(bool)
        if "agent" in view:
            blocked |= view["agent"].astype(bool)
        blocked[self._reach, self._reach] = False
        return blocked

    def _next(self, action: int) -> tuple[int, int]:
        row, column = MOVES[action]
        return self._reach + row, self._reach + column


def route(blocked: Array, goals: Array, start: tuple[int, int], order: Sequence[int]) -> int | None:
    """The first action of a shortest way from `start` to a goal; None if there is no way.

    Args:
        blocked: Where there is no way; the border must be blocked.
        goals: Where to go.
        start: The row and the column to go from; it is no goal.
        order: The moves, in the order in which to try them.
    """
    stride = blocked.shape[1]
    shut, wanted = bytearray(blocked.astype(np.uint8).tobytes()), goals.astype(np.uint8).tobytes()
    steps = [(action, MOVES[action][0] * stride + MOVES[action][1]) for action in order]
    home = start[0] * stride + start[1]
    shut[home] = 1
    reached = [(home, 0)]
    for place, first in reached:
        for action, step in steps:
            there = place + step
            if shut[there]:
                continue
            if wanted[there]:
                return first or action
            shut[there] = 1
            reached.append((there, first or action))
    return None


def behaviour(name: str, seat: Seat, known: Sequence[tuple[frozenset[str], Callable[[Seat], Any]]]) -> Any:
    """Builds the behaviour for what the seat sees.

    Args:
        name: The policy's name, for the message.
        seat: Who is to be played.
        known: The planes that a behaviour needs, and the behaviour.

    Raises:
        BadInput: none of them fits; names the mission, and says what to use instead.
    """
    planes = frozenset(getattr(seat.observation_space, "planes", ()))
    worlds = " and ".join(", ".join(WORLDS[needed] for needed, _ in known).rsplit(", ", 1))
    for needed, build in known:
        if planes == needed:
            return build(seat)
    raise BadInput(
        f"the policy {name!r} does not know the world of mission {seat.mission!r} (seat {seat.agent!r} sees "
        f"{seat.observation_space}); it plays {worlds}. Use 'random', or a policy of your own"
    )


FORAGE = frozenset({"wall", "ripe", "bare", "agent"})
CLEANUP = frozenset({"wall", "river", "dirt", "soil", "apple", "agent"})
COURIER = frozenset({"wall", "parcel", "house", "address", "load"})
TREASURE_HUNT = frozenset({"wall", "gem", "agent"})
STAG_HUNT = frozenset({"wall", "stag", "hare", "agent"})
TAG = frozenset({"wall", "it", "agent"})
"""What is seen in each of the built-in worlds."""

WORLDS: Mapping[frozenset[str], str] = MappingProxyType(
    {
        FORAGE: "forage",
        CLEANUP: "cleanup",
        COURIER: "courier",
        TREASURE_HUNT: "treasure_hunt",
        STAG_HUNT: "stag_hunt",
        TAG: "tag",
    }
)
"""Their names, by what is seen."""
