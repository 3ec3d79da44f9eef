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
from paceline.train.rings import Ring, Rows, RowWindow
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
    assert digest(window(ring, capacity, new).sample(9)) == digest(window(again, capacity, new).sample(9))


def _check_sample(batch: dict[str, Any], ends: list[tuple[int, bool]], steps: int) -> None:
    for place, first in enumerate(batch["observations"]["at"][:, 0].astype(int).tolist()):
        end, terminated = next((row, how) for row, how in ends if row >= first)
        last = min(first + steps - 1, end)
        rows = range(first, last + 1)
        assert batch["rewards"][place] == sum(0.5 ** (row - first) * row for row in rows)
        assert batch["next_observations"]["at"][place, 0] == (-end if last == end else last + 1)
        assert batch["discounts"][place] == (0.0 if last == end and terminated else 0.5 ** len(rows))


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
