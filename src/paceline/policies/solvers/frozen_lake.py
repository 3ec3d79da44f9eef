"""Plans a walk over a frozen lake from what it shows: the shortest way, or the surest if the ice is slippery.

text ── read ──► tiles, spot ──┬─► not slippery: the shortest way, whole
                               └─► slippery: value iteration, then moves as long as they are right wherever
                                   the ice may have taken the player by then
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from paceline.errors import BadInput
from paceline.types import Turn
from paceline.worlds.text.frozen_lake import WIDEST, FrozenLakeConfig, outcomes, reachable

Array = np.ndarray[Any, Any]

LONGEST = 100_000  # characters that are looked at, at most
PATIENCE = 0.99  # what the goal is worth one step later: so that a sure way is also a way that ends
SWEEPS = 2500  # at most: by then, nothing changes any more that far in the future
SAME = 1e-9  # moves whose values differ by less are equally good

_SIZE = re.compile(r"The lake has (\d{1,2}) rows and (\d{1,2}) columns")
_LINE = re.compile(r"^(Goal|Holes|Player|Player in a hole|Player on the goal): (.*)$", re.MULTILINE)
_SPOT = re.compile(r"\((\d{1,2}), (\d{1,2})\)")


class FrozenLakeSolver:
    """Answers a turn with the next moves.

    Args:
        is_slippery: Whether the ice is; that cannot be seen, so it is the environment's setting.
        success_rate: Likewise: how often a move on slippery ice goes as intended.
        grid_lookup: The symbols, if the environment was given others than the usual.
        action_lookup: The names of the actions, likewise.

    Raises:
        BadInput: one of them is wrong.
    """

    def __init__(
        self,
        is_slippery: bool = True,
        success_rate: float = 0.8,
        grid_lookup: Mapping[int, str] | None = None,
        action_lookup: Mapping[int, str] | None = None,
    ) -> None:
        given = {"is_slippery": is_slippery, "success_rate": success_rate}
        names = {"grid_lookup": grid_lookup, "action_lookup": action_lookup}
        config = FrozenLakeConfig.read({**given, **{key: name for key, name in names.items() if name}}, "frozen_lake")
        self._sure = config.success_rate if config.is_slippery else None
        self._symbols = config.symbols
        self._names = [config.action_lookup[number] for number in (1, 2, 3, 4)]

    def actions(self, turn: Turn) -> list[str]:
        """The next moves; none if the walk is over, or the goal is out of reach.

        Raises:
            BadInput: the turn shows no frozen lake.
        """
        tiles, columns, spot = read(turn.state, self._symbols)
        if tiles[spot] in "GH":
            return []
        if self._sure is None:
            return [self._names[number] for number in shortest(tiles, columns, spot)]
        surest = _surest(tiles, columns, self._sure, spot, max(turn.actions_left, 1))
        return [self._names[number] for number in surest]


def shortest(tiles: str, columns: int, spot: int) -> list[int]:
    """The directions of a shortest way to a goal; none if there is no way."""
    came = reachable(tiles, columns, spot)
    here = next((place for place in came if tiles[place] == "G"), spot)
    way = []
    while here != spot:
        here, direction = came[here]
        way.append(direction)
    return way[::-1]


def _surest(tiles: str, columns: int, sure: float, spot: int, most: int) -> list[int]:
    """Directions that are best at every spot where the player may be by then: to see more would change nothing."""
    best = best_moves(tiles, columns, sure)
    way: list[int] = []
    spots = {spot}
    while spots and len(way) < most:
        agreed = best[sorted(spots)].all(0)
        if not agreed.any():
            break
        direction = int(agreed.argmax())
        way.append(direction)
        found = [end for here in spots for end in outcomes(tiles, columns, here, direction, sure)]
        spots = {after for chance, after, _, over in found if chance > 0 and not over}
    return way


@lru_cache(maxsize=256)
def best_moves(tiles: str, columns: int, sure: float) -> Array:
    """For each spot, which of the four directions are best on slippery ice; none where the goal is out of reach."""
    table = [[outcomes(tiles, columns, spot, way, sure) for way in range(4)] for spot in range(len(tiles))]
    values = np.zeros(len(tiles))
    worth = np.zeros((len(tiles), 4))
    chance, after, reward = _column(table, 0), _column(table, 1).astype(int), _column(table, 2)
    for _ in range(SWEEPS):
        worth = (chance * (reward + PATIENCE * values[after])).sum(-1)
        before, values = values, worth.max(-1)
        if abs(values - before).max() < SAME / 10:
            break
    best: Array = (worth >= worth.max(-1, keepdims=True) - SAME) & (worth > SAME)
    return best


def _column(table: Sequence[Sequence[Sequence[tuple[float, int, float, bool]]]], number: int) -> Array:
    """One column of all outcomes: spots × directions × 3; an end has one outcome only, and the others count nothing."""
    nothing = (0.0, 0, 0.0, True)
    padded = [[[end[number] for end in (*ends, nothing, nothing)[:3]] for ends in ways] for ways in table]
    return np.array(padded, float)


# -- from text ---------------------------------------------------------------------------------------------


def read(text: str, symbols: Sequence[str]) -> tuple[str, int, int]:
    """Reads a lake from any of its three texts: its tiles, its number of columns, and the player's spot.

    Raises:
        BadInput: it is not a lake.
    """
    if len(text) > LONGEST:
        raise BadInput(f"a lake of {len(text)} characters is too long; {LONGEST} are enough")
    kinds, columns = _from_coordinates(text) if _SIZE.search(text) else _from_grid(text, symbols)
    players = [spot for spot, kind in enumerate(kinds) if kind in (0, 4, 5)]
    if len(players) != 1:
        raise BadInput(f"a lake has one player on it, not {len(players)}")
    return "".join("FFHGHG"[kind] for kind in kinds), columns, players[0]


def _from_grid(text: str, symbols: Sequence[str]) -> tuple[list[int], int]:
    plain = ["".join(symbol.split()) for symbol in symbols]
    pattern = re.compile("|".join(map(re.escape, sorted(plain, key=len, reverse=True))))
    lines = ["".join(line.split()) for line in text.split("\n") if line.strip()]
    rows = [pattern.findall(line) for line in lines]
    if ["".join(row) for row in rows] != lines or len({*map(len, rows)}) != 1:
        raise BadInput(f"a lake is lines of the same length, of the symbols {' '.join(plain)}; not {text[:60]!r}")
    if max(len(rows), len(rows[0])) > WIDEST:
        raise BadInput(f"a lake has at most {WIDEST} rows and columns, not {len(rows)} and {len(rows[0])}")
    return [plain.index(sign) for row in rows for sign in row], len(rows[0])


def _from_coordinates(text: str) -> tuple[list[int], int]:
    rows, columns = (int(number) for number in _SIZE.findall(text)[0])
    found = {label: _SPOT.findall(spots) for label, spots in _LINE.findall(text)}
    kinds = [1] * (rows * columns)
    for kind, label in ((2, "Holes"), (3, "Goal"), (0, "Player"), (4, "Player in a hole"), (5, "Player on the goal")):
        for row, column in found.get(label, ()):
            if int(row) >= rows or int(column) >= columns:
                raise BadInput(f"a lake of {rows} × {columns} cells has no cell ({row}, {column})")
            kinds[int(row) * columns + int(column)] = kind
    return kinds, columns
