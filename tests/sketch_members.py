"""A world with tasks, a policy with a memory and a learner: what the sketches of jobs put into workers."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from paceline.types import Acted, Seat


class Hidden(gymnasium.Env[Any, Any]):
    """A number is hidden; an action gets as much as it is near to it."""

    observation_space = spaces.Box(-10, 10, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.hidden, self.time = float((options or {}).get("hidden", 0.0)), 0
        return self._look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        over = self.time >= 4 + int(abs(self.hidden) * 4)
        return self._look(), -abs(float(action[0]) - self.hidden), False, over, {}

    def _look(self) -> Any:
        return np.array([self.time, self.np_random.normal()], np.float32)


class Remembers:
    """A row policy that adds up what it has seen, row by row, and says what it thinks of it."""

    def __init__(self, seat: Seat) -> None:
        self.memory: dict[int, float] = {}

    def begin(self, rows: list[int], seeds: list[int]) -> None:
        self.memory.update({row: seed % 1000 / 1000 for row, seed in zip(rows, seeds, strict=True)})

    def act_batch(self, obs: Any, seats: Any, mask: Any, rngs: Any) -> Acted:
        for row in np.flatnonzero(mask):
            self.memory[row] = self.memory[row] / 2 + float(obs[row][1]) + 0.1 * float(rngs[row].normal())
        values = [self.memory.get(row, 0.0) for row in range(len(obs))]
        return Acted([np.tanh([value]).astype(np.float32) for value in values], {"values": values})

    def take_rows(self, rows: list[int]) -> list[float]:
        return [self.memory[row] for row in rows]

    def put_rows(self, rows: list[int], state: list[float]) -> None:
        self.memory.update(zip(rows, state, strict=True))


class Learns:
    """Likes the action that has brought the most so far; tries others now and then."""

    def __init__(self, seat: Seat) -> None:
        self.sums, self.counts = np.zeros(int(seat.action_space.n)), np.ones(int(seat.action_space.n))
        self.reset(0)

    def reset(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def act(self, obs: Any) -> Acted:
        likes = self.sums / self.counts
        action = int(self.rng.integers(len(likes))) if self.rng.random() < 0.3 else int(likes.argmax())
        return Acted(action, {"value": likes[action]})

    def learn(self, window: Any) -> dict[str, float]:
        columns = window.columns
        for action, reward in zip(columns["actions"], columns["rewards"], strict=True):
            self.sums[action] += reward
            self.counts[action] += 1
        return {"rows": float(len(columns["rewards"])), "value": float(np.sum(columns["value"]))}

    def snapshot(self) -> Any:
        return copy.deepcopy(vars(self))

    def restore(self, state: Any) -> None:
        vars(self).update(copy.deepcopy(state))
