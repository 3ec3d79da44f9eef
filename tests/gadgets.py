"""Things that run code in the process that unpickles them, or that asks them what they are: each leaves a trace."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


def spring(where: str) -> str:
    """What a gadget does: a file in `where` with the number of the process that has run it."""
    Path(where, str(os.getpid())).touch()
    return "sprung"


def sprung_here(where: Path) -> bool:
    """Whether a gadget has run code in this process."""
    return Path(where, str(os.getpid())).exists()


class Reduced:
    def __init__(self, where: str) -> None:
        self.where = where

    def __reduce__(self) -> Any:
        return spring, (self.where,)


class WithState:
    def __init__(self, where: str) -> None:
        self.where = where

    def __setstate__(self, state: dict[str, Any]) -> None:
        spring(state["where"])


class Pretending(Reduced):
    """Says that it is a dict."""

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return dict


class Text(str):
    __slots__ = ("where",)
    where: str

    def __new__(cls, where: str) -> Text:
        made = str.__new__(cls, "plain text")
        made.where = where
        return made

    def __reduce__(self) -> Any:
        return spring, (self.where,)


class Whole(int):
    where: str

    def __new__(cls, where: str) -> Whole:
        made = int.__new__(cls, 1)
        made.where = where
        return made

    def __reduce__(self) -> Any:
        return spring, (self.where,)


class Table(dict[str, Any]):
    def __init__(self, where: str) -> None:
        super().__init__(where=where)

    def __reduce__(self) -> Any:
        return spring, (self["where"],)


class Row(list[str]):
    def __init__(self, where: str) -> None:
        super().__init__([where])

    def __reduce__(self) -> Any:
        return spring, (self[0],)


class Pair(NamedTuple):
    where: str
    number: int = 1

    def __reduce__(self) -> Any:
        return spring, (self.where,)


class Failed(ValueError):
    """An exception that is unpickled by a call."""

    def __reduce__(self) -> Any:
        return spring, self.args


class Shaped(np.ndarray[Any, Any]):
    where: str

    def __reduce__(self) -> Any:
        return spring, (self.where,)


def shaped(where: str) -> Any:
    array = np.zeros(3).view(Shaped)
    array.where = where
    return array


def objects(where: str) -> Any:
    array = np.empty(1, object)
    array[0] = Reduced(where)
    return array


def fields(where: str) -> Any:
    array = np.zeros(1, [("number", "<i8"), ("thing", object)])
    array["thing"][0] = Reduced(where)
    return array


def member_of_an_enum(where: str) -> Any:
    made = enum.Enum("Colour", {"RED": where})

    def reduce(self: Any, _: int) -> Any:
        return spring, (self.value,)

    made.__reduce_ex__ = reduce  # type: ignore[method-assign, assignment]
    return made.RED  # type: ignore[attr-defined]


GADGETS: dict[str, Callable[[str], Any]] = {
    "__reduce__": Reduced,
    "__setstate__": WithState,
    "__class__": Pretending,
    "array of objects": objects,
    "structured array with objects": fields,
    "np.void with objects": lambda where: fields(where)[0],
    "array of a class": shaped,
    "str": Text,
    "int": Whole,
    "dict": Table,
    "list": Row,
    "namedtuple": Pair,
    "enum": member_of_an_enum,
    "exception": Failed,
    "within a key": lambda where: {("a", Text(where)): 1},
    "deep within": lambda where: {"a": [1, (2, {"b": Reduced(where)})]},
}
