"""What Stable-Baselines3 asks of its envs by name, by number and with options: answered as its `DummyVecEnv` does."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv

from paceline import BadInput
from paceline.adapters.sb3_vec import as_sb3
from paceline.vector import make_vec

PLANS = [0, 2]


class Told(gymnasium.Env[Any, Any]):
    """Ends after three steps, with infos that no array holds; says what it was told."""

    def __init__(self, number: int, space: Any = None) -> None:
        self.observation_space = spaces.Box(0, 9, (1,), np.float32)
        self.action_space = spaces.Discrete(3) if space is None else space
        self.number, self.asked, self.steps, self.given, self.last = 10 * number, 0, 0, None, None  # type: Any

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps, self.given = 0, options
        return np.zeros(1, np.float32), {"begun": self.number, "sizes": np.zeros(self.number % 7)}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.last = action
        info = {"sizes": np.ones(self.number // 10 + 1), "mixed": [None, "a", 3][self.number // 10], "parts": {"a": 1}}
        return np.full(1, self.steps, np.float32), 1.0, False, self.steps == 3, info

    def ask(self, more: int = 1) -> int:
        self.asked += more
        return self.asked

    def action_masks(self) -> Any:
        return np.array([self.steps != place for place in range(3)])


class Bare(Told):
    """Knows of no options."""

    def reset(self, seed: int | None = None) -> Any:  # type: ignore[override]
        return super().reset(seed=seed)


def both(plan: int, kind: Any = Told, **options: Any) -> tuple[Any, Any]:
    recipes = [partial(kind, n, **options) for n in range(3)]
    return as_sb3(make_vec(recipes, plan=plan, autoreset="SameStep")), DummyVecEnv(recipes)


def alike(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs)
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for key, value in theirs.items():
            alike(ours[key], value)
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            alike(mine, other)
    elif isinstance(theirs, np.ndarray):
        assert (ours.dtype, ours.shape, ours.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes())
    else:
        assert ours == theirs


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("indices", [None, 1, [2, 0], [1, 1], [0, -1], -1, [1, 2, 1], [], (2,), range(2)], ids=str)
def test_envs_are_asked_in_the_order_in_which_they_are_named(plan: int, indices: Any) -> None:
    ours, theirs = both(plan)
    for envs in (ours, theirs):
        envs.env_method("ask", indices=0)
    assert ours.get_attr("number", indices) == theirs.get_attr("number", indices)
    assert ours.env_method("ask", 2, indices=indices) == theirs.env_method("ask", 2, indices=indices)
    ours.set_attr("number", 7, indices)
    theirs.set_attr("number", 7, indices)
    assert ours.get_attr("number") == theirs.get_attr("number")
    assert ours.get_attr("asked") == theirs.get_attr("asked")
    assert ours.env_is_wrapped(Told, indices) == theirs.env_is_wrapped(Told, indices)
    ours.close()


@pytest.mark.parametrize("plan", PLANS)
def test_names_are_looked_up_and_nothing_is_called(plan: int) -> None:
    ours, theirs = both(plan)
    for envs in (ours, theirs):
        first, second = envs.get_attr("ask", [0, 2])
        assert envs.get_attr("asked") == [0, 0, 0]
        assert (first(), second(5), envs.get_attr("asked")) == (1, 5, [1, 0, 5])
        assert (envs.has_attr("ask"), envs.has_attr("unheard_of")) == (True, False)
        with pytest.raises(AttributeError, match="unheard_of"):
            envs.get_attr("unheard_of")
        with pytest.raises(IndexError):
            envs.get_attr("number", 3)
    ours.close()


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("kind", [Told, Bare])
def test_infos_are_those_of_the_envs(kind: Any, plan: int) -> None:
    ours, theirs = both(plan, kind)
    for envs in (ours, theirs):
        envs.seed(3)
        envs.reset()
    alike(ours.reset_infos, theirs.reset_infos)
    for turn in range(7):
        for envs in (ours, theirs):
            envs.set_attr("number", [turn, 10, 20][turn % 3], 0)
        mine, other = ours.step(np.zeros(3, int)), theirs.step(np.zeros(3, int))
        alike(list(mine), list(other))
        alike(ours.reset_infos, theirs.reset_infos)
    ours.close()


@pytest.mark.parametrize("plan", PLANS)
def test_options_are_given_to_the_next_reset_only(plan: int) -> None:
    ours, theirs = both(plan)
    for options in ({"level": 1}, [{"level": 1}, {}, {"level": 2}], None):
        for envs in (ours, theirs):
            envs.set_options(options)
            envs.reset()
        assert ours.get_attr("given") == theirs.get_attr("given")
    ours.close()


@pytest.mark.parametrize(
    "space",
    [
        spaces.Dict(key=spaces.Discrete(4), push=spaces.Box(-1, 1, (2,), np.float32)),
        spaces.Tuple((spaces.Discrete(4), spaces.Dict(push=spaces.Box(-1, 1, (2,), np.float32)))),
    ],
    ids=["dict", "tuple"],
)
def test_actions_of_parts_come_as_a_list(space: Any) -> None:
    ours, _ = both(0, space=space)
    ours.reset()
    actions = [space.sample() for _ in range(3)]
    ours.step(actions)
    for taken, action in zip(ours.get_attr("last"), actions, strict=True):
        assert repr(taken) == repr(action)
    ours.close()


@pytest.mark.parametrize("plan", PLANS)
def test_masks_of_actions_are_read(plan: int) -> None:
    ours, theirs = both(plan)
    for envs in (ours, theirs):
        envs.reset()
        envs.step(np.zeros(3, int))
    assert ours.has_attr("action_masks")
    assert np.array_equal(np.stack(ours.env_method("action_masks")), np.stack(theirs.env_method("action_masks")))
    ours.close()


def test_envs_that_live_here_can_be_looked_at() -> None:
    ours, _ = both(0)
    assert [env.number for env in ours.envs] == [0, 10, 20]
    ours.close()
    away, _ = both(2)
    assert not hasattr(away, "envs")
    away.close()


def test_one_env_behind_two_recipes_is_told() -> None:
    env = Told(0)
    with pytest.raises(BadInput, match="recipes of envs 0 and 2 give one and the same env"):
        make_vec([lambda: env, partial(Told, 1), lambda: env], plan=0)
