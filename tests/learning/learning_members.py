"""A world with tasks whose rules are hidden: what the tests of policies with a memory play. Workers import it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Guess(gymnasium.Env[Any, Any]):
    """A number is hidden; an action gets as much as it is near to it. Episodes of different seeds differ in length.

    Args:
        numbered: Whether actions are numbers, and not an amount.
    """

    observation_space = spaces.Box(-10, 10, (2,), np.float32)

    def __init__(self, numbered: bool = False) -> None:
        self.action_space = spaces.Discrete(3, start=-1) if numbered else spaces.Box(-2, 2, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.hidden = float((options or {}).get("hidden", self.np_random.uniform(-1, 1)))
        self.time, self.length = 0, int(self.np_random.integers(4, 9))
        return self._look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        reward = -abs(float(np.asarray(action).reshape(-1)[0]) - self.hidden)
        return self._look(), reward, False, self.time >= self.length, {}

    def _look(self) -> Any:
        return np.array([self.time, self.np_random.normal()], np.float32)
