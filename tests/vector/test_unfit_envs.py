"""Envs that only the main thread may step: auto brings them back from threads, and no step counts twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from envs import Count

import paceline
from paceline.engine.planning.plan import Choice
from paceline.vector import make_vec


class Signals(Count):
    """Counts its step first, and then does what only the main thread may do."""

    def step(self, action: Any) -> Any:
        stepped = super().step(action)
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        return stepped


@pytest.fixture
def usr2() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR2)
    yield
    signal.signal(signal.SIGUSR2, before)


@pytest.mark.parametrize(
    "choice", [Choice("thread", 3, ""), Choice("process", 1, "", threads=3)], ids=["thread", "crowd"]
)
@pytest.mark.usefixtures("usr2")
def test_envs_that_only_the_main_thread_may_step_come_back(choice: Choice) -> None:
    def job(moves: bool) -> list[Any]:
        with make_vec([partial(Signals, n) for n in range(3)], seed=0, plan="auto" if moves else 0) as envs:
            seen: list[Any] = [envs.reset(seed=0)[0]]
            for turn in range(6):
                if moves and turn == 2:
                    pilot = envs.pool._crew.pilot
                    assert pilot is not None
                    pilot._move(choice)
                seen.append(envs.step(np.ones(3, int))[:4])
            assert envs.plan.backend == "inline"
            return seen

    assert paceline.digest(job(moves=True)) == paceline.digest(job(moves=False))
