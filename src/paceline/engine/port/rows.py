"""The arrays of a port: inputs and outputs, a row or several per item, and a byte per item to ask and to answer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paceline.engine.transport.shared_memory import Array, SharedArrays, plain_arrays
from paceline.errors import BadInput

Spec = Mapping[str, tuple[Sequence[int], Any]]
"""Name → (shape of one row, dtype)."""


class Rows:
    """Arrays that main and workers see, where memory can be shared."""

    def __init__(self, inputs: Spec, outputs: Spec, members: Sequence[int], rows: Mapping[int, int] | None) -> None:
        self.places = _places(members, rows)
        self._numbers = [
            [place] if isinstance(place, int) else [*range(place.start, place.stop)] for place in self.places
        ]
        self.layout = _layout(inputs, outputs, self.places)
        self._shared = SharedArrays(self.layout) if hasattr(os, "memfd_create") else None
        self.arrays = self._shared.arrays if self._shared is not None else plain_arrays(self.layout)
        self.inputs: dict[str, Array] = {name: self.arrays[name] for name in inputs}
        self.outputs: dict[str, Array] = {name: self.arrays[name] for name in outputs}
        nbytes = sum(array.nbytes for array in (*self.inputs.values(), *self.outputs.values()))
        self.bytes_each = nbytes // max(1, len(members))
        self.asked: memoryview = self.arrays["asked"].data
        self.state: memoryview = self.arrays["state"].data

    @property
    def descriptor(self) -> int | None:
        """What another process needs to map the same memory."""
        return self._shared.fd if self._shared is not None else None

    def cut(self, items: Sequence[int]) -> tuple[Array, dict[str, Array]]:
        """What a message takes to where these items live: the numbers of their rows, and their inputs."""
        numbers = np.array([row for item in items for row in self._numbers[item]], np.intp)
        return numbers, {name: array[numbers] for name, array in self.inputs.items()}

    def after(self, item: int, start: int) -> int:
        """Where the rows of the next item begin in a message in which those of this one begin there."""
        return start + len(self._numbers[item])

    def take(self, item: int, outputs: Mapping[str, Array], start: int) -> None:
        """Copies in what a message has brought of an item, from that row of the message on."""
        numbers = self._numbers[item]
        for name, values in outputs.items():
            self.arrays[name][numbers] = values[start : start + len(numbers)]

    def release(self) -> None:
        """Gives the descriptor back; the memory itself goes when the last array does."""
        if self._shared is not None:
            self._shared.close()


def block_of(items: Sequence[int]) -> slice | None:
    """Where the marks of these items lie, if they lie side by side and in order."""
    whole = bool(items) and list(items) == list(range(items[0], items[0] + len(items)))
    return slice(items[0], items[0] + len(items)) if whole else None


def _places(members: Sequence[int], rows: Mapping[int, int] | None) -> list[Any]:
    """Where each item's rows are: a number for one row, a slice if the caller gives numbers of rows."""
    if rows is None:
        return list(range(len(members)))
    places, start = [], 0
    for member in members:
        places.append(slice(start, start + rows[member]))
        start += rows[member]
    return places


def _layout(inputs: Spec, outputs: Spec, places: list[Any]) -> dict[str, tuple[tuple[int, ...], str]]:
    taken = inputs.keys() & outputs.keys() | (inputs.keys() | outputs.keys()) & {"asked", "state"}
    if taken:
        raise BadInput(f"array names must differ, and not be 'asked' or 'state': {sorted(taken)}")
    last = places[-1] if places else -1
    rows = last.stop if isinstance(last, slice) else last + 1
    layout = {
        name: ((rows, *shape), np.dtype(dtype).str) for name, (shape, dtype) in (*inputs.items(), *outputs.items())
    }
    return {**layout, "asked": ((len(places),), "|u1"), "state": ((len(places),), "|u1")}
