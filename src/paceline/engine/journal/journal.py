"""What a member has been asked since it was last whole: enough to build it again and see that it is the same.

    Journal   one member: where it starts (recipe, or a snapshot, and its streams), then the calls since
    PortLog   one port: the inputs of every ring, packed row by row; members' journals point into it

An entry says how it is replayed: `call` runs the method again and compares the answer; `told` gives a
member that is not deterministic its own recorded answer; `port` runs the packed inputs and compares the outputs, by one
check for every few dozen rounds (row_checks.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.journal.fingerprint import condensed
from paceline.engine.journal.row_checks import RowChecks
from paceline.engine.transport import codec
from paceline.engine.transport.plain_data import Plain
from paceline.engine.transport.shared_memory import Array

Entry = tuple[Any, ...]
Base = tuple[codec.Packed | None, dict[str, Any] | bytes | None]
"""A snapshot (or None: the recipe), and the states of the random streams that the member draws from: packed, where
main does not read them."""
Stretch = tuple[int, int | None]
"""How many rounds, and the check of what they put out; None: nobody can know it any more. Below zero: the round raised,
and this is the negative check of its error's name."""
Mark = tuple[Any, ...]
"""How far a journal had come: what `Journal.go_back` needs."""

_FIRST_CAPACITY = 64
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
        if base is not None:
            self.start_anew(base)
            # Without a snapshot the recipe does not know of this call, so it has to be run again itself.
            if base[0] is not None:
                return
        elif self.logs:
            self.settle()
        self.story[1].append(entry)
        self.runs += 1
        if type(entry[3]) in _KEPT:
            self.echoes += codec.size(entry[3])
            if self.echoes > _ECHOES and self.deterministic:
                self._condense()

    def _condense(self) -> None:
        """Keeps checks in the place of the oldest answers: as many as it takes, which is one or two at a time."""
        entries = self.story[1]
        while self.echoes > _ECHOES:
            entry = entries[self.condensed]
            if entry[0] == "call" and type(entry[3]) in _KEPT:
                self.echoes -= codec.size(entry[3])
                entries[self.condensed] = (*entry[:3], condensed(entry[3]))
            self.condensed += 1

    def start_anew(self, base: Base, last: tuple[PortLog, int] | None = None) -> None:
        """Forgets what was before. `last` is the port and item that said so, if it was said there: without a
        snapshot that last run belongs to the new beginning."""
        state, streams = base
        if state is not None:  # large arrays in it still lie in the message that it came with, which cannot be sent on
            state = codec.settle(state)
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
    """The inputs of a port's rings, one row of every input array per item, in the order of the rings; and checks of
    what the items have put out."""

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
        self._rows = [place if isinstance(place, slice) else slice(place, place + 1) for place in places]
        # Ready for rings of everybody.
        logs = [np.zeros((_FIRST_CAPACITY, *source.shape), source.dtype) for source in self._sources]
        self._keep(logs, np.ones((_FIRST_CAPACITY, len(places)), np.uint8))
        # How many rings there were, and which items have not answered their last one: one tuple, replaced as a whole,
        # so that an interrupt never finds a ring that is half recorded.
        self._now = 0, bytes(len(places))
        self._begin = [0] * len(places)
        # What an item has been asked is counted: all rings, less those of some, and its own of these.
        self._dropped = self._rings_of_some = 0
        self._part = np.zeros(len(places), np.int64)  # by item: the rings of some that it took part in
        self._asked_before = [0] * len(places)  # by item: what it had been asked when its history began
        self._blanks = [self._held(item) for item in range(len(places))]  # what its rows held then
        self._stretches: list[list[Stretch]] = [[] for _ in places]  # by item: what its rings put out since then,
        self._checked = [0] * len(places)  # but for those that begin here
        self._kept = RowChecks(self._outputs, [rows.stop - rows.start for rows in self._rows])
        self._first_kept = 0  # the ring whose outputs are kept as round 0
        self._full = min(self._capacity, self._kept.rounds)  # so many rings find room
        self._of_all = False  # whether the last ring was one of everybody,
        self._in_step = True  # and whether all whose outputs are kept were
        self._all, self._none = bytes([1]) * len(places), bytes(len(places))

    def ring(self, asked: Array | None) -> None:
        """Takes the inputs of one ring in (None: of everybody). Hot: one copy per input array."""
        count = self._now[0]
        if count == self._full:
            count = self._make_room()
        for log, source in self._copies:
            log[count] = source
        if asked is None:
            self._of_all = True
            self._now = count + 1, self._all
        else:
            with UNINTERRUPTED:
                self._of_all = self._in_step = False
                self._asked[count] = asked
                self._part += asked
                self._rings_of_some += 1
                self._now = count + 1, bytes(a | b for a, b in zip(self._now[1], asked.tobytes(), strict=True))

    def rung_and_served(self) -> None:
        """A ring of everybody that has been answered: `ring` and `served` in one. Hot."""
        count = self._now[0]
        if count == self._full:
            count = self._make_room()
        for log, source in self._copies:
            log[count] = source
        self._kept.keep(count - self._first_kept)
        self._now = count + 1, self._none  # last: for whoever is interrupted before it there was no such ring

    @property
    def _count(self) -> int:
        return self._now[0]

    def _close(self, item: int) -> None:
        count, open_ = self._now
        self._now = count, open_[:item] + b"\0" + open_[item + 1 :]

    def served(self, items: Sequence[int] | None) -> None:
        """Remembers what the items have put out (None: all of them)."""
        if items is None and self._of_all:
            count = self._now[0]
            self._kept.keep(count - 1 - self._first_kept)
            self._now = count, self._none  # last: whoever is interrupted before it finds the ring open
            return
        for item in range(len(self._places)) if items is None else items:
            self._keep_last(item)
            self._close(item)

    def _keep_last(self, item: int) -> None:
        """Keeps what an item's last ring has put out. If what others put out since then has been folded, so is that."""
        ring = self._last_ring(item)
        self._kept.keep_one(max(0, ring - self._first_kept), item)
        if ring < self._first_kept:  # of its own nothing has been kept since
            [check] = self._kept.checks(1, item=item)
            self._stretches[item].append((1, check))
            self._checked[item] = ring + 1

    def failed(self, item: int, checked: int | None = None) -> None:
        """The item raised: what stands in its rows is nobody's promise, but that it raises is.

        Args:
            item: Who it was.
            checked: The check of the error's name; 0 or None: it was not the item's own.
        """
        if not self.is_open(item):
            return  # that ring has been withdrawn
        ring = self._last_ring(item)
        self._stretches[item] += [*self._unfolded(item, ring), (1, -checked if checked else None)]
        self._checked[item] = ring + 1
        self._close(item)

    def forget(self, item: int, *, but_last: bool = False) -> None:
        """Drops an item's past. A ring that has not been answered is not past."""
        steps = list(self._steps(item)) if but_last or self.is_open(item) else []
        self._begin[item] = int(steps[-1]) if steps else self._count
        self._asked_before[item] = self._times(item) - bool(steps)
        self._blanks[item] = self._held(item)
        if self._checked[item] <= self._begin[item]:
            self._stretches[item], self._checked[item] = [], self._begin[item]
        else:  # that of the last run, which came late, is there
            self._stretches[item] = self._stretches[item][-1:]

    def withdraw(self, item: int) -> None:
        """The item's last ring never took place: it was given up."""
        steps = self._steps(item)
        if len(steps):
            self._asked[steps[-1], item] = 0
            self._part[item] -= 1
            self._in_step = False
        self._close(item)

    def mark(self, item: int) -> tuple[Any, ...]:
        """What `go_back` needs: where the item's past begins, what came before, and whether its last ring is open."""
        stretches = self._stretches[item]
        begun = self._begin[item], self._asked_before[item], self._blanks[item]
        return begun, (stretches, len(stretches), self._checked[item]), self.is_open(item)

    def go_back(self, item: int, mark: tuple[Any, ...]) -> None:
        """Makes of an item's past what it was."""
        (self._begin[item], self._asked_before[item], self._blanks[item]), checked, is_open = mark
        count, open_ = self._now
        self._now = count, open_[:item] + bytes([is_open]) + open_[item + 1 :]
        self._stretches[item], length, self._checked[item] = checked
        del self._stretches[item][length:]
        end = min(self._first_kept, self._last_ring(item) if is_open else self._count)
        if self._checked[item] < end:  # it has been folded meanwhile, together with what came after the mark
            self._stretches[item].append((int(self._asked[self._checked[item] : end, item].sum()), None))
            self._checked[item] = end

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
        stretches = [*self._stretches[item], *self._unfolded(item, int(steps[-1]) + 1)]
        alone = not isinstance(place, slice)
        return "port", self._method, self._asked_before[item], stretches, inputs, self._blanks[item], alone

    def _steps(self, item: int) -> Array:
        begin = self._begin[item]
        return begin + np.flatnonzero(self._asked[begin : self._count, item])

    def _last_ring(self, item: int) -> int:
        """The last ring that the item took part in."""
        if self._asked[self._count - 1, item]:
            return self._count - 1
        recent = np.flatnonzero(self._asked[self._first_kept : self._count, item])
        return self._first_kept + int(recent[-1]) if len(recent) else int(self._steps(item)[-1])

    def _held(self, item: int) -> list[Array]:
        """A copy of what the item's rows hold."""
        return [array[self._rows[item]].copy() for array in self._outputs]

    # -- checks ---------------------------------------------------------------------------------------

    def _unfolded(self, item: int, end: int) -> list[Stretch]:
        """The stretch of an item's rings before this one that are in none yet; nothing if there are none."""
        counted = self._asked[self._first_kept : end, item : item + 1].copy()
        counted[: max(0, self._checked[item] - self._first_kept)] = 0
        count = int(counted.sum())
        return [(count, check) for check in self._kept.checks(len(counted), counted, item)] if count else []

    def _fold(self) -> None:
        """Makes a stretch of all that is kept of everybody; a ring that is open is not over."""
        count, open_ = self._now
        first, last, checked = self._first_kept, [count] * len(open_), self._checked
        if self._in_step and open_ == self._none and max(checked, default=first) <= first:
            stretches = [(count - first, check) for check in self._kept.checks(count - first)]
        else:
            last = [self._last_ring(item) if is_open else count for item, is_open in enumerate(open_)]
            rings = np.arange(first, count)[:, None]
            counted = self._asked[first:count] * ((rings >= np.array(checked)) & (rings < np.array(last)))
            checks = self._kept.checks(count - first, counted)
            stretches = list(zip(counted.sum(axis=0).tolist(), checks, strict=True))
        for mine, stretch in zip(self._stretches, stretches, strict=True):
            if stretch[0]:
                mine.append(stretch)
        self._checked, self._in_step = last, True

    def _keep(self, logs: list[Array], asked: Array) -> None:
        self._logs, self._asked, self._capacity = logs, asked, len(asked)
        self._copies = list(zip(logs, self._sources, strict=True))

    def _make_room(self) -> int:
        """Folds what is kept of the outputs, and makes room for inputs. Returns how many rings there are now."""
        with UNINTERRUPTED:
            self._fold()
            if self._count == self._capacity:
                self._make_room_for_inputs()
            self._first_kept = self._count
            self._full = min(self._capacity, self._first_kept + self._kept.rounds)
        return self._count

    def _make_room_for_inputs(self) -> None:
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
        self._checked = [int(place) for place in np.searchsorted(needed, self._checked)]
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
