"""A board as a stack of named planes of zeros and ones, and the window that an agent sees of it.

What stands where is a 1 in the plane of its name. A place is one int, the number of its cell on the board with its
margin: so a move is an addition, and a window a few fixed offsets.

    wall   ripe   bare   agent
    ┌───┐  ┌───┐  ┌───┐  ┌───┐
    │   │  │   │  │   │  │ ┌─┼─── a window around a place
    └───┘  └───┘  └───┘  └─┴─┘
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.lib.stride_tricks import as_strided

from paceline.errors import BadInput

Array = np.ndarray[Any, Any]

REACH = 3
"""How far an agent sees in each direction, where a world says nothing else."""
MODES: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 12}
MOVES = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
"""What the first five actions of every world do: stay, north, south, west, east; as (row, column)."""


class Planes(spaces.Box):
    """The space of windows; it knows the names of its planes, so that a policy can ask what it is looking at.

    Args:
        names: The planes' names, in their order.
        reach: How far is seen, in each direction.
    """

    def __init__(self, names: Sequence[str], reach: int = REACH) -> None:
        super().__init__(0, 1, (len(names), 2 * reach + 1, 2 * reach + 1), np.uint8)
        self.planes = tuple(names)


class Moves(spaces.Discrete):
    """The actions of an agent on a board; the first does nothing.

    Args:
        count: How many there are.
    """

    noop = 0

    def __init__(self, count: int) -> None:
        super().__init__(count)


class Board:
    """The planes of a world, with a margin of wall as wide as agents see.

    Args:
        names: The planes' names; the first is `wall`.
        height: Rows that can be walked on.
        width: Columns that can be walked on.
        reach: How far agents see, in each direction.
    """

    def __init__(self, names: Sequence[str], height: int, width: int, reach: int = REACH) -> None:
        self.height, self.width, self.reach = height, width, reach
        self.names = tuple(names)
        self.stride = width + 2 * reach
        self.cells = np.zeros((len(self.names), (height + 2 * reach) * self.stride), np.uint8)
        self.inside = self.places(*np.indices((height, width)).reshape(2, -1))
        self.moves = tuple(row * self.stride + column for row, column in MOVES)
        self._bind()

    def _bind(self) -> None:
        """Makes the views of the cells that a copy needs anew."""
        side, (count, size) = 2 * self.reach + 1, self.cells.shape
        self._corner = self.reach * self.stride + self.reach  # how far a window begins before its middle
        shape, strides = (size - 2 * self._corner, count, side, side), (1, size, self.stride, 1)
        self._windows = as_strided(self.cells, shape, strides, writeable=False)

    def __getstate__(self) -> dict[str, Any]:
        """Without views: copied apart, they would be views of nothing."""
        return {name: value for name, value in vars(self).items() if name != "_windows"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Goes on as a copy."""
        vars(self).update(state)
        self._bind()

    def __getitem__(self, name: str) -> Array:
        """The plane of that name, to read and to write, by place."""
        plane: Array = self.cells[self.names.index(name)]
        return plane

    def clear(self) -> None:
        """Empties the board; the margin stays wall."""
        self.cells[:] = 0
        self["wall"][:] = 1
        self["wall"][self.inside] = 0

    def places(self, rows: Array, columns: Array) -> Array:
        """The places of cells."""
        places: Array = (rows + self.reach) * self.stride + columns + self.reach
        return places

    def cell(self, place: int) -> tuple[int, int]:
        """The row and the column of a place."""
        row, column = divmod(place, self.stride)
        return row - self.reach, column - self.reach

    def shape(self, name: str) -> Array:
        """The plane of that name without its margin, as rows and columns of booleans."""
        return self[name][self.inside].reshape(self.height, self.width).astype(bool)

    def free(self) -> Array:
        """The places where nothing is."""
        return self.inside[~self.cells[:, self.inside].any(0)]

    def lattice(self) -> Array:
        """The places whose row and column are odd: no two of them touch, so what fills them never cuts a cell off."""
        return self.places(*np.indices((self.height // 2, self.width // 2)).reshape(2, -1) * 2 + 1)

    def windows(self, places: Sequence[int]) -> Array:
        """What is seen from these places, in memory of its own: place × plane × row × column."""
        corner = self._corner
        seen: Array = self._windows[[place - corner for place in places]]
        return seen


def whole(name: str, value: Any, least: int, most: int) -> int:
    """Gives an option that must be a whole number within limits.

    Raises:
        BadInput: it is not; says what it may be.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise BadInput(f"{name}={value!r} does not work here; give a whole number from {least} to {most}")
    return int(value)


def mode(value: Any) -> str | None:
    """Gives the render mode.

    Raises:
        BadInput: there is no such mode; says which there are.
    """
    if value not in (None, "rgb_array", "ansi"):
        raise BadInput(f"render_mode={value!r} is not known; give 'rgb_array' for images or 'ansi' for text")
    return None if value is None else str(value)


def choice(name: str, action: Any, count: int) -> int:
    """Gives an action as an int.

    Raises:
        BadInput: it is none of the `count` actions; `name` says whose it is.
    """
    if type(action) is int and 0 <= action < count:
        return action
    try:
        number = int(action)
    except (TypeError, ValueError):
        number = -1
    if not 0 <= number < count:
        raise BadInput(f"action {action!r} of {name} is not in Discrete({count}); give an int from 0 to {count - 1}")
    return number
