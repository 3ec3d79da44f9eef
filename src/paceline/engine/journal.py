"""What a member has been asked since it was last whole: enough to build it again and see that it is the same.

    Journal   one member: where it starts (recipe, or a snapshot, and its streams), then the calls since
    PortLog   one port: the inputs of every ring, packed row by row; members' journals point into it

An entry says how it is replayed: `call` runs the method again and compares the answer; `told` gives a
member that is not deterministic its own recorded answer; `port` runs the packed inputs and compares the last outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paceline.engine import wire
from paceline.engine.arrays import Array, doubled
from paceline.engine.echo import condensed
from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.plain import Plain

Entry = tuple[Any, ...]
Base = tuple[wire.Packed | None, dict[str, Any] | bytes | None]
"""A snapshot (or None: the recipe), and the states of the random streams that the member draws from: packed, where
main does not read them."""
Mark = tuple[Any, ...]
"""How far a journal had come: what `Journal.go_back` needs."""

_SAMPLE = 64  # elements of a row that are compared; all of them in a row of less than twice as many
_FIRST_CAPACITY = 64
_WHOLE = slice(None)
_KEPT = (bytes, Plain)
_ECHOES = 1 << 20  # bytes of answers that one journal keeps as they are


class Journal:
    """One member's calls since its base."""

    __slots__ = ("condensed", "deterministic", "echoes", "logs", "runs", "seconds", "story")

    def __init__(self, deterministic: bool = True) -> None:
        self.deterministic = deterministic
        self.runs = 0  # what the entries would have to run again
        self.seconds = 0.0  # about what that took the first time
        self.echoes = 0  # bytes of answers that the entries keep
        self.condensed = 0  # how many entries, from the first, keep a check instead
        self.story: tuple[Base | None, list[Entry]] = None, []  # replaced as a whole: see PortLog
        self.logs: list[tuple[PortLog, int]] = []  # the ports that it is bound to, and its item there

    def add(self, entry: Entry, base: Base | None) -> None:
        """Takes an answered call in; a base that came with the answer makes everything before it void."""
        if self.logs:
            self.settle()
        if base is not None:
            self.start_anew(base)
            # Without a snapshot the recipe does not know of this call, so it has to be run again itself.
            if base[0] is not None:
                return
        self.story[1].append(entry)
        self.runs += 1
        if type(entry[3]) in _KEPT:
            self.echoes += wire.size(entry[3])
            if self.echoes > _ECHOES and self.deterministic:
                self._condense()

    def _condense(self) -> None:
        """Keeps checks in the place of the oldest answers: as many as it takes, which is one or two at a time."""
        entries = self.story[1]
        while self.echoes > _ECHOES:
            entry = entries[self.condensed]
            if entry[0] == "call" and type(entry[3]) in _KEPT:
                self.echoes -= wire.size(entry[3])
                entries[self.condensed] = (*entry[:3], condensed(entry[3]))
            self.condensed += 1

    def start_anew(self, base: Base, last: tuple[PortLog, int] | None = None) -> None:
        """Forgets what was before. `last` is the port and item that said so, if it was said there: without a
        snapshot that last run belongs to the new beginning."""
        state, streams = base
        if state is not None:  # large arrays in it still lie in the message that it came with, which cannot be sent on
            state = wire.settle(state)
        self.story = None if state is None and streams is None else (state, streams), []
        self.runs = self.echoes = self.condensed = 0
        self.seconds = 0.0
        for log, item in self.logs:
            log.forget(item, but_last=(log, item) == last and base[0] is None)

    def mark(self) -> Mark:
        """Remembers how far it has come. Holds until somebody is asked the next time."""
        places = [log.mark(item) for log, item in self.logs]
        return self.story, len(self.story[1]), self.runs, self.seconds, self.echoes, self.condensed, places

    def go_back(self, mark: Mark) -> None:
        """Forgets what came after the mark, a new base too; rings that were open then are open again."""
        self.story, length, self.runs, self.seconds, self.echoes, self.condensed, places = mark
        del self.story[1][length:]
        for (log, item), place in zip(self.logs, places, strict=True):
            log.go_back(item, place)

    def settle(self) -> None:
        """Turns what stands in the ports' logs into entries of its own, so that order is kept."""
        for log, item in self.logs:
            if not log.length(item):
                continue
            entry = log.entry(item)
            if entry is not None and self.deterministic:  # else it is never run again
                self.story[1].append(entry)
                self.runs += entry[2]
            log.forget(item)

    def replay(self) -> tuple[Base | None, list[Entry]]:
        """What a rebuild has to do after building the recipe."""
        rows = [entry for log, item in self.logs if (entry := log.entry(item)) is not None]
        base, entries = self.story
        return base, [*entries, *(rows if self.deterministic else [])]

    def __len__(self) -> int:
        """How many runs a rebuild would have to make."""
        return self.runs + sum(log.length(item) for log, item in self.logs) if self.logs else self.runs

    @property
    def open(self) -> bool:
        """Whether a ring of a port has not been answered."""
        return any(log.is_open(item) for log, item in self.logs)


class PortLog:
    """The inputs of a port's rings, one row of every input array per item, in the order of the rings."""

    def __init__(
        self,
        method: str,
        inputs: dict[str, Array],
        outputs: dict[str, Array],
        places: Sequence[Any],
    ) -> None:
        self._method = method
        self._sources = list(inputs.values())
        self._outputs = list(outputs.values())
        self._places = list(places)
        self._keep(
            [np.zeros((_FIRST_CAPACITY, *source.shape), source.dtype) for source in self._sources],
            np.ones((_FIRST_CAPACITY, len(places)), np.uint8),  # ready for rings of everybody
        )
        # How many rings there were, and which items have not answered their last one: one tuple, replaced as a whole,
        # so that an interrupt never finds a ring that is half recorded.
        self._now = 0, bytes(len(places))
        self._begin = [0] * len(places)
        # What an item has been asked is counted: all rings, less those of some, and its own of these.
        self._dropped = self._rings_of_some = 0
        self._part = np.zeros(len(places), np.int64)  # by item: the rings of some that it took part in
        self._asked_before = [0] * len(places)  # by item: what it had been asked when its history began
        self._samples = [sample(array, len(array)) for array in self._outputs]
        self._last, self._all_of_it = _room_for(self._samples, self._outputs)
        self._echoes = list(zip(self._last, self._samples, strict=True))
        self._distrusted = set(range(len(places)))  # items of which _last does not hold what their last run gave
        self._all, self._none = bytes([1]) * len(places), bytes(len(places))

    def ring(self, asked: Array | None) -> None:
        """Takes the inputs of one ring in (None: of everybody). Hot: one copy per input array."""
        count = self._now[0]
        if count == self._capacity:
            with UNINTERRUPTED:
                self._make_room()
            count = self._now[0]
        for log, source in self._copies:
            log[count] = source
        if asked is None:
            self._now = count + 1, self._all
        else:
            with UNINTERRUPTED:
                self._asked[count] = asked
                self._part += asked
                self._rings_of_some += 1
                self._now = count + 1, bytes(a | b for a, b in zip(self._now[1], asked.tobytes(), strict=True))

    def rung_and_served(self) -> None:
        """A ring of everybody that has been answered: `ring` and `served` in one. Hot."""
        count = self._now[0]
        if count == self._capacity:
            with UNINTERRUPTED:
                self._make_room()
            count = self._now[0]
        for log, source in self._copies:
            log[count] = source
        for last, now in self._all_of_it:
            last[_WHOLE] = now
        if self._distrusted:
            self._distrusted.clear()
        self._now = count + 1, self._none  # last: whoever is interrupted before it has to `distrust`

    def distrust(self) -> None:
        """We were interrupted: what is kept of the outputs may be of a ring that never took place."""
        self._distrusted.update(range(len(self._places)))

    @property
    def _count(self) -> int:
        return self._now[0]

    def _close(self, item: int) -> None:
        count, open_ = self._now
        self._now = count, open_[:item] + b"\0" + open_[item + 1 :]

    def served(self, items: Sequence[int] | None) -> None:
        """Remembers what the items have put out (None: all of them)."""
        if items is None:
            for last, now in self._all_of_it:
                last[_WHOLE] = now
            if self._distrusted:
                self._distrusted.clear()
            self._now = self._now[0], self._none  # last: whoever is interrupted before it finds the ring open
            return
        for item in items:
            rows = _rows(self._places[item])
            for last, now in self._echoes:
                last[rows] = now[rows]
            self._distrusted.discard(item)
            self._close(item)

    def failed(self, item: int) -> None:
        """The item raised: what stands in its rows is nobody's promise."""
        self._distrusted.add(item)
        self._close(item)

    def forget(self, item: int, *, but_last: bool = False) -> None:
        """Drops an item's past. A ring that has not been answered is not past."""
        steps = list(self._steps(item)) if but_last or self.is_open(item) else []
        self._begin[item] = int(steps[-1]) if steps else self._count
        self._asked_before[item] = self._times(item) - bool(steps)
        if not but_last:
            self._distrusted.add(item)

    def withdraw(self, item: int) -> None:
        """The item's last ring never took place: it was given up."""
        steps = self._steps(item)
        if len(steps):
            self._asked[steps[-1], item] = 0
            self._part[item] -= 1
        self._distrusted.add(item)
        self._close(item)

    def mark(self, item: int) -> tuple[int, int, bool]:
        """Where the item's past begins, what it had been asked then, and whether its last ring is open."""
        return self._begin[item], self._asked_before[item], self.is_open(item)

    def go_back(self, item: int, mark: tuple[int, int, bool]) -> None:
        """Makes of an item's past what it was; what was kept of its outputs has been overwritten."""
        self._begin[item], self._asked_before[item], is_open = mark
        count, open_ = self._now
        self._now = count, open_[:item] + bytes([is_open]) + open_[item + 1 :]
        self._distrusted.add(item)

    def is_open(self, item: int) -> bool:
        """Whether the item has been rung and has not answered."""
        return bool(self._now[1][item])

    def length(self, item: int) -> int:
        """How often it has been asked since its history begins."""
        return self._times(item) - self._asked_before[item]

    def _times(self, item: int) -> int:
        """How often it has been asked at all."""
        return self._count + self._dropped - self._rings_of_some + int(self._part[item])

    def entry(self, item: int) -> Entry | None:
        """What the item has been asked and has answered."""
        steps = self._steps(item)
        if self.is_open(item):
            steps = steps[:-1]
        if not len(steps):
            return None
        place = self._places[item]
        inputs = [np.array(log[steps][:, place]) for log in self._logs]
        blanks = [
            array[place].copy() if isinstance(place, slice) else np.array(array[place]) for array in self._outputs
        ]
        expected = [np.array(last[_rows(place)]) for last in self._last] if item not in self._distrusted else []
        return "port", self._method, len(steps), inputs, blanks, expected

    def _steps(self, item: int) -> Array:
        begin = self._begin[item]
        return begin + np.flatnonzero(self._asked[begin : self._count, item])

    def _keep(self, logs: list[Array], asked: Array) -> None:
        self._logs, self._asked, self._capacity = logs, asked, len(asked)
        self._copies = list(zip(logs, self._sources, strict=True))

    def _make_room(self) -> None:
        """Drops what no item needs any more, or doubles."""
        needed = self._needed()
        if len(needed) > self._count // 2:
            self._keep(
                [np.concatenate([log, np.zeros_like(log)]) for log in self._logs],
                np.concatenate([self._asked, np.ones_like(self._asked)]),
            )
            return
        for log in (*self._logs, self._asked):
            log[: len(needed)] = log[needed]
        self._asked[len(needed) :] = 1
        self._begin = [int(place) for place in np.searchsorted(needed, self._begin)]
        self._dropped += self._count - len(needed)
        self._now = len(needed), self._now[1]

    def _needed(self) -> Array:
        """The rings that are in an item's history. One that is seldom asked and never saved keeps its own only."""
        begin = np.array(self._begin)
        start = int(begin.min(initial=self._count))
        if not self._rings_of_some:
            return np.arange(start, self._count)
        rings = np.arange(start, self._count)
        held = (self._asked[start : self._count] != 0) & (rings[:, None] >= begin)
        needed: Array = rings[held.any(axis=1)]
        return needed


def sample(array: Array, rows: int) -> Array:
    """A view of some elements of each row: enough to see that a replay went another way."""
    flat = array.reshape(rows, array.size // rows if rows else 0)
    return flat[:, :: max(1, flat.shape[1] // _SAMPLE)]


def _room_for(samples: list[Array], outputs: list[Array]) -> tuple[list[Array], list[tuple[Any, Any]]]:
    """Arrays to keep samples in; and from where to where one has to copy in order to take all of them."""
    if not outputs or any(view.size < array.size for view, array in zip(samples, outputs, strict=True)):
        last = [np.array(view) for view in samples]
        return last, list(zip(last, samples, strict=True))
    last, ours, theirs = doubled(outputs)
    return [sample(array, len(array)) for array in last], [(ours, theirs)]


def outputs_differ(outputs: list[Any], expected: list[Any]) -> bool:
    """Compares a replay's last outputs with the samples kept of the first time (none kept: nothing to compare)."""
    return any(
        sample(output, len(kept)).tobytes() != kept.tobytes() for output, kept in zip(outputs, expected, strict=False)
    )


def _rows(place: Any) -> slice:
    return place if isinstance(place, slice) else slice(place, place + 1)
