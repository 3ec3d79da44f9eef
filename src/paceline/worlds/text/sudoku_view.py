"""How a Sudoku is shown in words: the grid, what came of the last move, and what could come next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isqrt
from typing import TYPE_CHECKING

from paceline.worlds.text.sudoku_grid import fitting, units

if TYPE_CHECKING:
    from paceline.worlds.text.sudoku import SudokuConfig

FEW = 10  # with so many empty cells left, those are listed


class SudokuView:
    """Shows a puzzle as its settings say."""

    def __init__(self, config: SudokuConfig) -> None:
        self._config = config
        self._size = config.grid_size
        self._box = isqrt(config.grid_size)

    def show(self, given: Sequence[int], cells: Sequence[int], steps: int, said: str) -> str:
        """The whole state as text."""
        marked = self._config.render_format != "simple"
        lines = [*self._grid(given if marked else None, cells)]
        if marked:
            lines += ["", "[5] is given, 5 is placed, . is empty", *(["", said] if said else [])]
        if self._config.render_format == "with_feedback":
            lines += self._hints(cells)
            filled, first = len(cells) - cells.count(0), len(cells) - given.count(0)
            lines += ["", f"Filled: {filled} of {len(cells)} ({first} given, {filled - first} placed)"]
            lines += [f"Moves: {steps} of {self._config.max_steps}"]
        return "\n".join(lines)

    def conflict(self, cells: Sequence[int], place: int, number: int, fits: Sequence[int]) -> str:
        """Why a number cannot be placed: where it stands already, and what would fit."""
        words = f"{number} does not fit"
        if self._config.show_conflicts:
            words = f"{number} is already in {' and '.join(self._clashes(cells, place, number))}"
        if self._config.show_valid_numbers:
            words += f"; at {self._name(place)} fit {list(fits) or 'no numbers'}"
        return words

    def _clashes(self, cells: Sequence[int], place: int, number: int) -> Iterator[str]:
        row, column, box = homes = units(self._size)[place]
        names = (f"row {row + 1}", f"column {column - self._size + 1}", f"box {box - 2 * self._size + 1}")
        for home, name in zip(homes, names, strict=True):
            if any(cells[other] == number and home in units(self._size)[other] for other in range(len(cells))):
                yield name

    def _grid(self, given: Sequence[int] | None, cells: Sequence[int]) -> Iterator[str]:
        """The rows, with lines between the boxes; without what is given, all numbers look alike."""
        for row in range(self._size):
            places = range(row * self._size, (row + 1) * self._size)
            shown = [self._cell(cells[place], given is not None, bool(given and given[place])) for place in places]
            boxes = (" ".join(shown[start : start + self._box]) for start in range(0, self._size, self._box))
            line = " | ".join(boxes)
            if row and row % self._box == 0:
                yield "-" * len(line)
            yield line.rstrip()

    def _cell(self, number: int, marked: bool, is_given: bool) -> str:
        text = f"[{number}]" if is_given else f" {number or '.'} " if marked else str(number or ".")
        return text.rjust(len(str(self._size)) + 2 * marked)

    def _hints(self, cells: Sequence[int]) -> Iterator[str]:
        empty = [place for place, number in enumerate(cells) if not number]
        few = self._config.show_valid_numbers and 0 < len(empty) <= FEW
        if few or (self._config.show_candidates and empty):
            yield from ("", "What fits:")
            yield from (f"  {self._name(place)}: {fitting(cells, self._size, place)}" for place in empty)

    def _name(self, place: int) -> str:
        return f"({place // self._size + 1},{place % self._size + 1})"
