"""Rollout: one environment in play, and the rules of an episode, once: limits, ends, what is recorded.

    begin(seed, task) ──► what the agents see that are due ──► step(actions) ──► Step ──► … ──► over ──► episode

A rollout may be begun again and again. Each play has an environment as new: the one at hand if the mission declares
that it may be reused and the last play came to its end, otherwise another one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from paceline.engine import put_back, take
from paceline.errors import BadInput
from paceline.kinds import Single, as_parallel, check_infos, parts_of, shown
from paceline.lasting import LASTING
from paceline.ordered import Ordered
from paceline.seeds import RunningDigest
from paceline.spaces import has_nan
from paceline.types import Episode, Mission, Seat, Step, Task, Totals

Actions = Mapping[str, Any]
Observations = dict[str, Any]


class World(Protocol):
    """What is played: a `Rollout`, or several that are stepped together."""

    @property
    def over(self) -> bool:
        """Whether the play has ended."""

    @property
    def episode(self) -> Any:
        """The record of the play."""

    def begin(self, seed: Any, task: Any = None) -> Mapping[Any, Any]:
        """Begins a play; gives what the agents that are due see. Several rollouts take a seed and a task each."""

    def step(self, actions: Mapping[Any, Any]) -> Step:
        """Plays one step."""


class Acts(Protocol):
    """What answers for the seats: a `Team`."""

    @property
    def extras(self) -> Mapping[Any, Mapping[str, Any]]:
        """What the last answers came with beside actions, by agent."""

    def act(self, observations: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """Gives an action for every agent that is due."""

    def tell(self, step: Step) -> None:
        """Takes the outcome of a step, for those policies that want to know it."""


class Records(Protocol):
    """What writes a play down: a `Tape`."""

    def act(
        self, observations: Mapping[Any, Any], actions: Mapping[Any, Any], extras: Mapping[Any, Mapping[str, Any]]
    ) -> None:
        """Takes what was seen and done, before the environment can write into it."""

    def step(self, step: Step) -> None:
        """Takes what came of it."""


def play(world: World, team: Acts, seed: Any, task: Any = None, tape: Records | None = None) -> Any:
    """Plays one episode: the library in a few lines; the rest says where the two halves live.

    Args:
        world: What is played.
        team: What answers for its agents.
        seed: The environment's seed.
        task: A `Task` that the environment is asked to set up; None: as it comes.
        tape: Writes it down.

    Returns:
        The world's record: an `Episode` of a rollout.
    """
    observations = world.begin(seed, task)
    while not world.over:
        actions = team.act(observations)
        if tape is not None:
            tape.act(observations, actions, team.extras)
        step = world.step(actions)
        if tape is not None:
            tape.step(step)
        team.tell(step)
        observations = step.observations
    return world.episode


class Rollout:
    """One environment in play.

    Args:
        mission: What to play.
        index: Which episode of the mission; every play that is begun bears this number.
        device: What seats are told of the device.
        options: For the mission's recipe, beside its own: a render mode, say.
        digested: Whether the record gets a digest; a job that keeps a tape has one of that.
        finite: Whether rewards must be finite, and NaN in observations is noticed.
    """

    def __init__(
        self,
        mission: Mission,
        index: int = 0,
        *,
        device: str = "cpu",
        options: Mapping[str, Any] | None = None,
        digested: bool = True,
        finite: bool = False,
    ) -> None:
        self.building = 0.0
        """Seconds that it took to build environments."""
        self._digested, self._finite = digested, finite
        self._who = f"mission {mission.name!r}"
        self._mission, self._index, self._device, self._options = mission, index, device, dict(options or {})
        self._kept = ("env", mission.recipe) if mission.reuse and mission.recipe and not options else None
        self.env = self._built() if self._kept is None else take(self._kept, self._built)
        self._is_ordered = isinstance(self.env, Ordered)
        self._running = RunningDigest()
        self._infos: dict[Any, Mapping[str, Any]] = {}
        self._replay: Path | None = None
        self.players: Mapping[str, str] = {}
        """Agent → the name of the policy that plays it, for the record."""
        self.nan_seen: str | None = None
        """Where an observation first held NaN, in words; None: none did."""
        self.begun = False
        self._named = all(type(agent) is str for agent in self.env.possible_agents)
        self.over = False
        self.episode = Episode(mission.name, index, 0)

    def _built(self) -> Any:
        begin = perf_counter()
        env = as_parallel(self._mission.build(**self._options), self._mission.name)
        self.building += perf_counter() - begin
        LASTING.meet(env)
        LASTING.begin()
        return env

    @property
    def made(self) -> Any:
        """The environment as the mission made it."""
        return self.env.made if isinstance(self.env, Single | Ordered) else self.env

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

    def begin(self, seed: int, task: Task | None = None, *, anew: bool = True) -> Observations:
        """Begins a play. Returns what the agents see that are due; until the next step, for an environment may write
        there.

        Args:
            seed: The environment's seed.
            task: What the environment is asked to set up; its `reset` must take `options` then.
            anew: Whether the environment is as new; False: the one at hand is reset, with whatever it has kept.

        Raises:
            BadInput: the environment did not give what its protocol says; whatever it raises itself comes as it is.
        """
        if anew:
            self._renew()
        LASTING.begin()
        self.begun, self.over = True, False
        self._running, self._infos = RunningDigest(), {}
        self.episode = Episode(self._mission.name, self._index, seed, seats=dict(self.players))
        answer = self.env.reset(seed=seed) if task is None else self.env.reset(seed=seed, options=dict(task.options))
        observations, infos = parts_of(answer, _RESET, f"{self._who}: reset()")
        check_infos(infos, self._who, "reset() of its environment")
        self.episode.rewards = {str(agent): 0.0 for agent in self.env.possible_agents}
        try:
            if self._digested:
                self._running.add(observations)
            self._look_for_nan(observations)
            if not self.env.agents:
                self._end(ended=True, truncated=False)
            return self._seen(observations)
        except _TANGLED:
            self._check("reset()", {"observations": observations})
            raise

    @property
    def is_used(self) -> bool:
        """Whether the environment at hand is not as new; one that was left in mid-play is not trusted."""
        return self.begun and not (self._mission.reuse and self.over)

    def _renew(self) -> None:
        """Makes sure that the environment is as new."""
        if self.is_used:
            self.env.close()
            self.env = self._built()

    def step(self, actions: Actions) -> Step:
        """Plays one step with the actions of those agents that are due.

        Raises:
            BadInput: as in `begin`.
        """
        named = {agent: actions[agent if self._named else str(agent)] for agent in self.env.agents}
        answer = self.env.step(named)
        if type(answer) is not tuple or len(answer) != len(_STEP):
            answer = parts_of(answer, _STEP, f"{self._who}: step()")
        if self._is_ordered and self._is_long_enough():
            answer = self.env.cut_off(answer)
        try:
            return self._taken(named, *answer)
        except _TANGLED:
            self._check("step()", dict(zip(_STEP, answer, strict=True)))
            raise

    def _taken(self, named: Actions, observations: Any, rewards: Any, ended: Any, cut: Any, infos: Any) -> Step:
        episode = self.episode
        if self._digested:
            self._running.add(named, observations, rewards, ended, cut)
        for agent, reward in rewards.items():
            number = float(reward)
            if self._finite and not math.isfinite(number):
                raise self._not_finite(agent, number, f"at step {episode.steps}")
            episode.rewards[str(agent)] += number
        check_infos(infos, self._who, "step() of its environment")
        self._infos.update(infos)  # the last that each agent was given: environments count in there
        episode.steps += 1
        self._look_for_nan(observations)
        last = {}
        if self._may_end(ended, cut):
            cut = self._end_if_due(ended, cut)
            last = {agent: obs for agent, obs in observations.items() if ended.get(agent) or cut.get(agent)}
        seen = {} if self.over else self._seen(observations)
        parts = (rewards, ended, cut, infos, last)
        return Step(seen, *(parts if self._named else map(_by_name, parts)))

    def _check(self, what: str, parts: Mapping[str, Any]) -> None:
        """Says what an environment got wrong; asked when its answer could not be used."""
        who = f"{self._who}: {what} of its environment"
        for name, part in parts.items():
            if not isinstance(part, Mapping):
                raise BadInput(f"{who} gave {shown(part)} as {name}; it must be a dict, by agent")
        for agent in self.env.agents:
            for name in [name for name in parts if name != "infos" and agent not in parts[name]]:
                raise BadInput(f"{who} gave no {name} for agent {agent!r}, who is in play")
        for agent, reward in parts.get("rewards", {}).items():
            if str(agent) not in self.episode.rewards:
                raise BadInput(f"{who} gave a reward for {agent!r}, who is none of possible_agents")
            if not _is_number(reward):
                raise BadInput(f"{who} gave {shown(reward)} as the reward of {agent!r}; it must be a number")

    def _not_finite(self, agent: Any, reward: float, when: str) -> BadInput:
        return BadInput(
            f"{self._who}: the environment gave {reward} as the reward of agent {str(agent)!r} "
            f"{when} (episode {self._index}, seed {self.episode.seed}); it must be a finite number"
        )

    @property
    def can_look(self) -> bool:
        """Whether agents may look before they are due: turns are ordered, and looking changes nothing."""
        return self._is_ordered and self.env.can_look

    def look(self) -> Observations:
        """What the agents see now that are in play and not due, where turns are ordered."""
        return {str(agent): seen for agent, seen in self.env.look().items()}

    def save_replay(self, path: Path, policies: Mapping[str, str]) -> None:
        """Has the next play written to a file; called before `begin`.

        Raises:
            BadInput: the environment keeps no replays.
        """
        if not hasattr(self.env, "save_replay"):
            raise BadInput(f"{self._who} keeps no replays: leave --save-replay-dir away")
        self.env.save_replay(path, policies)
        self._replay = path

    def close(self) -> None:
        """Ends the environment, or leaves it to a later rollout in this worker if the mission allows that."""
        if self._kept is not None and (self.over or not self.begun):  # one that was left in mid-play is not trusted
            put_back(self._kept, self.env)
        else:
            self.env.close()

    def _may_end(self, ended: Mapping[Any, Any], cut: Mapping[Any, Any]) -> bool:
        """Whether this was the last step for an agent, or for all, or cannot be read; hot, and nearly always not."""
        if any(ended.values()) or any(cut.values()) or not self.env.agents or ended.keys() != cut.keys() or not ended:
            return True
        return self._is_long_enough()

    def _is_long_enough(self) -> bool:
        """Whether the mission's limit is reached: of steps, or of ordered turns of the agent that is due."""
        limit = self._mission.steps
        return limit is not None and (self.env.turn if self._is_ordered else self.episode.steps) >= limit

    def _end_if_due(self, ended: Mapping[Any, Any], cut: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """Ends the play if this was its last step. Returns who was cut off, by the mission's limit too."""
        if not self.env.agents or all(ended[agent] or cut[agent] for agent in ended):
            self._end(ended=any(ended.values()), truncated=any(cut.values()))
        elif self._is_long_enough():
            self._end(ended=False, truncated=True)
            return {agent: bool(cut[agent]) or not ended[agent] for agent in cut}
        return cut

    def _end(self, *, ended: bool, truncated: bool) -> None:
        self.over = True
        LASTING.end()
        self.episode.ended, self.episode.truncated = bool(ended), bool(truncated)
        count = getattr(self.env, "episode_totals", None)
        totals = count() if callable(count) else None
        if isinstance(totals, Totals):
            self._take_totals(totals)
        else:
            self.episode.stats = _stats(self._infos)
        if self._replay is not None:
            self.episode.replay = str(self._replay)
        self.episode.digest = self._running.hexdigest() if self._digested else ""

    def _take_totals(self, totals: Totals) -> None:
        episode = self.episode
        for agent, reward in totals.rewards.items():
            if self._finite and not math.isfinite(reward):
                raise self._not_finite(agent, reward, f"in its totals, after {episode.steps} steps")
        episode.rewards, episode.stats = dict(totals.rewards), _stats(totals.stats)
        episode.game_stats = _numbers(totals.game_stats)
        episode.time_averaged_game_stats = _numbers(totals.time_averaged_game_stats)

    def _seen(self, observations: Mapping[Any, Any]) -> Observations:
        return {str(agent): observations[agent] for agent in self.env.agents}

    def _look_for_nan(self, observations: Mapping[Any, Any]) -> None:
        """Notes the first NaN in what agents are shown, also those that are in play no more."""
        if not self._finite or self.nan_seen is not None:
            return
        for agent, seen in observations.items():
            if has_nan(seen):
                episode = self.episode
                self.nan_seen = f"agent {str(agent)!r} of {episode.name} (seed {episode.seed}), step {episode.steps}"
                return


_RESET = ("observations", "infos")
_STEP = ("observations", "rewards", "terminations", "truncations", "infos")
_TANGLED = (LookupError, AttributeError, TypeError, ValueError)  # what becomes of the wrong parts when they are used


def _by_name(values: Mapping[Any, Any]) -> Mapping[str, Any]:
    """Agents by their names; an environment may have other keys for them."""
    return {str(agent): value for agent, value in values.items()}


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _stats(infos: Mapping[Any, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    return {str(agent): numbers for agent, info in infos.items() if (numbers := _numbers(info))}


def _numbers(info: Mapping[str, Any]) -> dict[str, float]:
    return {
        str(name): float(value)
        for name, value in info.items()
        if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    }
