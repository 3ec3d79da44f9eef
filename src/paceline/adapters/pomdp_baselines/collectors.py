"""The collectors of a learner: one for each place where rollouts are played, by its policy or with random actions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium

from paceline.adapters.pomdp_baselines.agents import MISSION, Agent
from paceline.adapters.pomdp_baselines.manager import ParallelEnvManager
from paceline.collect import Collection, Collector, Leaks
from paceline.errors import BadInput
from paceline.types import Mission

Asks = Callable[[Collector, Any], Collection]
"""Has a collector play something, with these weights."""


class Collectors:
    """Collectors that last from one iteration to the next.

    Args:
        env: A function that gives the env in this process.
        agent: A function that gives the agent.
        options: For every collector: tasks, seed, lanes, device.
    """

    def __init__(self, env: Callable[[], Any], agent: Callable[[], Any], **options: Any) -> None:
        self._env, self._agent, self._options = env, agent, options
        self._kept: dict[tuple[int, bool], tuple[Any, Collector]] = {}
        self._leaks: Leaks | None = None

    def ask(self, parallel_env: ParallelEnvManager | None, random_actions: bool, asks: Asks) -> Collection:
        """Has rollouts played: by the workers of a manager, or here.

        An agent whose weights cannot be told apart from it gets a new collector each time, which copies it as it is.
        """
        weights = None if random_actions else getattr(self._agent(), "weights", None)
        if not random_actions and weights is None:
            with self._made(parallel_env, random_actions) as collector:
                return asks(collector, None)
        key = (id(parallel_env), random_actions)
        if key not in self._kept:
            self._kept[key] = parallel_env, self._made(parallel_env, random_actions)
        return asks(self._kept[key][1], None if weights is None else weights())

    def close(self) -> None:
        """Ends them. May be called again."""
        while self._kept:
            self._kept.popitem()[1][1].close()

    def _made(self, parallel_env: ParallelEnvManager | None, random_actions: bool) -> Collector:
        agent = None if random_actions else self._agent()
        policy = agent.factory if isinstance(agent, Agent) else agent
        given = {**self._options, "random_actions": random_actions}
        if parallel_env is None:
            made = Collector(Mission(MISSION, _recipe(self._env())), policy, plan=0, **given)
        else:
            made = Collector(Mission(MISSION, parallel_env.env_fns[0]), policy, pool=parallel_env.pool, **given)
        self._leaks = made.leaks = self._leaks or made.leaks
        return made


def _recipe(env: Any) -> Callable[[], Any]:
    if getattr(env, "spec", None) is None:
        raise BadInput(f"{env} was not made by its id, so no other can be made like it: make it with make_env")
    return partial(gymnasium.make, env.spec)
