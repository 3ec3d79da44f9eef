"""A point on an unbounded plane, moved by its agent: the cheapest worlds of meta-RL.

    PointRobot         the task is a goal in the square; the reward is minus the distance to it
    PointRobotSparse   the goal lies on a half circle; the reward is 1 near it and 0 elsewhere
    Wind               the task is a wind that moves the point, too; the reward is 1 near (0, 1)

An action is a move of at most 0.1 along each axis; the reward is that of the place after the move.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from paceline.worlds.meta.tasks import HalfCircle, Square
from paceline.worlds.meta.world import TaskWorld

REACH = 0.1  # the longest move along an axis

Position = np.ndarray[Any, np.dtype[np.float32]]


class Plane(gymnasium.Env[Position, Any]):
    """A point that is moved; what that is worth, a world on top of it says."""

    metadata: dict[str, Any] = {"render_modes": [], "name": "plane"}  # noqa: RUF012 - so says Gymnasium

    start_low: ClassVar[tuple[float, float]] = (0.0, 0.0)
    start_high: ClassVar[tuple[float, float]] = (0.0, 0.0)
    """The corners of the rectangle from which the start is drawn."""

    def __init__(self) -> None:
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = Box(-REACH, REACH, (2,), np.float32)
        self._limit = float(self.action_space.high[0])
        self.position = (0.0, 0.0)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Position, dict[str, Any]]:
        """Puts the point where an episode starts."""
        super().reset(seed=seed)
        x, y = self.np_random.uniform(self.start_low, self.start_high)
        self.position = float(x), float(y)
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Position, float, bool, bool, dict[str, Any]]:
        """Moves the point; a longer move than allowed is shortened."""
        limit, (x, y), (by_x, by_y) = self._limit, self.position, self.drift()
        x += min(limit, max(-limit, float(action[0]))) + by_x
        y += min(limit, max(-limit, float(action[1]))) + by_y
        self.position = x, y
        return self._observation(), self.reward(), False, False, {}

    def drift(self) -> tuple[float, float]:
        """How far the point moves by itself in a step."""
        return 0.0, 0.0

    def reward(self) -> float:
        """What the place is worth where the point is now."""
        raise NotImplementedError

    def _observation(self) -> Position:
        return np.array(self.position, np.float32)


class PointRobot(TaskWorld, Plane):
    """Go to a goal that is not shown. The task is the goal; the reward is minus the distance to it."""

    tasks = Square(1.0)
    horizon = 60
    start_low, start_high = (-1.0, -1.0), (1.0, 1.0)

    def reward(self) -> float:
        """Minus the distance to the goal."""
        return -math.dist(self.position, self.task)


class PointRobotSparse(TaskWorld, Plane):
    """Find a goal on the upper half of the unit circle. The task is the goal; only near it is a reward."""

    tasks = HalfCircle()
    horizon = 60
    goal_radius = 0.2
    start_low, start_high = (-1.5, -0.5), (1.5, 1.5)

    def reward(self) -> float:
        """1 within the goal's radius, 0 outside."""
        return float(self.is_goal_state())

    def is_goal_state(self) -> bool:
        """Whether the point is within the goal's radius."""
        return math.dist(self.position, self.task) <= self.goal_radius


class Wind(TaskWorld, Plane):
    """Go from the origin to (0, 1) and stay there, against a wind that is not shown. The task is the wind."""

    tasks = Square(0.08)
    horizon = 75
    set_sizes: ClassVar[tuple[int, int]] = (40, 20)
    goal = (0.0, 1.0)
    goal_radius = 0.03

    def drift(self) -> tuple[float, float]:
        """The wind."""
        wind: tuple[float, float] = self.task
        return wind

    def reward(self) -> float:
        """1 within the goal's radius, 0 outside."""
        return float(self.is_goal_state())

    def is_goal_state(self) -> bool:
        """Whether the point is within the goal's radius."""
        return math.dist(self.position, self.goal) <= self.goal_radius
