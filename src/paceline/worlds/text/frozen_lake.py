"""Frozen lake: walk over slippery ice to the goal, and into no hole. The dynamics are those of Gymnasium's FrozenLake.

    seed ── lake ──► tiles S F H G ── step: where the ice may take the player, and one draw ──► spot, reward, done

A lake is its tiles in one string, row by row (start, frozen, hole, goal), and its number of columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from paceline.errors import BadInput
from paceline.seeds import sequence
from paceline.settings import Settings
from paceline.worlds import picture
from paceline.worlds.text.actions import find

Array = np.ndarray[Any, Any]

INSTRUCTION = """\
You stand on a frozen lake and must walk to the goal. To step into a hole ends the walk.
The ice may be slippery: then a move sometimes takes you to the left or to the right of where you meant to go.
At the edge of the lake you stay where you are.
Answer with the moves to make, in their order, like this: <answer>Down || Right</answer>"""
"""What a model is told about the task and the form of its answer."""

MEANINGS = ("player", "empty", "hole", "goal", "player in hole", "player on goal")
SYMBOLS = ("P", "_", "O", "G", "X", "√")
LEGEND: Mapping[str, str] = MappingProxyType(dict(zip(SYMBOLS, MEANINGS, strict=True)))
"""The symbols of the grid."""

TRIES = 64
WIDEST = 50
MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))
"""What left, down, right and up do, as (row, column). Neighbours in this order are at right angles."""

_ICE, _WATER = ((214, 234, 246), (206, 228, 242)), (44, 82, 130)

Outcome = tuple[float, int, float, bool]
"""Probability, spot, reward, whether it is over."""


class FrozenLakeConfig(Settings):
    """The settings of a frozen lake."""

    size: int = Field(4, ge=2, le=WIDEST, description="Rows, and columns.")
    p: float = Field(0.9, ge=0, le=1, description="How likely a cell is frozen; the others are holes.")
    is_slippery: bool = Field(True, description="Whether the ice may take the player aside.")
    success_rate: float = Field(0.8, ge=0, le=1, description="On slippery ice: how often a move goes as intended.")
    map_seed: int | None = Field(None, ge=0, description="Every episode on the lake of this seed; None: on its own.")
    render_mode: Literal["text", "rgb_array"] = Field("text", description="Whether states are text or pictures.")
    observation_format: Literal["grid", "coord", "grid_coord"] = Field("grid", description="Which text.")
    grid_lookup: dict[int, str] = Field(
        default_factory=lambda: dict(enumerate(SYMBOLS)), description="The symbol of each kind of cell, by its number."
    )
    grid_vocab: dict[str, str] | None = Field(None, description="What the symbols mean; None: the usual words.")
    action_lookup: dict[int, str] = Field(
        default_factory=lambda: {1: "Left", 2: "Down", 3: "Right", 4: "Up"}, description="The names of the actions."
    )

    @model_validator(mode="after")
    def _names_all(self) -> Self:
        signs = ["".join(sign.split()) for sign in self.grid_lookup.values()]
        if sorted(self.grid_lookup) != list(range(len(MEANINGS))) or len({*signs}) < len(MEANINGS) or "" in signs:
            raise ValueError("grid_lookup must give the numbers 0 to 5 a symbol each, all different")
        names = {name.strip().lower() for name in self.action_lookup.values()}
        if sorted(self.action_lookup) != [1, 2, 3, 4] or len(names) < 4 or "" in names:
            raise ValueError("action_lookup must give the numbers 1 to 4 (left, down, right, up) different names")
        return self

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols by the kind of cell."""
        return tuple(self.grid_lookup[kind] for kind in range(len(MEANINGS)))

    @property
    def legend(self) -> dict[str, str]:
        """What each symbol means, for the instructions."""
        return self.grid_vocab or dict(zip(self.symbols, MEANINGS, strict=True))


# -- the lake ----------------------------------------------------------------------------------------------


def lake(size: int, p: float, rng: np.random.Generator) -> str:
    """Makes a lake with start and goal anywhere, and a way between them; only `random` is called of `rng`."""
    for _ in range(TRIES):
        draws = rng.random(size * size + 2).tolist()
        tiles = ["F" if draw < p else "H" for draw in draws[2:]]
        start = int(draws[0] * len(tiles))
        goal = (start + 1 + int(draws[1] * (len(tiles) - 1))) % len(tiles)
        tiles[start], tiles[goal] = "S", "G"
        if goal in reachable(tiles, size, start):
            return "".join(tiles)
    return "".join(_freeze_a_way(tiles, size, start, goal))  # there are next to nothing but holes


def reachable(tiles: Sequence[str], columns: int, start: int) -> dict[int, tuple[int, int]]:
    """The spots that can be walked to from `start`, nearest first; each with the one before it and the direction."""
    came: dict[int, tuple[int, int]] = {start: (start, -1)}
    queue = [start]
    for spot in queue:
        for direction in range(4) if tiles[spot] not in "GH" else ():
            after = neighbour(spot, direction, len(tiles), columns)
            if after not in came and tiles[after] != "H":
                came[after] = spot, direction
                queue.append(after)
    return came


def neighbour(spot: int, direction: int, count: int, columns: int) -> int:
    """Where a step leads to, on a lake of so many cells; at the edge, nowhere else."""
    row, column = divmod(spot, columns)
    down, right = MOVES[direction]
    row, column = row + down, column + right
    return row * columns + column if 0 <= column < columns and 0 <= row * columns < count else spot


def outcomes(tiles: str, columns: int, spot: int, direction: int, sure: float | None) -> list[Outcome]:
    """Everything that may come of a move; the same, in the same order, as in the table `P` of Gymnasium's FrozenLake.

    Args:
        tiles: The lake.
        columns: Its width.
        spot: Where the player is.
        direction: 0 to 3 for left, down, right, up.
        sure: How likely the move goes as intended; the rest goes half to either side. None: the ice is not slippery.
    """
    if tiles[spot] in "GH":
        return [(1.0, spot, 0.0, True)]
    aside = 0.0 if sure is None else (1.0 - sure) / 2.0
    turns = ((0, 1.0),) if sure is None else ((-1, aside), (0, sure), (1, aside))
    ends = [(chance, neighbour(spot, (direction + turn) % 4, len(tiles), columns)) for turn, chance in turns]
    return [(chance, after, float(tiles[after] == "G"), tiles[after] in "GH") for chance, after in ends]


def _freeze_a_way(tiles: list[str], columns: int, start: int, goal: int) -> list[str]:
    """Up or down to the goal's row, then along it."""
    (row, column), (to_row, to_column) = divmod(start, columns), divmod(goal, columns)
    way = [(line, column) for line in range(min(row, to_row), max(row, to_row) + 1)]
    way += [(to_row, place) for place in range(min(column, to_column), max(column, to_column) + 1)]
    holes = {line * columns + place for line, place in way if tiles[line * columns + place] == "H"}
    return ["F" if spot in holes else tile for spot, tile in enumerate(tiles)]


def _read(layout: str) -> tuple[str, int]:
    rows = layout.split() if isinstance(layout, str) else []
    tiles = "".join(rows)
    if not rows or len({*map(len, rows)}) != 1 or not {*tiles} <= {*"SFHG"} or max(len(rows), len(rows[0])) > WIDEST:
        raise BadInput(f"a lake is up to {WIDEST} lines of the same length, of the letters SFHG; not {layout!r:.60}")
    if tiles.count("S") != 1 or "G" not in tiles:
        raise BadInput("a lake needs one S to start from, and a G to go to")
    return tiles, len(rows[0])


# -- the environment ---------------------------------------------------------------------------------------


class FrozenLake:
    """A walk over the ice, played in words; 1 for the goal, 0 for everything else.

    Args:
        config: Settings, or a mapping with some of them.

    Raises:
        BadInput: a setting is wrong.
    """

    Config = FrozenLakeConfig

    def __init__(self, config: Mapping[str, Any] | FrozenLakeConfig | None = None) -> None:
        self.config = FrozenLakeConfig.read(config, "frozen_lake")
        self.action_lookup: Mapping[int, str] = self.config.action_lookup
        self._symbols = self.config.symbols
        self._sure = self.config.success_rate if self.config.is_slippery else None
        self._tiles, self._columns, self._spot = "", 0, 0
        self._rng = np.random.default_rng(0)

    def reset(self, seed: int, mode: str = "train", *, layout: str | None = None, dynamics: int | None = None) -> Any:
        """Begins an episode and shows it.

        Args:
            seed: Decides the lake.
            mode: "train" or "val"; lakes are the same in both.
            layout: A lake to walk on instead, as lines of S, F, H and G.
            dynamics: Decides where the ice takes the player; by default it follows from `seed`.

        Raises:
            BadInput: the layout is not a lake.
        """
        self._tiles, self._columns = self._lake(seed) if layout is None else _read(layout)
        self._spot = self._tiles.index("S")
        self._rng = np.random.default_rng(sequence(seed if dynamics is None else dynamics, "frozen_lake", "dynamics"))
        return self.render()

    def step(self, action: int | str) -> tuple[Any, float, bool, dict[str, Any]]:
        """Makes a move; an unknown action does nothing.

        Raises:
            BadInput: it has not been reset.
        """
        number = find(action, self.action_lookup)
        if self.over or number is None:
            return self.render(), 0.0, self.over, self._info(False, False)
        before = self._spot
        _, self._spot, reward, over = self._drawn(outcomes(self._tiles, self._columns, before, number - 1, self._sure))
        return self.render(), reward, over, self._info(True, self._spot != before)

    @property
    def success(self) -> bool:
        """Whether the player is on the goal."""
        return self._tiles[self._spot : self._spot + 1] == "G"

    @property
    def over(self) -> bool:
        """Whether the episode has ended, on the goal or in a hole; or has not begun."""
        return self._tiles[self._spot : self._spot + 1] not in ("S", "F")

    def render(self, mode: str | None = None) -> str | Array:
        """Shows the lake.

        Args:
            mode: "grid", "coord", "grid_coord"; "text": that of them which is configured; "ansi": coloured, for a
                terminal; "rgb_array": a picture; None: as configured.

        Raises:
            BadInput: there is no such mode, or it has not been reset.
        """
        mode = mode or self.config.render_mode
        mode = self.config.observation_format if mode == "text" else mode
        if not self._tiles:
            raise BadInput("this frozen lake is not there yet: call reset() first")
        if mode == "grid":
            return self._grid()
        if mode == "coord":
            return self._coordinates()
        if mode == "grid_coord":
            return f"Coordinates:\n{self._coordinates()}\nGrid:\n{self._grid()}"
        if mode in ("rgb_array", "ansi"):
            return picture.rgb(self._scene()) if mode == "rgb_array" else picture.text(self._scene())
        raise BadInput(
            f"a frozen lake has no render mode {mode[:60]!r}: text, grid, coord, grid_coord, ansi, rgb_array"
        )

    def close(self) -> None:
        """Nothing is held that must be given back."""

    def snapshot(self) -> tuple[str, int, int, Any]:
        """The state in mid-episode: tiles, columns, spot, and the generator's."""
        return self._tiles, self._columns, self._spot, self._rng.bit_generator.state

    def restore(self, state: tuple[str, int, int, Any]) -> None:
        """Goes on from a snapshot."""
        self._tiles, self._columns, self._spot, generator = state
        self._rng = np.random.default_rng(0)
        self._rng.bit_generator.state = generator

    def _lake(self, seed: int) -> tuple[str, int]:
        config = self.config
        rng = np.random.default_rng(
            sequence(seed if config.map_seed is None else config.map_seed, "frozen_lake", "layout")
        )
        return lake(config.size, config.p, rng), config.size

    def _drawn(self, found: list[Outcome]) -> Outcome:
        """One of the outcomes: the first that a uniform draw is below, chances added up; as Gymnasium draws."""
        draw, total = self._rng.random(), 0.0
        for outcome in found:
            total += outcome[0]
            if draw < total:
                return outcome
        return found[0]  # the chances can add up to a hair less than 1

    def _grid(self) -> str:
        signs = [self._symbols[1 if tile in "SF" else 2 if tile == "H" else 3] for tile in self._tiles]
        under = self._tiles[self._spot]
        signs[self._spot] = self._symbols[4 if under == "H" else 5 if under == "G" else 0]
        columns = self._columns
        return "\n".join(["".join(signs[start : start + columns]) for start in range(0, len(signs), columns)])

    def _coordinates(self) -> str:
        rows = len(self._tiles) // self._columns
        under = self._tiles[self._spot]
        label = "Player in a hole" if under == "H" else "Player on the goal" if under == "G" else "Player"
        spots = {"Start": self._spots("S"), "Goal": self._spots("G"), label: [self._spot], "Holes": self._spots("H")}
        lines = [f"The lake has {rows} rows and {self._columns} columns; (0, 0) is at the top left."]
        for name, numbers in spots.items():
            where = [f"({number // self._columns}, {number % self._columns})" for number in numbers]
            lines += [f"{name}: {', '.join(where)}"] if where else []
        return "\n".join(lines)

    def _spots(self, kind: str) -> list[int]:
        return [number for number, tile in enumerate(self._tiles) if tile == kind]

    def _scene(self) -> picture.Scene:
        tiles = np.array([*self._tiles]).reshape(-1, self._columns)
        ground = picture.checkered(*tiles.shape, _ICE)
        ground[tiles == "H"] = _WATER
        return picture.Scene(ground, {"house": tiles == "G"}, [divmod(self._spot, self._columns)])

    def _info(self, valid: bool, effective: bool) -> dict[str, Any]:
        return {"action_is_effective": effective, "action_is_valid": valid, "success": self.success}
