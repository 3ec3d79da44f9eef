"""Envs that draw from process-wide generators: `seed` of `make_vec` roots what they draw; who forgets it is told."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from envs import Count

from paceline.vector import make_vec


class Draws(Count):
    """Begins where the process-wide generators say."""

    def __init__(self) -> None:
        super().__init__(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.array([np.random.rand(), random.random()], np.float32), {}


class DrawsWhenBuilt(Count):
    """Has a gain that a process-wide generator gave it."""

    def __init__(self) -> None:
        super().__init__(0)
        self.gain = np.random.rand()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "process-wide" in record.getMessage()]


def begun(make: Any, plan: int, resets: int = 2, **options: Any) -> list[Any]:
    with make_vec(make, 2, plan=plan, **options) as envs:
        return [envs.reset(seed=1)[0].tolist() for _ in range(resets)]


@pytest.mark.parametrize("plan", [0, 2])
@pytest.mark.parametrize("make", [Draws, DrawsWhenBuilt])
def test_who_draws_without_a_seed_is_told_once(make: Any, plan: int, caplog: pytest.LogCaptureFixture) -> None:
    begun(make, plan)
    (words,) = warnings(caplog)
    assert "envs [0, 1] draw" in words
    assert "unless the envs do so themselves" in words
    assert "make_vec(…, seed=…)" in words


@pytest.mark.parametrize("plan", [0, 2])
def test_with_a_seed_there_is_nothing_to_tell(plan: int, caplog: pytest.LogCaptureFixture) -> None:
    assert begun(Draws, plan, seed=3) == begun(Draws, 0, seed=3)
    assert warnings(caplog) == []


def test_who_asked_for_no_seed_at_all_is_told_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with make_vec(Draws, 2, plan=0) as envs:
        envs.reset()
    assert warnings(caplog) == []


def test_the_callers_own_draws_are_not_the_envs(caplog: pytest.LogCaptureFixture) -> None:
    with make_vec(lambda: Count(0), 2, plan=0) as envs:
        for _ in range(3):
            np.random.rand()
            envs.reset(seed=1)
    assert warnings(caplog) == []
