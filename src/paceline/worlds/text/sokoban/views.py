"""What a room looks like, as grid, as coordinates, in colours or as a picture; and how its text is read back.

    cells ──┬─► grid          ######⏎#_XO_#⏎…           ┐ read ──► cells
            ├─► coordinates   Walls: (0, 0), (0, 1) …   ┘
            └─► scene         for paceline.worlds.picture: an image, or colours for a terminal

A room is a list of what stands in each cell, row by row, and its number of columns.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from paceline.errors import BadInput
from paceline.worlds.picture import FLOOR as GROUND
from paceline.worlds.picture import Scene, checkered

WALL, FLOOR, TARGET, BOX_ON_TARGET, BOX, PLAYER, PLAYER_ON_TARGET = range(7)
MEANINGS = ("wall", "empty", "target", "box on target", "box", "player", "player on target")
SYMBOLS = ("#", "_", "O", "√", "X", "P", "S")
_END = bytes([len(SYMBOLS)])  # of a row
LONGEST = 100_000
"""How many characters `read` looks at, at most: the largest room has far fewer."""
WIDEST = 50
"""How many rows and columns a room may have."""

_MARKED = (250, 196, 84)  # the ground of a target
_LABELS: Mapping[str, tuple[int, ...]] = {
    "Walls": (WALL,),
    "Targets": (TARGET, BOX_ON_TARGET, PLAYER_ON_TARGET),
    "Boxes": (BOX,),
    "Boxes on targets": (BOX_ON_TARGET,),
    "Player": (PLAYER,),
    "Player on a target": (PLAYER_ON_TARGET,),
}
_SIZE = re.compile(r"The board has (\d{1,3}) rows and (\d{1,3}) columns")
_LINE = re.compile(rf"^({'|'.join(_LABELS)}): (.*)$", re.MULTILINE)
_SPOT = re.compile(r"\((\d{1,3}), (\d{1,3})\)")


def grid(cells: Sequence[int], columns: int, symbols: Sequence[str] = SYMBOLS) -> str:
    """A line per row, a symbol per cell."""
    return shown(lines(cells, columns), signs(symbols))


def lines(cells: Sequence[int], columns: int) -> bytes:
    """The cells with a mark between two rows: what `shown` can show in one go."""
    return _END.join([bytes(cells[start : start + columns]) for start in range(0, len(cells), columns or 1)])


def cells_of(marked: bytes | bytearray) -> bytes:
    """The cells without the marks of `lines`."""
    return bytes(marked.translate(None, _END))


def signs(symbols: Sequence[str]) -> str | tuple[str, ...]:
    """What stands for a cell or the end of a row, by number; text if it is a character each, as usual."""
    several = max(map(len, symbols)) > 1
    return (*symbols, "\n") if several else "".join(symbols) + "\n"


def shown(marked: bytes | bytearray, signs: str | tuple[str, ...]) -> str:
    """A line per row, a sign per cell. Hot: characters are read as an encoding, in one call."""
    if type(signs) is str:
        return codecs.charmap_decode(marked, "strict", signs)[0]
    return "".join([signs[cell] for cell in marked])


def coordinates(cells: Sequence[int], columns: int) -> str:
    """A line per kind of thing, with the row and the column of each; kinds that are not there are left out."""
    lines = [f"The board has {len(cells) // columns} rows and {columns} columns; (0, 0) is at the top left."]
    spots = _spots(len(cells), columns)
    for label, kinds in _LABELS.items():
        if found := [spot for spot, cell in zip(spots, cells, strict=True) if cell in kinds]:
            lines.append(f"{label}: {', '.join(found)}")
    return "\n".join(lines)


@lru_cache(maxsize=64)
def _spots(count: int, columns: int) -> tuple[str, ...]:
    return tuple(f"({number // columns}, {number % columns})" for number in range(count))


def grid_and_coordinates(cells: Sequence[int], columns: int, symbols: Sequence[str] = SYMBOLS) -> str:
    """Both, the coordinates first."""
    return f"Coordinates:\n{coordinates(cells, columns)}\nGrid:\n{grid(cells, columns, symbols)}"


def scene(cells: Sequence[int], columns: int) -> Scene:
    """The room for a picture: bricks, parcels and a player; targets are marked on the ground."""
    room = np.array([*cells]).reshape(-1, columns)
    ground = checkered(*room.shape, GROUND)
    ground[np.isin(room, _LABELS["Targets"])] = _MARKED
    things = {"brick": room == WALL, "parcel": np.isin(room, (BOX, BOX_ON_TARGET))}
    ((row, column),) = np.argwhere(np.isin(room, (PLAYER, PLAYER_ON_TARGET))).tolist()
    return Scene(ground, things, [(row, column)])


# -- back from text ----------------------------------------------------------------------------------------


def read(text: str, symbols: Sequence[str] = SYMBOLS) -> tuple[list[int], int]:
    """Reads a room from any of the three texts; spaces do not matter.

    Returns:
        The cells and the number of columns, of a room that keeps to the rules: walls all round, one player, as many
        targets as boxes.

    Raises:
        BadInput: it is not such a room.
    """
    if not isinstance(text, str):
        raise BadInput(f"a Sokoban room is text, not {type(text).__name__}; see paceline.worlds.text.sokoban.views")
    if len(text) > LONGEST:
        raise BadInput(f"a Sokoban room of {len(text)} characters is too long; {LONGEST} are enough")
    cells, columns = _from_coordinates(text) if _SIZE.search(text) else _from_grid(text, symbols)
    _check(cells, columns)
    return cells, columns


def _from_grid(text: str, symbols: Sequence[str]) -> tuple[list[int], int]:
    plain = ["".join(symbol.split()) for symbol in symbols]
    pattern = re.compile("|".join(map(re.escape, sorted(plain, key=len, reverse=True))))
    rows = []
    for line in text.split("\n"):
        signs = "".join(line.split())
        row = pattern.findall(signs)
        if "".join(row) != signs:
            raise BadInput(f"a Sokoban room has a line {line[:60]!r}; its symbols are {' '.join(plain)}")
        rows += [row] if row else []
    if len({len(row) for row in rows}) != 1:
        raise BadInput("the lines of a Sokoban room have different lengths, or there are none; show it as a rectangle")
    return [plain.index(sign) for row in rows for sign in row], len(rows[0])


def _from_coordinates(text: str) -> tuple[list[int], int]:
    rows, columns = (int(number) for number in _SIZE.findall(text)[0])
    _check_size(rows, columns)
    found = {label: _SPOT.findall(spots) for label, spots in _LINE.findall(text)}
    cells = [FLOOR] * (rows * columns)
    for label, kinds in _LABELS.items():
        for row, column in found.get(label, ()):
            if int(row) >= rows or int(column) >= columns:
                raise BadInput(f"a Sokoban room of {rows} × {columns} cells has no cell ({row}, {column})")
            cells[int(row) * columns + int(column)] = kinds[0]
    return cells, columns


def _check_size(rows: int, columns: int) -> None:
    if not (3 <= rows <= WIDEST and 3 <= columns <= WIDEST):
        raise BadInput(f"a Sokoban room of {rows} × {columns} cells cannot be; each side has 3 to {WIDEST}")


def _check(cells: list[int], columns: int) -> None:
    _check_size(len(cells) // columns, columns)
    border = cells[:columns] + cells[-columns:] + cells[::columns] + cells[columns - 1 :: columns]
    if any(border):
        raise BadInput("a Sokoban room must have walls all round")
    count = [cells.count(kind) for kind in range(len(MEANINGS))]
    if count[PLAYER] + count[PLAYER_ON_TARGET] != 1:
        raise BadInput(f"a Sokoban room has one player, not {count[PLAYER] + count[PLAYER_ON_TARGET]}")
    boxes, targets = count[BOX] + count[BOX_ON_TARGET], sum(count[kind] for kind in _LABELS["Targets"])
    if not boxes or boxes != targets:
        raise BadInput(f"a Sokoban room has as many targets as boxes, and one at least; not {boxes} and {targets}")
