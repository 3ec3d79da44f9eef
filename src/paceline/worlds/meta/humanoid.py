"""Humanoid in a direction that it is not shown. A humanoid that falls ends its episode."""

from __future__ import annotations

import math
from typing import Any

from paceline.worlds.meta.simulated import HumanoidEnv, SimulatedWorld, mass_center
from paceline.worlds.meta.tasks import Circle


class WalkingHumanoid(HumanoidEnv):
    """Gymnasium's Humanoid, whose velocity is measured along a direction."""

    _direction = (1.0, 0.0)

    def step(self, action: Any) -> Any:
        """Simulates one step."""
        before = mass_center(self.model, self.data)
        self.do_simulation(action, self.frame_skip)
        x, y = ((mass_center(self.model, self.data) - before) / self.dt).tolist()
        reward, parts = self._get_rew(x * self._direction[0] + y * self._direction[1], action)
        terminated = bool(self._terminate_when_unhealthy and not self.is_healthy)
        if self.render_mode == "human":
            self.render()
        return self._get_obs(), float(reward), terminated, False, {"x_velocity": x, "y_velocity": y, **parts}


class HumanoidDir(SimulatedWorld, WalkingHumanoid):
    """Walk in a direction that is not shown. The task is an angle; the reward is for the velocity along it."""

    tasks = Circle()

    def apply_task(self, task: float) -> None:
        """Notes the direction."""
        self._direction = math.cos(task), math.sin(task)
