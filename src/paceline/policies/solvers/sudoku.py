"""Sudoku, solved: the grid is read from the text, completed by search, and what is missing is placed."""

from __future__ import annotations

import re
from math import isqrt

from paceline.types import Turn
from paceline.worlds.text.sudoku_grid import fitting, solve

LONGEST = 20_000  # characters of a state that are looked at

_ROW = re.compile(r"[0-9.|\[\] ]+", re.ASCII)
_CELL = re.compile(r"\[[0-9]+\]|[0-9]+|\.", re.ASCII)


class SudokuSolver:
    """Places what is missing, and replaces what is wrong."""

    def actions(self, turn: Turn) -> list[str]:
        """All moves that are left, in an order in which each fits; nothing if there is no grid or no solution."""
        grid = _read(turn.state[:LONGEST])
        size = isqrt(len(grid))
        if size not in (4, 9, 16) or size * size != len(grid):
            return []
        cells, given = _numbers(grid, size), _givens(grid, size)
        solution = solve(given, size)
        return [] if solution is None else _moves(cells, solution, size)


def _read(state: str) -> list[str]:
    """The cells of the grid as they are written."""
    rows = [_CELL.findall(line) for line in state.splitlines() if _ROW.fullmatch(line)]
    return [cell for row in rows if row for cell in row]


def _numbers(grid: list[str], size: int) -> list[int]:
    numbers = [int(cell.strip("[].") or 0) for cell in grid]
    return [number if number <= size else 0 for number in numbers]


def _givens(grid: list[str], size: int) -> list[int]:
    """The numbers that stay: those in brackets, or all if the view has no brackets."""
    marked = any(cell.startswith("[") for cell in grid)
    return _numbers([cell if cell.startswith("[") or not marked else "." for cell in grid], size)


def _moves(cells: list[int], solution: list[int], size: int) -> list[str]:
    moves: list[str] = []
    missing = [place for place, number in enumerate(solution) if cells[place] != number]
    while fits := [place for place in missing if solution[place] in fitting(cells, size, place)]:
        for place in fits:
            cells[place] = solution[place]
            moves.append(f"place {solution[place]} at row {place // size + 1} col {place % size + 1}")
        missing = [place for place in missing if cells[place] != solution[place]]
    return moves
