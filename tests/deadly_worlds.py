"""Registered worlds that take their process with them, once."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np


class DiesOnce(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Kills its process in mid-rollout, unless the mark says that it has done so.

    Args:
        env_id: The world.
        mark: A file that is made when it dies.
    """

    def __init__(self, env_id: str, mark: Path) -> None:
        super().__init__(gymnasium.make(env_id, disable_env_checker=True))
        self._mark, self._steps = mark, 0

    def reset(self, **keywords: Any) -> Any:
        self._steps = 0
        return super().reset(**keywords)

    def step(self, action: Any) -> Any:
        self._steps += 1
        if self._steps == 3 and not self._mark.exists():
            self._mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class DrawsAndDiesOnce(DiesOnce):
    """Adds noise from a process-wide generator to its observations, too."""

    def step(self, action: Any) -> Any:
        observation, *rest = super().step(action)
        return observation + np.random.normal(size=observation.shape).astype(observation.dtype), *rest


class Plain(gymnasium.Env[Any, Any]):
    """Three steps that pay one each."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.zeros(1, np.float32), 1.0, self.steps == 3, False, {}


class DiesWhenClosed(Plain):
    """Takes its process with it when it is closed."""

    def close(self) -> None:
        os._exit(7)


class DiesWhenBuilt(Plain):
    """Takes its process with it when it is built."""

    def __init__(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)
