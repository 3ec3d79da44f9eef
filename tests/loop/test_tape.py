"""Tapes: rows in, columns out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import BadInput
from paceline.tape import Column, Tape, Track
from paceline.types import Seat, Step

NESTED = spaces.Dict({"image": spaces.Box(0, 255, (2, 2), np.uint8), "pose": spaces.Tuple([spaces.Discrete(5)])})


def seat(observations: Any = None, actions: Any = None, agent: str = "agent_0") -> Seat:
    seen = observations or spaces.Box(-np.inf, np.inf, (2,), np.float32)
    return Seat(agent, 0, seen, actions or spaces.Discrete(3), "test")


@given(values=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40), room=st.integers(1, 5))
def test_a_column_keeps_every_row_however_often_it_grows(values: list[int], room: int) -> None:
    column = Column("number", spaces.Box(-(2**31), 2**31 - 1, (), np.int32), room)
    for value in values:
        column.append(value)
    assert column.rows.dtype == np.int32
    assert column.rows.tolist() == values


def test_rows_of_a_nested_space_come_as_the_space_has_them() -> None:
    column = Column("observation", NESTED, 1)
    for number in range(3):
        column.append({"image": np.full((2, 2), number, np.uint8), "pose": (number,)})
    assert column.rows["image"][:, 0, 0].tolist() == [0, 1, 2]
    assert column.rows["pose"][0].tolist() == [0, 1, 2]


def test_values_that_fit_into_no_array_are_kept_as_they_are() -> None:
    column = Column("words", spaces.Text(20))
    for word in ("one", "other"):
        column.append(word)
    assert column.rows == ["one", "other"]


@pytest.mark.parametrize("value", [np.zeros(3, np.float32), np.array([1e300, 0.0]), "words", None])
def test_what_does_not_fit_is_refused_with_its_row(value: Any) -> None:
    track = Track(seat())
    track.act(np.zeros(2, np.float32), 0, {})
    track.step(0.0, False, False)
    with pytest.raises(BadInput, match=r"observation of 'agent_0' in row 1 must have shape \(2,\) and fit float32"):
        track.act(value, 0, {})


def test_a_row_is_copied_because_environments_write_into_what_they_have_shown() -> None:
    track, shown = Track(seat()), np.zeros(2, np.float32)
    for number in range(3):
        shown[:] = number
        track.act(shown, number, {})
        track.step(float(number), False, False)
    assert track.columns["observations"][:, 0].tolist() == [0, 1, 2]
    assert track.columns["rewards"].tolist() == [0.0, 1.0, 2.0]


def test_ends_have_their_final_observations() -> None:
    track = Track(seat(), rows=1)
    for number in range(6):
        track.act(np.full(2, number, np.float32), 0, {})
        track.step(1.0, number == 1, number == 4, np.full(2, 10 + number, np.float32))
    columns = track.columns
    assert columns["ends"].tolist() == [1, 4]
    assert columns["final_observations"][:, 0].tolist() == [11, 14]
    assert np.flatnonzero(columns["terminations"]).tolist() == [1]
    assert np.flatnonzero(columns["truncations"]).tolist() == [4]


def test_start_states_stand_before_the_rows_that_they_belong_to() -> None:
    track = Track(seat())
    for number in range(4):
        if number in (0, 3):
            track.start(number * 10)
        track.act(np.zeros(2, np.float32), 0, {})
        track.step(0.0, False, False)
    assert track.columns["starts"].tolist() == [0, 3]
    assert track.columns["start_states"] == [0, 30]


def test_every_action_has_the_same_extras() -> None:
    track = Track(seat())
    track.act(np.zeros(2, np.float32), 0, {"log_prob": -0.5})
    track.step(0.0, False, False)
    with pytest.raises(BadInput, match=r"gave the extras \['value'\] with row 1, and \['log_prob'\] with those before"):
        track.act(np.zeros(2, np.float32), 0, {"value": 1.0})


def test_agents_that_were_not_asked_get_no_row() -> None:
    tape = Tape([seat(agent="one"), seat(agent="other")])
    tape.act({"one": np.zeros(2, np.float32)}, {"one": 2}, {})
    tape.step(
        Step(
            {},
            {"one": 1.5, "other": 9.0},
            {"one": True, "other": False},
            {"one": False, "other": False},
            {},
            {"one": np.ones(2, np.float32)},
        )
    )
    both = tape.batch()
    assert both["one"]["rewards"].tolist() == [1.5]
    assert len(both["other"]["rewards"]) == 0


def test_the_digest_follows_every_column() -> None:
    def digest(reward: float, extra: float) -> str:
        tape = Tape([seat()])
        tape.act({"agent_0": np.zeros(2, np.float32)}, {"agent_0": 1}, {"agent_0": {"value": extra}})
        tape.step(Step({}, {"agent_0": reward}, {"agent_0": False}, {"agent_0": False}, {}, {}))
        return tape.digest

    assert len({digest(1.0, 0.0), digest(2.0, 0.0), digest(1.0, 0.5)}) == 3
    assert digest(1.0, 0.5) == digest(1.0, 0.5)
