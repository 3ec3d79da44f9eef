"""Envs for the benchmark of vectors: nothing, work, waiting, pictures, stragglers. Small, as workers import it."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Bench(gymnasium.Env[Any, Any]):
    """Does what its kind says in every step; an episode has 200 of them.

    Args:
        kind: "nano", "cpu", "sleep", "image" or "skewed".
        seconds: Of work, or of waiting.
    """

    metadata = {"render_modes": []}  # noqa: RUF012
    render_mode = None

    def __init__(self, kind: str = "nano", seconds: float = 0.0) -> None:
        shape, dtype = ((84, 84, 4), np.uint8) if kind == "image" else ((4,), np.float32)
        self.observation_space = spaces.Box(0, 255, shape, dtype)
        self.action_space = spaces.Discrete(2)
        self._seen = np.zeros(shape, dtype)
        self._kind, self._rounds, self._seconds, self._steps = kind, _rounds(seconds), seconds, 0
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


def _work(rounds: int) -> int:
    total = 0
    for number in range(rounds):
        total += number * number
    return total


def _rounds(seconds: float) -> int:
    """How many rounds of work take so long, on this machine: measured once, so that the work is the same ever after."""
    if not seconds:
        return 0
    best = min(_timed(20_000) for _ in range(5))
    return max(1, int(20_000 * seconds / best))


def _timed(rounds: int) -> float:
    begin = time.perf_counter()
    _work(rounds)
    return time.perf_counter() - begin
