"""Learners and worlds that tests of training put into workers."""

from __future__ import annotations

import copy
import os
import random
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from paceline.types import Acted, Seat


class Field:
    """Agents guess a number that each of them can see; some leave early. A PettingZoo parallel env."""

    metadata = {"name": "field"}  # noqa: RUF012
    render_mode = None

    def __init__(self, agents: int = 3, length: int = 6) -> None:
        self.possible_agents = [f"agent_{number}" for number in range(agents)]
        self._length = length

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(-5, 5, (2,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self._rng, self._time, self.agents = np.random.default_rng(seed), 0, list(self.possible_agents)
        return self._look(), {agent: {} for agent in self.agents}

    def _look(self) -> dict[str, Any]:
        self._wanted = {agent: int(self._rng.integers(3)) for agent in self.agents}
        return {agent: np.array([self._wanted[agent], self._rng.normal()], np.float32) for agent in self.agents}

    def step(self, actions: dict[str, int]) -> Any:
        self._time += 1
        rewards = {agent: float(actions[agent] == self._wanted[agent]) for agent in self.agents}
        leaves = {agent: self._time >= 2 + int(agent[-1]) for agent in self.agents}
        over = dict.fromkeys(self.agents, self._time >= self._length)
        seen, played = self._look(), list(self.agents)
        self.agents = [agent for agent in played if not (leaves[agent] or over[agent])]
        return seen, rewards, leaves, over, {agent: {} for agent in played}

    def close(self) -> None:
        pass


class Odd(Field):
    """Something that it gives one of its agents in turn 1 is no number."""

    def __init__(self, what: str = "rewards") -> None:
        super().__init__()
        self._what = what

    def step(self, actions: dict[str, int]) -> Any:
        seen, rewards, *rest = super().step(actions)
        if self._time == 2 and self._what == "rewards":
            rewards["agent_2"] = float("nan")
        if self._time == 2 and self._what == "observations":
            seen["agent_2"][1] = np.nan
        return seen, rewards, *rest


class Sown(Field):
    """Notes the seeds that it is reset with."""

    seeds: ClassVar[list[int]] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        if seed is not None:
            self.seeds.append(seed)
        return super().reset(seed=seed, options=options)


class Counts:
    """A learner that notes which rows it has learned from, and likes actions by what they brought."""

    naps = 0.0

    def __init__(self, seat: Seat) -> None:
        self.likes, self.windows = np.zeros((3, 3)), []
        self.agent = seat.agent
        self.reset(0)

    def reset(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def act(self, obs: Any) -> Acted:
        likes = self.likes[int(obs[0])]
        action = int(self.rng.integers(3)) if self.rng.random() < 0.4 else int(likes.argmax())
        return Acted(action, {"liked": float(likes[action])})

    def learn(self, window: Any) -> dict[str, float]:
        if self.naps:
            time.sleep(self.naps * np.random.default_rng(len(self.windows)).random())
        new = window.new
        for seen, action, reward in zip(new["observations"], new["actions"], new["rewards"], strict=True):
            self.likes[int(seen[0]), action] += reward - 0.3
        batch = window.sample(5)
        self.likes += 1e-3 * batch["rewards"].mean()
        self.windows.append((len(window), len(new["rewards"])))
        return {"loss": float(-self.likes.max()), "rows": float(len(window))}

    def snapshot(self) -> Any:
        return copy.deepcopy({"likes": self.likes, "windows": self.windows})

    def restore(self, state: Any) -> None:
        self.likes, self.windows = state["likes"].copy(), list(state["windows"])


class Slow(Counts):
    """The same, at a pace that differs from update to update."""

    naps = 0.02


class Dies(Counts):
    """The same, whose process is killed once, in its third update."""

    def __init__(self, mark: Path, seat: Seat) -> None:
        super().__init__(seat)
        self._mark = mark

    def learn(self, window: Any) -> dict[str, float]:
        figures = super().learn(window)
        if len(self.windows) == 3 and not self._mark.exists() and self.agent == "agent_1":
            self._mark.touch()
            os._exit(1)
        return figures


class Doomed(Counts):
    """The same, but agent_1's third update kills its process, however often it is begun."""

    def learn(self, window: Any) -> dict[str, float]:
        figures = super().learn(window)
        if len(self.windows) == 3 and self.agent == "agent_1":
            os._exit(1)
        return figures


class Hangs(Counts):
    """The same, but agent_1's third update never ends."""

    def learn(self, window: Any) -> dict[str, float]:
        figures = super().learn(window)
        while len(self.windows) == 3 and self.agent == "agent_1":
            time.sleep(1)
        return figures


class Falls(Counts):
    """The same, whose process is killed once while agent_1 acts, after several versions of it."""

    def __init__(self, mark: Path, seat: Seat) -> None:
        super().__init__(seat)
        self._mark, self._acted = mark, 0

    def act(self, obs: Any) -> Acted:
        self._acted += 1
        if self._acted == 17 and not self._mark.exists() and self.agent == "agent_1":
            self._mark.touch()
            os._exit(1)
        return super().act(obs)


class Breaks(Counts):
    """The same, but agent_1's third update raises."""

    def learn(self, window: Any) -> dict[str, float]:
        figures = super().learn(window)
        if len(self.windows) == 3 and self.agent == "agent_1":
            raise RuntimeError("the ink ran out")
        return figures


class Unsaved(Counts):
    """The same, but agent_1 cannot be saved from its third update on."""

    def snapshot(self) -> Any:
        if len(self.windows) >= 3 and self.agent == "agent_1":
            raise RuntimeError("the paper is gone")
        return super().snapshot()


class Stumbles(Counts):
    """The same, but agent_1's third update raises once, when it has changed everything already."""

    def __init__(self, mark: Path, seat: Seat) -> None:
        super().__init__(seat)
        self._mark = mark

    def learn(self, window: Any) -> dict[str, float]:
        figures = super().learn(window)
        if len(self.windows) == 3 and self.agent == "agent_1" and not self._mark.exists():
            self._mark.touch()
            raise OSError("the ink is wet")
        return figures


class Explodes(Counts):
    """The same, but agent_1's third update makes numbers that are none."""

    def learn(self, window: Any) -> dict[str, float]:
        figures = super().learn(window)
        if len(self.windows) == 3 and self.agent == "agent_1":
            self.likes[0, 0] = np.nan
        return figures


class Light(Counts):
    """The same, whose versions travel as weights."""

    def weights(self) -> dict[str, Any]:
        return {"likes": self.likes.copy()}

    def load(self, version: int, weights: dict[str, Any]) -> None:
        self.likes = weights["likes"].copy()


class TwoRows:
    """Answers two rows in one call, by their draws and by how often each was asked since it began."""

    def __init__(self, seat: Seat) -> None:
        self.asked: dict[int, int] = {}

    def begin(self, rows: Any, seeds: Any) -> None:
        self.asked.update(dict.fromkeys(rows, 0))

    def act_batch(self, obs: Any, seats: Any, mask: Any, rngs: Any) -> Any:
        assert len(obs) == len(seats) == len(mask) == len(rngs) == 2
        answers = [0, 0]
        for row in np.flatnonzero(mask).tolist():
            self.asked[row] += 1
            answers[row] = int(self.asked[row] + rngs[row].integers(2)) % 3
        return answers


class NoLearner:
    """Acts, and cannot learn."""

    def act(self, obs: Any) -> int:
        return 0


class Numbered(Light):
    """The same, which loads a version only if it has not got it already."""

    version = -1

    def load(self, version: int, weights: dict[str, Any]) -> None:
        if version != self.version:
            super().load(version, weights)
        self.version = version


class Restless(Counts):
    """Draws from a generator that neither `reset` nor a snapshot knows of; its first process is killed in epoch 30."""

    def __init__(self, mark: Path | None, seat: Seat) -> None:
        self._mark, self._epochs, self._own = mark, 0, np.random.default_rng(5)
        super().__init__(seat)

    def reset(self, seed: int) -> None:
        self._epochs += 1

    def act(self, obs: Any) -> int:
        if self._epochs == 30 and self._mark is not None and not self._mark.exists():
            self._mark.touch()
            os._exit(1)
        return int(self._own.integers(3))


class Looks(Counts):
    """Learns from what it has seen alone, whatever that brought."""

    def learn(self, window: Any) -> dict[str, float]:
        self.likes[0, 0] += float(window.columns["observations"].sum())
        return {}


class Tells(Looks):
    """The same, and looks at what the others have seen first in this update."""

    told: ClassVar[list[float]] = []

    def learn(self, window: Any) -> dict[str, float]:
        self.told.append(float(window.columns["observations"][0].sum()))
        self.likes[1, 1] += sum(self.told)
        if len(self.told) == 3:
            self.told.clear()
        return super().learn(window)


class Changing(Counts):
    """Tells whole numbers beside its actions in the first epoch, and fractions later."""

    epochs = 0

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.epochs += 1

    def act(self, obs: Any) -> Acted:
        return Acted(0, {"liked": 1 if self.epochs < 3 else 0.5})


class Careless(Counts):
    """Draws from process-wide generators, acting and learning."""

    def act(self, obs: Any) -> int:
        return int(np.random.randint(3))

    def learn(self, window: Any) -> dict[str, float]:
        self.likes += random.random()
        return super().learn(window)


class Locked(Counts):
    """Holds what cannot be copied."""

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self.lock = threading.Lock()


class WithoutOne(Field):
    """The same, and agent_1 never comes."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.agents.remove("agent_1")
        return self._look(), {agent: {} for agent in self.agents}


class CarelessField(Field):
    """Its rewards are drawn from a process-wide generator."""

    def step(self, actions: dict[str, int]) -> Any:
        seen, rewards, *rest = super().step(actions)
        return seen, {agent: float(np.random.random()) for agent in rewards}, *rest
