"""Sets of cells as whole numbers: bit i is cell i, counted row by row, so a step of all of them at once is a shift.

    ######
    #_XO_#   ──►   floor 0b011110_000000, boxes 0b000100_000000 …
    ######

A room has walls all round: nothing is ever shifted off the end of one row onto the next.
"""

from __future__ import annotations

from collections.abc import Iterator


def moves(columns: int) -> tuple[int, int, int, int]:
    """How far cells are shifted by a step up, down, left and right."""
    return -columns, columns, -1, 1


def shift(cells: int, move: int) -> int:
    """The cells one step further."""
    return cells << move if move > 0 else cells >> -move


def around(cells: int, columns: int) -> int:
    """The neighbours of the cells, on all four sides."""
    return cells << columns | cells >> columns | cells << 1 | cells >> 1


def reach(start: int, free: int, columns: int, steps: int = -1) -> int:
    """Where one can walk to from `start` over `free` cells, in so many steps; -1: as far as it goes."""
    seen = edge = start
    while edge and steps:
        edge = around(edge, columns) & free & ~seen
        seen |= edge
        steps -= 1
    return seen


def members(cells: int) -> Iterator[int]:
    """The numbers of the cells, in rising order."""
    while cells:
        last = cells & -cells
        yield last.bit_length() - 1
        cells ^= last


def together(numbers: list[int]) -> int:
    """The set of cells with these numbers."""
    return sum(1 << number for number in set(numbers))
