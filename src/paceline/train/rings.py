"""Rings: the rows of one agent, written once in main, read by its learner wherever that lives.

    an epoch's track ── extend ──► Ring, in shared memory ── Span (lo, hi), a few numbers ──► windows.RowWindow

A window is no copy: rows below `hi` are never written again while an update that reads them is under way. Where a ring
is full the oldest rows are overwritten; rows are counted from the first, so that a row keeps its number.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.engine import SharedArrays
from paceline.errors import BadInput
from paceline.spaces import Array, assembled, leaves, part_at
from paceline.types import Seat

OUTCOMES = {"rewards": "<f8", "terminations": "|b1", "truncations": "|b1"}
_NOT_ROWS = frozenset({"ends", "final_observations", "starts", "start_states"})  # columns of a track that are no rows


@dataclass(frozen=True)
class Span:
    """Which rows an update learns from.

    Attributes:
        lo: The first row.
        hi: The row behind the last.
        new: The first row since the agent's last update.
        first_end: The number of the first end of an episode within.
        ends: The number behind the last.
    """

    lo: int
    hi: int
    new: int
    first_end: int
    ends: int


class Rows:
    """How the rows of a seat lie in arrays; row n is at place n modulo the room.

    Args:
        seat: Whose rows.

    Raises:
        BadInput: what the agent sees or does fits into no arrays.
    """

    def __init__(self, seat: Seat) -> None:
        self.spaces = {"observations": seat.observation_space, "actions": seat.action_space}
        self.leaves = {}
        for name, space in self.spaces.items():
            found = leaves(space, name)
            if found is None:
                raise BadInput(
                    f"{name} of agent {seat.agent!r} are of {space}, which fits into no arrays: rows of it cannot be "
                    "kept for a learner; encode them in a wrapper of the environment"
                )
            self.leaves[name] = found

    def layout(self, room: int, extras: Mapping[str, Array]) -> dict[str, tuple[tuple[int, ...], str]]:
        """The arrays of a ring; `extras` are the first rows of what comes beside actions."""
        found = {leaf.name: ((room, *leaf.shape), leaf.dtype) for part in self.leaves.values() for leaf in part}
        found |= {f"final.{leaf.name}": ((room, *leaf.shape), leaf.dtype) for leaf in self.leaves["observations"]}
        found |= {name: ((room,), dtype) for name, dtype in OUTCOMES.items()}
        found |= {f"extra.{name}": ((room, *rows.shape[1:]), rows.dtype.str) for name, rows in extras.items()}
        return found | {"ends": ((room,), "<i8")}

    def read(self, arrays: Mapping[str, Array], name: str, where: Any) -> Any:
        """The values of a column at some places: an array, or as the space has them."""
        part, prefix = ("observations", "final.") if name == "final_observations" else (name, "")
        if part not in self.spaces:
            return arrays[name if name in arrays else f"extra.{name}"][where]
        found = {leaf.path: arrays[prefix + leaf.name][where] for leaf in self.leaves[part]}
        return assembled(self.spaces[part], found)


class Ring:
    """The rows of one agent, as main writes them.

    Args:
        seat: Whose rows.
        room: How many rows there is memory for.
    """

    def __init__(self, seat: Seat, room: int) -> None:
        self._agent, self._rows = seat.agent, Rows(seat)
        self.room = room
        """How many rows there is memory for."""
        self.shared: SharedArrays | None = None
        """The memory; None until there is a row."""
        self.count = 0
        """How many rows have been written."""
        self._ends: list[int] = []  # the rows at which episodes ended, from `_forgotten` on
        self._forgotten = 0

    def extend(self, columns: Mapping[str, Any]) -> None:
        """Writes the rows of an epoch, as a track has them.

        Raises:
            BadInput: the last row is not the end of an episode, or the extras are not those of the rows before.
        """
        length, ends = len(columns["rewards"]), columns["ends"]
        if not length:
            return
        if not len(ends) or ends[-1] != length - 1:
            raise BadInput(
                f"agent {self._agent!r} left the play after {length} rows, neither terminated nor truncated: its "
                "environment must say how it ended"
            )
        extras = {name: np.asarray(rows) for name, rows in columns.items() if name not in {*OUTCOMES, *_NOT_ROWS}}
        extras = {name: rows for name, rows in extras.items() if name not in self._rows.spaces}
        if self.shared is None:
            self.shared = SharedArrays(self._rows.layout(self.room, extras))
        arrays = self.shared.arrays
        if {f"extra.{name}" for name in extras} != {name for name in arrays if name.startswith("extra.")}:
            raise BadInput(f"the extras of agent {self._agent!r}, {sorted(extras)}, are not those of its rows before")
        for name, rows in extras.items():
            self._check_extra(name, rows, arrays[f"extra.{name}"])
        for name in self._rows.spaces:
            for leaf in self._rows.leaves[name]:
                _put(arrays[leaf.name], self.count, part_at(columns[name], leaf.path))
        for leaf in self._rows.leaves["observations"]:
            finals = part_at(columns["final_observations"], leaf.path)
            _put(arrays[f"final.{leaf.name}"], self._forgotten + len(self._ends), finals)
        _put(arrays["ends"], self._forgotten + len(self._ends), ends + self.count)
        for name in OUTCOMES:
            _put(arrays[name], self.count, columns[name])
        for name, rows in extras.items():
            _put(arrays[f"extra.{name}"], self.count, rows)
        self._ends += (ends + self.count).tolist()
        self.count += length

    def _check_extra(self, name: str, rows: Array, kept: Array) -> None:
        """The first epoch says what an extra is; what does not fit into that is not cut to fit."""
        if rows.shape[1:] != kept.shape[1:] or not np.can_cast(rows.dtype, kept.dtype):
            raise BadInput(
                f"the extra {name!r} of agent {self._agent!r} was {kept.dtype} of shape {kept.shape[1:]} in its first "
                f"epoch, and is {rows.dtype} of shape {rows.shape[1:]} now: give the same type in every epoch"
            )

    def grow(self, room: int) -> None:
        """Makes room for more rows, in other memory: no update that was given the one before may be under way, or be
        run again."""
        before, self.room = self.room, room
        if self.shared is None:
            return
        arrays, span = self.shared.arrays, self.span(before, 0)
        larger = SharedArrays({name: ((room, *array.shape[1:]), array.dtype.str) for name, array in arrays.items()})
        for name, array in arrays.items():
            _put_pieces(larger.arrays[name], _first(span, name), _taken(array, span, name, before))
        self.shared = larger

    def span(self, capacity: int | None, new: int) -> Span:
        """The newest rows, at most `capacity`, as a window of whole numbers."""
        lo = max(0, self.count - (self.count if capacity is None else capacity))
        forget = bisect_left(self._ends, lo)
        self._ends, self._forgotten = self._ends[forget:], self._forgotten + forget
        return Span(lo, self.count, max(lo, new), self._forgotten, self._forgotten + len(self._ends))

    # -- on disk and back --------------------------------------------------------------------------------------

    def save(self, capacity: int | None) -> dict[str, Any]:
        """The newest rows, at most `capacity`, and where they stand. No copies: they are these until the next epoch
        is filed."""
        span = self.span(capacity, 0)
        arrays = {} if self.shared is None else self.shared.arrays
        kept = {name: _taken(array, span, name, self.room) for name, array in arrays.items()}
        return {"count": self.count, "room": self.room, "forgotten": self._forgotten, "lo": span.lo, "arrays": kept}

    def load(self, state: dict[str, Any]) -> None:
        """Goes on from what `save` gave; arrays are taken out of it one by one, so that rows are in memory once."""
        self.count, self._forgotten, kept = state["count"], state["forgotten"], state["arrays"]
        self.room = max(self.room, state["room"])  # it may have grown
        if not kept:
            return
        self.shared = SharedArrays(
            {name: ((self.room, *pieces[0].shape[1:]), pieces[0].dtype.str) for name, pieces in kept.items()}
        )
        self._ends = np.concatenate(kept["ends"]).tolist()
        for name in list(kept):
            first = self._forgotten if is_of_ends(name) else state["lo"]
            _put_pieces(self.shared.arrays[name], first, kept.pop(name))


def cut(array: Array, lo: int, hi: int, room: int) -> Array:
    """Rows lo … hi in time order: a view, or a copy if they lie around the seam."""
    pieces = _pieces(array, lo, hi, room)
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _pieces(array: Array, lo: int, hi: int, room: int) -> list[Array]:
    """Rows lo … hi in time order, where they lie: in one piece, or in two around the seam."""
    start, length = lo % room, hi - lo
    if start + length <= room:
        return [array[start : start + length]]
    return [array[start:], array[: start + length - room]]


def _put_pieces(array: Array, start: int, pieces: Sequence[Array]) -> None:
    """Writes pieces from the place of row `start` on, one behind another."""
    for rows in pieces:
        _put(array, start, rows)
        start += len(rows)


def _put(array: Array, start: int, rows: Array | Sequence[Any]) -> None:
    """Writes rows from the place of row `start` on, around the seam if need be."""
    room, rows = len(array), np.asarray(rows)
    assert len(rows) <= room, "a ring must be grown before it is written to"
    begin = start % room
    before = min(len(rows), room - begin)
    array[begin : begin + before] = rows[:before]
    array[: len(rows) - before] = rows[before:]


def is_of_ends(name: str) -> bool:
    """Whether an array of a ring has an entry for each end of an episode, and not for each row."""
    return name == "ends" or name.startswith("final.")


def _first(span: Span, name: str) -> int:
    return span.first_end if is_of_ends(name) else span.lo


def _taken(array: Array, span: Span, name: str, room: int) -> list[Array]:
    return _pieces(array, _first(span, name), span.ends if is_of_ends(name) else span.hi, room)
