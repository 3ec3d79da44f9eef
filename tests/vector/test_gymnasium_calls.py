"""What Gymnasium's own vectors offer beside `reset` and `step`: waits with a timeout, errors of its kinds, specs."""

from __future__ import annotations

import multiprocessing
import time
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from envs import Count
from gymnasium import spaces
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from test_vector import same

from paceline import BadInput, Closed
from paceline.vector import make_vec


class Slow(Count):
    """Takes half a second for its second step, and for each reset but the first."""

    resets = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.resets += 1
        time.sleep(0.5 if self.resets > 1 else 0)
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        time.sleep(0.5 if self.steps == 1 and self.number == 1 else 0)
        return super().step(action)


class SlowWords(Slow):
    """The same, told by messages."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.action_space = spaces.Text(5)  # type: ignore[assignment]


@pytest.mark.parametrize("kind", [Slow, SlowWords])
def test_a_wait_that_was_given_up_can_be_taken_up_again(kind: Any) -> None:
    recipes = [partial(kind, n) for n in range(2)]
    theirs, actions = SyncVectorEnv(recipes), ("a", "b") if kind is SlowWords else np.zeros(2, int)
    with make_vec(recipes, plan=2) as ours:
        ours.reset_async(seed=1)
        same(ours.reset_wait(), theirs.reset(seed=1))
        for turn in range(3):
            ours.step_async(actions)
            if turn == 1:
                with pytest.raises(multiprocessing.TimeoutError):
                    ours.step_wait(timeout=0.05)
            same(ours.step_wait(timeout=60), theirs.step(actions))
        ours.reset_async(seed=2)
        with pytest.raises(TimeoutError, match=r"not ready within 0\.05 seconds"):
            ours.reset_wait(timeout=0.05)
        same(ours.reset_wait(), theirs.reset(seed=2))


@pytest.mark.parametrize("plan", [0, 2])
def test_one_call_at_a_time(plan: int) -> None:
    envs = make_vec(partial(Count, 0), 2, plan=plan)
    with pytest.raises(NoAsyncCallError, match="`reset_wait` without any prior call to `reset_async`"):
        envs.reset_wait()
    envs.reset_async()
    for call in (lambda: envs.step(np.zeros(2, int)), lambda: envs.step_async(np.zeros(2, int)), envs.reset):
        with pytest.raises(AlreadyPendingCallError, match="while waiting for a pending call to `reset` to complete"):
            call()
    envs.reset_wait()
    envs.step_async(np.zeros(2, int))
    with pytest.raises(BadInput, match="while waiting for a pending call to `step` to complete"):
        envs.reset_async()
    envs.step_wait()
    envs.close()
    for kind in (ClosedEnvironmentError, Closed):
        with pytest.raises(kind, match="have been closed"):
            envs.reset()


def test_a_spec_is_a_recipe() -> None:
    spec = gymnasium.spec("CartPole-v1")
    with make_vec(spec, 2, plan=0, render_mode="rgb_array", autoreset="SameStep") as envs:
        assert (envs.num_envs, envs.render_mode, envs.spec.id) == (2, "rgb_array", "CartPole-v1")
        assert envs.autoreset_mode == AutoresetMode.SAME_STEP
    with make_vec([spec, "CartPole-v1"], plan=1) as envs:
        assert envs.reset(seed=1)[0].shape == (2, 4)


def test_envs_are_there_to_be_looked_at_where_they_live_here() -> None:
    with make_vec(partial(Count, 7), 2, plan=0) as envs:
        assert [env.number for env in envs.envs] == [7, 7]
    with make_vec(partial(Count, 7), 2, plan=1) as envs:
        assert not hasattr(envs, "envs")
