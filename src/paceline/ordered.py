"""Ordered turns: a PettingZoo AEC env in play, one agent due at a time, as its own rules say.

    reset(seed) ──► what the agent sees that is due ──► step({due: action}) ──► who is due next, and outcomes

An agent's outcome is what `last()` says when it is due again, or has ended: the rewards that it collected since it
acted, also those that other agents' actions gave it. So a step tells of the agents whose action has come to its end,
and of no others. What an agent gets before it has acted counts for its total, and for no action.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from paceline.errors import BadInput
from paceline.kinds import Kind, kind_of, parts_of
from paceline.spaces import same_bits

_LAST = ("observation", "reward", "terminated", "truncated", "info")
_IS_PURE = "observe_is_pure"

Outcomes = tuple[dict[Any, Any], dict[Any, Any], dict[Any, bool], dict[Any, bool], dict[Any, Any]]
"""Observations, rewards, terminations, truncations and infos, by agent."""


def ordered(make: Any, name: str, **options: Any) -> Ordered:
    """Makes an environment whose agents act one after another.

    Args:
        make: Makes a PettingZoo AEC env, or the parallel form of one, which has it as `aec_env`. If it has a parameter
            `turn` it is told "ordered".
        name: The mission's.
        **options: For `make`.

    Raises:
        BadInput: its agents act at once, or there is only one.
    """
    if _takes_turn(make):
        options = {"turn": "ordered", **options}
    env = make(**options)
    if kind_of(env) is Kind.AEC:
        return Ordered(env, name)
    inner = getattr(env, "aec_env", None)
    if inner is not None and kind_of(inner) is Kind.AEC:
        return Ordered(inner, name)
    made = type(getattr(env, "unwrapped", env)).__name__
    if hasattr(env, "close"):
        env.close()
    raise BadInput(
        f"turn='ordered': mission {name!r} is {kind_of(env).value} ({made}), which cannot be stepped agent by agent; "
        "give a PettingZoo AEC env, or leave turn away"
    )


def _takes_turn(make: Any) -> bool:
    try:
        return "turn" in inspect.signature(make).parameters
    except (TypeError, ValueError):  # of what is written in C
        return False


class Ordered:
    """An AEC env as the loop plays it: `agents` are those that are due, one at a time.

    Args:
        env: The env.
        name: The mission's, for messages.
    """

    def __init__(self, env: Any, name: str) -> None:
        self.made = self._env = env
        self._who = f"mission {name!r}"
        self.possible_agents = list(env.possible_agents)
        self.agents: list[Any] = []
        self._acted: dict[Any, int] = {}
        self._waiting: set[Any] = set()  # for the outcome of their last action
        self._is_looked_at = False

    def observation_space(self, agent: Any) -> Any:
        return self._env.observation_space(agent)

    def action_space(self, agent: Any) -> Any:
        return self._env.action_space(agent)

    @property
    def turn(self) -> int:
        """How often the agent that is due has acted before: a limit of turns is one of these."""
        return self._acted.get(self.agents[0], 0) if self.agents else 0

    def reset(self, seed: int, options: Mapping[str, Any] | None = None) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begins an episode; options are handed on only if there are any."""
        self._acted, self._waiting, self._is_looked_at = {}, set(), False
        self._env.reset(seed=seed, **({} if options is None else {"options": options}))
        observations, _, _, _, infos = self._outcomes()
        return observations, infos

    def step(self, actions: Mapping[Any, Any]) -> Outcomes:
        """Has the agent act that is due, and goes on to the next one that can."""
        ((agent, action),) = actions.items()
        self._env.step(action)
        self._acted[agent] = self._acted.get(agent, 0) + 1
        self._waiting.add(agent)
        return self._outcomes()

    def _outcomes(self) -> Outcomes:
        """What has come of whose actions, up to the agent that is due next. Those that have ended make no move."""
        env = self._env
        found: Outcomes = ({}, {}, {}, {}, {})
        self.agents = []
        while env.agents and not self.agents:
            agent = env.agent_selection
            last = parts_of(env.last(), _LAST, f"{self._who}: last()")
            self._tell(found, agent, last)
            if last[2] or last[3]:
                env.step(None)
            else:
                self.agents = [agent]
        return found

    def _tell(self, found: Outcomes, agent: Any, last: tuple[Any, ...]) -> None:
        self._waiting.discard(agent)
        found[0][agent] = deepcopy(last[0])  # an env may write into it when the next agent looks
        for part, value in zip(found[1:], last[1:], strict=True):
            part[agent] = value

    def cut_off(self, found: Outcomes) -> Outcomes:
        """The same outcomes, and those of all agents that wait for theirs: the play ends here."""
        env = self._env
        for agent in [agent for agent in env.agents if agent in self._waiting]:
            parts = env._cumulative_rewards, env.terminations, env.truncations, env.infos
            self._tell(found, agent, (env.observe(agent), *(part[agent] for part in parts)))
        return found

    @property
    def can_look(self) -> bool:
        """Whether the env declares that `observe` changes nothing: `metadata["observe_is_pure"]`."""
        return bool(getattr(self._env, "metadata", {}).get(_IS_PURE, False))

    def look(self) -> dict[Any, Any]:
        """What the agents see now that are in play and not due.

        Raises:
            BadInput: an agent that looks twice does not see the same: in every play the first look is made twice.
        """
        seen = self._seen()
        if not self._is_looked_at:
            self._is_looked_at = True
            second = self._seen()
            changed = [agent for agent in seen if not same_bits(second[agent], seen[agent])]
            if changed:
                raise BadInput(
                    f"{self._who}: what agent {changed[0]!r} sees changes if `observe` is called twice, so its agents "
                    "are asked in order only: leave speculate=True away"
                )
        return seen

    def _seen(self) -> dict[Any, Any]:
        env = self._env
        others = [
            agent
            for agent in env.agents
            if agent not in self.agents and not (env.terminations[agent] or env.truncations[agent])
        ]
        if hasattr(env, "observe_all"):  # an env of ours looks for all of them at once
            everyone = env.observe_all()
            return {agent: everyone[agent] for agent in others}
        return {agent: deepcopy(env.observe(agent)) for agent in others}

    def episode_totals(self) -> Any:
        """What the env has counted itself, if it does."""
        count = getattr(self._env, "episode_totals", None)
        return count() if callable(count) else None

    def render(self) -> Any:
        return self._env.render()

    def close(self) -> None:
        self._env.close()
