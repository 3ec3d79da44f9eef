"""A vector of ours under Stable-Baselines3, which we did not write either."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from envs import Count
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from paceline import BadInput
from paceline.adapters.sb3_vec import as_sb3
from paceline.vector import make_vec


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Two threads of torch beside two workers are four on two cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def cartpoles(plan: object) -> object:
    return as_sb3(make_vec("CartPole-v1", 4, plan=plan, autoreset="SameStep"))  # type: ignore[arg-type]


@pytest.mark.parametrize("plan", [0, 2])
def test_steps_are_those_of_a_dummy_vec_env(plan: int) -> None:
    ours = as_sb3(make_vec([partial(Count, n) for n in range(3)], plan=plan, autoreset="SameStep"))
    theirs = DummyVecEnv([partial(Count, n) for n in range(3)])
    ours.seed(5)
    theirs.seed(5)
    assert ours.reset().tobytes() == theirs.reset().tobytes()
    for _ in range(15):
        actions = np.ones(3, int)
        mine, his = ours.step(actions), theirs.step(actions)
        for a, b in zip(mine[:3], his[:3], strict=True):
            assert (a.dtype, a.tobytes()) == (b.dtype, b.tobytes())
        for a, b in zip(mine[3], his[3], strict=True):
            assert a.keys() == b.keys()
            assert a["TimeLimit.truncated"] == b["TimeLimit.truncated"]
            if "terminal_observation" in b:
                assert a["terminal_observation"].tobytes() == b["terminal_observation"].tobytes()
    assert ours.get_attr("number") == theirs.get_attr("number")
    assert ours.env_is_wrapped(gymnasium.wrappers.TimeLimit) == [False] * 3
    ours.close()


def test_ppo_learns_cartpole_and_the_plan_does_not_show() -> None:
    def learned(plan: int, steps: int) -> tuple[float, bytes]:
        envs = VecMonitor(cartpoles(plan))
        model = PPO("MlpPolicy", envs, n_steps=64, batch_size=64, learning_rate=1e-3, seed=3, device="cpu")
        model.learn(steps)
        envs.close()
        returns = [episode["r"] for episode in model.ep_info_buffer]
        return float(np.mean(returns[-20:])), b"".join(p.detach().numpy().tobytes() for p in model.policy.parameters())

    assert learned(2, 5000)[0] > 45  # about 20 is what it begins with
    assert learned(2, 512)[1] == learned(0, 512)[1]


def test_another_autoreset_is_refused() -> None:
    with make_vec("CartPole-v1", 2, plan=0) as envs, pytest.raises(BadInput, match="SameStep"):
        as_sb3(envs)
