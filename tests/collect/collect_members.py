"""Environments and policies that are collected in workers: plain, drawing, deadly, failing."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from sketch_members import Hidden, Remembers

from paceline.types import Acted, Task

TASKS = [Task(index, {"hidden": index / 20}) for index in range(20)]


class Draws(Hidden):
    """Sees what a process-wide generator gives."""

    def _look(self) -> Any:
        return np.array([self.time, np.random.normal()], np.float32)


class Overwrites(Hidden):
    """Gives the same memory as its observation every time."""

    observation_space = spaces.Dict({"seen": Hidden.observation_space})  # type: ignore[assignment]

    def __init__(self) -> None:
        self.seen = np.zeros(2, np.float32)

    def _look(self) -> Any:
        self.seen[:] = super()._look()
        return {"seen": self.seen}


class Sums:
    """Two agents; it gives the same dicts every time, and empties them at reset."""

    metadata: dict[str, Any] = {"name": "sums"}  # noqa: RUF012 - so says PettingZoo
    possible_agents = ("one", "two")

    def __init__(self) -> None:
        self.agents: list[str] = []
        self.rewards, self.ended, self.cut = (dict.fromkeys(self.possible_agents, zero) for zero in (0.0, False, False))

    def observation_space(self, agent: str) -> Any:
        return spaces.Discrete(10)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.time = list(self.possible_agents), 0
        for agent in self.agents:
            self.rewards[agent], self.ended[agent] = 0.0, False
        return dict.fromkeys(self.agents, 0), {agent: {} for agent in self.agents}

    def step(self, actions: Any) -> Any:
        self.time += 1
        for agent in self.agents:
            self.rewards[agent], self.ended[agent] = float(self.time), self.time == 3
        seen = dict.fromkeys(self.agents, self.time)
        self.agents = [] if self.time == 3 else self.agents
        return seen, self.rewards, self.ended, self.cut, {agent: {} for agent in seen}

    def close(self) -> None:
        pass


class Dies(Hidden):
    """Takes its process with it in mid-rollout, once."""

    mark: Path

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.time == 2 and self.hidden > 0.4 and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class Deadly(Hidden):
    """One of its tasks takes the process with it, always."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.hidden == 0.5:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class Raises(Hidden):
    """Fails on one of its tasks."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.hidden == 0.5:
            raise RuntimeError("the ground gave way")
        return super().step(action)


class Unclosable(Hidden):
    """Cannot be closed without an error."""

    def close(self) -> None:
        raise RuntimeError("the door is stuck")


class RaisesWhile(Hidden):
    """Fails in every rollout while there is a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.time == 2 and self.mark.exists():
            raise RuntimeError("the ground gave way")
        return super().step(action)


class Interrupts(Hidden):
    """Ctrl-C comes in the last of its tasks."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.hidden == TASKS[-1].options["hidden"]:
            signal.raise_signal(signal.SIGINT)
        return super().step(action)


class Weighs(Remembers):
    """Adds a weight that it is given to what it remembers."""

    def __init__(self, seat: Any) -> None:
        super().__init__(seat)
        self.weight, self.version = 0.0, -1

    def load(self, version: int, weights: Any) -> None:
        self.version, self.weight = version, float(weights["weight"])

    def act_batch(self, obs: Any, seats: Any, mask: Any, rngs: Any) -> Acted:
        acted = super().act_batch(obs, seats, mask, rngs)
        return Acted([action + np.float32(self.weight) for action in acted.action], acted.extras)


class Rowed(Remembers):
    """Says in which row it was asked."""

    def act_batch(self, obs: Any, seats: Any, mask: Any, rngs: Any) -> Acted:
        acted = super().act_batch(obs, seats, mask, rngs)
        return Acted(acted.action, {**acted.extras, "row": list(range(len(obs)))})


class DrawnWeighs(Weighs):
    """Begins with a weight that its building draws from a process-wide generator."""

    def __init__(self, seat: Any) -> None:
        super().__init__(seat)
        self.weight = float(np.random.uniform())


class Locked(Remembers):
    """Has something that no other process can have."""

    def __init__(self, lock: Any, seat: Any) -> None:
        super().__init__(seat)
        self.lock = lock


class DrawsNoise:
    """A policy that draws from a process-wide generator."""

    def act(self, obs: Any) -> Any:
        return np.array([np.random.uniform(-1, 1)], np.float32)
