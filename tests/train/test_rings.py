"""Windows on a ring are what a list of all rows would give."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

import paceline
from paceline.seeds import digest
from paceline.tape import Track
from paceline.train.fetched import Fetched
from paceline.train.rings import Ring, Rows, Span
from paceline.train.windows import RowWindow
from paceline.types import Seat

SEAT = Seat("ann", 0, spaces.Dict({"at": spaces.Box(-1e6, 1e6, (2,), np.float32)}), spaces.Discrete(4), "m")


def episode(first: int, length: int, terminated: bool) -> dict[str, Any]:
    """Rows that are numbered by what they hold."""
    track = Track(SEAT)
    for row in range(first, first + length):
        last = row == first + length - 1
        track.act({"at": np.full(2, row, np.float32)}, row % 4, {"value": row / 2})
        track.step(float(row), last and terminated, last and not terminated, {"at": np.full(2, -row, np.float32)})
    return track.columns


def window(ring: Ring, capacity: int | None, new: int, seed: int = 0) -> RowWindow:
    span = pickle.loads(pickle.dumps(ring.span(capacity, new)))
    assert ring.shared is not None
    return RowWindow(Rows(SEAT), pickle.loads(pickle.dumps(ring.shared)).arrays, span, np.random.default_rng(seed))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=12),
    st.integers(6, 20),
    st.integers(1, 4),
    st.booleans(),
)
def test_windows_are_the_newest_rows(episodes: list[tuple[int, bool]], capacity: int, steps: int, grows: bool) -> None:
    """Columns, new rows, ends, samples over several steps; around the seam, after growing, and read back from disk."""
    ring, count, ends = Ring(SEAT, capacity + 6), 0, []
    for place, (length, terminated) in enumerate(episodes):
        ring.extend(episode(count, length, terminated))
        count += length
        ends.append((count - 1, terminated))
        if grows and place == 3:
            ring.grow(3 * capacity)
    again = Ring(SEAT, ring.room)
    again.load(pickle.loads(pickle.dumps(ring.save(capacity))))
    lo, new = max(0, count - capacity), count - episodes[-1][0]
    for each in (ring, again):
        found = window(each, capacity, new)
        assert len(found) == count - lo
        assert found.columns["observations"]["at"][:, 0].tolist() == list(range(lo, count))
        assert found.columns["value"].tolist() == [row / 2 for row in range(lo, count)]
        assert found.columns["ends"].tolist() == [row - lo for row, _ in ends if row >= lo]
        finals = found.columns["final_observations"]["at"][:, 0].tolist()
        assert finals == [-row for row, _ in ends if row >= lo]
        assert found.new["rewards"].tolist() == list(range(max(lo, new), count))
        assert found.new["final_observations"]["at"][:, 0].tolist() == [-(count - 1)]
        _check_sample(found.sample(30, steps=steps, discount=0.5), ends, steps)
        _check_sequences(found.sequences(20, steps, lead=2), ends, steps, lo)
    assert digest(window(ring, capacity, new).sample(9)) == digest(window(again, capacity, new).sample(9))


def _check_sample(batch: dict[str, Any], ends: list[tuple[int, bool]], steps: int) -> None:
    for place, first in enumerate(batch["observations"]["at"][:, 0].astype(int).tolist()):
        end, terminated = next((row, how) for row, how in ends if row >= first)
        last = min(first + steps - 1, end)
        rows = range(first, last + 1)
        assert batch["rewards"][place] == sum(0.5 ** (row - first) * row for row in rows)
        assert batch["next_observations"]["at"][place, 0] == (-end if last == end else last + 1)
        assert batch["discounts"][place] == (0.0 if last == end and terminated else 0.5 ** len(rows))


def _check_sequences(found: dict[str, Any], ends: list[tuple[int, bool]], length: int, lo: int) -> None:
    """Rows of one episode each, from two before the drawn one, and what was seen after each of them."""
    mask, seen = found["mask"], found["observations"]["at"][:, 0].astype(int).reshape(20, -1)
    after = found["next_observations"]["at"][:, 0].astype(int).reshape(20, -1)
    for place in range(20):
        first = seen[place, 2]  # the drawn row is always one of its episode
        end = next(row for row, _ in ends if row >= first)
        begin = max([lo, *(row + 1 for row, _ in ends if row < first)])
        wanted = list(range(first - 2, first + length))
        assert mask[place].tolist() == [begin <= row <= end for row in wanted]
        assert seen[place].tolist() == [min(max(row, begin), end) for row in wanted]
        assert after[place].tolist() == [-end if row == end else row + 1 for row in seen[place].tolist()]


class Copy:
    """A ring's memory as a worker on another machine has it."""

    mapped = False

    def __init__(self, of: Any) -> None:
        self.layout, self.fetched = of.layout, 0
        self._of, self.arrays = of.arrays, {name: np.zeros_like(array) for name, array in of.arrays.items()}

    def fetch(self, ranges: Any) -> None:
        for name, parts in ranges.items():
            for start, stop in parts:
                assert start < stop
                self.arrays[name][start:stop] = self._of[name][start:stop]
                self.fetched += stop - start if name == "rewards" else 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=16),
    st.integers(6, 20),
    st.integers(0, 9),
)
def test_a_copy_of_a_ring_gives_the_same_windows(updates: list[tuple[int, bool]], capacity: int, again: int) -> None:
    """Every row is fetched once; all of a window are, if a learner is given one again that came before."""
    ring, fetched, rows = Ring(SEAT, capacity + 20), Fetched(), 0
    ring.extend(episode(0, 1, True))
    copy, spans = Copy(ring.shared), [ring.span(capacity, 0)]
    for length, reads in updates:
        ring.extend(episode(ring.count, length, True))
        if reads:
            spans.append(ring.span(capacity, 0))
            rows += spans[-1].hi - max(spans[-1].lo, spans[-2].hi if rows else 0)
            _check_same(ring, fetched, copy, spans[-1])
            assert copy.fetched == rows
    for span in spans[again:]:  # as far as the ring has them still
        if span.lo >= ring.count - ring.room:
            _check_same(ring, fetched, copy, span)


def _check_same(ring: Ring, fetched: Fetched, copy: Any, span: Span) -> None:
    assert ring.shared is not None
    arrays = fetched.arrays("ann", copy, span)
    far, near = (RowWindow(Rows(SEAT), each, span, np.random.default_rng(0)) for each in (arrays, ring.shared.arrays))
    assert digest(dict(far.columns)) == digest(dict(near.columns))
    assert digest([far.sample(9, steps=3), far.sequences(9, 3)]) == digest(
        [near.sample(9, steps=3), near.sequences(9, 3)]
    )


def test_a_ring_that_has_grown_is_read_back_whole() -> None:
    """A new ring has the room of the first one; what is read into it may need more."""
    ring = Ring(SEAT, 8)
    for number in range(10):
        if ring.count + 3 > ring.room:
            ring.grow(2 * ring.room)
        ring.extend(episode(3 * number, 3, True))
    again = Ring(SEAT, 8)
    again.load(pickle.loads(pickle.dumps(ring.save(None))))
    assert window(again, None, 0).columns["rewards"].tolist() == list(range(30))
    again.extend(episode(30, 1, True))
    assert window(again, None, 0).columns["rewards"].tolist() == list(range(31))


def test_rows_are_saved_where_they_lie_and_read_back_one_array_after_another() -> None:
    """A checkpoint of rows that fill the memory needs no more of it, also around the seam."""
    ring = Ring(SEAT, 8)
    for number in range(4):
        ring.extend(episode(3 * number, 3, True))
    saved = ring.save(7)
    rewards = saved["arrays"]["rewards"]
    assert [rows.tolist() for rows in rewards] == [[5, 6, 7], [8, 9, 10, 11]]
    assert ring.shared is not None
    assert all(np.shares_memory(rows, ring.shared.arrays["rewards"]) for rows in rewards)
    kept = pickle.loads(pickle.dumps(saved))
    again = Ring(SEAT, 8)
    again.load(kept)
    assert kept["arrays"] == {}
    assert window(again, 7, 0).columns["rewards"].tolist() == list(range(5, 12))


def test_a_column_that_is_not_there_is_named() -> None:
    ring = Ring(SEAT, 8)
    ring.extend(episode(0, 3, True))
    with pytest.raises(KeyError, match="'log_prob' is no column; there are observations"):
        window(ring, None, 0).columns["log_prob"]


def test_rows_without_an_end_are_refused() -> None:
    track = Track(SEAT)
    track.act({"at": np.zeros(2, np.float32)}, 0, {})
    track.step(0.0, False, False)
    with pytest.raises(paceline.BadInput, match="left the play after 1 rows, neither terminated nor truncated"):
        Ring(SEAT, 8).extend(track.columns)


def test_what_fits_into_no_array_is_refused() -> None:
    with pytest.raises(paceline.BadInput, match="observations of agent 'bob' are of Text"):
        Rows(Seat("bob", 1, spaces.Text(5), spaces.Discrete(2), "m"))
