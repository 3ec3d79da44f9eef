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
