"""Windows: the rows of one agent that an update learns from, read where they lie in the agent's ring.

Nothing is copied that is not read, and a column only where the ring's seam is in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from paceline.spaces import Array, assembled
from paceline.train.rings import OUTCOMES, Rows, Span, cut


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

    def sequences(self, count: int, length: int, *, lead: int = 0) -> dict[str, Any]:
        """Draws parts of episodes; see `roles.Window.sequences`."""
        first = self.rng.integers(self._span.lo, self._span.hi, count)
        episode = np.searchsorted(self._end_rows, first)
        last = self._end_rows[episode][:, None]
        begin = np.where(episode > 0, self._end_rows[episode - 1] + 1, self._span.lo)[:, None]
        wanted = first[:, None] + np.arange(-lead, length)
        rows = np.clip(wanted, begin, last).reshape(-1)
        arrays, places = self._arrays, rows % self._room
        ended = arrays["terminations"][places] | arrays["truncations"][places]
        found = {name: self._rows.read(arrays, name, places) for name in self.columns if name != "ends"}
        del found["final_observations"]
        found["next_observations"] = self._after(rows, ended)
        return {**found, "mask": (wanted >= begin) & (wanted <= last)}

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
        return cut(self._arrays["ends"], self._span.first_end, self._span.ends, self._room)


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
        self._names = [*rows.spaces, *OUTCOMES, "ends", "final_observations", *extras]

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(f"{name!r} is no column; there are {', '.join(self._names)}")
        room, span = len(self._arrays["rewards"]), self._span
        if name in ("ends", "final_observations"):
            ends = cut(self._arrays["ends"], span.first_end, span.ends, room)
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
        return cut(self._arrays[name], *self._cut)

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)
