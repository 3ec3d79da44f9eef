"""Arithmetic in text, worked out exactly and in bounded time: numbers, + - * / and parentheses, nothing else.

    "(95 - 36) / 2" ── tokens ──► a descent over sums, products and signs ──► Expression(numbers, value)

The text comes from a model and may be anything. Nothing is ever run: there are no names, no powers and no calls, so a
value never has more digits than the text, and long or deep texts are refused before any work is done.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

LONGEST = 1000  # characters
DEEPEST = 50  # parentheses and signs within each other

_TOKEN = re.compile(r"\s*(?:(0|[1-9][0-9]*)(?![0-9])|([-+*/()]))", re.ASCII)
_END = ""  # what stands after the last token


class NotArithmetic(ValueError):
    """The text is no expression; says where, and what was met."""


@dataclass(frozen=True)
class Expression:
    """What a text computes.

    Attributes:
        numbers: The numbers that stand in it, in their order.
        value: What comes out, exactly; None if it divides by zero.
    """

    numbers: tuple[int, ...]
    value: Fraction | None


def evaluate(text: str) -> Expression:
    """Works out an expression.

    Raises:
        NotArithmetic: the text is none, or it is longer or deeper than the limits.
    """
    if len(text) > LONGEST:
        raise NotArithmetic(f"{len(text)} characters are too many; at most {LONGEST} are read")
    reader = _Reader(_tokens(text))
    value = reader.sum(0)
    if reader.next != _END:
        raise NotArithmetic(f"{reader.next!r} stands where an operator or the end was expected")
    return Expression(tuple(reader.numbers), value)


def _tokens(text: str) -> list[str]:
    tokens, place, end = [], 0, len(text.rstrip())
    while place < end:
        token = _TOKEN.match(text, place)
        if token is None:
            rest = text[place:].lstrip()
            raise NotArithmetic(f"{rest[:1]!r} is no part of an expression: use whole numbers, + - * / and parentheses")
        tokens.append(token[1] or token[2])
        place = token.end()
    return tokens


class _Reader:
    """Goes once over the tokens. A value of None is one that a division by zero has spoilt."""

    def __init__(self, tokens: list[str]) -> None:
        self.numbers: list[int] = []
        self._tokens = iter(tokens)
        self.next = next(self._tokens, _END)

    def _step(self) -> str:
        """Takes the next token, and looks at the one after it."""
        taken, self.next = self.next, next(self._tokens, _END)
        return taken

    def sum(self, depth: int) -> Fraction | None:
        value = self._product(depth)
        while self.next in ("+", "-"):
            value = _combine(self._step(), value, self._product(depth))
        return value

    def _product(self, depth: int) -> Fraction | None:
        value = self._signed(depth)
        while self.next in ("*", "/"):
            value = _combine(self._step(), value, self._signed(depth))
        return value

    def _signed(self, depth: int) -> Fraction | None:
        if depth > DEEPEST:
            raise NotArithmetic(f"it is nested too deeply; at most {DEEPEST} levels are read")
        token = self._step()
        if token in ("+", "-"):
            return _combine(token, Fraction(0), self._signed(depth + 1))
        if token == "(":
            return self._inner(depth + 1)
        if not token.isdigit():
            raise NotArithmetic(f"{token!r} stands where a number was expected" if token else "a number is missing")
        self.numbers.append(int(token))
        return Fraction(int(token))

    def _inner(self, depth: int) -> Fraction | None:
        value = self.sum(depth)
        if self._step() != ")":
            raise NotArithmetic("a parenthesis is not closed")
        return value


_COMBINE: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
}


def _combine(operator: str, left: Fraction | None, right: Fraction | None) -> Fraction | None:
    if left is None or right is None or (operator == "/" and not right):
        return None
    return _COMBINE[operator](left, right)
