"""2048: slide all tiles of a grid to one side; equal ones that meet become one of twice the worth.

    state    the rows, the moves that are possible, the score
    action   Up, Right, Down, Left
    reward   what was merged: 0.1 * log2(merged + 1), or the plain sum

The first two tiles follow from the seed; those that appear later follow from the dynamics.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator

from paceline.errors import BadInput
from paceline.seeds import sequence
from paceline.settings import Settings
from paceline.worlds.text.actions import Outcome, after_the_end, find

INSTRUCTION = """\
You play 2048. Tiles slide Up, Right, Down or Left as far as they can; two equal tiles that meet merge into their sum.
After each move a new tile appears. A move that changes nothing is lost. Try to reach 2048. Answer with one move.
Example: <think>The two 4s in the first row would merge.</think><answer>Left</answer>"""

LEGEND: Mapping[str, str] = MappingProxyType({"0": "an empty cell", "2, 4, 8 …": "a tile of that worth"})

UP, RIGHT, DOWN, LEFT = range(4)
NAMES: Mapping[int, str] = MappingProxyType({UP: "Up", RIGHT: "Right", DOWN: "Down", LEFT: "Left"})
GOAL = 2048

Grid = list[list[int]]


class Game2048Config(Settings):
    """How large the grid is, and how merging is rewarded."""

    size: int = Field(4, ge=2, le=16, description="Rows and columns.")
    two_prob: float = Field(0.9, ge=0, le=1, description="How often a new tile is a 2; else it is a 4.")
    render_mode: Literal["text"] = "text"
    action_lookup: dict[int, str] = Field(
        default_factory=lambda: dict(NAMES),
        description="Other names for the moves 0 (up), 1 (right), 2 (down) and 3 (left).",
    )
    use_log_reward: bool = Field(True, description="Rewards are 0.1 * log2(merged + 1), and never negative.")
    invalid_act_score: float = Field(-0.1, description="For a move that changes nothing, if rewards are plain.")

    @field_validator("action_lookup", mode="before")
    @classmethod
    def _default_names(cls, names: Any) -> Any:
        return dict(NAMES) if names is None else names

    @field_validator("action_lookup")
    @classmethod
    def _four_names(cls, names: dict[int, str]) -> dict[int, str]:
        if set(names) != {UP, RIGHT, DOWN, LEFT} or len({name.casefold() for name in names.values()}) < 4:
            raise ValueError("expected four different names, for 0, 1, 2 and 3")
        return names


class Game2048:
    """A game until no move is left.

    Attributes:
        grid: The rows of the grid; 0 is an empty cell.
        score: The sum of all that was merged.
    """

    Config = Game2048Config

    def __init__(self, config: Mapping[str, Any] | Game2048Config | None = None) -> None:
        self.config = Game2048Config.read(config, "game_2048")
        self.action_lookup: Mapping[int, str] = MappingProxyType(self.config.action_lookup)
        self.grid: Grid = []
        self.score = 0
        self._possible: list[int] = []  # moves; worked out once per grid, because four grids are made for it
        self._chance = np.random.default_rng(0)

    def reset(self, seed: int, mode: str = "train", *, layout: Any = None, dynamics: int | None = None) -> str:
        """Lays the first two tiles by the seed; later ones follow from `dynamics`, or else from the seed too."""
        rng = np.random.default_rng(sequence(seed, "game_2048", "layout"))
        self._chance = np.random.default_rng(sequence(seed if dynamics is None else dynamics, "game_2048", "dynamics"))
        self.grid = [[0] * self.config.size for _ in range(self.config.size)]
        self.score = 0
        self._lay_tile(rng)
        self._lay_tile(rng)
        self._possible = _possible_moves(self.grid)
        return self.render()

    def step(self, action: int | str) -> Outcome:
        """Makes a move; a new tile appears if it changed anything."""
        if not self.grid:
            raise BadInput("the grid is not laid yet: call reset() before the first step")
        if not self._possible:
            return after_the_end(self.render(), self._reached())
        move = find(action, self.action_lookup)
        grid, merged = (self.grid, 0) if move is None else slide(self.grid, move)
        moved = grid != self.grid
        if moved:
            self.grid = grid
            self.score += merged
            self._lay_tile(self._chance)
            self._possible = _possible_moves(self.grid)
        raw = float(merged) if moved else self.config.invalid_act_score
        return self.render(), self._reward(raw), not self._possible, self._info(moved, raw)

    @property
    def max_tile(self) -> int:
        """The largest tile; 0 before the first reset."""
        return max((max(row) for row in self.grid), default=0)

    def valid_actions(self) -> list[int]:
        """The moves that change something."""
        return self._possible.copy()

    def render(self, mode: str | None = None) -> str:
        """The grid, the possible moves and the score."""
        if not self.grid:
            return ""
        names = ", ".join(self.action_lookup[move] for move in self._possible)
        rows = [f"Row {number}: {row}" for number, row in enumerate(self.grid, 1)]
        return "\n".join([*rows, "", f"Possible moves: {names or 'none'}.", f"Score: {self.score}"])

    def close(self) -> None:
        """Nothing to release."""

    def snapshot(self) -> Any:
        """Everything that an episode is, the state of chance too."""
        return [row.copy() for row in self.grid], self.score, self._chance.bit_generator.state

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot."""
        grid, self.score, self._chance.bit_generator.state = state
        self.grid = [row.copy() for row in grid]
        self._possible = _possible_moves(self.grid)

    def _reward(self, raw: float) -> float:
        if not self.config.use_log_reward:
            return raw
        return 0.1 * math.log2(raw + 1) if raw > 0 else 0.0

    def _info(self, moved: bool, raw: float) -> dict[str, Any]:
        said = {"action_is_valid": moved, "action_is_effective": moved, "success": self._reached()}
        return {**said, "raw_reward": raw, "score": self.score, "max_tile": self.max_tile}

    def _reached(self) -> bool:
        return self.max_tile >= GOAL

    def _lay_tile(self, rng: np.random.Generator) -> None:
        free = [(row, column) for row, tiles in enumerate(self.grid) for column, tile in enumerate(tiles) if not tile]
        row, column = free[int(rng.integers(len(free)))]
        self.grid[row][column] = 2 if rng.random() < self.config.two_prob else 4


def _possible_moves(grid: Grid) -> list[int]:
    return [move for move in (UP, RIGHT, DOWN, LEFT) if slide(grid, move)[0] != grid]


def slide(grid: Grid, move: int) -> tuple[Grid, int]:
    """Gives the grid after a move, before a new tile appears, and the sum of what has merged."""
    lines = [list(line) for line in zip(*grid, strict=True)] if move in (UP, DOWN) else grid
    turned = move in (RIGHT, DOWN)
    slid = [_slide_line(line[::-1] if turned else line) for line in lines]
    moved = [line[::-1] if turned else line for line, _ in slid]
    back = [list(line) for line in zip(*moved, strict=True)] if move in (UP, DOWN) else moved
    return back, sum(merged for _, merged in slid)


def _slide_line(line: list[int]) -> tuple[list[int], int]:
    """Slides one line to its start; a tile that has merged does not merge again."""
    slid: list[int] = []
    merged, open_ = 0, False  # whether the last tile may still merge
    for tile in filter(None, line):
        if open_ and slid[-1] == tile:
            slid[-1] *= 2
            merged += slid[-1]
            open_ = False
        else:
            slid.append(tile)
            open_ = True
    return slid + [0] * (len(line) - len(slid)), merged
