"""Envs that do not keep Gymnasium's contract: the error names the env, when it was, and what the env gave."""

from __future__ import annotations

import re
from contextlib import closing
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from envs import Count
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from paceline import BadInput
from paceline.vector import make_vec


class BigEndian(Count):
    """Shows, and is told, numbers in the other order of bytes."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.dtype(">f4"))  # type: ignore[arg-type]
        self.action_space = spaces.Box(-1.0, 1.0, (), np.dtype(">f4"))  # type: ignore[arg-type,assignment]


@pytest.mark.parametrize("plan", [0, 2])
def test_the_order_of_bytes_is_the_spaces(plan: int) -> None:
    makes = [partial(BigEndian, n) for n in range(2)]
    oracle = SyncVectorEnv(makes)
    with make_vec(makes, plan=plan) as envs:
        assert np.array_equal(envs.reset(seed=1)[0], oracle.reset(seed=1)[0])
        for turn in range(9):
            actions = np.full(2, turn / 10, ">f4")
            for ours, theirs in zip(envs.step(actions)[:4], oracle.step(actions)[:4], strict=True):
                assert ours.dtype == theirs.dtype
                assert np.array_equal(ours, theirs)


class BeginsBadly(Count):
    """Gives `bad` at every reset but the first `good` ones."""

    def __init__(self, number: int, bad: Any, good: int = 0) -> None:
        super().__init__(number)
        self.bad, self.good = bad, good

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.good -= 1
        right = super().reset(seed=seed, options=options)
        return right if self.number == 0 or self.good >= 0 else self.bad


class Uninformed(Count):
    """Gives something else for an info."""

    def __init__(self, number: int, info: Any) -> None:
        super().__init__(number)
        self.info = info

    def step(self, action: Any) -> Any:
        return (*super().step(action)[:4], self.info)


@pytest.mark.parametrize(
    ("info", "plan"), [(None, 0), (None, 2), ("all is well", 0), ("all is well", 2), ([], 0), ((), 0), (0, 0), ("", 0)]
)
def test_every_info_of_a_vector_is_a_dict(info: Any, plan: int) -> None:
    with make_vec([partial(Uninformed, n, info) for n in range(2)], plan=plan) as envs:
        envs.reset(seed=0)
        told = re.escape(f"env 0 gave the info {info!r} at step 1 of episode 0 (seed 0): it must be a dict")
        with pytest.raises(BadInput, match=told):
            envs.step(np.zeros(2, int))


LONG = np.zeros(3, np.float32)
NO_PAIR = {
    "an observation": np.zeros(2, np.float32),  # which could be unpacked
    "nothing": None,
    "three": (np.zeros(2, np.float32), {}, {}),
    "no info": (np.zeros(2, np.float32), None),
}


def begun(bad: Any, good: int, plan: int) -> None:
    """Resets, and steps on into the next episode."""
    with make_vec([partial(BeginsBadly, n, bad, good) for n in range(2)], plan=plan) as envs:
        envs.reset(seed=0)
        for _ in range(7):
            envs.step(np.zeros(2, int))


@pytest.mark.parametrize("good", [0, 1], ids=["first", "by itself"])
@pytest.mark.parametrize("plan", [0, 2])
def test_a_wrong_first_observation_is_named(plan: int, good: int) -> None:
    with pytest.raises(
        BadInput, match=r"env 1 showed at reset of episode . \(seed 1\) what is none of Box.*shape \(3,\)"
    ):
        begun((LONG, {}), good, plan)


@pytest.mark.parametrize("good", [0, 1], ids=["first", "by itself"])
@pytest.mark.parametrize("kind", NO_PAIR)
def test_a_reset_without_a_pair_is_named(kind: str, good: int) -> None:
    with pytest.raises(
        BadInput, match=r"env 1 gave .* at reset of episode . \(seed 1\): reset\(\) must give \(observation, info\)"
    ):
        begun(NO_PAIR[kind], good, 0)


class StepsBadly(Count):
    """Gives at its third step what `spoil` makes of it; shows text if it has no rows."""

    def __init__(self, number: int, spoil: Any, rows: bool) -> None:
        super().__init__(number)
        self.spoil, self.rows = spoil, rows
        if not rows:
            self.observation_space = spaces.Text(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        seen, info = super().reset(seed=seed, options=options)
        return (seen if self.rows else "a"), info

    def step(self, action: Any) -> Any:
        seen, *others = super().step(action)
        right = ((seen if self.rows else "a"), *others)
        return self.spoil(right) if self.number == 1 and self.steps == 3 else right


def without_truncated(answer: Any) -> Any:
    return answer[0], answer[1], False, {}


def nothing(answer: Any) -> Any:
    return None


def with_reward(reward: Any) -> Any:
    return partial(_with_reward, reward)


def _with_reward(reward: Any, answer: Any) -> Any:
    return (answer[0], reward, *answer[2:])


def third_step(spoil: Any, rows: bool, plan: int, **options: Any) -> Any:
    with make_vec([partial(StepsBadly, n, spoil, rows) for n in range(2)], plan=plan, **options) as envs:
        envs.reset(seed=0)
        for _ in range(2):
            envs.step(np.zeros(2, int))
        return envs.step(np.zeros(2, int))


@pytest.mark.parametrize("rows", [True, False], ids=["rows", "messages"])
@pytest.mark.parametrize("plan", [0, 2])
@pytest.mark.parametrize("spoil", [without_truncated, nothing])
def test_a_step_of_other_than_five_parts_is_named(spoil: Any, plan: int, rows: bool) -> None:
    with pytest.raises(
        BadInput,
        match=r"env 1 gave .* at step 3 of episode 0 \(seed 1\): step\(\) must give \(observation, reward, term",
    ):
        third_step(spoil, rows, plan)


@pytest.mark.parametrize("rows", [True, False], ids=["rows", "messages"])
@pytest.mark.parametrize("reward", ["much", "1", None, [1.0, 2.0], {}, 1j], ids=str)
def test_a_reward_that_is_no_number_is_named(reward: Any, rows: bool) -> None:
    with pytest.raises(
        BadInput, match=r"env 1 gave the reward .* at step 3 of episode 0 \(seed 1\): it must be a number"
    ):
        third_step(with_reward(reward), rows, 0)


@pytest.mark.parametrize("rows", [True, False], ids=["rows", "messages"])
@pytest.mark.parametrize("reward", [2, True, np.float32(2.5), np.array([1.5]), np.array(3)], ids=str)
def test_numbers_of_all_kinds_are_rewards(reward: Any, rows: bool) -> None:
    assert third_step(with_reward(reward), rows, 0)[1][1] == float(np.asarray(reward).reshape(()))


def with_flag(place: int, flag: Any) -> Any:
    return partial(_with_flag, place, flag)


def _with_flag(place: int, flag: Any, answer: Any) -> Any:
    return (*answer[:place], flag, *answer[place + 1 :])


@pytest.mark.parametrize("rows", [True, False], ids=["rows", "messages"])
@pytest.mark.parametrize("flag", ["no", "", None, 2, 0.0, [False], np.array([True])], ids=repr)
def test_a_flag_that_is_none_is_named(flag: Any, rows: bool) -> None:
    for place, name in ((2, "terminated"), (3, "truncated")):
        with pytest.raises(
            BadInput, match=rf"env 1 gave {name}=.* at step 3 of episode 0 \(seed 1\): it must be True or"
        ):
            third_step(with_flag(place, flag), rows, 0)


@pytest.mark.parametrize("rows", [True, False], ids=["rows", "messages"])
@pytest.mark.parametrize("flag", [True, np.False_, 1, 0, np.int8(1), np.array(True)], ids=repr)
def test_flags_of_all_kinds_are_flags(flag: Any, rows: bool) -> None:
    assert third_step(with_flag(2, flag), rows, 0)[2].tolist() == [False, bool(flag)]


def looked_at(space: Any, shown: Any, check: bool) -> Any:
    """Shows the one thing at a reset."""
    env = Shows(space, shown)
    with make_vec([lambda: env], plan=0, check=check) as envs:
        return envs.reset(seed=7)[0]


class Shows(gym.Env[Any, Any]):
    action_space = spaces.Discrete(2)

    def __init__(self, space: Any, shown: Any) -> None:
        self.observation_space, self.shown = space, shown

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self.shown, {}


UNIT, WORD = spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Text(3, charset="abc")
POSE = spaces.Dict(at=UNIT, of=spaces.Tuple((spaces.Discrete(3), spaces.Box(-np.inf, np.inf, (2,)))))
TALE = spaces.Dict(at=UNIT, word=WORD)
FINE, MANY, FAR = np.zeros(2, np.float32), np.arange(40, dtype=np.float32), np.array([0, 1.5], np.float32)
ALWAYS = {
    "shape": (POSE, {"at": FINE, "of": (1, LONG)}, r"at \['of'\]\[1\], expected shape \(2,\).*got shape \(3,\)"),
    "type": (TALE, {"at": "ab", "word": "a"}, r"at \['at'\], expected shape \(2,\) and type float32, got .*'ab'"),
    "missing": (POSE, {"at": FINE, "of": (1,)}, r"at \['of'\]\[1\], expected such a part"),
    "infinite by its type": (UNIT, np.array([0, 1e300]), "got shape .* type float64"),
}
IF_CHECKED = {
    "range": (UNIT, FAR, r"1.5 at \[1\], where they are -1.0 to 1.0\), got shape"),
    "many": (spaces.Box(-1.0, 1.0, (40,)), np.full(40, 2, np.float32), "within its bounds"),
    "many different": (spaces.Box(-MANY, MANY), np.ones(40, np.float32), r"1.0 at \[0\], where they are -0.0 to 0.0"),
    "nan among many": (
        spaces.Box(-1.0, 1.0, (40,)),
        np.append(np.zeros(39, "f4"), np.float32("nan")),
        r"nan at \[39\]",
    ),
    "infinite": (POSE, {"at": FINE, "of": (1, FINE + np.inf)}, r"at \['of'\]\[1\], expected finite values"),
    "number": (POSE, {"at": FINE, "of": (3, FINE)}, r"at \['of'\]\[0\], expected finite values within its bounds, got"),
    "another key": (POSE, {"at": FINE, "of": (1, FINE), "or": 1}, "expected no other parts, got"),
    "word": (TALE, {"at": FINE, "word": "xyz"}, r"at \['word'\], expected Text.*got .*'xyz'"),
    "beside a word": (TALE, {"at": FAR, "word": "a"}, r"at \['at'\], expected finite values"),
}


@pytest.mark.parametrize("case", ALWAYS)
def test_a_wrong_shape_or_type_is_always_refused_and_says_where(case: str) -> None:
    space, shown, words = ALWAYS[case]
    for check in (False, True):
        with pytest.raises(BadInput, match=rf"env 0 showed at reset of episode 0 \(seed 7\) .*{words}"):
            looked_at(space, shown, check)


@pytest.mark.parametrize("case", IF_CHECKED)
def test_what_is_out_of_its_space_is_refused_if_that_is_checked(case: str) -> None:
    space, shown, words = IF_CHECKED[case]
    looked_at(space, shown, check=False)
    with pytest.raises(BadInput, match=rf"env 0 showed at reset of episode 0 \(seed 7\) .*{words}"):
        looked_at(space, shown, check=True)


@pytest.mark.parametrize("space", [UNIT, POSE, TALE, spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(3)], ids=str)
def test_what_is_in_its_space_passes_the_check(space: Any) -> None:
    for seed in range(20):
        space.seed(seed)
        looked_at(space, space.sample(), check=True)


def test_an_error_that_is_raised_again_says_once_where() -> None:
    error = ValueError("the same one")
    with make_vec([partial(StepsBadly, 0, None, True), partial(Raises, error)], plan=0) as envs:
        envs.reset(seed=3)
        for _ in range(3):
            with pytest.raises(ValueError, match="the same one") as caught:
                envs.step(np.zeros(2, int))
    assert caught.value.__notes__ == ["in member 1 (key 1), step_rows()", "env 1, at step 3 of episode 0 (seed 4)"]


class Raises(Count):
    def __init__(self, error: Exception) -> None:
        super().__init__(1)
        self.error = error

    def step(self, action: Any) -> Any:
        raise self.error


def unpacked_badly(answer: Any) -> Any:
    one, two = answer
    return one, two


def test_an_env_that_unpacks_badly_itself_raises_as_itself() -> None:
    with pytest.raises(ValueError, match="too many values to unpack") as caught:
        third_step(unpacked_badly, True, 0)
    assert not isinstance(caught.value, BadInput)


@pytest.mark.parametrize("plan", ["inline", 2], ids=["here", "2 workers"])
@pytest.mark.parametrize("actions", [("a", "b"), "a", [], ("a",) * 4])
def test_as_many_actions_as_envs_where_they_are_told_by_messages(actions: Any, plan: Any) -> None:
    with closing(make_vec([Echo] * 3, plan=plan)) as envs:
        envs.reset(seed=1)
        with pytest.raises(BadInput, match=f"^{len(actions)} actions for 3 envs"):
            envs.step(actions)
        assert envs.step(("x", "y", "z"))[0] == ("x", "y", "z")  # nobody has stepped


class Echo(gym.Env[str, str]):
    observation_space = action_space = spaces.Text(5)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return "a", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return action, 1.0, False, False, {}
