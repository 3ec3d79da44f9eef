"""Envs that the tests of vectors put into workers; they import nothing heavy."""

from __future__ import annotations

import zlib
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Sampler(gymnasium.Env[Any, Any]):
    """Shows samples of any space, drawn from its own generator; ends and is cut off by chance; infos of all kinds."""

    metadata = {"render_modes": ["rgb_array"], "made_by": "tests"}  # noqa: RUF012

    def __init__(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], infos: str = "some"
    ) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.render_mode = "rgb_array"
        self.infos = infos
        self.steps = 0
        self.mood = 1.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._look(), {"begun": 1, "options": str(options)}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        luck = self.np_random.random(3)
        self.mood = zlib.crc32(repr(action).encode()) % 1000 + self.mood / 2  # all that it was ever told matters
        return self._look(), float(luck[0]) * self.mood, bool(luck[1] < 0.1), bool(luck[2] < 0.1), self._info(luck)

    def render(self) -> Any:
        return np.full((2, 2, 3), self.steps, np.uint8)

    def double(self, value: int) -> int:
        return 2 * value

    def _look(self) -> Any:
        self.observation_space.seed(int(self.np_random.integers(1 << 30)))
        return self.observation_space.sample()

    def _info(self, luck: Any) -> dict[str, Any]:
        if self.infos == "none":
            return {}
        numbers = {"luck": float(luck[0]), "big": np.float32(luck[1]), "steps": self.steps, "odd": self.steps % 2 == 1}
        if self.infos == "numbers":
            return numbers
        some: dict[str, Any] = {"where": luck, "nested": {"deep": self.steps, "word": "a"}}
        if luck[0] < 0.5:
            some["rare"] = "now"
        return {**numbers, **some}


class Count(gymnasium.Env[Any, Any]):
    """Counts its steps; what is wrong with it begins at step 3 of env `number`."""

    def __init__(self, number: int, wrong: str = "") -> None:
        self.observation_space = spaces.Box(-1e6, 1e6, (2,), np.float32)
        self.action_space = spaces.Discrete(3)
        self.number, self.wrong, self.steps, self.task = number, wrong, 0, None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        if options and "task" in options:
            self.task = options["task"]
        return np.array([0.0, self.np_random.random()], np.float32), {"task": -1 if self.task is None else self.task}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.steps += 1
        seen: Any = np.array([self.steps, self.np_random.random()], np.float32)
        if self.wrong and self.steps == 3:
            seen = self._wrong(seen)
        return seen, self.np_random.random(), self.steps >= 6, False, {}

    def _wrong(self, seen: Any) -> Any:
        if self.wrong == "raise":
            raise ValueError(f"env {self.number} has had enough")
        return {"none": None, "scalar": np.float32(1.0), "long": np.zeros(3, np.float32), "nan": seen * np.nan}[
            self.wrong
        ]


class Settable(Count):
    """Has a `set_task` of its own."""

    def set_task(self, task: Any) -> None:
        self.task = task
