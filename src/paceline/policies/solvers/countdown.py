"""Countdown, solved: every way to join two numbers is tried, then every way to join what is left, with exact fractions.

[95, 36, 11] ── join two ──► [95 - 36, 11] ── join two ──► [(95 - 36) + 11] = 70
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from paceline.types import Turn

LONGEST = 10_000  # characters of a state that are looked at
MOST_NUMBERS = 8  # that is as many as the world gives
PATIENCE = 50_000  # lists of numbers that are looked at: all there are of five numbers, and a part beyond

_TASK = re.compile(r"Target: (-?[0-9]+), nums: \[([0-9, ]*)\]", re.ASCII)

Term = tuple[Fraction, str]
"""A value, and the expression that gives it."""


class CountdownSolver:
    """Finds an expression for every task that has one, up to five numbers; with more it may give up."""

    def actions(self, turn: Turn) -> list[str]:
        """An expression, or nothing if the state shows no task, or none is found."""
        task = _TASK.search(turn.state[:LONGEST])
        if task is None:
            return []
        nums = [int(number) for number in task[2].replace(",", " ").split()]
        found = solve(int(task[1]), nums) if 1 <= len(nums) <= MOST_NUMBERS else None
        return [] if found is None else [found]


def solve(target: int, nums: list[int]) -> str | None:
    """Gives an expression that uses each number once and has the target's value; None if none is found."""
    found = _Search(Fraction(target)).join([(Fraction(number), str(number)) for number in nums])
    return found[1:-1] if found and len(nums) > 1 else found  # a join stands in parentheses


class _Search:
    """Goes depth first, and never twice into the same numbers."""

    def __init__(self, target: Fraction) -> None:
        self._target = target
        self._seen: set[tuple[Fraction, ...]] = set()

    def join(self, terms: list[Term]) -> str | None:
        if len(terms) == 1:
            return terms[0][1] if terms[0][0] == self._target else None
        values = tuple(sorted(value for value, _ in terms))
        if values in self._seen or len(self._seen) >= PATIENCE:
            return None
        self._seen.add(values)
        for first in range(len(terms)):
            for second in range(first):
                rest = [term for place, term in enumerate(terms) if place not in (first, second)]
                for joined in _joined(terms[first], terms[second]):
                    if found := self.join([*rest, joined]):
                        return found
        return None


def _joined(one: Term, other: Term) -> Iterator[Term]:
    """Every value that two can give, and how."""
    (a, left), (b, right) = one, other
    yield a + b, f"({left} + {right})"
    yield a - b, f"({left} - {right})"
    yield b - a, f"({right} - {left})"
    yield a * b, f"({left} * {right})"
    if b:
        yield a / b, f"({left} / {right})"
    if a:
        yield b / a, f"({right} / {left})"
