"""VariBadWrapper: k episodes of one task are one, with the true start state at each inner end."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest

from paceline import digest
from paceline.errors import BadInput
from paceline.testing import check_env
from paceline.worlds.meta import VariBadWrapper

STAY = np.zeros(2, np.float32)
GOAL = (0.5, -0.5)


def wrapped(env_id: str = "PointRobot-v0", k: int = 2, *, horizon: int = 3, **options: Any) -> VariBadWrapper:
    return VariBadWrapper(gymnasium.make(env_id, horizon=horizon), k, **options)


def steps(env: Any, count: int) -> list[Any]:
    return [env.step(np.full(env.action_space.shape, 0.5, np.float32)) for _ in range(count)]


def test_k_episodes_of_a_task_are_one() -> None:
    env = wrapped(k=3)
    _, info = env.reset(seed=0)
    assert (env.horizon, env.horizon_bamdp) == (3, 9)
    answers = steps(env, 9)
    assert [answer[4]["done_mdp"] for answer in answers] == [False, False, True] * 3
    assert [answer[2] or answer[3] for answer in answers] == [False] * 8 + [True]
    assert (env.episode_count, env.step_count_bamdp) == (3, 9)
    assert env.unwrapped.task == info["task"]
    with pytest.raises(BadInput, match="call reset"):
        env.step(STAY)


def test_at_an_inner_end_the_agent_sees_where_it_starts() -> None:
    env = wrapped()
    env.reset(seed=0, options={"task": GOAL})
    observation, reward, terminated, truncated, info = steps(env, 3)[-1]
    np.testing.assert_array_equal(observation[:2], np.float32(env.unwrapped.position))
    assert observation[2] == 1.0, "the flag says that an episode has ended"
    np.testing.assert_array_equal(observation, info["start_state"])
    end = info["final_obs"]
    assert end[2] == 1.0
    assert reward == pytest.approx(-np.hypot(*(end[:2] - GOAL)), rel=1e-5), "the reward is that of the end"
    assert (observation[:2] != end[:2]).all()
    assert not terminated
    assert not truncated
    assert not info["terminated_mdp"]
    assert steps(env, 1)[0][0][2] == 0.0


def test_compat_shows_the_end_as_varibad_does() -> None:
    env, ours = wrapped(compat="varibad"), wrapped()
    for one in (env, ours):
        one.reset(seed=0, options={"task": GOAL})
    observation, *_, info = steps(env, 3)[-1]
    *_, same = steps(ours, 3)[-1]
    np.testing.assert_array_equal(observation, same["final_obs"])
    np.testing.assert_array_equal(info["start_state"][:2], same["start_state"][:2])
    assert info["start_state"][2] == 0.0
    np.testing.assert_array_equal(steps(env, 1)[0][0], steps(ours, 1)[0][0])


def test_the_last_end_is_the_envs_own() -> None:
    env = wrapped("AntDir-v0", horizon=2)
    env.reset(seed=0)
    assert [answer[2:4] for answer in steps(env, 4)] == [(False, False)] * 3 + [(False, True)]
    env.reset(seed=0)
    ant = env.unwrapped
    for ended in (False, True):
        ant.set_state(np.array([0, 0, 2.0, *ant.init_qpos[3:]]), ant.init_qvel)
        _, _, terminated, truncated, info = steps(env, 1)[0]
        assert (info["done_mdp"], info["terminated_mdp"]) == (True, True)
        assert (terminated, truncated) == (ended, False)


@pytest.mark.parametrize(("k", "oracle", "size"), [(1, False, 2), (2, False, 3), (1, True, 4), (2, True, 5)], ids=str)
def test_an_observation_is_state_task_and_flag(k: int, oracle: bool, size: int) -> None:
    env = wrapped(k=k, oracle=oracle)
    observation, _ = env.reset(seed=0, options={"task": (7.0, -7.0)})
    assert env.observation_space.shape == observation.shape == (size,)
    assert observation in env.observation_space
    assert observation.dtype == env.observation_space.dtype == np.float32
    if oracle:
        assert observation[2:4].tolist() == [7.0, -7.0]
    if k > 1:
        assert observation[-1] == 0.0
    assert steps(env, 3)[-1][0].shape == (size,)


@pytest.mark.parametrize("env_id", ["AntDir-v0", "HalfCheetahVel-v0"])
def test_an_oracle_of_one_number(env_id: str) -> None:
    env = wrapped(env_id, oracle=True)
    observation, _ = env.reset(seed=0, options={"task": 0.75})
    assert observation[-2:].tolist() == [0.75, 0.0]
    assert env.get_current_task().tolist() == [0.75]


def test_actions_are_mapped_to_the_bounds_of_the_env() -> None:
    env = wrapped(horizon=10)
    assert (env.action_space.low == -1).all()
    assert (env.action_space.high == 1).all()
    for action, moved in (([1, -1], [0.1, -0.1]), ([0.5, 0], [0.05, 0]), ([9, -9], [0.1, -0.1])):
        start, _ = env.reset(seed=0)
        there = env.step(np.array(action, np.float32))[0]
        np.testing.assert_allclose(there[:2] - start[:2], moved, atol=1e-6)


def test_actions_that_are_no_box_stay_as_they_are() -> None:
    class Two(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)
        horizon = 1

        def get_current_task(self) -> Any:
            return np.zeros(1)

        def reset(self, **_: Any) -> Any:
            return np.zeros(1, np.float32), {}

        def step(self, action: int) -> Any:
            return np.zeros(1, np.float32), float(action), False, True, {}

    env = VariBadWrapper(Two(), 2)
    assert env.action_space == Two.action_space
    assert not env.reusable
    env.reset(seed=0)
    assert [env.step(1)[1], env.step(0)[1]] == [1.0, 0.0]


def test_a_reset_without_a_task_draws_one_from_the_whole_distribution() -> None:
    env = wrapped()
    tasks = [env.reset(seed=0)[1]["task"], *(env.reset()[1]["task"] for _ in range(3)), env.reset_task()[1]["task"]]
    assert len(set(tasks)) == 5
    assert not set(tasks) & {*env.train_tasks, *env.eval_tasks}
    assert env.reset(seed=0)[1]["task"] == tasks[0]
    assert env.reset_task(GOAL)[1]["task"] == GOAL
    assert len(env.sample_tasks(2)) == 2
    assert env.n_tasks == len(env.train_tasks) + len(env.eval_tasks) == 100


@pytest.mark.parametrize("env_id", ["PointRobotSparse-v0", "AntDir-v0"])
def test_a_seeded_reset_with_a_task_makes_it_as_new(env_id: str) -> None:
    used = wrapped(env_id)
    used.reset(seed=1)
    steps(used, 4)
    task = used.train_tasks[0]
    one, two = (
        digest([env.reset(seed=3, options={"task": task})[0], [answer[:4] for answer in steps(env, 6)]])
        for env in (used, wrapped(env_id))
    )
    assert one == two
    assert used.reusable


def test_the_episodes_of_a_task_start_in_other_states_and_go_on_from_the_seed() -> None:
    env = wrapped(k=3)
    starts = [env.reset(seed=4)[0][:2].tolist()]
    starts += [answer[0][:2].tolist() for answer in steps(env, 9) if answer[4]["done_mdp"]][:2]
    assert len({tuple(start) for start in starts}) == 3


def test_it_is_fit_to_be_run_in_parallel() -> None:
    report = check_env(partial(wrapped, oracle=True), steps=20)
    assert all(finding.verdict == "ok" for finding in report.findings), str(report)


def test_its_spec_builds_it_again() -> None:
    env = wrapped(k=3, oracle=True)
    again = gymnasium.make(env.spec)
    assert isinstance(again, VariBadWrapper)
    assert (again.episodes_per_task, again.oracle, again.horizon) == (3, True, 3)


@pytest.mark.parametrize(
    ("build", "hint"),
    [
        (lambda: VariBadWrapper(gymnasium.make("CartPole-v1"), 2), "has no tasks"),
        (lambda: wrapped(k=0), "episodes_per_task=0"),
        (lambda: wrapped(k=True), "episodes_per_task=True"),
        (lambda: wrapped(compat="rl2"), "compat='rl2' is unknown"),
    ],
)
def test_what_makes_no_sense_is_refused(build: Any, hint: str) -> None:
    with pytest.raises(BadInput, match=hint):
        build()
