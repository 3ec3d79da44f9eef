"""Spaces as rows: one rule for observations wherever an env is played, and actions as their giver gave them."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from paceline import BadInput, Mission, evaluate, make_vec
from paceline.spaces import Leaf, Writer, assembled, leaves, reader

FLOATS = spaces.Box(-np.inf, np.inf, (2,), np.float32)
BYTES = spaces.Box(0, 255, (2,), np.uint8)
SMALL = spaces.Box(-128, 127, (2,), np.int8)
DICT = spaces.Dict({"image": BYTES, "pose": spaces.Tuple([FLOATS, spaces.Discrete(3)])})


class Shows(gymnasium.Env):
    """Shows one value from its first step on, which its space may not declare."""

    action_space = spaces.Discrete(2)

    def __init__(self, space: Any, value: Any) -> None:
        self.observation_space, self.value = space, value

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(self.observation_space.shape, self.observation_space.dtype), {}

    def step(self, action: Any) -> Any:
        return self.value, 0.0, False, False, {}


FITS = {
    "exact": (FLOATS, np.ones(2, np.float32)),
    "wider floats": (FLOATS, np.array([0.1, -7.0])),
    "infinite already": (FLOATS, np.array([np.inf, np.nan])),
    "integers as floats": (FLOATS, np.array([1, 2])),
    "a list": (FLOATS, [0.5, 1]),
    "integers that fit": (SMALL, np.array([-128, 127])),
    "another sign that fits": (BYTES, np.array([0, 255])),
    "booleans": (BYTES, np.array([True, False])),
}
LOSES = {
    "floats that become infinite": (FLOATS, np.array([1e300, 0.0])),
    "integers that wrap": (SMALL, np.array([128, 0])),
    "a sign that is lost": (BYTES, np.array([-1, 0], np.int8)),
    "floats as integers": (BYTES, np.array([1.0, 2.0])),
    "another shape": (FLOATS, np.zeros(3, np.float32)),
    "what would be broadcast": (FLOATS, np.float32(1)),
    "ragged": (FLOATS, [1.0, [2.0]]),
    "words": (FLOATS, "north"),
}


def sees(obs: Any) -> int:
    """A policy that is content with any two numbers."""
    assert obs.shape == (2,)
    return 1


def stepped(space: Any, value: Any) -> Any:
    """What a vector of one such env shows after a step."""
    with make_vec([partial(Shows, space, value)], plan="inline") as envs:
        envs.reset(seed=0)
        return envs.step(np.zeros(1, np.int64))[0][0]


def failure_of(space: Any, value: Any) -> Any:
    """How an episode with such an env failed in evaluate, if it did."""
    report = evaluate(Mission("shows", Shows, {"space": space, "value": value}, steps=3), sees, plan=0)
    return report.episodes[0].failure


@pytest.mark.parametrize("case", FITS)
def test_an_observation_that_loses_nothing_is_shown_by_every_entry_point(case: str) -> None:
    space, value = FITS[case]
    np.testing.assert_array_equal(stepped(space, value), np.asarray(value).astype(space.dtype))
    assert failure_of(space, value) is None


@pytest.mark.parametrize("case", LOSES)
def test_an_observation_that_would_lose_something_is_refused_by_every_entry_point(case: str) -> None:
    space, value = LOSES[case]
    with pytest.raises(BadInput, match=r"env 0 showed at step 1 of episode 0 \(seed 0\) what is none of"):
        stepped(space, value)
    found = failure_of(space, value)
    assert found is not None
    assert found.kind == "BadInput"
    assert "correct the space, or the observation" in found.message


def test_a_space_comes_down_to_leaves_and_back() -> None:
    found = leaves(DICT, "o")
    assert found is not None
    assert [(leaf.name, leaf.shape, leaf.dtype, leaf.number) for leaf in found] == [
        ("o.image", (2,), "|u1", False),
        ("o.pose.0", (2,), "<f4", False),
        ("o.pose.1", (), "<i8", True),
    ]
    value = {"image": np.array([3, 4], np.uint8), "pose": (np.array([0.5, 1.5], np.float32), 2)}
    columns = {leaf.path: np.zeros((5, *leaf.shape), leaf.dtype) for leaf in found}
    Writer(DICT, "env 0").write([columns[leaf.path][3, ...] for leaf in found], value, lambda: "step 1")
    batch = assembled(DICT, columns)
    assert batch["image"][3].tolist() == [3, 4]
    assert batch["pose"][1].tolist() == [0, 0, 0, 2, 0]
    again = reader(DICT, found)([columns[leaf.path][3, ...] for leaf in found])
    assert DICT.contains(again)
    assert again["pose"][0].tolist() == [0.5, 1.5]


def test_a_part_that_fits_into_no_array_leaves_no_leaves() -> None:
    assert leaves(spaces.Dict({"words": spaces.Text(3), "image": BYTES}), "o") is None
    assert leaves(spaces.Text(3), "o") is None
    assert leaves(spaces.Discrete(3), "a") == [Leaf((), "<i8", True, "a", ())]
