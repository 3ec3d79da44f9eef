"""An env in play: actions of ours go in, and a digest of everything that comes back goes on record.

    Hands ── action ──► env ── observation, reward, flags ──► Moment, a digest of each

A digest is taken at once, so nothing that an env does to its observations later can change the record. Infos stay
out of it: they are free to hold wall times.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from paceline.kinds import Kind, kind_of
from paceline.policies.scripted_text import drawn_action
from paceline.rollout import play
from paceline.seeds import digest, env_seed, seed_of
from paceline.types import Step

PARTS = ("action", "observation", "reward", "terminated", "truncated")
Moment = tuple[str, ...]
"""One digest per part; a reset has only an observation, and the digest of None for the rest."""

_NOTHING = digest(None)
_ONLY = ""  # the agent of an env that has no agents
_MASK = "action_mask"


class Player:
    """One env that is played with sampled actions; from the same seed always with the same ones.

    It is the world half of `paceline.rollout.play`. A play has so many steps, through as many episodes as it takes: the
    reset after the end of an episode counts as a step in which no agent is due.

    Args:
        env: A Gymnasium `Env` or a PettingZoo `ParallelEnv`, or what makes a text environment look like the first.
        seed: Seeds the reset and the actions.
        seeded: Whether the resets after episodes are given seeds, too.
    """

    def __init__(self, env: Any, seed: int, seeded: bool = False) -> None:
        self.env = env
        self._seeded = seeded
        self.episode: list[Moment] = []
        """What has been recorded of the play."""
        self._seed = seed
        self._length = 0
        self._ended = True
        self._hands = Hands(env, seed)
        self._seen: tuple[Any, Any] = None, None

    def play(self, steps: int) -> list[Moment]:
        """Resets the env with the seed and makes so many steps; the actions start anew too."""
        self._length, self._hands = steps, Hands(self.env, self._seed)
        moments: list[Moment] = play(self, self._hands, self._seed)
        return moments

    @property
    def over(self) -> bool:
        """Whether the play is as long as it is to be."""
        return len(self.episode) > self._length

    def begin(self, seed: int, task: Any = None) -> dict[Any, Any]:
        """Resets the env with the seed."""
        self.episode = []
        return self._reset(seed=seed)

    def start(self) -> Moment:
        """Begins a play, for those that make its steps themselves, by `go_on`."""
        self._hands = Hands(self.env, self._seed)
        self.begin(self._seed)
        return self.episode[0]

    def step(self, actions: Mapping[Any, Any]) -> Step:
        """Makes a step, or resets the env if its episode has ended."""
        seen = self._reset(**self._next_seed()) if self._ended else self._step(actions)
        return Step(seen, {}, {}, {}, {}, {})

    def go_on(self, steps: int) -> list[Moment]:
        """Makes so many steps more."""
        before = len(self.episode)
        for _ in range(steps):
            self.step(self._hands.act(self._due()))
        return self.episode[before:]

    def with_env(self, env: Any) -> Player:
        """The same player at the same moment, but playing `env`."""
        other = copy.copy(self)
        other.env, other._hands, other.episode = env, self._hands.at(env), list(self.episode)
        return other

    def close(self) -> None:
        """Closes the env, if it can be closed; what goes wrong there does not change how it played."""
        with suppress(Exception):
            self.env.close()

    def _next_seed(self) -> dict[str, int]:
        return {"seed": env_seed(self._seed, "reset", len(self.episode))} if self._seeded else {}

    def _reset(self, **seed: int) -> dict[Any, Any]:
        self._seen = self.env.reset(**seed)
        self._ended = is_parallel(self.env) and not self.env.agents
        self.episode.append((_NOTHING, digest(self._seen[0]), _NOTHING, _NOTHING, _NOTHING))
        return self._due()

    def _step(self, actions: Mapping[Any, Any]) -> dict[Any, Any]:
        action = actions if is_parallel(self.env) else actions[_ONLY]
        taken = digest(action)  # before the env can change it
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._seen = observation, info
        self._ended = not self.env.agents if is_parallel(self.env) else bool(terminated or truncated)
        self.episode.append((taken, digest(observation), digest(reward), digest(terminated), digest(truncated)))
        return self._due()

    def _due(self) -> dict[Any, Any]:
        """Agent → what it sees, and the info that came with it; for those that are to act."""
        if self._ended:
            return {}
        if not is_parallel(self.env):
            return {_ONLY: self._seen}
        return {agent: (_of(self._seen[0], agent), _of(self._seen[1], agent)) for agent in self.env.agents}


class Hands:
    """Samples actions from copies of an env's own spaces, seeded by us: the env cannot draw from them.

    Where actions are words they are drawn from what the env shows.
    """

    extras: Mapping[Any, Mapping[str, Any]] = MappingProxyType({})

    def __init__(self, env: Any, seed: int) -> None:
        self._env, self._seed = env, seed
        self._spaces: dict[Any, Any] = {}
        self._words = np.random.default_rng(seed_of(seed, "actions", "words"))

    def at(self, env: Any) -> Hands:
        """The same hands at the same moment, at another env."""
        other = copy.copy(self)
        other._env, other._spaces, other._words = env, copy.deepcopy(self._spaces), copy.deepcopy(self._words)
        return other

    def act(self, observations: Mapping[Any, Any]) -> dict[Any, Any]:
        """An action for each agent that is due."""
        return {agent: self._action(agent, *seen) for agent, seen in observations.items()}

    def tell(self, step: Step) -> None:
        """Nothing that comes of an action changes the next one."""

    def _action(self, agent: Any, observation: Any, info: Any) -> Any:
        env = self._env
        if is_text(env):
            return drawn_action(env.action_names, observation, self._words)
        space = env.action_space(agent) if is_parallel(env) else env.action_space
        return self._sample(agent, space, observation, info)

    def _sample(self, agent: Any, space: Any, observation: Any, info: Any) -> Any:
        if agent not in self._spaces:
            self._spaces[agent] = copy.deepcopy(space)
            self._spaces[agent].seed(seed_of(self._seed, "actions", str(agent)) % 2**32)
        mask = _mask(observation, info) if hasattr(space, "n") else None
        return self._spaces[agent].sample() if mask is None else self._spaces[agent].sample(mask=mask)


def make_player(factory: Callable[[], Any], seed: int, seeded: bool = False) -> Player:
    """Builds an env and a player for it: the recipe of a pool's member."""
    return Player(factory(), seed, seeded)


def played(factory: Callable[[], Any], seed: int, steps: int, seeded: bool = False) -> list[Moment]:
    """Builds an env, plays it, closes it."""
    with closing(make_player(factory, seed, seeded)) as player:
        return player.play(steps)


def begins_again(moments: list[Moment]) -> bool:
    """Whether there is a reset among these moments beside the first."""
    return any(moment[0] == _NOTHING for moment in moments[1:])


def is_parallel(env: Any) -> bool:
    """Whether it is a PettingZoo `ParallelEnv`: its spaces are functions of the agent."""
    return kind_of(env) is Kind.PARALLEL


def is_text(env: Any) -> bool:
    """Whether its actions are words: the names that it gives, or free text. One with spaces is no such env."""
    return hasattr(env, "action_names") and not hasattr(env, "action_space")


@dataclass(frozen=True)
class Difference:
    """Where two records part: the number of the moment, the part of it, and whether the moment is a reset."""

    moment: int
    part: str
    at_reset: bool

    def __str__(self) -> str:
        if self.moment == 0:
            return f"the {self.part} of the first reset"
        return f"the {self.part} of " + (
            f"the reset after step {self.moment - 1}" if self.at_reset else f"step {self.moment}"
        )


def difference(one: list[Moment], other: list[Moment]) -> Difference | None:
    """The first moment at which two records differ; None if they are the same."""
    for number, (this, that) in enumerate(zip(one, other, strict=True)):
        for part, here, there in zip(PARTS, this, that, strict=True):
            if here != there:
                return Difference(number, part, at_reset=this[0] == _NOTHING)
    return None


def _of(values: Any, agent: Any) -> Any:
    return values.get(agent) if isinstance(values, Mapping) else None


def _mask(observation: Any, info: Any) -> Any:
    """An env that allows only some actions says so in the observation or in the info, by custom of the field."""
    for place in (observation, info):
        if isinstance(place, Mapping) and place.get(_MASK) is not None:
            return np.asarray(place[_MASK], np.int8)
    return None
