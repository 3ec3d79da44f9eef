"""Kinds of tasks: what a task's value looks like, how one is drawn, and which values are the same task.

A kind is a distribution, not a limit: `sample` draws from its range, but `value` accepts any value of its form. So an
agent can be tried on tasks that the distribution does not have.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.errors import BadInput

Value = Any
"""A task: a float, or a tuple of floats. Hashable, and written out as JSON without loss."""

TRIES = 1000  # draws without a new task before a set is given up as too large


class Kind(ABC):
    """What a task of a world is.

    Attributes:
        size: How many numbers it has; 0: it is a plain float.
        about: What it means, for messages.
    """

    size: int = 0
    about: str = "a number"

    @abstractmethod
    def sample(self, generator: np.random.Generator) -> Value:
        """Draws a task."""

    def value(self, task: Any) -> Value:
        """A task as its plain value: a float, or a tuple of floats.

        Args:
            task: A number or as many as the kind has, in a list, a tuple or an array.

        Raises:
            BadInput: it is of another form, or not finite.
        """
        try:
            numbers = [float(number) for number in np.asarray(task, dtype=np.float64).reshape(-1)]
        except (TypeError, ValueError):
            numbers = []
        if isinstance(task, bool | str) or len(numbers) != max(1, self.size) or not all(map(math.isfinite, numbers)):
            raise BadInput(f"{task!r} is no task of this world: a task is {self.about}, not an index")
        return tuple(numbers) if self.size else numbers[0]

    def vector(self, task: Value) -> np.ndarray[Any, np.dtype[np.float64]]:
        """A task as an array, for agents that are shown it: `[numbers]`."""
        return np.asarray(task, dtype=np.float64).reshape(-1)

    def key(self, task: Value) -> Any:
        """Equal for values that are the same task."""
        return tuple(round(float(number), 9) + 0.0 for number in self.vector(task))  # + 0.0: -0.0 is 0.0

    def draw_set(self, count: int, generator: np.random.Generator, without: Iterable[Value] = ()) -> tuple[Value, ...]:
        """Draws `count` different tasks, none of which is one of `without`.

        Raises:
            BadInput: the kind has not so many.
        """
        taken, misses = {self.key(task) for task in without}, 0
        drawn: list[Value] = []
        while len(drawn) < count:
            task = self.sample(generator)
            misses = misses + 1 if self.key(task) in taken else 0
            if misses > TRIES:
                raise BadInput(f"there are not {count} different tasks to draw: {self}")
            if not misses:
                taken.add(self.key(task))
                drawn.append(task)
        return tuple(drawn)


@dataclass(frozen=True)
class Interval(Kind):
    """A number, uniform between two."""

    low: float
    high: float
    about: str = "a number"

    def sample(self, generator: np.random.Generator) -> float:
        """Draws a number."""
        return float(generator.uniform(self.low, self.high))


@dataclass(frozen=True)
class Choice(Kind):
    """One of a few numbers, each as likely."""

    values: tuple[float, ...]
    about: str = "a number"

    def sample(self, generator: np.random.Generator) -> float:
        """Draws one of them."""
        return float(self.values[int(generator.integers(len(self.values)))])

    def draw_set(self, count: int, generator: np.random.Generator, without: Iterable[Value] = ()) -> tuple[Value, ...]:
        """The first `count` that are none of `without`, in the kind's order."""
        taken = {self.key(task) for task in without}
        free = tuple(value for value in self.values if self.key(value) not in taken)
        if len(free) < count:
            raise BadInput(f"this world has the tasks {self.values} only, and {len(taken)} are taken: not {count} more")
        return free[:count]


@dataclass(frozen=True)
class Circle(Kind):
    """An angle, uniform over the circle; angles a whole turn apart are the same task."""

    about: str = "an angle in radians, a number"

    def sample(self, generator: np.random.Generator) -> float:
        """Draws an angle from 0 to 2π."""
        return float(generator.uniform(0.0, 2 * math.pi))

    def key(self, task: Value) -> Any:
        """The direction in which the angle points."""
        return _direction(task)


@dataclass(frozen=True)
class Angles(Choice):
    """One of a few angles, each as likely; angles a whole turn apart are the same task."""

    about: str = "an angle in radians, a number"

    def key(self, task: Value) -> Any:
        """The direction in which the angle points."""
        return _direction(task)


def _direction(angle: float) -> tuple[float, float]:
    return round(math.cos(angle), 9) + 0.0, round(math.sin(angle), 9) + 0.0  # + 0.0: -0.0 is 0.0


@dataclass(frozen=True)
class Square(Kind):
    """A point, uniform over the square from (-side, -side) to (side, side)."""

    side: float
    about: str = "a point, two numbers"
    size: int = 2

    def sample(self, generator: np.random.Generator) -> tuple[float, float]:
        """Draws a point."""
        x, y = generator.uniform(-self.side, self.side, 2)
        return float(x), float(y)


@dataclass(frozen=True)
class HalfCircle(Kind):
    """A point on the upper half of the unit circle, uniform along it."""

    about: str = "a point, two numbers"
    size: int = 2

    def sample(self, generator: np.random.Generator) -> tuple[float, float]:
        """Draws a point."""
        angle = float(generator.uniform(0.0, math.pi))
        return math.cos(angle), math.sin(angle)


@dataclass(frozen=True)
class Disk(Kind):
    """A point, uniform over a disk around the origin."""

    radius: float
    about: str = "a point, two numbers"
    size: int = 2

    def sample(self, generator: np.random.Generator) -> tuple[float, float]:
        """Draws a point."""
        angle, share = float(generator.uniform(0.0, 2 * math.pi)), float(generator.uniform())
        distance = self.radius * math.sqrt(share)
        return distance * math.cos(angle), distance * math.sin(angle)


def check_disjoint(kind: Kind, train: Iterable[Value], held_out: Iterable[Value]) -> None:
    """Checks that an agent is not evaluated on a task that it was trained on.

    Args:
        kind: Says which values are the same task.
        train: The tasks for training.
        held_out: The tasks for evaluation.

    Raises:
        BadInput: a task is in both.
    """
    keys = {kind.key(task) for task in train}
    for task in held_out:
        if kind.key(task) in keys:
            raise BadInput(
                f"task {task!r} is a train task and an eval task, so that an evaluation on it says nothing about new "
                "tasks: leave it out of one of the two"
            )
