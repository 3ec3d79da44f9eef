"""Sudoku without words: which numbers fit, how a grid is completed, and how a puzzle with one solution is made.

    an empty grid ── search, numbers in random order ──► a full grid ── take cells out while it stays the only
    solution ──► Puzzle(given, solution)

A grid is a flat list of size × size numbers, row by row; 0 is empty. Sets of numbers are bits of an int, because
to make one puzzle takes thousands of looks at them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt

import numpy as np

PATIENCE = 5_000  # cells that a search may try: a grid of 9 × 9 needs a few hundred
DOUBT = 300  # … and to show that a puzzle has one solution; what takes longer is not made a puzzle


@dataclass(frozen=True)
class Puzzle:
    """What is given, and the only way to fill the rest."""

    given: tuple[int, ...]
    solution: tuple[int, ...]


@lru_cache(maxsize=8)
def units(size: int) -> tuple[tuple[int, int, int], ...]:
    """For each cell its row, its column and its box, numbered through: rows first, then columns, then boxes."""
    box = isqrt(size)
    cells = ((row, column) for row in range(size) for column in range(size))
    return tuple((r, size + c, 2 * size + r // box * box + c // box) for r, c in cells)


class Search:
    """Fills a grid by trying, always where the fewest numbers fit.

    Args:
        cells: The grid; it is not changed.
        size: How many rows it has.
        order: In which order numbers are tried.
        patience: How many cells may be tried.
    """

    def __init__(
        self, cells: Sequence[int], size: int, order: Sequence[int] | None = None, patience: int = PATIENCE
    ) -> None:
        self.cells = list(cells)
        self._units = units(size)
        self._all = (1 << (size + 1)) - 2
        self._order = [1 << number for number in (order or range(1, size + 1))]
        self._used = [0] * (3 * size)  # for each row, column and box
        self._empty = [place for place, number in enumerate(cells) if not number]
        self._left = patience
        self.consistent = all(self._take(place, 1 << number) for place, number in enumerate(cells) if number)

    @property
    def gave_up(self) -> bool:
        """Whether the search ended because it took too long, so that nothing is known."""
        return self._left <= 0

    def options(self, place: int) -> int:
        """The numbers that fit in a cell, as bits."""
        row, column, box = self._units[place]
        return self._all & ~(self._used[row] | self._used[column] | self._used[box])

    def exclude(self, place: int, number: int) -> bool:
        """Whether the grid can be filled with another number in an empty cell."""
        self._empty.remove(place)
        path = [(place, self._to_try(self.options(place) & ~(1 << number)))]
        return self._go_on(path) and self._run(path)

    def fill(self) -> bool:
        """Fills all empty cells; False if there is no way, or it gave up."""
        return self.consistent and self._run([])

    # A path is the cells that have been filled, each with the numbers that are still to be tried in it. It is a list
    # and no recursion, because a grid of 16 × 16 would need a deeper stack than Python allows.

    def _run(self, path: list[tuple[int, list[int]]]) -> bool:
        while self._empty:
            self._left -= 1
            if self.gave_up:
                return False
            place, options = self._narrowest()
            self._empty.remove(place)
            path.append((place, self._to_try(options)))
            if not self._go_on(path):
                return False
        return True

    def _go_on(self, path: list[tuple[int, list[int]]]) -> bool:
        """Goes back to the last cell where a number is left to try, and puts it there; False if there is none."""
        while path:
            place, bits = path[-1]
            self._clear(place)
            if bits:
                self._put(place, bits.pop())
                return True
            self._empty.append(place)
            path.pop()
        return False

    def _narrowest(self) -> tuple[int, int]:
        """The empty cell where the fewest numbers fit, and which."""
        best, fewest, found = 0, 99, 0
        for place in self._empty:
            options = self.options(place)
            count = options.bit_count()
            if count < fewest:
                best, fewest, found = place, count, options
                if count < 2:
                    return best, found
        return self._forced() or (best, found)

    def _forced(self) -> tuple[int, int] | None:
        """A cell that alone in its row, column or box can take a number, and which; none, if a number has no cell."""
        once, twice = list(self._used), [0] * len(self._used)
        for place in self._empty:
            options = self.options(place)
            for unit in self._units[place]:
                twice[unit] |= once[unit] & options
                once[unit] |= options
        if any(reached != self._all for reached in once):
            return self._empty[0], 0
        for place in self._empty:
            options = self.options(place)
            for unit in self._units[place]:
                if alone := options & ~twice[unit]:
                    return place, alone & -alone
        return None

    def _to_try(self, options: int) -> list[int]:
        """The numbers among the options; the first to be tried is the last."""
        return [bit for bit in reversed(self._order) if options & bit]

    def _put(self, place: int, bit: int) -> None:
        self._take(place, bit)
        self.cells[place] = bit.bit_length() - 1

    def _clear(self, place: int) -> None:
        if number := self.cells[place]:
            self.cells[place] = 0
            for unit in self._units[place]:
                self._used[unit] &= ~(1 << number)

    def _take(self, place: int, bit: int) -> bool:
        """Marks a number as used; False if it was before, that is, if two cells conflict."""
        row, column, box = self._units[place]
        clash = (self._used[row] | self._used[column] | self._used[box]) & bit
        for unit in (row, column, box):
            self._used[unit] |= bit
        return not clash


def solve(cells: Sequence[int], size: int) -> list[int] | None:
    """Completes a grid; None if it cannot be."""
    search = Search(cells, size)
    return search.cells if search.fill() else None


def fitting(cells: Sequence[int], size: int, place: int) -> list[int]:
    """The numbers that a cell may take, whatever is in it now, without a conflict in its row, column or box."""
    used = {cells[other] for other in _peers(size)[place]}
    return [number for number in range(1, size + 1) if number not in used]


@lru_cache(maxsize=8)
def _peers(size: int) -> tuple[tuple[int, ...], ...]:
    """For each cell the others in its row, column and box."""
    homes = units(size)
    return tuple(
        tuple(other for other, theirs in enumerate(homes) if other != place and set(theirs) & set(own))
        for place, own in enumerate(homes)
    )


def make_puzzle(size: int, holes: int, rng: np.random.Generator) -> Puzzle:
    """Makes a puzzle with exactly one solution.

    Args:
        size: 4, 9 or 16.
        holes: How many cells are empty, or as many as one solution allows.
        rng: What decides.
    """
    solution = _full_grid(size, rng)
    cells = list(solution)
    for place in map(int, rng.permutation(size * size)):
        if cells.count(0) == holes:
            break
        number, cells[place] = cells[place], 0
        search = Search(cells, size, patience=DOUBT)
        if search.exclude(place, number) or search.gave_up:
            cells[place] = number
    return Puzzle(tuple(cells), tuple(solution))


def _full_grid(size: int, rng: np.random.Generator) -> list[int]:
    """A full grid: the first row and the order of trying are random, the rest is found."""
    numbers = [int(number) for number in rng.permutation(size) + 1]
    order = [int(number) for number in rng.permutation(size) + 1]
    search = Search([*numbers, *[0] * (size * (size - 1))], size, order)
    return search.cells if search.fill() else _woven_grid(size, rng)


def _woven_grid(size: int, rng: np.random.Generator) -> list[int]:
    """A full grid by construction: a pattern that shifts from row to row, with rows, columns and numbers shuffled."""
    box = isqrt(size)
    rows, columns = (_shuffled_lines(box, rng) for _ in range(2))
    names = rng.permutation(size) + 1
    return [int(names[(row % box * box + row // box + column) % size]) for row in rows for column in columns]


def _shuffled_lines(box: int, rng: np.random.Generator) -> list[int]:
    """Rows, or columns, in another order that keeps those of a box together."""
    return [int(band) * box + int(line) for band in rng.permutation(box) for line in rng.permutation(box)]
