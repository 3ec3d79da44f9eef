"""Envs, policies and a member for the tests of `paceline.testing` and the doctor, good ones and bad ones.

They stand in a file of their own because other processes import them, and need not import the tests for that.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from paceline import Anew

# -- a member ----------------------------------------------------------------------------------------------


class Counter:
    """A member that can be saved, and whose answers depend on all that it was asked."""

    def __init__(self, start: int = 0) -> None:
        self.total = start

    def add(self, amount: int) -> int:
        self.total += amount
        return self.total

    def add_row(self, amount: np.ndarray, total: np.ndarray) -> None:
        total[...] = self.add(int(amount))

    def anew(self, start: int) -> Anew:
        self.total = start
        return Anew(start)


class SavedCounter(Counter):
    def snapshot(self) -> int:
        return self.total

    def restore(self, state: int) -> None:
        self.total = state


# -- envs --------------------------------------------------------------------------------------------------


class Walk(gymnasium.Env):
    """A well-behaved env."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place = self.np_random.normal(size=2).astype(np.float32)
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        self.place[action] += self.noise()
        return self.seen(), float(self.place.sum()), bool(abs(self.place).max() > 6), False, {}

    def noise(self) -> float:
        return float(self.np_random.normal())

    def seen(self) -> Any:
        return self.place.copy()


class WalkOnGlobals(Walk):
    def __init__(self) -> None:
        super().__init__()
        self.name = np.random.randint(10)

    def noise(self) -> float:
        return random.gauss(0, 1)


class StandStill(Walk):
    def noise(self) -> float:
        return 0.0

    def seen(self) -> Any:
        return self.place


class WalkUnseeded(Walk):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=None)


class WalkThatRemembers(Walk):
    """Differs when it is reset again, and in every process."""

    steps = 0

    def noise(self) -> float:
        self.steps += 1
        return float(self.steps)


class WalkElsewhere(Walk):
    def noise(self) -> float:
        return float(os.getpid())


class WithoutSpaces(Walk):
    def __init__(self) -> None:
        pass


class OldStep(Walk):
    def step(self, action: Any) -> Any:
        return self.seen(), 0.0, False, {}


class WrongTypes(Walk):
    def step(self, action: Any) -> Any:
        return self.place.astype(np.float64), None, 0, True, []


class OldReset(Walk):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0]


class RaisesLate(Walk):
    def noise(self) -> float:
        if self.place.max() > 1:
            raise ZeroDivisionError("late")
        return 1.0


class WalkInPlace(Walk):
    """Wrong twice."""

    def seen(self) -> Any:
        return self.place

    def close(self) -> None:
        raise OSError("already closed")


class Masked(Walk):
    """Allows only one action, and insists."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        seen, _ = super().reset(seed=seed)
        return seen, {"action_mask": np.array([False, True])}

    def step(self, action: Any) -> Any:
        assert action == 1
        *answer, _ = super().step(action)
        return *answer, {"action_mask": np.array([False, True])}


class SeedsTheGlobals(Walk):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            np.random.seed(seed)
        return super().reset(seed=seed)

    def noise(self) -> float:
        return float(np.random.normal())


class CountsItself(Walk):
    """Another one for every one that was built before it and is still alive."""

    alive = 0

    def __init__(self) -> None:
        super().__init__()
        CountsItself.alive += 1
        self.number = CountsItself.alive

    def close(self) -> None:
        CountsItself.alive -= 1

    def noise(self) -> float:
        return float(self.number)


class Waits(Walk):
    """Sleeps, and forgets where it was when it is pickled."""

    def noise(self) -> float:
        time.sleep(0.004)  # longer than a busy machine keeps a process that can run from running
        return 0.25

    def __reduce__(self) -> Any:
        return Waits, ()


# -- policies ----------------------------------------------------------------------------------------------


class Noisy:
    """A well-behaved policy."""

    def reset(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def act(self, observation: Any) -> float:
        return float(observation.sum() + self.rng.normal())

    def act_batch(self, observations: Any, seats: Any, mask: Any, rngs: Any) -> Any:
        return [float(np.sum(shown)) + rng.normal() for shown, rng in zip(observations, rngs, strict=True)]

    def snapshot(self) -> Any:
        return self.rng.bit_generator.state

    def restore(self, state: Any) -> None:
        self.rng = np.random.default_rng()
        self.rng.bit_generator.state = state


class Forgetful(Noisy):
    def reset(self, seed: int) -> None:
        self.rng = np.random.default_rng(getattr(self, "again", seed))
        self.again = seed + 1


class Gambler(Noisy):
    def act(self, observation: Any) -> float:
        return random.random()


class Careless(Noisy):
    """Wrong three times."""

    def act(self, observation: Any) -> float:
        observation *= 0
        return super().act(observation)

    def restore(self, state: Any) -> None:
        self.rng = np.random.default_rng(0)

    def act_batch(self, observations: Any, seats: Any, mask: Any, rngs: Any) -> Any:
        return [0.0]


class NoReset:
    def act(self, observation: Any) -> int:
        return 0


class Unsaved(NoReset):
    def reset(self, seed: int) -> None:
        pass

    snapshot = reset


class Broken(Noisy):
    def act(self, observation: Any) -> float:
        raise ValueError("blind")
