"""Worlds that are learned in seconds, and in workers: a lever to guess, and a point whose worker dies once."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from paceline.worlds.meta import Choice, TaskWorld
from paceline.worlds.meta.point import PointRobot


class Levers(gymnasium.Env[Any, Any]):
    """Two levers; what they pay says a world on top of it."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = Box(-1, 1, (1,), np.float32), Discrete(2)

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(1, np.float32), float(int(action) == getattr(self, "task")), False, False, {}  # noqa: B009


class WhichLever(TaskWorld, Levers):
    """One of two levers pays: the task says which. Only an agent with a memory can know it, after its first pull."""

    tasks = Choice((0.0, 1.0))
    horizon = 3
    set_sizes = (2, 0)


class Sick(PointRobot):
    """At its seventh step it gives a number that is not finite; with `unseen` only in tasks for evaluation."""

    def __init__(self, gives: str, unseen: bool = False, **options: Any) -> None:
        self._gives, self._unseen = gives, unseen
        super().__init__(horizon=20, **options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        if self.steps == 7 and (self.task in self.eval_tasks or not self._unseen):
            if self._gives == "reward":
                reward = float("nan")
            else:
                observation = np.full(2, np.inf, np.float32)
        return observation, reward, terminated, truncated, info


class Blank(PointRobot):
    """What it shows last in its first episode is no number."""

    def __init__(self) -> None:
        super().__init__(horizon=4)
        self._episodes = 0

    def reset(self, **given: Any) -> Any:
        self._episodes += 1
        return super().reset(**given)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, *rest = super().step(action)
        return (np.full(2, np.nan, np.float32) if self._episodes == 1 and self.steps == 4 else observation), *rest


class Setless(Levers):
    """Has a task, and no sets of tasks."""

    def get_current_task(self) -> Any:
        return np.zeros(1)


class DiesOnce(PointRobot):
    """Takes its worker with it, once."""

    def __init__(self, mark: str, **options: Any) -> None:
        self._mark = Path(mark)
        super().__init__(**options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.position[0] > 0.5 and not self._mark.exists():
            self._mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)
