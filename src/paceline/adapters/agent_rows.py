"""Parallel envs of PettingZoo as one vector: a row per agent of each env.

agent a of env e ──► row e * agents + a of observations, actions, rewards and flags; infos["alive"] says who plays
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from paceline.engine import Plan
from paceline.errors import BadInput
from paceline.kinds import Kind, as_parallel, check_infos, kind_of, wrong_kind
from paceline.vector import PaceVectorEnv, make_vec
from paceline.vector.infos import add_apart

Array = np.ndarray[Any, Any]


def agent_rows(make: Callable[[], Any] | Sequence[Callable[[], Any]], num_envs: int = 1, **options: Any) -> AgentRows:
    """Makes a vector with a row for every agent of every env.

    An agent whose part is over before the others' has rows of zeros, and False in `infos["alive"]`, until its env
    begins again; an env begins again when nobody is left.

    Args:
        make: Makes an env of PettingZoo, or one such function per env. An AEC env is converted as `evaluate` does it;
            of one in turns every row is asked at every step, and `infos["active_agent"]` says whose action counts.
        num_envs: How many envs, if one function is given.
        options: For `make_vec`: seed, plan, autoreset, tasks …

    Raises:
        BadInput: it makes no env of PettingZoo, or the agents of an env have different spaces.
    """
    if isinstance(make, str):
        raise BadInput(
            f"agent_rows takes a function that makes an env, and {make!r} is a name: give the env's own "
            "(simple_spread_v3.parallel_env), or that of a mission: paceline.catalog.find_missions([name])[0].build"
        )
    if callable(make):
        return AgentRows(make_vec(partial(Together, make), num_envs, **options))
    return AgentRows(make_vec([partial(Together, each) for each in make], **options))


class Together(gymnasium.Env[Any, Any]):
    """All agents of one parallel env as one env, whose observation has a row per agent."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._env = _parallel(make())
        self._name = type(getattr(self._env, "unwrapped", self._env)).__name__
        self.agents = list(self._env.possible_agents)
        self.metadata = dict(getattr(self._env, "metadata", {}))  # an env by protocol alone may have none
        self.render_mode = getattr(self._env, "render_mode", None)
        self._seen = _shared_space(self._env.observation_space, self.agents, "observation")
        self._acts = _shared_space(self._env.action_space, self.agents, "action")
        count = len(self.agents)
        flags = spaces.MultiBinary(count)
        self.action_space = batch_space(self._acts, count)
        self.observation_space = spaces.Dict(
            seen=batch_space(self._seen, count),
            rewards=spaces.Box(-np.inf, np.inf, (count,), np.float64),
            ended=flags,
            cut=flags,
            alive=flags,
        )
        self._nobody = create_empty_array(self._seen, n=1, fn=np.zeros)
        self._begun = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode of all agents.

        Before its first seed an env of PettingZoo may draw from the system's entropy, so the first reset gives it one.
        """
        if seed is None and not self._begun:
            seed = int(self.np_random.integers(1 << 31))
        self._begun = True
        seen, infos = self._env.reset(seed=seed, options=options)
        return self._rows(seen, {}, {}, {}), self._said(infos, "reset()")

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Steps those who still play; the others' actions are not looked at."""
        playing = set(self._env.agents)
        each = zip(self.agents, iterate(self.action_space, action), strict=True)
        seen, rewards, ended, cut, infos = self._env.step({agent: act for agent, act in each if agent in playing})
        over = not self._env.agents
        said = self._said(infos, "step()")
        return self._rows(seen, rewards, ended, cut), float(sum(rewards.values())), over, False, said

    def render(self) -> Any:
        """What the env draws."""
        return self._env.render()

    def close(self) -> None:
        """Ends the env."""
        self._env.close()

    def _said(self, infos: dict[str, Any], what: str) -> dict[str, Any]:
        """Infos per agent; most envs have nothing to say."""
        check_infos(infos, self._name, what)
        # Pairs, because Gymnasium would take a dict apart.
        return {"agents": tuple(infos.items())} if any(infos.values()) else {}

    def _rows(self, seen: Any, rewards: Any, ended: Any, cut: Any) -> dict[str, Any]:
        nobody = next(iter(iterate(batch_space(self._seen, 1), self._nobody)))
        out: Any = create_empty_array(self._seen, n=len(self.agents), fn=np.zeros)
        return {
            "seen": concatenate(self._seen, [seen.get(agent, nobody) for agent in self.agents], out),
            "rewards": np.array([rewards.get(agent, 0.0) for agent in self.agents], np.float64),
            "ended": np.array([bool(ended.get(agent, False)) for agent in self.agents], np.int8),
            "cut": np.array([bool(cut.get(agent, False)) for agent in self.agents], np.int8),
            "alive": np.array([agent in seen for agent in self.agents], np.int8),
        }


class AgentRows(VectorEnv[Any, Any, Any]):
    """A vector of `Together`s, taken apart into a row per agent. Made by `agent_rows`."""

    def __init__(self, envs: PaceVectorEnv) -> None:
        self.envs, self.seed = envs, envs.seed
        self._apart = False
        self.agents: list[str] = self._of_one("agents")
        self.single_observation_space, self.single_action_space = self._of_one("_seen"), self._of_one("_acts")
        self.metadata, self.render_mode = envs.metadata, envs.render_mode
        self.num_envs = envs.num_envs * len(self.agents)
        seen = envs.single_observation_space["seen"]  # type: ignore[index]
        assert seen == batch_space(self.single_observation_space, len(self.agents))
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode of every env. Seeds are per env; of one per row an env gets its first row's."""
        if isinstance(seed, Sequence) and len(seed) == self.num_envs:
            seed = seed[:: len(self.agents)]
        rows, said = self.envs.reset(seed=seed, options=options)
        return _joined(rows["seen"]), self._infos(rows["alive"], said)

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Steps every agent once."""
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: Any) -> None:
        """Asks every env to step; `step_wait` gives what came out."""
        self.envs.step_async(_parted(actions, self.envs.num_envs))

    def step_wait(self) -> tuple[Any, Array, Array, Array, dict[Any, Any]]:
        """Waits for all envs."""
        rows, _, _, _, said = self.envs.step_wait()
        infos = self._infos(rows["alive"], said)
        rewards, ended, cut = (np.array(rows[name]) for name in ("rewards", "ended", "cut"))
        for env in np.flatnonzero(said.get("_final_obs", [])):  # what else is there is of the next episode
            final = said["final_obs"][env]
            rewards[env], ended[env], cut[env] = final["rewards"], final["ended"], final["cut"]
            self._add_finals(infos, int(env), final)
        self._add_told(infos, said.get("final_info", {}), lambda info: {"final_info": info})
        return _joined(rows["seen"]), rewards.ravel(), ended.ravel() != 0, cut.ravel() != 0, infos

    def call_some(self, rows: Sequence[int], method: str, args: tuple[Any, ...], *, record: bool = True) -> list[Any]:
        """Calls a method of the env behind each of these rows: once per env."""
        count = len(self.agents)
        envs = sorted({row // count for row in rows})
        answers = dict(zip(envs, self.envs.call_some(envs, method, args, record=record), strict=True))
        return [answers[row // count] for row in rows]

    def reset_each(self, seeds: Sequence[int | None], options: Sequence[dict[str, Any] | None]) -> tuple[Any, Any]:
        """As of `PaceVectorEnv`, for rows: an env gets the seed and the options of its first row."""
        count = len(self.agents)
        rows, said = self.envs.reset_each(seeds[::count], options[::count])
        return _joined(rows["seen"]), self._infos(rows["alive"], said)

    def tell_infos_apart(self) -> None:
        """From now on infos are {row: its info}."""
        self._apart = True

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method of every env, or gives an attribute of each."""
        return self.envs.call(name, *args, **kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of every env, once per row."""
        return tuple(value for value in self.envs.get_attr(name) for _ in self.agents)

    def render(self) -> tuple[Any, ...]:
        """What every env draws."""
        return self.envs.render()

    @property
    def plan(self) -> Plan:
        """Where the envs live, and why."""
        return self.envs.plan

    def close_extras(self, **kwargs: Any) -> None:
        """Ends every env and every worker."""
        self.envs.close()

    def __enter__(self) -> AgentRows:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _of_one(self, name: str) -> Any:
        return self.envs.call_some([0], "look", (name,), record=False)[0][0]

    def _infos(self, alive: Array, said: dict[str, Any]) -> dict[Any, Any]:
        infos: dict[Any, Any] = {"alive": alive.ravel() != 0, "_alive": np.ones(self.num_envs, np.bool_)}
        if self._apart:
            infos = {row: {"alive": flag} for row, flag in enumerate(infos["alive"].tolist())}
        self._add_told(infos, said, dict)
        return infos

    def _add(self, infos: dict[Any, Any], info: dict[str, Any], row: int) -> None:
        (add_apart if self._apart else self._add_info)(infos, info, row)

    def _add_told(self, infos: dict[str, Any], said: dict[str, Any], form: Callable[[Any], dict[str, Any]]) -> None:
        for env in np.flatnonzero(said.get("_agents", [])):
            for agent, info in said["agents"][env]:
                self._add(infos, form(info), int(env) * len(self.agents) + self.agents.index(agent))

    def _add_finals(self, infos: dict[str, Any], env: int, final: Any) -> None:
        """What those saw last who played to the end; the others' last rows were told when their part was over."""
        batch = batch_space(self.single_observation_space, len(self.agents))
        for place, seen in enumerate(iterate(batch, final["seen"])):
            if final["alive"][place]:
                self._add(infos, {"final_obs": seen}, env * len(self.agents) + place)


def _parallel(env: Any) -> Any:
    if kind_of(env) not in (Kind.PARALLEL, Kind.AEC):
        raise wrong_kind(env, "the function", "agent_rows takes PettingZoo envs and missions of mettagrid")
    return as_parallel(env, "agent_rows")


def _shared_space(space_of: Callable[[str], Any], agents: Sequence[str], what: str) -> Any:
    first = space_of(agents[0])
    for agent in agents[1:]:
        if space_of(agent) != first:
            raise BadInput(
                f"agent {agent!r} has the {what} space {space_of(agent)}, and {agents[0]!r} {first}: rows need the "
                "same for all; pad them first"
            )
    return first


def _joined(value: Any) -> Any:
    """(envs, agents, …) as (rows, …)."""
    if isinstance(value, dict):
        return {key: _joined(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_joined(part) for part in value)
    return value.reshape(-1, *value.shape[2:])


def _parted(value: Any, envs: int) -> Any:
    """(rows, …) as (envs, agents, …)."""
    if isinstance(value, dict):
        return {key: _parted(part, envs) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_parted(part, envs) for part in value)
    array = np.asarray(value)
    return array.reshape(envs, -1, *array.shape[1:])
