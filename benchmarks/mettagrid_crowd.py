"""Policies of mettagrid for its benchmark, and the wrapper of the source document that ours is compared with.

A module of its own, and a small one: every worker imports it.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import numpy as np
from mettagrid.policy.policy import AgentPolicy, MultiAgentPolicy
from mettagrid.policy.policy_env_interface import PolicyEnvInterface
from mettagrid.simulator.interface import AgentObservation
from mettagrid.types import Action

_ROUNDS = 12_000  # of the loop in Thinker: about two milliseconds


class Heavy(AgentPolicy):
    """Does little, but holds a megabyte of state that changes with every step."""

    def __init__(self, interface: PolicyEnvInterface, agent_id: int = 0) -> None:
        super().__init__(interface)
        self._moves = [name for name in interface.action_names if name.startswith("move")]
        self._state = np.zeros(131072)
        self._state[0] = agent_id

    def step(self, obs: AgentObservation) -> Action:
        self._state[int(self._state[0]) % 1000 + 1] += len(obs.tokens)
        self._state[0] += 1
        return Action(self._moves[int(self._state[0]) % len(self._moves)])


class Thinker(AgentPolicy):
    """Computes for about two milliseconds in every step. It counts rounds, and does not look at a clock."""

    def __init__(self, interface: PolicyEnvInterface, agent_id: int = 0) -> None:
        super().__init__(interface)
        self._moves = [name for name in interface.action_names if name.startswith("move")]
        self._number = agent_id

    def step(self, obs: AgentObservation) -> Action:
        number = self._number + len(obs.tokens)
        for _ in range(_ROUNDS):
            number = (number * 1103515245 + 12345) & 0x7FFFFFFF
        self._number = number
        return Action(self._moves[(number >> 16) % len(self._moves)])


class Each(MultiAgentPolicy):
    """A policy per agent; they share nothing.

    Args:
        interface: The game.
        made: The class of the agents' policies.
    """

    def __init__(self, interface: PolicyEnvInterface, made: Any) -> None:
        super().__init__(interface)
        self._made = made

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        policy: AgentPolicy = self._made(self.policy_env_info, agent_id)
        return policy


class PickledEveryStep(AgentPolicy):
    """The design of the source document: the policy is pickled to an executor and back in every step, and each agent's
    answer is waited for before the next agent is asked.

    Args:
        policy: The policy.
        executor: Shared by all agents.
    """

    def __init__(self, policy: AgentPolicy, executor: Executor) -> None:
        super().__init__(policy.policy_env_info)
        self._policy, self._executor = policy, executor

    def step(self, obs: AgentObservation) -> Action:
        action, self._policy = self._executor.submit(_stepped, self._policy, obs).result()
        return action

    def reset(self, simulation: Any = None) -> None:
        self._policy.reset()


def _stepped(policy: AgentPolicy, obs: AgentObservation) -> tuple[Action, AgentPolicy]:
    return policy.step(obs), policy
