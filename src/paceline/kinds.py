"""Kinds of environments: which protocol an env follows, and every kind that can be played as one kind.

A Gymnasium `Env` is played as a world with one agent; a PettingZoo `ParallelEnv` as it is; an AEC env as PettingZoo
itself makes a parallel one of it. Entry points that do not take a kind refuse it with `wrong_kind`, which says what
does. docs/kinds.md has the table.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from paceline.errors import BadInput, brief

ONLY_AGENT = "agent_0"
"""The name of the one agent of a Gymnasium env."""

_ONE = ("observation", "reward", "terminated", "truncated", "info")
_OF_ENV = ("unwrapped", "metadata", "render_mode", "spec", "get_wrapper_attr", "has_wrapper_attr")
_API = (
    "Gymnasium's is reset(seed=…, options=…), which gives (observation, info), and step(action), which gives "
    "(observation, reward, terminated, truncated, info)"
)
_OF_GYMNASIUM = ("observation_space", "action_space", "reset", "step")


class Kind(Enum):
    """What an env is, in the words of a message."""

    GYMNASIUM = "a Gymnasium env"
    PARALLEL = "a PettingZoo parallel env"
    AEC = "a PettingZoo AEC env"
    TEXT = "a text environment"
    VECTOR = "a vector of envs"
    OTHER = "no environment"


_ROWS = "paceline.adapters.agent_rows.agent_rows makes a vector of them, with a row for every agent"
_INSTEAD = {
    Kind.GYMNASIUM: "paceline.make_vec makes a vector of them",
    Kind.PARALLEL: _ROWS,
    Kind.AEC: _ROWS,
    Kind.TEXT: "paceline.Groups and `paceline rollout` play text environments, `paceline doctor` examines them",
    Kind.VECTOR: "give what makes one of its envs; a mission of mettagrid is named as mettagrid:NAME",
    Kind.OTHER: "give a function or a class that makes one",
}


def kind_of(env: Any) -> Kind:
    """Tells an env's kind by what it has; what it answers is not looked at. Wrappers are what they wrap."""
    if hasattr(env, "agent_iter") and (hasattr(env, "possible_agents") or hasattr(env, "last")):
        return Kind.AEC
    if hasattr(env, "possible_agents") and callable(getattr(env, "action_space", callable)):
        return Kind.PARALLEL
    if hasattr(env, "single_observation_space") or (hasattr(env, "num_envs") and hasattr(env, "step_wait")):
        return Kind.VECTOR
    if _is_gymnasium(env) or (hasattr(env, "observation_space") and hasattr(env, "action_space")):
        return Kind.GYMNASIUM
    spaceless = not hasattr(env, "observation_space") and not hasattr(env, "action_space")
    if spaceless and all(callable(getattr(env, name, None)) for name in ("reset", "step", "render")):
        return Kind.TEXT
    return Kind.OTHER


def _is_gymnasium(env: Any) -> bool:
    gymnasium = sys.modules.get("gymnasium")  # where it is not imported there are no envs of it
    return gymnasium is not None and isinstance(env, gymnasium.Env)


def wrong_kind(env: Any, maker: str, taker: str) -> BadInput:
    """The error of an entry point that does not take such an env.

    Args:
        env: What was made.
        maker: What made it.
        taker: What takes which kinds.
    """
    kind = kind_of(env)
    name = type(getattr(env, "unwrapped", env)).__name__
    made = f"{brief(env, 60)}, which is {kind.value}" if kind is Kind.OTHER else f"{kind.value} ({name})"
    return BadInput(f"{maker} made {made}; {taker}: {_INSTEAD[kind]}")


def check_names_no_mission(name: str) -> None:
    """Raises `BadInput` for the name of a mission where an id of Gymnasium is wanted."""
    if name.startswith(("pz:", "mettagrid:")):
        raise BadInput(
            f"{name!r} names a mission, whose envs have several agents; make_vec takes Gymnasium envs: {_ROWS}, from "
            f"paceline.catalog.find_missions([{name!r}])[0].build"
        )


def check_gymnasium(env: Any, maker: str, taker: str, *, derived: bool = False) -> None:
    """Raises `BadInput` for what is no Gymnasium env, or lacks a part of one.

    Args:
        env: What was made.
        maker: What made it.
        taker: What takes which kinds.
        derived: Whether what an env has from `gymnasium.Env` is needed, too: an env by protocol alone has none of it.
    """
    if kind_of(env) is not Kind.GYMNASIUM:
        raise wrong_kind(env, maker, taker)
    made = f"{maker} made an env ({type(env).__name__})"
    if missing := [part for part in _OF_GYMNASIUM if not hasattr(env, part)]:
        raise BadInput(f"{made} without {' and '.join(missing)}: a Gymnasium env has them")
    if not _takes_seed(env.reset):
        raise BadInput(f"{made} whose reset() takes no seed, as in gym's API of old: {_API}")
    if derived and (missing := [part for part in _OF_ENV if not hasattr(env, part)]):
        raise BadInput(f"{made} without {', '.join(missing)}: derive it from gymnasium.Env, which has them")


def _takes_seed(reset: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(reset).parameters
    except (TypeError, ValueError):  # of what is written in C
        return True
    return "seed" in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def as_parallel(env: Any, name: str) -> Any:
    """Gives what follows PettingZoo's parallel protocol.

    Raises:
        BadInput: it is an environment that has no agents with spaces, or none at all.
    """
    kind = kind_of(env)
    if kind is Kind.PARALLEL:
        return env
    if kind is Kind.AEC:
        return parallel_of(env)
    check_gymnasium(env, f"mission {name!r}", "missions are Gymnasium and PettingZoo envs")
    return Single(env, name)


def parallel_of(env: Any) -> Any:
    """An AEC env as a parallel one.

    PettingZoo has two conversions: for games in which all move before anything happens, and for turns. After the second
    every agent is asked at every step, the action of the agent whose turn it is counts, and infos name that agent.
    """
    try:
        from pettingzoo.utils import conversions
    except ImportError:
        raise BadInput(
            "an AEC env is played as PettingZoo makes a parallel one of it: pip install pettingzoo"
        ) from None
    parallelizable = env.unwrapped.metadata.get("is_parallelizable", False)
    return (conversions.aec_to_parallel if parallelizable else conversions.turn_based_aec_to_parallel)(env)


def asks_all_in_turns(env: Any) -> bool:
    """Whether every agent is asked at every step though one action counts: what PettingZoo makes of turns."""
    conversions = sys.modules.get("pettingzoo.utils.conversions")
    return conversions is not None and isinstance(env, conversions.turn_based_aec_to_parallel_wrapper)


class Single:
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

    def reset(self, seed: int, options: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begins an episode; options are handed on only if there are any, for many an env takes none."""
        self.agents = [ONLY_AGENT]
        given = {} if options is None else {"options": options}
        answer = self._env.reset(seed=seed, **given)
        observation, info = parts_of(answer, ("observation", "info"), f"{self._name}: reset()")
        return {ONLY_AGENT: observation}, {ONLY_AGENT: info}

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        answer = self._env.step(actions[ONLY_AGENT])
        if type(answer) is not tuple or len(answer) != len(_ONE):
            answer = parts_of(answer, _ONE, f"{self._name}: step()")
        if answer[2] or answer[3]:
            self.agents = []
        seen, reward, ended, cut, info = answer
        return {ONLY_AGENT: seen}, {ONLY_AGENT: reward}, {ONLY_AGENT: ended}, {ONLY_AGENT: cut}, {ONLY_AGENT: info}

    def render(self) -> Any:
        return self._env.render()

    def close(self) -> None:
        self._env.close()


def parts_of(answer: Any, names: tuple[str, ...], who: str) -> tuple[Any, ...]:
    """What an environment gave, taken apart.

    Raises:
        BadInput: there are more parts, or fewer; the interfaces of old gave fewer.
    """
    if isinstance(answer, tuple | list) and len(answer) == len(names):
        return tuple(answer)
    what = f"{len(answer)} values" if isinstance(answer, tuple | list) else shown(answer)
    raise BadInput(f"{who} of its environment gave {what}; it must give {len(names)}: {', '.join(names)}")


def reward_of(value: Any) -> float:
    """A reward as Python's own number, of the kind that `0 + value` has: an int stays an int, a flag counts as one.

    Raises:
        TypeError, ValueError: it is no number.
    """
    plain = value.item() if hasattr(value, "item") else value
    return int(plain) if isinstance(plain, int) else float(plain)


def check_infos(infos: Any, who: str, what: str) -> None:
    """Looks at infos by agent.

    Args:
        infos: What an environment gave.
        who: The environment, for the message.
        what: Its method that gave them.

    Raises:
        BadInput: they are no dict, or one of them is none.
    """
    if type(infos) is dict:
        for info in infos.values():
            if type(info) is not dict:
                break
        else:  # as nearly always; hot: this is done at every step
            return
    if not isinstance(infos, Mapping):
        raise BadInput(f"{who}: {what} gave {shown(infos)} as infos; it must be a dict, by agent")
    for agent, info in infos.items():
        if not isinstance(info, Mapping):
            raise BadInput(f"{who}: {what} gave {shown(info)} as the info of agent {agent!r}; it must be a dict")


def shown(value: Any) -> str:
    """A value and its type, for a message."""
    return f"{brief(value, 60)} ({type(value).__name__})"
