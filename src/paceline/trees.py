"""Trees of data as JSON and arrays, and back, with the very types and bits: what is written to disk and runs no code.

    tree ── write ──► JSON: lists, text, numbers; {"tuple": …}, {"dict": [keys, values]}, {"array": 3}, {"apart": 0}
                      arrays, in order              whatever is `Apart` ── beside it, for its owner to write ──┘

A JSON object always stands for something that JSON has no word for, so none is mistaken for data.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.spaces import Array

_LONG = 1 << 2048  # JSON readers limit the digits of a number
_AS_THEY_ARE = frozenset({str, bool, type(None)})
_KINDS = "biufcSUVmM"
_DOUBLE = struct.Struct("<d")


@dataclass(frozen=True)
class Apart:
    """What is no data, or may be none, in a tree of data: an object of a user's."""

    value: Any


@dataclass(frozen=True)
class Written:
    """A tree in parts.

    Attributes:
        json: Ready for `json.dumps`.
        arrays: Those of the tree, not copied.
        apart: What is in its `Apart`s.
    """

    json: Any
    arrays: list[Array]
    apart: list[Any]


def write(tree: Any) -> Written:
    """Takes a tree apart.

    Raises:
        TypeError: something in it is neither data nor `Apart`.
    """
    arrays: list[Array] = []
    apart: list[Any] = []
    return Written(_Writer(arrays, apart).value(tree), arrays, apart)


def read(text: str | bytes, array: Callable[[int], Array], apart: Callable[[int], Any]) -> Any:
    """Gives the tree back.

    Args:
        text: Its JSON.
        array: Gives an array by its number.
        apart: Gives what is in an `Apart`, by its number.

    Raises:
        ValueError: it is none, or an array or an `Apart` is not there; other errors of the two functions pass.
    """
    kinds: dict[str, Callable[[Any], Any]] = {
        "tuple": _listed(tuple),
        "dict": _as_dict,
        "int": lambda text: int(text, 16),
        "float": lambda text: _DOUBLE.unpack(bytes.fromhex(text))[0],
        "bytes": bytes.fromhex,
        "array": array,
        "scalar": lambda number: array(number)[()],
        "str_": np.str_,
        "bytes_": lambda text: np.bytes_(bytes.fromhex(text)),
        "apart": lambda number: Apart(apart(number)),
    }

    def meant(found: dict[str, Any]) -> Any:
        ((kind, content),) = found.items()
        return kinds[kind](content)

    try:
        return json.loads(text, object_hook=meant)
    except (LookupError, TypeError, RecursionError, struct.error) as error:
        raise ValueError(f"it is no tree of data ({type(error).__name__}: {error})") from error


class _Writer:
    def __init__(self, arrays: list[Array], apart: list[Any]) -> None:
        self._arrays, self._apart = arrays, apart

    def value(self, value: Any) -> Any:
        kind = type(value)
        if kind in _AS_THEY_ARE:
            return value
        if kind is list:
            return self._list(value)
        if kind is float:
            return value if math.isfinite(value) else {"float": _DOUBLE.pack(value).hex()}
        if kind is int:
            return value if -_LONG < value < _LONG else {"int": hex(value)}
        if kind is dict:
            return {"dict": [self._list(list(value)), self._list(list(value.values()))]}
        if kind is tuple:
            return {"tuple": self._list(list(value))}
        if kind is bytes:
            return {"bytes": value.hex()}
        if kind is np.str_:  # NumPy cuts zeros off its end, in an array as in `str`
            return {"str_": str.__str__(value)}
        if kind is np.bytes_:
            return {"bytes_": value.hex()}
        if kind is Apart:
            self._apart.append(value.value)
            return {"apart": len(self._apart) - 1}
        return self._numbers(value)

    def _list(self, values: list[Any]) -> Any:
        """Long lists of numbers or text are not looked at one by one."""
        kinds = set(map(type, values))
        if kinds <= _AS_THEY_ARE or (kinds == {float} and all(map(math.isfinite, values))):
            return values
        return list(map(self.value, values))

    def _numbers(self, value: Any) -> Any:
        kind = type(value)
        if kind is not np.ndarray and not isinstance(value, np.generic):
            raise TypeError(f"{value!r:.60} is a {kind.__module__}.{kind.__qualname__}, and not data")
        array = np.asarray(value)
        if not _comes_back(array.dtype):
            raise TypeError(f"an array of {array.dtype} is not data")
        self._arrays.append(array)
        return {"array" if kind is np.ndarray else "scalar": len(self._arrays) - 1}


def _comes_back(kind: np.dtype[Any]) -> bool:
    """Whether a file says all there is to say of an array; of fields, not that they are aligned."""
    fields = [] if kind.fields is None else [each[0] for each in kind.fields.values()]
    return kind.base.kind in _KINDS and not kind.isalignedstruct and all(_comes_back(each.base) for each in fields)


def _listed(kind: Callable[[list[Any]], Any]) -> Callable[[Any], Any]:
    def listed(content: Any) -> Any:
        if type(content) is not list:
            raise TypeError(f"{content!r:.60} is no list")
        return kind(content)

    return listed


def _as_dict(content: Any) -> dict[Any, Any]:
    keys, values = content
    if type(keys) is not list or type(values) is not list:
        raise TypeError("keys and values are lists")
    return dict(zip(keys, values, strict=True))
