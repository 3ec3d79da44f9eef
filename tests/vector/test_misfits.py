"""Envs that do not keep Gymnasium's contract: the error names the env, when it was, and what the env gave."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from envs import Count

from paceline import BadInput
from paceline.vector import make_vec


class BeginsBadly(Count):
    """Gives `bad` at every reset but the first `good` ones."""

    def __init__(self, number: int, bad: Any, good: int = 0) -> None:
        super().__init__(number)
        self.bad, self.good = bad, good

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.good -= 1
        right = super().reset(seed=seed, options=options)
        return right if self.number == 0 or self.good >= 0 else self.bad


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
    with pytest.raises(BadInput, match=r"env 1 showed at reset what is none of Box.*shape \(3,\)"):
        begun((LONG, {}), good, plan)


@pytest.mark.parametrize("good", [0, 1], ids=["first", "by itself"])
@pytest.mark.parametrize("kind", NO_PAIR)
def test_a_reset_without_a_pair_is_named(kind: str, good: int) -> None:
    with pytest.raises(BadInput, match=r"env 1 gave .* at reset: reset\(\) must give \(observation, info\)"):
        begun(NO_PAIR[kind], good, 0)
