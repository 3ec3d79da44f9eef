"""A deadline needs somebody who can end an env that hangs: processes, which `auto` takes by itself."""

from __future__ import annotations

import math
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest
from envs import Count

from paceline import BadInput, CallTimeout, Plan
from paceline.vector import make_vec


class Hangs(Count):
    """Does not come back from a step, or from a reset, that tells it so."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if options and options.get("hang") == self.number:
            threading.Event().wait()
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        if action == 2:
            threading.Event().wait()
        return super().step(action)


def test_auto_with_a_deadline_lives_in_processes_and_ends_what_hangs() -> None:
    with make_vec([partial(Hangs, n) for n in range(2)], deadline=1.0) as envs:
        assert {worker.backend for worker in envs.pool.workers} == {"process"}
        envs.reset(seed=1)
        with pytest.raises(CallTimeout, match=r"within 1 s in 3 tries"):
            envs.step(np.array([0, 2]))
        with pytest.raises(CallTimeout, match=r"within 1 s in 3 tries"):
            envs.reset(seed=1, options={"hang": 1})
        envs.reset(seed=1)
        assert envs.step(np.zeros(2, int))[0][:, 0].tolist() == [1, 1]


@pytest.mark.parametrize("plan", [0, "inline", "thread", Plan("process", 1, helps=True)], ids=str)
def test_a_deadline_that_cannot_be_kept_is_refused_in_words_of_make_vec(plan: Any) -> None:
    with pytest.raises(BadInput, match="plan='process'"):
        make_vec("CartPole-v1", 2, plan=plan, deadline=5)


def test_as_long_as_it_likes_can_be_kept_anywhere() -> None:
    with make_vec("CartPole-v1", 2, plan=0, deadline=math.inf) as envs:
        envs.reset(seed=1)
