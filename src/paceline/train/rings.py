"""Rings: the rows of one agent, written once in main, read by its learner wherever that lives.

    an epoch's track ── extend ──► Ring, in shared memory ── Span (lo, hi), a few numbers ──► RowWindow in the worker

A window is no copy: rows below `hi` are never written again while an update that reads them is under way. Where a ring
is full the oldest rows are overwritten; rows are counted from the first, so that a row keeps its number.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from paceline.engine import SharedArrays
from paceline.errors import BadInput
from paceline.spaces import Array, assembled, leaves, part_at
from paceline.types import Seat

_OUTCOMES = {"rewards": "<f8", "terminations": "|b1", "truncations": "|b1"}
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
        found |= {name: ((room,), dtype) for name, dtype in _OUTCOMES.items()}
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
        self._old: list[SharedArrays] = []  # memory that it has outgrown, and that the replay of an update may read
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
        extras = {name: np.asarray(rows) for name, rows in columns.items() if name not in {*_OUTCOMES, *_NOT_ROWS}}
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
        for name in _OUTCOMES:
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
        """Makes room for more rows. Updates under way read the memory that they were given."""
        before, self.room = self.room, room
        if self.shared is None:
            return
        arrays, span = self.shared.arrays, self.span(before, 0)
        larger = SharedArrays({name: ((room, *array.shape[1:]), array.dtype.str) for name, array in arrays.items()})
        for name, array in arrays.items():
            _put(larger.arrays[name], _first(span, name), _taken(array, span, name, before))
        self._old.append(self.shared)
        self.shared = larger

    def forget_old(self) -> None:
        """Gives back memory that it has outgrown: no update that was given it can be run again."""
        self._old.clear()

    def span(self, capacity: int | None, new: int) -> Span:
        """The newest rows, at most `capacity`, as a window of whole numbers."""
        lo = max(0, self.count - (self.count if capacity is None else capacity))
        forget = bisect_left(self._ends, lo)
        self._ends, self._forgotten = self._ends[forget:], self._forgotten + forget
        return Span(lo, self.count, max(lo, new), self._forgotten, self._forgotten + len(self._ends))

    # -- on disk and back --------------------------------------------------------------------------------------

    def save(self, capacity: int | None) -> dict[str, Any]:
        """The newest rows, at most `capacity`, and where they stand."""
        span = self.span(capacity, 0)
        arrays = {} if self.shared is None else self.shared.arrays
        kept = {name: _taken(array, span, name, self.room) for name, array in arrays.items()}
        return {"count": self.count, "room": self.room, "forgotten": self._forgotten, "lo": span.lo, "arrays": kept}

    def load(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `save` gave."""
        self.count, self._forgotten, kept = state["count"], state["forgotten"], state["arrays"]
        self.room = max(self.room, state["room"])  # it may have grown
        if not kept:
            return
        self.shared = SharedArrays(
            {name: ((self.room, *rows.shape[1:]), rows.dtype.str) for name, rows in kept.items()}
        )
        for name, rows in kept.items():
            _put(self.shared.arrays[name], self._forgotten if _is_of_ends(name) else state["lo"], rows)
        self._ends = kept["ends"].tolist()


class RowWindow:
    """The rows of one agent that an update learns from; see `roles.Window`.

    Args:
        rows: How they lie in the arrays.
        arrays: The ring's arrays.
        span: Which rows.
        rng: The update's own generator.
    """

    def __init__(self, rows: Rows, arrays: Mapping[str, Array], span: Span, rng: np.random.Generator) -> None:
        self._rows, self._arrays, self._span, self.rng = rows, arrays, span, rng
        self._room = len(arrays["rewards"])

    def __len__(self) -> int:
        return self._span.hi - self._span.lo

    @property
    def columns(self) -> Columns:
        """Name → array, in time order: all rows that are kept."""
        return Columns(self._rows, self._arrays, self._span, self._span.lo)

    @property
    def new(self) -> Columns:
        """The same, of the rows since the agent's last update."""
        return Columns(self._rows, self._arrays, self._span, self._span.new)

    def sample(self, count: int, *, steps: int = 1, discount: float = 1.0) -> dict[str, Any]:
        """Draws rows with replacement; see `roles.Window.sample`."""
        first = self.rng.integers(self._span.lo, self._span.hi, count)
        last, rewards, added = self._sums(first, steps, discount)
        arrays, places = self._arrays, last % self._room
        ended = arrays["terminations"][places] | arrays["truncations"][places]
        found = {name: self._rows.read(arrays, name, first % self._room) for name in self.columns if name != "ends"}
        found["rewards"] = rewards
        found["next_observations"] = self._after(last, ended)
        found["discounts"] = np.where(arrays["terminations"][places], 0.0, float(discount) ** added)
        del found["final_observations"]
        return found

    def _sums(self, first: Array, steps: int, discount: float) -> tuple[Array, Array, Array]:
        """The last rows that count, the rewards added up, and over how many rows."""
        arrays, last = self._arrays, first
        rewards, added = np.zeros(len(first)), np.zeros(len(first), np.int64)
        goes_on = np.ones(len(first), bool)
        for _ in range(steps):
            last = np.where(goes_on, first + added, last)
            places = last % self._room
            rewards += np.where(goes_on, float(discount) ** added * arrays["rewards"][places], 0.0)
            added += goes_on
            goes_on = goes_on & ~(arrays["terminations"][places] | arrays["truncations"][places])
        return last, rewards, added

    def _after(self, last: Array, ended: Array) -> Any:
        """What was seen after some rows: at the end of an episode its final observation, else the next row's."""
        following = (last + 1) % self._room
        finals = (self._span.first_end + np.searchsorted(self._end_rows, last)) % self._room
        found = {}
        for leaf in self._rows.leaves["observations"]:
            seen = self._arrays[leaf.name][following]
            seen[ended] = self._arrays[f"final.{leaf.name}"][finals[ended]]
            found[leaf.path] = seen
        return assembled(self._rows.spaces["observations"], found)

    @cached_property
    def _end_rows(self) -> Array:
        return _slice(self._arrays["ends"], self._span.first_end, self._span.ends, self._room)


class Columns(Mapping[str, Any]):
    """Columns that are read when they are asked for; without a copy, unless the ring's seam is in between.

    Args:
        rows: How they lie in the arrays.
        arrays: The ring's arrays.
        span: The window.
        lo: The first row.
    """

    def __init__(self, rows: Rows, arrays: Mapping[str, Array], span: Span, lo: int) -> None:
        self._rows, self._arrays, self._lo, self._span = rows, arrays, lo, span
        extras = [name.removeprefix("extra.") for name in arrays if name.startswith("extra.")]
        self._names = [*rows.spaces, *_OUTCOMES, "ends", "final_observations", *extras]

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(f"{name!r} is no column; there are {', '.join(self._names)}")
        room, span = len(self._arrays["rewards"]), self._span
        if name in ("ends", "final_observations"):
            ends = _slice(self._arrays["ends"], span.first_end, span.ends, room)
            skipped = int(np.searchsorted(ends, self._lo))
            if name == "ends":
                return ends[skipped:] - self._lo
            return self._rows.read(_Sliced(self._arrays, span.first_end + skipped, span.ends, room), name, ...)
        return self._rows.read(_Sliced(self._arrays, self._lo, span.hi, room), name, ...)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class _Sliced(Mapping[str, Any]):
    """The arrays of a ring, each cut to some rows when it is asked for."""

    def __init__(self, arrays: Mapping[str, Array], lo: int, hi: int, room: int) -> None:
        self._arrays, self._cut = arrays, (lo, hi, room)

    def __getitem__(self, name: str) -> Array:
        return _slice(self._arrays[name], *self._cut)

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def _slice(array: Array, lo: int, hi: int, room: int) -> Array:
    """Rows lo … hi in time order: a view, or a copy if they lie around the seam."""
    start, length = lo % room, hi - lo
    if start + length <= room:
        return array[start : start + length]
    return np.concatenate([array[start:], array[: start + length - room]])


def _put(array: Array, start: int, rows: Array | Sequence[Any]) -> None:
    """Writes rows from the place of row `start` on, around the seam if need be."""
    room, rows = len(array), np.asarray(rows)
    assert len(rows) <= room, "a ring must be grown before it is written to"
    begin = start % room
    before = min(len(rows), room - begin)
    array[begin : begin + before] = rows[:before]
    array[: len(rows) - before] = rows[before:]


def _is_of_ends(name: str) -> bool:
    return name == "ends" or name.startswith("final.")


def _first(span: Span, name: str) -> int:
    return span.first_end if _is_of_ends(name) else span.lo


def _taken(array: Array, span: Span, name: str, room: int) -> Array:
    return _slice(array, _first(span, name), span.ends if _is_of_ends(name) else span.hi, room).copy()
