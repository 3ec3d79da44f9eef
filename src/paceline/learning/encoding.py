"""Encoding: observations and actions as rows of float32, which is what networks take.

    Box, MultiBinary, MultiDiscrete ──► their numbers, as they are      Discrete ──► one place for each number
    Dict, Tuple ──► the rows of their parts, side by side

A bounded part of an action that is a Box is scaled, so that −1 … 1 is low … high.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paceline.errors import BadInput
from paceline.spaces import Array, Path, leaves, part_at


class Observations:
    """How observations of a space become rows.

    Args:
        space: What they are of.

    Raises:
        BadInput: values of the space fit into no arrays.
    """

    def __init__(self, space: Any) -> None:
        found = leaves(space, "")
        if found is None:
            raise BadInput(f"observations of {space} fit into no arrays: encode them in a wrapper of the environment")
        self._parts: list[tuple[Path, slice, tuple[int, int] | None]] = []
        self.size = 0
        """How many numbers a row has."""
        for leaf in found:
            numbers = _numbers(_space_at(space, leaf.path)) if leaf.number else None
            width = numbers[1] if numbers else int(np.prod(leaf.shape))
            self._parts.append((leaf.path, slice(self.size, self.size + width), numbers))
            self.size += width

    def write(self, row: Array, value: Any) -> None:
        """Writes one observation into a row [size].

        Raises:
            BadInput: a number is none of its space, or a part has another size.
        """
        for path, where, numbers in self._parts:
            part = part_at(value, path)
            if numbers is None:
                flat = np.asarray(part).reshape(-1)
                if len(flat) != where.stop - where.start:
                    which = f" at {path!r}" if path else ""
                    raise BadInput(
                        f"an observation has shape {np.shape(part)}{which}, and its space {where.stop - where.start} "
                        "numbers there: the environment's observation_space and what it gives must agree"
                    )
                row[where] = flat
            else:
                start, count = numbers
                if not start <= part < start + count:  # its place is that of another part, or none
                    raise BadInput(f"an observation has {part} where its space says {start} … {start + count - 1}")
                row[where] = 0
                row[where.start + int(part) - start] = 1

    def rows(self, values: Any) -> Array:
        """Encodes many at once, a column of a tape or of a batch, say: [rows, …] ──► [rows, size]."""
        found = []
        for path, where, numbers in self._parts:
            part = np.asarray(part_at(values, path))
            flat = part.reshape(len(part), -1) if numbers is None else _one_hot(part, *numbers)
            assert flat.shape[1] == where.stop - where.start
            found.append(flat.astype(np.float32))
        return np.concatenate(found, axis=1)


class Numbers:
    """Actions that are numbers: a Discrete.

    Args:
        space: What they are of.
    """

    def __init__(self, space: Any) -> None:
        self.start, self.size = _numbers(space)

    def encode(self, actions: Any) -> Array:
        """Encodes actions [rows] as rows [rows, size] with one place for each number."""
        return _one_hot(np.asarray(actions), self.start, self.size)


class Amounts:
    """Actions that are amounts: a Box. Within its bounds −1 … 1 stand for low … high; where there are none, an amount
    stands for itself.

    Args:
        space: What they are of.
    """

    def __init__(self, space: Any) -> None:
        self.shape, self.dtype = tuple(space.shape), space.dtype
        self.size = int(np.prod(self.shape))
        self.low = np.asarray(space.low, np.float64).reshape(-1)
        self.high = np.asarray(space.high, np.float64).reshape(-1)
        self.bounded = np.isfinite(self.low) & np.isfinite(self.high)
        """Which parts have a lower and an upper bound."""
        with np.errstate(invalid="ignore"):
            self._middle = np.where(self.bounded, (self.low + self.high) / 2, 0.0)
            self._scale = np.where(self.bounded & (self.high > self.low), (self.high - self.low) / 2, 1.0)

    def decode(self, rows: Array) -> Array:
        """Makes actions [rows, …] of rows [rows, size]; none beyond the bounds."""
        amounts = np.clip(self._middle + self._scale * rows.astype(np.float64), self.low, self.high)
        if np.issubdtype(self.dtype, np.integer):
            amounts = np.rint(amounts)
        actions: Array = amounts.astype(self.dtype).reshape(-1, *self.shape)
        return actions

    def encode(self, actions: Any) -> Array:
        """Encodes actions [rows, …] as rows [rows, size]."""
        amounts = np.asarray(actions, np.float64).reshape(-1, self.size)
        rows: Array = ((amounts - self._middle) / self._scale).astype(np.float32)
        return rows


def _one_hot(values: Array, start: int, count: int) -> Array:
    rows: Array = (values.reshape(-1, 1) == np.arange(start, start + count)).astype(np.float32)
    return rows


def _numbers(space: Any) -> tuple[int, int]:
    return int(space.start), int(space.n)


def _space_at(space: Any, path: Path) -> Any:
    for key in path:
        space = space[key]
    return space
