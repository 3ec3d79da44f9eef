"""Rollout: one environment in play, and the rules of an episode, once: limits, ends, what is recorded.

    reset() ──► observations of those who are due ──► step(actions) ──► … ──► over ──► episode

A Gymnasium `Env` is played as a world with one agent; a PettingZoo `ParallelEnv` as it is.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from paceline.errors import BadInput
from paceline.seeds import digest
from paceline.types import Mission, Seat

ONLY_AGENT = "agent_0"

Actions = Mapping[str, Any]
Observations = dict[str, Any]


@dataclass
class Episode:
    """The record of one play.

    Attributes:
        mission: Which mission.
        index: Which of its episodes.
        seed: The environment's seed.
        rewards: The sum of rewards per agent.
        steps: How many steps were played.
        ended: Whether the environment ended it by itself (else it was cut off).
        stats: Sums of the numbers that the environment gave in its infos, per agent.
        digest: SHA-256 over observations, actions, rewards and flags, step by step.
    """

    mission: str
    index: int
    seed: int
    rewards: dict[str, float] = field(default_factory=dict)
    steps: int = 0
    ended: bool = False
    stats: dict[str, dict[str, float]] = field(default_factory=dict)
    digest: str = ""


class Rollout:
    """One environment in play."""

    def __init__(self, mission: Mission, index: int, seed: int) -> None:
        self._mission = mission
        self._env = _as_parallel(mission.build(), mission.name)
        self._sha = hashlib.sha256()
        self.over = False
        self.episode = Episode(mission.name, index, seed)

    def seats(self) -> list[Seat]:
        """Who sits where, in the environment's order."""
        env = self._env
        return [
            Seat(str(agent), number, env.observation_space(agent), env.action_space(agent), self._mission.name)
            for number, agent in enumerate(env.possible_agents)
        ]

    def reset(self) -> Observations:
        """Begins the episode. Returns what everybody sees."""
        observations, _ = self._env.reset(seed=self.episode.seed)
        self.episode.rewards = {str(agent): 0.0 for agent in self._env.possible_agents}
        self._note("reset", observations)
        return self._seen(observations)

    def step(self, actions: Actions) -> Observations:
        """Plays one step with the actions of those who are due. Returns what they see next; nobody if it is over."""
        named = {agent: actions[str(agent)] for agent in self._env.agents}
        observations, rewards, ended, cut, infos = self._env.step(named)
        self.episode.steps += 1
        for agent, reward in rewards.items():
            self.episode.rewards[str(agent)] += float(reward)
        self._count(infos)
        self._note(named, observations, rewards, ended, cut)
        self._finish_if_due(ended, cut)
        return {} if self.over else self._seen(observations)

    def close(self) -> None:
        """Ends the environment."""
        self._env.close()

    def _finish_if_due(self, ended: Mapping[Any, Any], cut: Mapping[Any, Any]) -> None:
        limit = self._mission.steps
        all_done = not self._env.agents or all(ended[a] or cut[a] for a in ended)
        if all_done or (limit is not None and self.episode.steps >= limit):
            self.over = True
            self.episode.ended = all_done and any(ended.values())
            self.episode.digest = self._sha.hexdigest()

    def _seen(self, observations: Mapping[Any, Any]) -> Observations:
        """Copies: an environment may go on writing into what it has returned."""
        return {str(agent): _own(observations[agent]) for agent in self._env.agents}

    def _count(self, infos: Mapping[Any, Any]) -> None:
        for agent, info in infos.items():
            for name, value in info.items():
                if isinstance(value, int | float | np.number) and not isinstance(value, bool):
                    stats = self.episode.stats.setdefault(str(agent), {})
                    stats[name] = stats.get(name, 0.0) + float(value)

    def _note(self, *what: Any) -> None:
        self._sha.update(digest(what).encode())


def play(rollout: Rollout, act: Callable[[Observations], Actions]) -> Episode:
    """The library in five lines; the rest says where the two halves live."""
    obs = rollout.reset()
    while not rollout.over:
        obs = rollout.step(act(obs))
    return rollout.episode


def _own(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else copy.deepcopy(value)


def _as_parallel(env: Any, name: str) -> Any:
    if hasattr(env, "possible_agents") and hasattr(env, "agent_iter"):
        from pettingzoo.utils.conversions import aec_to_parallel

        return aec_to_parallel(env)
    if hasattr(env, "possible_agents"):
        return env
    if hasattr(env, "observation_space") and hasattr(env, "action_space"):
        return _Single(env)
    raise BadInput(f"mission {name!r} made a {type(env).__name__}: neither a Gymnasium Env nor a PettingZoo env")


class _Single:
    """A Gymnasium environment as a world with one agent."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self.possible_agents = [ONLY_AGENT]
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Any:
        return self._env.observation_space

    def action_space(self, agent: str) -> Any:
        return self._env.action_space

    def reset(self, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        self.agents = [ONLY_AGENT]
        obs, info = self._env.reset(seed=seed)
        return {ONLY_AGENT: obs}, {ONLY_AGENT: info}

    def step(self, actions: Actions) -> tuple[dict[str, Any], ...]:
        answer = self._env.step(actions[ONLY_AGENT])
        if answer[2] or answer[3]:
            self.agents = []
        return tuple({ONLY_AGENT: part} for part in answer)

    def close(self) -> None:
        self._env.close()
