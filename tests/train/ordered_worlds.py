"""Worlds of tests whose agents act one after another: PettingZoo AEC envs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv


class Coins(AECEnv[str, Any, int]):
    """Agents on a ring of cells step to and fro; one that is close to another sees it. Coins lie about.

    Who steps onto a coin gets 1, and those that stand beside it 0.25 each, so rewards come also while others act. Agent
    `number` leaves after `stay + number` turns; all are cut off after `length` turns.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "coins", "observe_is_pure": True}

    def __init__(self, agents: int = 4, cells: int = 12, length: int = 6, stay: int = 4) -> None:
        super().__init__()
        self.possible_agents = [f"agent_{number}" for number in range(agents)]
        self._cells, self._length, self._stay = cells, length, stay
        self.render_mode = None

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(0, 9, (10,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(3)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self._at = {agent: int(rng.integers(self._cells)) for agent in self.agents}
        self._coins = rng.integers(0, 2, self._cells)
        self._turns = dict.fromkeys(self.agents, 0)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations, self.truncations = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = self.agents[0]

    def observe(self, agent: str) -> Any:
        near = (self._at[agent] + np.arange(-2, 3)) % self._cells
        taken = [sum(self._at[other] == cell for other in self.agents) for cell in near]
        return np.concatenate([self._coins[near], taken]).astype(np.float32)

    def step(self, action: int) -> None:
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        following = self._after(agent)
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        self._at[agent] = cell = (self._at[agent] + action - 1) % self._cells
        if self._coins[cell]:
            self._coins[cell], self._coins[(7 * cell + 3) % self._cells] = 0, 1
            for other in self.agents:
                self.rewards[other] = 0.25 if abs(self._at[other] - cell) == 1 else 0.0
            self.rewards[agent] = 1.0
        self._turns[agent] += 1
        self.terminations[agent] = self._turns[agent] >= self._stay + int(agent[-1])
        self.truncations[agent] = self._turns[agent] >= self._length and not self.terminations[agent]
        self._accumulate_rewards()
        self.agent_selection = following
        self._deads_step_first()

    def _after(self, agent: str) -> str:
        return self.agents[(self.agents.index(agent) + 1) % len(self.agents)]

    def close(self) -> None:
        pass


class Undeclared(Coins):
    """The same, which does not say that looking changes nothing."""

    metadata: ClassVar[dict[str, Any]] = {"name": "undeclared"}


class Blurred(Undeclared):
    """The same, whose agents see noise: looking changes what is seen next."""

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        super().reset(seed, options)
        self._noise = np.random.default_rng(seed)

    def observe(self, agent: str) -> Any:
        return super().observe(agent) + self._noise.random(10, np.float32)


class InParallel:
    """The parallel form of a world whose agents act one after another: it has that one as `aec_env`."""

    metadata: ClassVar[dict[str, Any]] = {"name": "in_parallel"}

    def __init__(self) -> None:
        self.aec_env = Coins()
        self.possible_agents = self.aec_env.possible_agents

    def observation_space(self, agent: str) -> Any:
        return self.aec_env.observation_space(agent)

    def action_space(self, agent: str) -> Any:
        return self.aec_env.action_space(agent)

    def close(self) -> None:
        self.aec_env.close()
