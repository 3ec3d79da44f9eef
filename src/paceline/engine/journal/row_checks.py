"""What the rows of a port have held, in one number per item and stretch of rounds: a replay compares its whole way.

after a round ──► keep: a copy of the rows ──► after a few dozen: checks, of all rows at once ──► the journals

A check is the sum, modulo 2⁶⁴, of the words in an item's rows, each times an odd number of its round, array and place.
Words have 32 bits at most: of two that differ in their 64th bit alone, as negated floats do, the sum would be the same.
Many rounds are folded at once, because the dozen calls of NumPy that it takes are as long as a step of two small envs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from paceline.engine.transport.shared_memory import Array, span

Slot = list[tuple[Any, Any]]
"""Of one round: to where, and what is copied."""

LONGEST = 64
"""Rounds of a stretch, at the most."""

_SHORTEST = 16  # rounds that are kept, however large they are
_BYTES = 1 << 18  # of rounds that are kept, if there may be fewer than the longest stretch
_WHOLE = 1024  # bytes of a row that is checked whole; of a larger one a sample is
_SAMPLE = 64  # elements
_EVERYTHING = slice(None)
_WORD, _HALF = np.dtype(np.uint64), np.uint64(32)


@lru_cache(maxsize=64)
def _powers(base: int, count: int) -> Array:
    """1, base, base², … modulo 2⁶⁴."""
    return np.array([pow(base, exponent, 1 << 64) for exponent in range(count)], _WORD)


_OF_ROUND = _powers(0xD1342543DE82EF95, LONGEST)
_OF_ROW, _OF_WORD = 0xAF251AF3B0F025B5, 0x9FB21C651E98DF25


class RowChecks:
    """The rows of a port over some rounds.

    Args:
        outputs: [rows, …] each; they are looked at when a round is kept.
        sizes: How many rows each item has.
        rounds: How many rounds may be kept; None: as many as are cheap.
    """

    def __init__(self, outputs: Sequence[Array], sizes: Sequence[int], rounds: int | None = None) -> None:
        samples = [_sample(array, sum(sizes)) for array in outputs]
        self.rounds = rounds or max(_SHORTEST, min(LONGEST, _BYTES // max(1, sum(each.nbytes for each in samples))))
        room, self._make_slots = _room(outputs, samples, self.rounds)
        self._slots: list[Slot] = []  # made with the first round that is kept: many ports have none
        self._arrays = [(array.view(sample.dtype), sample) for array, sample in zip(room, samples, strict=True)]
        words = [array.view(_widest(array.shape[2])) for array in room]
        ends = np.cumsum([1, *(array.shape[2] for array in words)]).tolist()
        self._words = [(w, _powers(_OF_WORD, e)[b:]) for w, (b, e) in zip(words, pairwise(ends), strict=True)]
        self._rows = [slice(end - size, end) for size, end in zip(sizes, np.cumsum(sizes).tolist(), strict=True)]
        self._of_row = np.concatenate([_powers(_OF_ROW, size) for size in (0, *sizes)])
        self._item_of, self._items = np.repeat(np.arange(len(sizes)), sizes), len(sizes)
        self._alone = set(sizes) <= {1}
        self._of_round = _OF_ROUND[: self.rounds][::-1].copy()

    def keep(self, number: int) -> None:
        """Keeps what all rows hold, as a round of this number. Hot."""
        for kept, now in (self._slots or self._with_slots())[number]:
            kept[_EVERYTHING] = now

    def _with_slots(self) -> list[Slot]:
        self._slots = self._make_slots()
        return self._slots

    def keep_one(self, number: int, item: int) -> None:
        """Keeps what an item's rows hold."""
        rows = self._rows[item]
        for kept, now in self._arrays:
            kept[number, rows] = now[rows]

    def checks(self, count: int, counted: Array | None = None, item: int | None = None) -> list[int]:
        """The checks of all items, or of one, over so many rounds, from number 0 on.

        Args:
            count: How many rounds.
            counted: [rounds, items]: 1 where a round is one of the item's; None: all are.
            item: Whose alone.
        """
        rows = _EVERYTHING if item is None else self._rows[item]
        sums: Any = np.uint64(0) if self._words else np.zeros((count, len(self._item_of[rows])), _WORD)
        for words, of_word in self._words:
            sums = words[:count, rows].dot(of_word) + sums
        # What differs in the upper bits alone, as many floats do, differs in the lower ones then, too.
        sums = sums ^ (sums >> _HALF)
        if counted is None:
            of_rows = self._of_round[self.rounds - count :].dot(sums)
        else:
            weights = _OF_ROUND[counted[::-1].cumsum(axis=0)[::-1] - counted] * counted
            of_rows = (weights[:, self._item_of[rows] - (item or 0)] * sums).sum(axis=0)
        if not self._alone:
            each, of_rows = of_rows * self._of_row[rows], np.zeros(self._items if item is None else 1, _WORD)
            np.add.at(of_rows, self._item_of[rows] - (item or 0), each)
        found: list[int] = of_rows.tolist()
        return found


def _room(
    outputs: Sequence[Array], samples: Sequence[Array], rounds: int
) -> tuple[list[Array], Callable[[], list[Slot]]]:
    """Room for the samples of so many rounds, [rounds, rows, bytes] each; and what says where each is copied to."""
    shapes = [(rounds, len(sample), sample.shape[1] * sample.itemsize) for sample in samples]
    memory = span(outputs)
    if memory is None or any(sample.size < array.size for sample, array in zip(samples, outputs, strict=True)):
        room = [np.zeros(shape, np.uint8) for shape in shapes]
        pairs = [(array.view(sample.dtype), sample) for array, sample in zip(room, samples, strict=True)]
        return room, lambda: [[(array[number], sample) for array, sample in pairs] for number in range(rounds)]
    whole, begins = memory
    copies = np.zeros((rounds, len(whole)), np.uint8)
    ends = [begin + rows * width for begin, (_, rows, width) in zip(begins, shapes, strict=True)]
    room = [copies[:, b:e].reshape(shape) for b, e, shape in zip(begins, ends, shapes, strict=True)]
    return room, lambda: [[(copy.data, whole.data)] for copy in copies]  # all at once, in a fifth of the time


def _widest(width: int) -> np.dtype[Any]:
    """The widest word, of 32 bits at most, of which so many bytes are a multiple."""
    return np.dtype(f"u{next(size for size in (4, 2, 1) if width % size == 0)}")


def _sample(array: Array, rows: int) -> Array:
    """A view of each row, or of some of its elements: enough to see that a replay went another way."""
    flat = array.reshape(rows, array.size // rows if rows else 0)
    # An odd step, or of many a picture it would be one column.
    return flat if flat.shape[1] * flat.itemsize <= _WHOLE else flat[:, :: flat.shape[1] // _SAMPLE | 1]
