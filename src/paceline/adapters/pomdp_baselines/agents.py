"""The kinds of agents that pomdp-baselines knows, and the agent of a learner: a policy of ours under their names."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np

from paceline.errors import BadInput
from paceline.learning import Markov, Memory, MemoryMarkov
from paceline.seeds import seed_of
from paceline.types import Seat

MISSION = "train_env"
"""How seats and collectors name the env of a learner."""


class AGENT_ARCHS(StrEnum):  # noqa: N801 - its users know it so
    """Kinds of agents: what actor and critic see."""

    Markov = "markov"
    """Both see the observation only."""
    Memory = "memory"
    """Both have a memory of observations, actions and rewards, over all episodes of a task."""
    Memory_Markov = "memory_markov"
    """The actor sees the observation only, the critic has a memory."""


_POLICIES: dict[AGENT_ARCHS, Any] = {
    AGENT_ARCHS.Markov: Markov,
    AGENT_ARCHS.Memory: Memory,
    AGENT_ARCHS.Memory_Markov: MemoryMarkov,
}


class Agent:
    """The agent of a learner. Collectors play with copies of its policy, and are given its weights each time.

    Args:
        arch: Which kind, or its word: "markov", "memory", "memory_markov".
        observation_space: What it sees.
        action_space: What it does.
        lanes: Rows of a forward pass. Part of the result: another number gives other bits.
        device: Where the network is put.
        seed: What the first weights, and the noise of `act`, follow from.
        keywords: For the policy: `hidden`, `memory`, `cell` and others; see `paceline.learning`.

    Raises:
        BadInput: there is no such kind, or the policy cannot be built so.
    """

    def __init__(
        self,
        arch: AGENT_ARCHS | str,
        observation_space: Any,
        action_space: Any,
        *,
        lanes: int = 8,
        device: str = "cpu",
        seed: int = 0,
        **keywords: Any,
    ) -> None:
        if arch not in list(AGENT_ARCHS):
            raise BadInput(f"arch={arch!r}: there are {', '.join(map(repr, map(str, AGENT_ARCHS)))}")
        self.arch = AGENT_ARCHS(arch)
        """Which kind it is."""
        self.factory = partial(_POLICIES[self.arch], **{"seed": seed, **keywords})
        """Builds its policy for a seat, in any process."""
        self._seat = Seat("agent", 0, observation_space, action_space, MISSION, device)
        try:
            self.policy = self.factory(self._seat)
            """Its policy in this process; a learner changes `policy.network`."""
        except TypeError as error:
            raise BadInput(f"an agent {self.arch.value!r} cannot be built with {keywords}: {error}") from error
        self._seed, self._lanes = seed, lanes
        self._begun: dict[int, int] = {}  # row → how often it has begun

    @property
    def network(self) -> Any:
        """Actor and critic: a `torch.nn.Module`."""
        return self.policy.network

    def weights(self) -> dict[str, Any]:
        """The weights by name: copies."""
        weights: dict[str, Any] = self.policy.weights()
        return weights

    def load(self, version: int, weights: Any) -> None:
        """Takes other weights."""
        self.policy.load(version, weights)

    def begin(self, row: int = 0) -> None:
        """Forgets what it remembers in a row: a rollout begins there."""
        count = self._begun[row] = self._begun.get(row, -1) + 1
        self.policy.begin([row], [seed_of(self._seed, "act", row, count)])

    def act(self, obs: Any, row: int | None = None, reward: float | None = None) -> Any:
        """Answers one observation, for loops that hold their envs themselves.

        Args:
            obs: The observation.
            row: Whose memory and noise: a number below `lanes`. An agent without a memory needs none.
            reward: What came of the last action in this row, for an agent with a memory.

        Raises:
            BadInput: there is no such row; or an agent with a memory is not told whose it is.
        """
        if row is None:
            if self.arch == AGENT_ARCHS.Memory:
                raise BadInput("an agent with a memory has one for each worker: act(obs, row=worker, reward=reward)")
            row = 0
        if not 0 <= row < self._lanes:
            raise BadInput(f"row={row}: the agent has lanes={self._lanes} rows, from 0 on")
        if row not in self._begun:
            self.begin(row)
        if reward is not None and isinstance(self.policy, Memory | MemoryMarkov):
            self.policy.tell_rows([row], np.array([reward], np.float32), np.zeros(1, bool), np.zeros(1, bool))
        mask = np.arange(self._lanes) == row
        return self.policy.act_batch([obs] * self._lanes, [None] * self._lanes, mask, ()).action[row]
