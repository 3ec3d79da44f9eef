"""HalfCheetah at a speed, or in a direction, that it is not shown.

The observation is Gymnasium's with the torso's position behind it, as in VariBAD: 20 numbers.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Box

from paceline.worlds.meta.simulated import HalfCheetahEnv, SimulatedWorld
from paceline.worlds.meta.tasks import Choice, Interval


class Cheetah(HalfCheetahEnv):
    """HalfCheetah with half of its usual cost of control, and the torso's position in the observation."""

    def __init__(self, ctrl_cost_weight: float = 0.05, **options: Any) -> None:
        super().__init__(ctrl_cost_weight=ctrl_cost_weight, **options)
        size = self._get_obs().size
        self.observation_space = Box(-np.inf, np.inf, (size,), np.float64)

    def _get_obs(self) -> Any:
        return np.concatenate((super()._get_obs(), self.data.body("torso").xpos))

    def _get_rew(self, x_velocity: float, action: Any) -> tuple[float, dict[str, Any]]:
        forward, cost = self.forward_reward(x_velocity), self.control_cost(action)
        return float(forward - cost), {"reward_forward": forward, "reward_ctrl": -cost}

    def forward_reward(self, velocity: float) -> float:
        """What it is worth to run with this velocity."""
        raise NotImplementedError


class HalfCheetahVel(SimulatedWorld, Cheetah):
    """Run at a speed that is not shown. The task is the speed; the reward is minus the difference to it."""

    tasks = Interval(0.0, 3.0, "a speed, a number")
    set_sizes: ClassVar[tuple[int, int]] = (100, 20)

    def forward_reward(self, velocity: float) -> float:
        """Minus the difference between the velocity and the task's."""
        return -float(abs(velocity - self.task))


class HalfCheetahDir(SimulatedWorld, Cheetah):
    """Run forward or backward. The task is 1 or -1; the reward is the velocity times it."""

    tasks = Choice((-1.0, 1.0), "1 (forward) or -1 (backward), a number")
    set_sizes: ClassVar[tuple[int, int]] = (2, 0)

    def forward_reward(self, velocity: float) -> float:
        """The velocity in the task's direction."""
        return float(velocity * self.task)
