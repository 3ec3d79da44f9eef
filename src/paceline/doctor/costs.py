"""What things take on this machine: to build an env, to reset it, to step it, and to send a message to a worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter, process_time
from typing import Any

import numpy as np

from paceline.engine import Pool
from paceline.testing.playing import Player

_SECONDS = 0.3
_FEWEST, _MOST = 20, 2000
_MESSAGES = 100


@dataclass(frozen=True)
class Costs:
    """Wall seconds of one call each: medians, which somebody else's load does not move much.

    Attributes:
        build: To build it.
        reset: To reset it.
        step: To step it.
        cpu_share: CPU time of the steps by their wall time, without the time in which they wanted a CPU and got none.
    """

    build: float
    reset: float
    step: float
    cpu_share: float


def measure(factory: Callable[[], Any], seed: int) -> Costs:
    """Plays an env for a moment, with nothing in between that would cool the caches."""
    begun = perf_counter()
    env = factory()
    build = perf_counter() - begun
    stopwatch = Stopwatch(env)
    player = Player(stopwatch, seed)
    player.start()
    queued = _queued()
    while len(stopwatch.steps) < _FEWEST or (perf_counter() - begun < _SECONDS and len(stopwatch.steps) < _MOST):
        player.go_on(_FEWEST)
    own = sum(stopwatch.steps) - (_queued() - queued)
    player.close()
    share = min(1.0, stopwatch.cpu / own) if own > 0 else 1.0
    return Costs(build, _median(stopwatch.resets), _median(stopwatch.steps), share)


class Stopwatch:
    """Stands in front of an env and times its resets and steps."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self.resets: list[float] = []
        self.steps: list[float] = []
        self.cpu = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def reset(self, **seed: int) -> Any:
        """Resets the env."""
        start = perf_counter()
        answer = self._env.reset(**seed)
        self.resets.append(perf_counter() - start)
        return answer

    def step(self, action: Any) -> Any:
        """Steps the env."""
        cpu, start = process_time(), perf_counter()
        answer = self._env.step(action)
        self.steps.append(perf_counter() - start)
        self.cpu += process_time() - cpu
        return answer


class Postman:
    """A member that does nothing but answer."""

    def __init__(self, letter: Any) -> None:
        self._letter = letter

    def deliver(self, _: Any) -> Any:
        """Answers with the letter."""
        return self._letter


def message_seconds(observation: Any, action: Any) -> float:
    """The round trip of a call that takes an action and answers with an observation."""
    with Pool([partial(Postman, observation)], backend="process", workers=1) as pool:
        walls = []
        for _ in range(_MESSAGES):
            start = perf_counter()
            pool.call("deliver", {0: (action,)}, record=False)
            walls.append(perf_counter() - start)
    return _median(walls)


def duration(seconds: float) -> str:
    """A time as people read it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def _queued() -> float:
    """Seconds in which this thread was ready to run and had no CPU; 0 where the kernel does not say."""
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _median(values: list[float]) -> float:
    return float(np.median(values))
