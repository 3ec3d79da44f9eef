"""Actions that a caller gives to a vector reach the envs as they are, in the type that they have, as in Gymnasium."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from envs import Sampler
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from test_vector import same

from paceline import BadInput, make_vec

TYPES = {"f": ["float64", "float32", "int64", "uint8", "float16", ">f8"], "i": ["int64", "uint8", "bool", "int32"]}
PARTS = spaces.Dict({"push": spaces.Box(-2, 2, (2,), np.float32), "key": spaces.Discrete(5)})
PLANS = {"inline": 0, "thread": "thread", "process": 2, "auto": "auto"}


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest) -> Any:
    return PLANS[request.param]


def one(space: spaces.Space[Any]) -> Callable[[], Any]:
    """Makes envs whose rewards follow from how their actions are written out, their types too."""
    # With spaces of its own: to sample from one that is shared would be a race on threads.
    return lambda: Sampler(spaces.Box(-1, 1, (3,), np.float32), space)


def actions_of(space: spaces.Space[Any], turn: int, count: int) -> Any:
    """Actions in another type at every turn."""
    if isinstance(space, spaces.Dict):
        return {name: actions_of(part, turn + place, count) for place, (name, part) in enumerate(space.items())}
    types = TYPES[np.dtype(space.dtype).kind]
    numbers = np.random.default_rng(turn).random((count, *space.shape)) * 3
    return numbers.astype(types[turn % len(types)])


@pytest.mark.parametrize("space", [PARTS["push"], PARTS["key"], PARTS], ids=["box", "discrete", "dict"])
def test_an_env_is_given_what_it_would_be_given_by_gymnasium(plan: Any, space: Any) -> None:
    """Types change from step to step, and a worker that dies in between does not change what its envs were told."""
    theirs = SyncVectorEnv([one(space)] * 3)
    with make_vec([one(space)] * 3, plan=plan) as ours:
        same(ours.reset(seed=5), theirs.reset(seed=5))
        for turn in range(24):
            if turn == 13:
                for worker in ours.pool.workers:
                    if worker.pid not in (None, os.getpid()):
                        os.kill(worker.pid, signal.SIGKILL)
            actions = actions_of(space, turn, 3)
            same(ours.step(actions), theirs.step(actions), f"step {turn}")


def test_wider_floats_are_not_rounded() -> None:
    theirs = SyncVectorEnv([partial(gymnasium.make, "Pendulum-v1")] * 2)
    with make_vec("Pendulum-v1", 2, plan="inline") as ours:
        same(ours.reset(seed=1), theirs.reset(seed=1))
        rng = np.random.default_rng(0)
        for turn in range(20):
            actions = rng.uniform(-2, 2, (2, 1))
            same(ours.step(actions), theirs.step(actions), f"step {turn}")


def test_lists_and_sent_actions_keep_their_types() -> None:
    theirs = SyncVectorEnv([one(PARTS["push"])] * 2)
    with make_vec([one(PARTS["push"])] * 2, plan="inline") as ours:
        same(ours.reset(seed=1), theirs.reset(seed=1))
        expected = theirs.step(np.array([[0.1, 0.2], [0.3, 0.4]]))
        ours.send([[0.3, 0.4]], [1])
        ours.send([[0.1, 0.2]], [0])
        same(ours.recv()[:4], expected[:4])


def test_envs_that_were_not_begun_anew_still_show_what_they_showed() -> None:
    theirs, mask = SyncVectorEnv([one(PARTS["push"])] * 2), np.array([True, False])
    with make_vec([one(PARTS["push"])] * 2, plan="inline") as ours:
        same(ours.reset(seed=1), theirs.reset(seed=1))
        same(ours.step(np.ones((2, 2))), theirs.step(np.ones((2, 2))))
        same(ours.reset(options={"reset_mask": mask.copy()}), theirs.reset(options={"reset_mask": mask.copy()}))


def test_actions_of_two_types_cannot_be_on_their_way_at_once() -> None:
    with make_vec([one(PARTS["push"])] * 2, plan="inline") as envs:
        envs.reset(seed=1)
        envs.send(np.ones((1, 2), np.float32), [0])
        with pytest.raises(BadInput, match=r"type float32 and not been received.* type float64: recv\(\) first"):
            envs.send(np.ones((1, 2)), [1])
        assert envs.recv()[-1].tolist() == [0]
        envs.send(np.ones((1, 2)), [1])
        assert envs.recv()[-1].tolist() == [1]


@pytest.mark.parametrize("actions", [np.ones((2, 3)), np.ones((3, 2)), ["north", "south"], np.ones((2, 2), complex)])
def test_what_is_no_row_of_numbers_per_env_is_refused_before_any_env_steps(actions: Any) -> None:
    with make_vec([one(PARTS["push"])] * 2, plan="inline") as envs:
        envs.reset(seed=1)
        with pytest.raises(BadInput, match=r"needed are \(2, 2\) and float32"):
            envs.step(actions)
        assert envs.get_attr("steps") == (0, 0)
