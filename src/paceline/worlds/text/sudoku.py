"""Sudoku: fill the grid so that each row, column and box has every number once.

    state    the grid, with [5] for what is given, 5 for what was placed, and . for what is empty; and what came of the
             last move
    action   "place 5 at row 2 col 3", or "2,3,5"
    reward   1 for the right number, a half for one that only fits, -0.1 for a move that is refused, 10 at the end

A cell pays no more than once: what it has paid for a number that only fits is taken off what it pays later, so that
nothing is to be gained by placing and replacing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from pydantic import Field

from paceline.errors import BadInput
from paceline.seeds import sequence
from paceline.settings import Settings
from paceline.worlds.text.actions import Outcome, after_the_end
from paceline.worlds.text.sudoku_grid import Puzzle, fitting, make_puzzle
from paceline.worlds.text.sudoku_view import SudokuView

INSTRUCTION = """\
You solve a Sudoku. Fill the grid so that every row, every column and every box has each number exactly once.
Numbers in [brackets] are given and stay as they are; a dot is an empty cell. Rows and columns are counted from 1.
Place one number at a time: <answer>place 5 at row 2 col 3</answer>
Or write row,column,number: <answer>2,3,5</answer>"""

LEGEND: Mapping[str, str] = MappingProxyType({"[5]": "a given number", "5": "a placed number", ".": "an empty cell"})

HOLES: Mapping[str, float] = MappingProxyType({"easy": 0.4, "medium": 0.5, "hard": 0.6})
"""What part of the cells is empty."""

LONGEST = 200  # characters of a move; a longer one is not read

_AT = re.compile(
    r"\b([0-9]+)\s+at\s+(?:row\s+([0-9]+)\s*,?\s*col(?:umn)?\s+([0-9]+)|\(?\s*([0-9]+)\s*,\s*([0-9]+))\b", re.ASCII
)
_TRIPLE = re.compile(r"\b([0-9]+)\s*,\s*([0-9]+)\s*,\s*([0-9]+)\b", re.ASCII)


class SudokuConfig(Settings):
    """How large and how hard the puzzle is, how it is shown, and what moves are worth."""

    grid_size: Literal[4, 9, 16] = Field(9, description="Rows and columns.")
    max_steps: int = Field(81, ge=1, description="How many moves an episode has, refused ones too.")
    difficulty: Literal["easy", "medium", "hard"] = Field("easy", description="How many cells are empty.")
    render_mode: Literal["text"] = "text"
    show_conflicts: bool = Field(True, description="Says where a refused number stands already.")
    show_valid_numbers: bool = Field(True, description="Says which numbers fit: in a refused cell, and near the end.")
    show_candidates: bool = Field(False, description="Says which numbers fit in every empty cell.")
    render_format: Literal["simple", "detailed", "with_feedback"] = Field(
        "detailed", description="The grid alone; with what came of the last move; with everything there is to say."
    )
    correct_placement_score: float = 1.0
    invalid_action_score: float = -0.1
    completion_bonus: float = 10.0


class Sudoku:
    """One puzzle with one solution."""

    Config = SudokuConfig
    action_lookup: Mapping[int, str] | None = None

    def __init__(self, config: Mapping[str, Any] | SudokuConfig | None = None) -> None:
        self.config = SudokuConfig.read(config, "sudoku")
        self._size = self.config.grid_size
        self._view = SudokuView(self.config)
        self._puzzle: Puzzle | None = None
        self._cells: list[int] = []
        self._paid: dict[int, float] = {}  # cell → what it has paid
        self._steps = 0
        self._said = ""  # what came of the last move
        self._over = False

    @staticmethod
    def layout(config: SudokuConfig, seed: int, mode: str) -> Puzzle:
        """Makes the puzzle: some 10 to 30 ms for a grid of 9 × 9, seconds for a hard one of 16 × 16."""
        rng = np.random.default_rng(sequence(seed, "sudoku", "layout"))
        return make_puzzle(config.grid_size, int(config.grid_size**2 * HOLES[config.difficulty]), rng)

    def reset(
        self, seed: int, mode: str = "train", *, layout: Puzzle | None = None, dynamics: int | None = None
    ) -> str:
        """Begins a puzzle. It follows from the seed alone: nothing else is random here."""
        self._puzzle = layout or self.layout(self.config, seed, mode)
        self._cells = list(self._puzzle.given)
        self._paid = {}
        self._steps, self._said, self._over = 0, "", False
        return self.render()

    def step(self, action: int | str) -> Outcome:
        """Places a number, or says why not."""
        if self._puzzle is None:
            raise BadInput("there is no puzzle yet: call reset() before the first step")
        if self._over:
            return after_the_end(self.render(), self._solved())
        self._steps += 1
        move = read_move(str(action), self._size)
        reward, info = self._refuse(move) if isinstance(move, str) else self._play(*move)
        self._over = self._solved() or self._steps >= self.config.max_steps
        return self.render(), reward, self._over, info

    def render(self, mode: str | None = None) -> str:
        """The grid, and what the format adds to it."""
        if self._puzzle is None:
            return ""
        return self._view.show(self._puzzle.given, self._cells, self._steps, self._said)

    def close(self) -> None:
        """Nothing to release."""

    def snapshot(self) -> Any:
        """Everything that an episode is."""
        return self._puzzle, self._cells.copy(), self._paid.copy(), self._steps, self._said, self._over

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot."""
        self._puzzle, cells, paid, self._steps, self._said, self._over = state
        self._cells, self._paid = cells.copy(), paid.copy()

    def _solved(self) -> bool:
        return self._puzzle is not None and self._cells == list(self._puzzle.solution)

    def _play(self, place: int, number: int) -> tuple[float, dict[str, Any]]:
        assert self._puzzle is not None
        name = f"({place // self._size + 1},{place % self._size + 1})"
        if self._puzzle.given[place]:
            return self._refuse(f"the number at {name} is given and stays")
        if self._cells[place] == number:
            return self._refuse(f"{number} is at {name} already")
        fits = fitting(self._cells, self._size, place)
        if number not in fits:
            return self._refuse(self._view.conflict(self._cells, place, number, fits), valid_numbers=fits)
        self._cells[place] = number
        right = number == self._puzzle.solution[place]
        self._said = f"Placed {number} at {name}: " + ("right." if right else "it fits, but is not in the solution.")
        return self._pay(place, right), self._info(right)

    def _pay(self, place: int, right: bool) -> float:
        worth = self.config.correct_placement_score * (1.0 if right else 0.5)
        paid = self._paid.get(place, 0.0)
        self._paid[place] = max(worth, paid)
        reward = self._paid[place] - paid
        if self._solved():
            self._said += " The puzzle is solved!"
            reward += self.config.completion_bonus
        return reward

    def _info(self, right: bool) -> dict[str, Any]:
        empty = self._cells.count(0)
        return {
            "action_is_valid": True,
            "action_is_effective": True,
            "success": self._solved(),
            "correct_placement": right,
            "steps_remaining": self.config.max_steps - self._steps,
            "cells_filled": len(self._cells) - empty,
            "cells_remaining": empty,
        }

    def _refuse(self, error: str, **more: Any) -> tuple[float, dict[str, Any]]:
        self._said = f"Refused: {error}."
        info = {"action_is_valid": False, "action_is_effective": False, "success": False, "error": error}
        return self.config.invalid_action_score, {**info, **more}


def read_move(text: str, size: int) -> tuple[int, int] | str:
    """Gives the cell and the number that a move names, or else what is wrong with it."""
    if len(text) > LONGEST:
        return f"a move of {len(text)} characters is too long"
    said = text.lower()
    if found := _AT.search(said):
        number, row, column = (int(part) for part in found.groups() if part is not None)
    elif found := _TRIPLE.search(said):
        row, column, number = map(int, found.groups())
    else:
        return "the move is not understood; write 'place 5 at row 2 col 3' or '2,3,5'"
    for name, value in (("row", row), ("column", column), ("number", number)):
        if not 1 <= value <= size:
            return f"the {name} must be from 1 to {size}, not {value}"
    return (row - 1) * size + column - 1, number
