"""Rollout: one environment in play, and the rules of an episode, once: limits, ends, what is recorded.

    reset() ──► what those see who are due ──► step(actions) ──► … ──► over ──► episode

A Gymnasium `Env` is played as a world with one agent; a PettingZoo `ParallelEnv` as it is; an AEC env as PettingZoo
itself makes a parallel one of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from paceline.errors import BadInput
from paceline.seeds import RunningDigest
from paceline.types import Episode, Mission, Seat, Totals

ONLY_AGENT = "agent_0"
"""The name of the one agent of a Gymnasium env."""

Actions = Mapping[str, Any]
Observations = dict[str, Any]


class Acts(Protocol):
    """Whoever answers for the seats: a `Team`."""

    def act(self, observations: Observations) -> Actions:
        """Gives an action for everybody who is due."""


def play(rollout: Rollout, team: Acts) -> Episode:
    """The library in five lines; the rest says where the two halves live."""
    obs = rollout.reset()
    while not rollout.over:
        obs = rollout.step(team.act(obs))
    return rollout.episode


class Rollout:
    """One environment in play.

    Args:
        mission: What to play.
        index: Which episode of the mission.
        seed: The environment's seed.
        device: What seats are told of the device.
        options: For the mission's recipe, beside its own: a render mode, say.
    """

    def __init__(
        self,
        mission: Mission,
        index: int,
        seed: int,
        *,
        device: str = "cpu",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._mission = mission
        self._device = device
        self._shelf = None if options or not mission.reuse else _shelf(mission)
        self.env = self._shelf.pop() if self._shelf else as_parallel(mission.build(**(options or {})), mission.name)
        self._running = RunningDigest()
        self._infos: dict[Any, Mapping[str, Any]] = {}
        self._replay: Path | None = None
        self.over = False
        self.episode = Episode(mission.name, index, seed)

    @property
    def made(self) -> Any:
        """The environment as the mission made it."""
        return self.env.made if isinstance(self.env, _Single) else self.env

    def seats(self) -> list[Seat]:
        """Who sits where, in the environment's order."""
        env = self.env
        return [
            Seat(
                str(agent),
                number,
                env.observation_space(agent),
                env.action_space(agent),
                self._mission.name,
                self._device,
            )
            for number, agent in enumerate(env.possible_agents)
        ]

    def reset(self) -> Observations:
        """Begins the episode. Returns what everybody sees; until the next step, for an environment may write there.

        Raises:
            BadInput: the environment did not give what its protocol says; whatever it raises itself comes as it is.
        """
        answer = self.env.reset(seed=self.episode.seed)
        observations, _ = _parts(answer, _RESET, f"mission {self._mission.name!r}: reset()")
        self.episode.rewards = {str(agent): 0.0 for agent in self.env.possible_agents}
        try:
            self._running.add(observations)
            if not self.env.agents:
                self._end(ended=True, truncated=False)
            return self._seen(observations)
        except _TANGLED:
            self._check("reset()", {"observations": observations})
            raise

    def step(self, actions: Actions) -> Observations:
        """Plays one step with the actions of those who are due. Returns what they see next; nobody if it is over.

        Raises:
            BadInput: as in `reset`.
        """
        named = {agent: actions[str(agent)] for agent in self.env.agents}
        answer = self.env.step(named)
        if type(answer) is not tuple or len(answer) != len(_STEP):
            answer = _parts(answer, _STEP, f"mission {self._mission.name!r}: step()")
        try:
            return self._taken(named, *answer)
        except _TANGLED:
            self._check("step()", dict(zip(_STEP, answer, strict=True)))
            raise

    def _taken(self, named: Actions, observations: Any, rewards: Any, ended: Any, cut: Any, infos: Any) -> Observations:
        episode = self.episode
        self._running.add(named, observations, rewards, ended, cut)
        for agent, reward in rewards.items():
            episode.rewards[str(agent)] += float(reward)
        self._infos.update(infos)  # the last that each agent was given: environments count in there
        episode.steps += 1
        self._end_if_due(ended, cut)
        return {} if self.over else self._seen(observations)

    def _check(self, what: str, parts: Mapping[str, Any]) -> None:
        """Says what an environment got wrong; asked when its answer could not be used."""
        who = f"mission {self._mission.name!r}: {what} of its environment"
        for name, part in parts.items():
            if not isinstance(part, Mapping):
                raise BadInput(f"{who} gave {_shown(part)} as {name}; it must be a dict, by agent")
        for agent in self.env.agents:
            for name in [name for name in parts if name != "infos" and agent not in parts[name]]:
                raise BadInput(f"{who} gave no {name} for agent {agent!r}, who is in play")
        for agent, reward in parts.get("rewards", {}).items():
            if str(agent) not in self.episode.rewards:
                raise BadInput(f"{who} gave a reward for {agent!r}, who is none of possible_agents")
            if not _is_number(reward):
                raise BadInput(f"{who} gave {_shown(reward)} as the reward of {agent!r}; it must be a number")

    def save_replay(self, path: Path, policies: Mapping[str, str]) -> None:
        """Has the episode written to a file; called before `reset`.

        Raises:
            BadInput: the environment keeps no replays.
        """
        if not hasattr(self.env, "save_replay"):
            raise BadInput(f"mission {self._mission.name!r} keeps no replays: leave --save-replay-dir away")
        self.env.save_replay(path, policies)
        self._replay = path

    def close(self) -> None:
        """Ends the environment, or puts it by for another episode if the mission allows that."""
        if self._shelf is not None and self.over:  # one that was left in mid-play is not trusted
            self._shelf.append(self.env)
        else:
            self.env.close()

    def _end_if_due(self, ended: Mapping[Any, Any], cut: Mapping[Any, Any]) -> None:
        limit = self._mission.steps
        if not self.env.agents or all(ended[agent] or cut[agent] for agent in ended):
            self._end(ended=any(ended.values()), truncated=any(cut.values()))
        elif limit is not None and self.episode.steps >= limit:
            self._end(ended=False, truncated=True)

    def _end(self, *, ended: bool, truncated: bool) -> None:
        self.over = True
        self.episode.ended, self.episode.truncated = bool(ended), bool(truncated)
        count = getattr(self.env, "episode_totals", None)
        totals = count() if callable(count) else None
        if isinstance(totals, Totals):
            self._take_totals(totals)
        else:
            self.episode.stats = _stats(self._infos)
        if self._replay is not None:
            self.episode.replay = str(self._replay)
        self.episode.digest = self._running.hexdigest()

    def _take_totals(self, totals: Totals) -> None:
        episode = self.episode
        episode.rewards, episode.stats = dict(totals.rewards), _stats(totals.stats)
        episode.game_stats = _numbers(totals.game_stats)
        episode.time_averaged_game_stats = _numbers(totals.time_averaged_game_stats)

    def _seen(self, observations: Mapping[Any, Any]) -> Observations:
        return {str(agent): observations[agent] for agent in self.env.agents}


_RESET = ("observations", "infos")
_STEP = ("observations", "rewards", "terminations", "truncations", "infos")
_ONE = ("observation", "reward", "terminated", "truncated", "info")
_TANGLED = (LookupError, AttributeError, TypeError, ValueError)  # what becomes of the wrong parts when they are used


def _parts(answer: Any, names: tuple[str, ...], who: str) -> tuple[Any, ...]:
    """What an environment gave, taken apart.

    Raises:
        BadInput: there are more parts, or fewer; the interfaces of old gave fewer.
    """
    if isinstance(answer, tuple | list) and len(answer) == len(names):
        return tuple(answer)
    what = f"{len(answer)} values" if isinstance(answer, tuple | list) else _shown(answer)
    raise BadInput(f"{who} of its environment gave {what}; it must give {len(names)}: {', '.join(names)}")


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _shown(value: Any) -> str:
    shown = repr(value)
    return f"{shown if len(shown) < 60 else shown[:57] + '...'} ({type(value).__name__})"


def _stats(infos: Mapping[Any, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    return {str(agent): numbers for agent, info in infos.items() if (numbers := _numbers(info))}


def _numbers(info: Mapping[str, Any]) -> dict[str, float]:
    return {
        str(name): float(value)
        for name, value in info.items()
        if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    }


# -- environments that serve again -------------------------------------------------------------------------

_shelves: dict[str, list[Any]] = {}


def _shelf(mission: Mission) -> list[Any]:
    return _shelves.setdefault(f"{mission.name} {sorted(mission.options.items(), key=str)!r}", [])


def close_shelves() -> None:
    """Ends the environments that were put by in this process."""
    while _shelves:
        for env in _shelves.popitem()[1]:
            env.close()


# -- every kind of environment as one kind -----------------------------------------------------------------


def as_parallel(env: Any, name: str) -> Any:
    """Gives what follows PettingZoo's parallel protocol.

    Raises:
        BadInput: it is no environment that we know.
    """
    if hasattr(env, "possible_agents") and hasattr(env, "agent_iter"):
        return _converted(env)
    if hasattr(env, "possible_agents"):
        return env
    if hasattr(env, "observation_space") and hasattr(env, "action_space"):
        return _Single(env, name)
    raise BadInput(
        f"mission {name!r} made a {type(env).__name__}, which is neither a Gymnasium Env nor a PettingZoo env"
    )


def _converted(env: Any) -> Any:
    """PettingZoo has two conversions: for games in which all move before anything happens, and for turns."""
    from pettingzoo.utils.conversions import aec_to_parallel, turn_based_aec_to_parallel

    parallelizable = env.unwrapped.metadata.get("is_parallelizable", False)
    return aec_to_parallel(env) if parallelizable else turn_based_aec_to_parallel(env)


class _Single:
    """A Gymnasium environment as a world with one agent."""

    def __init__(self, env: Any, name: str) -> None:
        self.made = self._env = env
        self._name = f"mission {name!r}"
        self.possible_agents = [ONLY_AGENT]
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Any:
        return self._env.observation_space

    def action_space(self, agent: str) -> Any:
        return self._env.action_space

    def reset(self, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        self.agents = [ONLY_AGENT]
        observation, info = _parts(self._env.reset(seed=seed), ("observation", "info"), f"{self._name}: reset()")
        return {ONLY_AGENT: observation}, {ONLY_AGENT: info}

    def step(self, actions: Actions) -> tuple[dict[str, Any], ...]:
        answer = self._env.step(actions[ONLY_AGENT])
        if type(answer) is not tuple or len(answer) != len(_ONE):
            answer = _parts(answer, _ONE, f"{self._name}: step()")
        if answer[2] or answer[3]:
            self.agents = []
        return tuple({ONLY_AGENT: part} for part in answer)

    def render(self) -> Any:
        return self._env.render()

    def close(self) -> None:
        self._env.close()
