"""Envs for the benchmark of vectors: nothing, work, waiting, pictures, stragglers. Small, as workers import it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

Make = Callable[[], Any]


class Bench(gymnasium.Env[Any, Any]):
    """Does what its kind says in every step; an episode has 200 of them.

    Args:
        kind: "nano", "cpu", "sleep", "image" or "skewed".
        rounds: Of work: counted, not timed, so that the work is the same for everybody.
        seconds: Of waiting.
    """

    metadata = {"render_modes": []}  # noqa: RUF012
    render_mode = None

    def __init__(self, kind: str = "nano", rounds: int = 0, seconds: float = 0.0) -> None:
        shape, dtype = ((84, 84, 4), np.uint8) if kind == "image" else ((4,), np.float32)
        self.observation_space = spaces.Box(0, 255, shape, dtype)
        self.action_space = spaces.Discrete(2)
        self._seen = np.zeros(shape, dtype)
        self._kind, self._rounds, self._seconds, self._steps = kind, rounds, seconds, 0
        self._luck = np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self._luck = np.random.default_rng(seed)  # stragglers must not straggle in step
        self._steps = 0
        return self._seen, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        if self._kind == "cpu":
            _work(self._rounds)
        elif self._kind == "sleep":
            time.sleep(self._seconds)
        elif self._kind == "skewed":
            _work(self._rounds * (50 if self._luck.random() < 0.05 else 1))
        return self._seen, 1.0, False, self._steps >= 200, {}


class Drift(Bench):
    """A `Bench` that shows where its actions have led it: a step too many, or one too few, is seen ever after."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._place = np.float32(self._luck.random()) + np.zeros(4, np.float32)
        return self._place, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        _, _, ended, cut, info = super().step(action)
        self._place = self._place * np.float32(0.999) + np.float32(action + self._luck.random())
        return self._place, float(self._place[0]), ended, cut, info


def _work(rounds: int) -> int:
    total = 0
    for number in range(rounds):
        total += number * number
    return total


def rounds_per_second(tries: int = 20, rounds: int = 20_000) -> float:
    """How much work this machine does when nobody disturbs it. Measured once, by whoever starts the contestants."""
    return rounds / min(_timed(rounds) for _ in range(tries))


def _timed(rounds: int) -> float:
    begin = time.perf_counter()
    _work(rounds)
    return time.perf_counter() - begin


@dataclass(frozen=True)
class Workload:
    """What is stepped, and how many of them.

    Args:
        envs: How many, one race for each.
        quick: The same with `--quick`.
        kind: Of `Bench`.
        seconds: Of work or of waiting per step.
        known_as: Gymnasium's id of it, if it is no `Bench`.
        longer: How many times as long a slice lasts: where steps differ much, a short one measures luck.
    """

    envs: tuple[int, ...]
    quick: tuple[int, ...]
    kind: str = ""
    seconds: float = 0.0
    known_as: str = ""
    longer: int = 1

    def recipe(self, pace: float) -> Make:
        """Makes one of them, where `pace` rounds of work take a second."""
        if self.known_as:
            return partial(gymnasium.make, self.known_as)
        return partial(Bench, self.kind, max(1, round(pace * self.seconds)), self.seconds)


WORKLOADS = {
    "nano": Workload((2, 8, 32, 128), (), "nano"),
    "CartPole": Workload((2, 8, 32, 128), (8, 32), known_as="CartPole-v1"),
    "cpu 0.1 ms": Workload((8, 32), (), "cpu", 1e-4),
    "cpu 1 ms": Workload((2, 8, 32), (8,), "cpu", 1e-3),
    "cpu 10 ms": Workload((8,), (), "cpu", 1e-2),
    "sleep 5 ms": Workload((8, 32, 128), (128,), "sleep", 5e-3),
    "image 84×84×4": Workload((8, 32), (8,), "image"),
    "skewed": Workload((32,), (32,), "skewed", 2e-4, longer=5),
    "Ant": Workload((8,), (8,), known_as="Ant-v5"),
}
