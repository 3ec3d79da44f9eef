"""Ant in a direction, or to a goal, that it is not shown.

An ant that falls ends its episode, but for AntGoal. Where the task is a direction the observation has 27 numbers
(joints and velocities, no contact forces), as in VariBAD.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from paceline.worlds.meta.simulated import AntEnv, SimulatedWorld
from paceline.worlds.meta.tasks import Angles, Circle, Disk


class WalkingAnt(AntEnv):
    """Gymnasium's Ant, whose reward for moving is a matter of the world on top of it."""

    def step(self, action: Any) -> Any:
        """Simulates one step."""
        torso = self.data.body(self._main_body)
        before_x, before_y, _ = torso.xpos.tolist()
        self.do_simulation(action, self.frame_skip)
        x, y, _ = torso.xpos.tolist()
        self._velocity = (x - before_x) / self.dt, (y - before_y) / self.dt
        reward, parts = self._get_rew(self.moving_reward((x, y), self._velocity), action)
        terminated = bool(self._terminate_when_unhealthy and not self.is_healthy)
        if self.render_mode == "human":
            self.render()
        info = {"x_position": x, "y_position": y, "x_velocity": self._velocity[0], "y_velocity": self._velocity[1]}
        return self._get_obs(), float(reward), terminated, False, {**info, **parts}

    def moving_reward(self, position: tuple[float, float], velocity: tuple[float, float]) -> float:
        """What the step is worth, but for costs and survival: position and velocity of the torso, x and y."""
        raise NotImplementedError


class DirectedAnt(SimulatedWorld, WalkingAnt):
    """Walk in a direction that is not shown. The task is an angle; the reward is the velocity along it."""

    def __init__(self, include_cfrc_ext_in_observation: bool = False, **options: Any) -> None:
        super().__init__(include_cfrc_ext_in_observation=include_cfrc_ext_in_observation, **options)

    def apply_task(self, task: float) -> None:
        """Notes the direction."""
        self._direction = math.cos(task), math.sin(task)

    def moving_reward(self, position: tuple[float, float], velocity: tuple[float, float]) -> float:
        """The velocity along the task's direction."""
        return velocity[0] * self._direction[0] + velocity[1] * self._direction[1]


class AntDir(DirectedAnt):
    """The tasks are 1 and -1 radian, as in the worlds that this one descends from; with numbers of tasks, any angle.

    Args:
        num_train_tasks: How many train tasks are drawn from the whole circle; None: 1 and -1.
        num_eval_tasks: How many eval tasks are drawn from the whole circle; None: none.
        options: As `TaskWorld` has them.
    """

    tasks: Any = Angles((-1.0, 1.0))
    set_sizes: ClassVar[tuple[int, int]] = (2, 0)

    def __init__(
        self, *, num_train_tasks: int | None = None, num_eval_tasks: int | None = None, **options: Any
    ) -> None:
        if num_train_tasks is not None or num_eval_tasks is not None:
            self.tasks = Circle()
            if num_train_tasks is None and "train_tasks" not in options:
                options["train_tasks"] = AntDir.tasks.values
        super().__init__(num_train_tasks=num_train_tasks, num_eval_tasks=num_eval_tasks, **options)


class AntDir2D(DirectedAnt):
    """The tasks are all angles."""

    tasks = Circle()


class AntFwdBack(DirectedAnt):
    """The tasks are 0 (forward) and π (backward)."""

    tasks = Angles((0.0, math.pi))
    set_sizes: ClassVar[tuple[int, int]] = (2, 0)


class AntGoal(SimulatedWorld, WalkingAnt):
    """Walk to a goal that is not shown, in a disk of radius 3. The task is the goal; a fall ends nothing."""

    tasks = Disk(3.0)

    def __init__(
        self,
        exclude_current_positions_from_observation: bool = False,
        terminate_when_unhealthy: bool = False,
        healthy_reward: float = 0.0,
        ctrl_cost_weight: float = 0.1,
        **options: Any,
    ) -> None:
        super().__init__(
            exclude_current_positions_from_observation=exclude_current_positions_from_observation,
            terminate_when_unhealthy=terminate_when_unhealthy,
            healthy_reward=healthy_reward,
            ctrl_cost_weight=ctrl_cost_weight,
            **options,
        )

    def moving_reward(self, position: tuple[float, float], velocity: tuple[float, float]) -> float:
        """Minus the distance to the goal, along the axes."""
        return -float(abs(position[0] - self.task[0]) + abs(position[1] - self.task[1]))
