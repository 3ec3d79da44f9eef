"""Replay buffers: what comes out follows from the seed and from what went in, in its order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from paceline.errors import BadInput
from paceline.learning import SequenceReplay, StepReplay, episode_of
from paceline.seeds import digest
from paceline.tape import Track
from paceline.types import Seat

SEEN, DONE = spaces.Box(-np.inf, np.inf, (1,), np.float32), spaces.Discrete(1000)


def episode(number: int, rows: int) -> dict[str, Any]:
    """Rows that say which they are: episode · 100 + step."""
    names = number * 100 + np.arange(rows)
    return {
        "observations": names[:, None].astype(np.float32),
        "actions": names,
        "rewards": names / 2,
        "terminations": np.arange(rows) == rows - 1,
        "next_observations": names[:, None].astype(np.float32) + 1,
    }


def test_steps_come_out_as_they_went_in_and_the_oldest_go() -> None:
    buffer = StepReplay(5, SEEN, DONE, seed=1)
    for number in range(7):
        buffer.add_sample(np.array([number]), number, number / 2, number == 6, np.array([number + 1]))
    assert len(buffer) == 5
    batch = buffer.sample(200)
    assert set(batch["actions"].tolist()) == {2, 3, 4, 5, 6}
    assert batch["observations"].shape == (200, 1)
    assert (batch["observations"][:, 0] == batch["actions"]).all()
    assert (batch["next_observations"][:, 0] == batch["actions"] + 1).all()
    assert (batch["rewards"] == batch["actions"] / 2).all()
    assert (batch["terminations"] == (batch["actions"] == 6)).all()
    assert batch["terminations"].dtype == np.bool_


def test_episodes_of_steps_are_their_steps_one_by_one() -> None:
    one, other = (StepReplay(8, SEEN, DONE, seed=3) for _ in range(2))
    for number, rows in enumerate((3, 4, 5)):
        whole = episode(number, rows)
        one.add_episode(**whole)
        for row in range(rows):
            other.add_sample(*(values[row] for values in whole.values()))
    assert one.digest() == other.digest()
    assert digest(one.sample(6)) == digest(other.sample(6))


def test_sequences_lie_whole_in_one_episode_and_short_ones_are_padded() -> None:
    buffer = SequenceReplay(100, SEEN, DONE, length=4, seed=0)
    for number, rows in enumerate((6, 2, 4)):
        buffer.add_episode(**episode(number, rows))
    batch = buffer.sample(300)
    assert batch["observations"].shape == (4, 300, 1)
    assert batch["masks"].shape == batch["rewards"].shape == (4, 300)
    seen: dict[int, int] = {}
    for column in range(300):
        actions, mask = batch["actions"][:, column], batch["masks"][:, column]
        first = int(actions[0])
        rows = 2 if first == 100 else 4
        assert mask.tolist() == [True] * rows + [False] * (4 - rows)
        assert actions.tolist() == [first + step for step in range(rows)] + [0] * (4 - rows)
        assert batch["offsets"][column] == first % 100
        assert not batch["observations"][rows:, column].any()
        assert not batch["terminations"][rows:, column].any()
        seen[first] = seen.get(first, 0) + 1
    assert sorted(seen) == [0, 1, 2, 100, 200]
    assert min(seen.values()) > 30  # five that are as likely as each other


@pytest.mark.parametrize("lengths", [(4, 4, 4, 4), (3, 5, 2, 7, 1), (10, 10), (1,) * 23])
def test_an_episode_that_is_overwritten_in_part_is_gone_whole(lengths: tuple[int, ...]) -> None:
    buffer = SequenceReplay(10, SEEN, DONE, length=3)
    for number, rows in enumerate(lengths):
        buffer.add_episode(**episode(number, rows))
        kept, room = [], 10
        for older in range(number, -1, -1):
            room -= lengths[older]
            if room < 0:
                break
            kept.append(older)
        batch = buffer.sample(80)
        assert set((batch["actions"] // 100)[batch["masks"]].tolist()) == set(kept)
        assert (np.diff(batch["actions"], axis=0)[batch["masks"][1:]] == 1).all()
        assert (buffer.episodes, len(buffer)) == (len(kept), sum(lengths[each] for each in kept))


@pytest.mark.parametrize("make", [StepReplay, lambda *args, **kw: SequenceReplay(*args, length=3, **kw)])
def test_a_buffer_goes_on_from_a_snapshot(make: Any) -> None:
    one, other = make(12, SEEN, DONE, seed=5), make(12, SEEN, DONE, seed=6)
    for number in range(4):
        one.add_episode(**episode(number, 4))
        one.sample(3)
    other.add_episode(**episode(9, 12))
    assert one.digest() != other.digest()
    kept = one.snapshot()
    before = one.digest()
    expected = digest([one.sample(5), one.sample(5)])
    other.restore(kept)
    assert other.digest() == before
    assert digest([other.sample(5), other.sample(5)]) == expected
    for each in (one, other):
        each.add_episode(**episode(7, 5))
    assert one.digest() == other.digest()
    one.restore(kept)
    assert digest([one.sample(5), one.sample(5)]) == expected


def test_batches_follow_from_the_seed_and_the_order_and_not_from_global_generators() -> None:
    def batches(seed: int, order: list[int]) -> str:
        buffer = SequenceReplay(50, SEEN, DONE, length=3, seed=seed)
        for number in order:
            buffer.add_episode(**episode(number, 5))
        return digest([buffer.sample(4) for _ in range(3)])

    np.random.seed(1)
    first = batches(1, [0, 1, 2])
    np.random.seed(2)
    assert batches(1, [0, 1, 2]) == first
    assert len({first, batches(2, [0, 1, 2]), batches(1, [2, 1, 0])}) == 3


def test_what_does_not_fit_is_refused_and_nothing_is_written() -> None:
    buffer = SequenceReplay(10, SEEN, DONE, length=3)
    with pytest.raises(BadInput, match="the buffer is empty"):
        buffer.sample(1)
    buffer.add_episode(**episode(0, 4))
    before = buffer.digest()
    for wrong in (
        {"observations": np.zeros((4, 2), np.float32)},
        {"actions": np.array([0.5] * 4)},
        {"next_observations": np.zeros((3, 1), np.float32)},
        {"terminations": np.zeros(5)},
    ):
        with pytest.raises(BadInput, match="must have shape"):
            buffer.add_episode(**{**episode(1, 4), **wrong})
    for rows in (0, 11):
        with pytest.raises(BadInput, match=f"an episode of {rows} rows"):
            buffer.add_episode(**episode(1, rows))
    assert buffer.digest() == before
    with pytest.raises(BadInput, match="fit into no arrays"):
        StepReplay(3, spaces.Text(3), DONE)
    with pytest.raises(BadInput, match="length=11"):
        SequenceReplay(10, SEEN, DONE, length=11)
    with pytest.raises(BadInput, match="the buffer is empty"):
        StepReplay(3, SEEN, DONE).sample(1)


def test_rewards_and_flags_may_be_columns() -> None:
    one, other = (SequenceReplay(10, SEEN, DONE, length=3) for _ in range(2))
    whole = episode(1, 4)
    one.add_episode(**whole)
    flags = whole["terminations"].astype(np.float32)[:, None]
    other.add_episode(**{**whole, "rewards": whole["rewards"][:, None], "terminations": flags})
    assert one.digest() == other.digest()


def test_observations_of_parts_keep_their_form() -> None:
    seen = spaces.Dict({"place": spaces.Box(-1, 1, (2,), np.float32), "pair": spaces.Tuple([DONE, DONE])})
    buffer = StepReplay(4, seen, DONE)
    value = {"place": np.ones(2, np.float32), "pair": (3, 4)}
    buffer.add_sample(value, 1, 0.0, False, value)
    batch = buffer.sample(2)
    assert batch["observations"]["place"].tolist() == [[1.0, 1.0]] * 2
    assert [part.tolist() for part in batch["next_observations"]["pair"]] == [[3, 3], [4, 4]]


@pytest.mark.parametrize("ends", [(2, 5), (2,), ()])
def test_a_tape_becomes_transitions_with_final_observations_at_its_ends(ends: tuple[int, ...]) -> None:
    """A last row without an end is left out: what followed it was not seen."""
    track = Track(Seat("a", 0, SEEN, DONE, "m"))
    for row in range(6):
        track.act(np.array([row], np.float32), row, {"value": 0.0})
        track.step(float(row), row in ends, False, np.array([row + 0.5], np.float32) if row in ends else None)
    whole = episode_of(track.columns)
    rows = 6 if 5 in ends else 5
    assert whole["actions"].tolist() == list(range(rows))
    assert whole["next_observations"][:, 0].tolist() == [row + (0.5 if row in ends else 1) for row in range(rows)]
    buffer = SequenceReplay(10, SEEN, DONE, length=6)
    buffer.add_episode(**whole)
    assert buffer.sample(1)["masks"].sum() == rows
