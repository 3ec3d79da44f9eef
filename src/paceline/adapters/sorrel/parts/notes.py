"""How a shadow notes values: mutable objects by identity, all else by value, so that it is as deep as one object."""

from __future__ import annotations

import array
import io
import pickle
from typing import Any

from paceline.adapters.sorrel.parts.part import Item

PLAIN = frozenset({int, float, complex, str, bytes, bool, type(None)})
"""Types of values that have nothing inside."""

_WHOLE = (bytearray, array.array, io.StringIO, io.BytesIO)
"""Types with a state that is compared and sent in one piece: another object takes the place of one that has changed."""


class Ref:
    """A mutable object, noted by identity."""

    __slots__ = ("thing",)

    def __init__(self, thing: Any) -> None:
        self.thing = thing


class Whole:
    """An object of one piece, noted by its content."""

    __slots__ = ("content",)

    def __init__(self, thing: Any) -> None:
        self.content = pickle.dumps(thing, 5)


def whole(thing: Any) -> bool:
    """Whether an object is compared and sent in one piece."""
    return isinstance(thing, _WHOLE)


def same(one: Any, other: Any) -> bool:
    """Whether two notes are the same: by identity, or as plain values of one type."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is Ref:
        return one.thing is other.thing
    if kind is Whole:
        return bool(one.content == other.content)
    if kind is float:
        return (one == other and str(one) == str(other)) if one == one else other != other
    if kind is tuple:
        return len(one) == len(other) and all(map(same, one, other))
    if kind in PLAIN:
        return bool(one == other)
    return one is other


def unchanged(value: Any, note: Any, item: Item) -> bool:
    """Whether a value is as it was noted. Hot: most are the very same object."""
    kind = type(note)
    if kind is Ref:
        return value is note.thing
    return (value is note and kind is not float) or same(item(value), note)
