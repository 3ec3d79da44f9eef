"""Resets that are given no seed: the env is given none either, and is the same again after a death."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from envs import Count
from gymnasium.vector import SyncVectorEnv
from mpe2 import simple_spread_v3
from test_vector import same

from paceline import BadInput, ReplayDiverged
from paceline.adapters.agent_rows import agent_rows
from paceline.vector import make_vec

PLANS = [0, 2]


class Asks(Count):
    """Says what seeds its resets were given. Cannot be saved, so it is replayed."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.seeds: list[int | None] = []
        self.unsaved = lambda: None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.seeds.append(seed)
        return super().reset(seed=seed, options=options)


class Entropic(Asks):
    """Draws from a generator that only a seed makes the same again."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        seen, info = super().reset(seed=seed, options=options)
        seen[1] = np.random.default_rng(seed).random()
        return seen, info


def seeded(number: int) -> Any:
    env = Asks(number)
    env.reset(seed=7)
    return env


def kill_all(envs: Any) -> None:
    for worker in envs.pool.workers:
        os.kill(worker.pid, signal.SIGKILL)


def steps(envs: Any, count: int) -> list[Any]:
    return [envs.step(np.zeros(envs.num_envs, int))[:4] for _ in range(count)]


@pytest.mark.parametrize("plan", PLANS)
def test_envs_that_their_recipe_seeds_begin_as_in_gymnasium(plan: int) -> None:
    theirs = SyncVectorEnv([partial(seeded, n) for n in range(3)])
    with make_vec([partial(seeded, n) for n in range(3)], plan=plan) as ours:
        same(ours.reset(), theirs.reset())
        same(steps(ours, 9), steps(theirs, 9))
        same(ours.reset(), theirs.reset())
        assert ours.get_attr("seeds") == theirs.get_attr("seeds")
        assert ours.np_random_seed == theirs.np_random_seed == (7, 7, 7)


def test_envs_without_a_seed_are_rebuilt_with_the_one_that_they_say() -> None:
    with make_vec([partial(Asks, n) for n in range(2)], plan=2) as envs:
        first = [envs.reset()[0], *steps(envs, 4)]
        assert envs.get_attr("seeds") == ([None], [None])
        kill_all(envs)
        first += steps(envs, 8)
        said = envs.np_random_seed
        again = [envs.reset(seed=said)[0], *steps(envs, 12)]
    same(again, first)
    assert said[0] != said[1]


def test_other_runs_begin_otherwise() -> None:
    begun = []
    for _ in range(2):
        with make_vec(partial(Asks, 0), 2, plan=0) as envs:
            begun.append(envs.reset()[0].tobytes())
    assert begun[0] != begun[1]


def test_an_env_of_which_nothing_says_the_seed_is_never_another_one() -> None:
    with make_vec(partial(Entropic, 0), 2, plan=2) as envs:
        envs.reset()
        kill_all(envs)
        with pytest.raises(ReplayDiverged, match=r"reset\(\).*a generator that it was given no seed for"):
            steps(envs, 1)


class Pays(Asks):
    """In its third step something depends on the process; what it comes to in the end does not."""

    def __init__(self, what: str, number: int) -> None:
        super().__init__(number)
        self.what, self.time = what, 0

    def step(self, action: Any) -> Any:
        seen, reward, ended, cut, info = super().step(action)
        self.time += 1
        if self.time == 3:
            luck = os.getpid()
            seen = seen + luck if self.what == "observation" else seen
            reward = luck if self.what == "reward" else reward
            info = {"luck": luck} if self.what == "info" else info
        return seen, reward, ended, cut, info


@pytest.mark.parametrize("what", ["observation", "reward", "info"])
def test_an_env_that_came_another_way_is_never_merged(what: str) -> None:
    with make_vec(partial(Pays, what, 0), 2, plan=1) as envs:
        envs.reset(seed=1)
        steps(envs, 5)
        kill_all(envs)
        with pytest.raises(ReplayDiverged, match=r"one of the runs 1 to 5 of step_rows\(\)"):
            steps(envs, 1)


def test_the_seed_of_make_vec_is_that_of_the_first_reset_only() -> None:
    with make_vec(partial(Asks, 0), 2, plan=0, seed=40) as envs:
        envs.reset()
        envs.reset()
        assert envs.get_attr("seeds") == ([40, None], [41, None])
        with pytest.raises(BadInput):
            envs.reset(seed=-1)


def test_agents_of_pettingzoo_are_the_same_after_a_death() -> None:
    with agent_rows(partial(simple_spread_v3.parallel_env, max_cycles=7), 2, plan=2) as envs:
        envs.reset()
        steps(envs, 3)
        kill_all(envs.envs)
        assert len(steps(envs, 3)) == 3


def test_ants_of_mujoco_need_no_seed_to_outlive_their_workers() -> None:
    with make_vec(partial(gymnasium.make, "InvertedPendulum-v5"), 2, plan=2) as envs:
        first = [envs.reset()[0]]
        actions = np.full((2, 1), 0.1)
        for turn in range(12):
            if turn == 5:
                kill_all(envs)
            first.append(envs.step(actions)[0])
        again = [envs.reset(seed=envs.np_random_seed)[0], *(envs.step(actions)[0] for _ in range(12))]
    same(again, first)
