"""Policies of mettagrid at paceline's seats: one `MultiAgentPolicy` for all seats of a spec, as in upstream's runner.

Cogs (a recipe) ──► MultiAgentPolicy, anew in every episode ── agent_policy(i) ──► Cog, at its seat
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mettagrid.mettagrid_c import dtype_actions
from mettagrid.policy.policy import AgentPolicy, MultiAgentPolicy
from mettagrid.policy.policy_env_interface import PolicyEnvInterface
from mettagrid.util.module import load_symbol

from paceline.adapters.mettagrid.tokens import Array, Reader
from paceline.engine import OwnedStreams
from paceline.errors import BadInput
from paceline.sources import files_of
from paceline.team.sharing import Part, likeness, parts
from paceline.types import Seat


class Cogs:
    """Makes the policies of the seats that one spec has in an episode. Those that share state stay together.

    Args:
        source: The class, or the path of it as mettagrid writes it; or a `MultiAgentPolicy`, of which every episode has
            a copy.
        data: A file for `load_policy_data`.
        keywords: For the class.
        together: Whether all seats share one policy, or none do: then each may live in a worker of its own; None: found
            out, see `find_parts`.
        files: What the policy follows from, beside its class.
    """

    def __init__(
        self,
        source: str | type | MultiAgentPolicy,
        data: str | None = None,
        keywords: Mapping[str, Any] | None = None,
        *,
        together: bool | None = None,
        files: tuple[Path, ...] = (),
    ) -> None:
        self._source, self._data, self._keywords = source, data, dict(keywords or {})
        self.together = together
        self.told_timeout_ms: int | None = None
        """What `configure_action_timeout_ms` is told; None: nothing is."""
        self._files = files
        self._policy: MultiAgentPolicy | None = None
        self._seated: list[Cog] = []
        self._begun = False

    def __call__(self, seat: Seat) -> Cog:
        interface = _interface(seat)
        if self._policy is None:
            self._policy = self._built(seat)
        cog = Cog(self, self._policy.agent_policy(seat.index), seat, Reader(interface))
        self._seated.append(cog)
        return cog

    def __getstate__(self) -> dict[str, Any]:
        """A recipe without what was made of it: a copy begins anew, wherever it goes."""
        return {**vars(self), "_policy": None, "_seated": [], "_begun": False}

    def __deepcopy__(self, memo: dict[int, Any]) -> Cogs:
        """As a pickle would be; a policy that was given is copied when an episode begins."""
        made = copy.copy(self)
        made._keywords = copy.deepcopy(self._keywords, memo)
        return made

    def recipe_identity(self) -> dict[str, Any]:
        """What a run must have in common with another one to be the same, beside its files."""
        return {"source": self._source, "together": self.together, **self._keywords}

    @property
    def files(self) -> list[Path]:
        """What its policies follow from, besides what is installed: their class, their data, their bundle."""
        return [*files_of(self.load()), *self._files, *([] if self._data is None else [Path(self._data)])]

    def find_parts(self, seats: Sequence[Seat]) -> list[Part]:
        """Which seats must live together, by number, and what they share.

        Agents that share no object live apart, each with a `MultiAgentPolicy` of its own. So they must be made alike
        whichever of them is made first, and whatever has been drawn: those that are not stay together too.
        """
        everyone = tuple(seat.index for seat in seats)
        if self.together is not None:
            return [Part(everyone, "")] if self.together else [Part((index,), "") for index in everyone]
        try:
            forth, found = self._looked_at(seats, 0)
            by_turn = len(found) > 1 and forth == self._looked_at(seats, 0)[0] != self._looked_at(seats[::-1], 1)[0]
        except Exception as error:  # it may play some seats, and not all of them
            return [Part(everyone, f"policy that cannot make agents for all seats ({type(error).__name__}: {error})")]
        if by_turn:
            return [Part(everyone, "policy that makes each by what it has made, or drawn, before")]
        return [Part(tuple(everyone[number] for number in part.members), part.shared) for part in found]

    def _looked_at(self, seats: Sequence[Seat], seed: int) -> tuple[dict[int, str], list[Part]]:
        """What the agents of a new policy look like that are made in this order from these random streams, by the
        number of the seat, and which of them share state."""
        described = describing([_interface(seats[0])])
        with OwnedStreams(dict.fromkeys(("random", "numpy.random", "torch"), seed)).of("looked at"):
            policy = self._built(seats[0])
            made = {seat.index: policy.agent_policy(seat.index) for seat in seats}
            found = parts([*made.values()], described)
            looks = {index: likeness(agent, described) for index, agent in made.items()} if len(found) > 1 else {}
            for agent in made.values():
                _close(agent)
        return looks, found

    def begin(self) -> None:
        """Resets the policies of all seats in their order, once, before the first of them acts."""
        if not self._begun:
            self._begun = True
            for cog in self._seated:
                cog.agent.reset()  # bare: some take no argument

    def _built(self, seat: Seat) -> MultiAgentPolicy:
        made: Any = self.load()
        if isinstance(self._source, MultiAgentPolicy):
            return self._told(_copied(self._source, _interface(seat)))
        keywords = {"device": seat.device, **self._keywords} if _takes(made, "device") else self._keywords
        if issubclass(made, AgentPolicy):
            return _Alone(made, _interface(seat), keywords)
        policy: MultiAgentPolicy = made(_interface(seat), **keywords)
        if self._data is not None:
            policy.load_policy_data(self._data)
        return self._told(policy)

    def _told(self, policy: MultiAgentPolicy) -> MultiAgentPolicy:
        if self.told_timeout_ms is not None:
            policy.configure_action_timeout_ms(self.told_timeout_ms)
        return policy

    @property
    def minimum_timeout_ms(self) -> int:
        """The least time that the policy asks for."""
        return int(getattr(self.load(), "minimum_action_timeout_ms", 0))

    def load(self) -> type:
        """The class.

        Raises:
            BadInput: it is not there, or is no policy of mettagrid.
        """
        made: Any = loaded(self._source) if isinstance(self._source, str) else self._source
        if isinstance(made, MultiAgentPolicy):
            return type(made)
        if isinstance(made, type) and is_policy(made):
            return made
        name = getattr(made, "__name__", type(made).__name__)
        raise BadInput(f"{name} is no policy: it must be a MultiAgentPolicy or an AgentPolicy of mettagrid")


class BatchCogs(Cogs):
    """The same for a policy that answers for all of its seats in one call of `step_batch`."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **{**more, "together": True})

    def load(self) -> type:
        """The class; `BadInput` if its `step_batch` is only the one that it inherits."""
        made = super().load()
        if not has_step_batch(made):
            raise BadInput(f"{made.__name__} has no step_batch of its own: leave batch=true away")
        return made

    def act_seats(self, observations: Mapping[int, Array]) -> dict[int, int]:
        """Answers by the number of the seat; the rows of seats that are not asked hold no tokens."""
        self.begin()
        assert self._policy is not None
        flat = self._seated[0].table.flat
        return {seat: flat[number] for seat, number in asked_in_batch(self._policy, observations).items()}


class Cog:
    """An `AgentPolicy` at its seat: raw rows in, the number of an action out."""

    def __init__(self, cogs: Cogs, agent: AgentPolicy, seat: Seat, reader: Reader) -> None:
        self.agent, self.table = agent, seat.observation_space.table
        self._cogs, self._index, self._reader = cogs, seat.index, reader
        self._talks = _interface(seat).talk.enabled

    def reset(self, seed: int) -> None:
        """Nothing yet: mettagrid resets policies when all of them are there, and gives them no seed."""

    def act(self, obs: Any) -> Any:
        """Asks the policy."""
        self._cogs.begin()
        if not self._talks:
            return self.table.number(self.agent.step(self._reader.observation(self._index, obs)))
        action = self.agent.step(self._reader.observation(self._index, obs["tokens"], obs["talk"]))
        return self.table.number(action), action.talk or ""

    def close(self) -> None:
        """Lets the policy close, if it can."""
        _close(self.agent)


class _Alone(MultiAgentPolicy):
    """A class of `AgentPolicy` where a `MultiAgentPolicy` is wanted: every agent has one of its own."""

    def __init__(self, made: type, interface: Any, keywords: Mapping[str, Any]) -> None:
        super().__init__(interface)
        self._made, self._keywords = made, dict(keywords)

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        more = {"agent_id": agent_id} if _takes(self._made, "agent_id", strictly=True) else {}
        made: AgentPolicy = self._made(self._policy_env_info, **more, **self._keywords)
        return made


def _copied(policy: MultiAgentPolicy, interface: Any) -> MultiAgentPolicy:
    """A copy of a policy that was given."""
    name, mine = type(policy).__name__, policy.policy_env_info
    if mine != interface:
        others = [word for word in type(interface).model_fields if getattr(mine, word) != getattr(interface, word)]
        raise BadInput(
            f"this {name} was made for another game ({', '.join(others)} differ): make it with the mission's own "
            "PolicyEnvInterface, or give its class"
        )
    try:
        return copy.deepcopy(policy)
    except Exception as error:
        raise BadInput(
            f"this {name} cannot be copied for each episode ({type(error).__name__}: {error}): give its class"
        ) from error


def has_step_batch(made: Any) -> bool:
    """Whether the `step_batch` of a class is its own, and not the one that only raises."""
    return getattr(made, "step_batch", MultiAgentPolicy.step_batch) is not MultiAgentPolicy.step_batch


def asked_in_batch(policy: MultiAgentPolicy, observations: Mapping[int, Array]) -> dict[int, int]:
    """Asks agents in one call of `step_batch`: rows of raw tokens in, numbers of `all_action_names` out.

    The rows of agents that are not asked hold no tokens.

    Raises:
        BadInput: an answer is the number of no action.
    """
    interface = policy.policy_env_info
    raw = np.full((interface.num_agents, *interface.observation_shape), 0xFF, np.uint8)
    for agent, rows in observations.items():
        raw[agent, : len(rows)] = rows
    actions = np.zeros(interface.num_agents, dtype_actions)
    policy.step_batch(raw, actions)
    answers = {agent: int(actions[agent]) for agent in observations}
    many = len(interface.all_action_names)
    if wrong := [number for number in answers.values() if not 0 <= number < many]:
        raise BadInput(f"step_batch answered {wrong[0]}, which is no action of this game: there are {many}")
    return answers


def describing(interfaces: Iterable[Any]) -> list[Any]:
    """Objects that say what games are, which all agents may hold: they are no state of theirs."""
    found: list[Any] = []
    for interface in {id(each): each for each in interfaces if isinstance(each, PolicyEnvInterface)}.values():
        held = list(vars(interface).values())
        found += [interface, *held, *(each for value in held if isinstance(value, list) for each in value)]
    return found


def is_policy(made: Any) -> bool:
    """Whether it is a class of mettagrid's policies."""
    return isinstance(made, type) and issubclass(made, MultiAgentPolicy | AgentPolicy)


def is_live_policy(given: Any) -> bool:
    """Whether it is one, and not a class."""
    return isinstance(given, MultiAgentPolicy)


def loaded(path: str) -> Any:
    """What a dotted path names.

    Raises:
        BadInput: there is nothing of that name, or it cannot be imported.
    """
    try:
        return load_symbol(path)
    except ModuleNotFoundError as error:
        raise BadInput(
            f"{path} cannot be loaded: {error}; write package.module.Class, and install what it needs"
        ) from error
    except Exception as error:
        raise BadInput(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error


def _close(agent: AgentPolicy) -> None:
    close = getattr(agent, "close", None)
    if callable(close):
        close()


def _interface(seat: Seat) -> Any:
    interface = getattr(seat.observation_space, "interface", None)
    if interface is None:
        raise BadInput(f"a policy of mettagrid plays missions of mettagrid, and {seat.mission!r} is none")
    return interface


def _takes(made: Any, name: str, strictly: bool = False) -> bool:
    parameters = inspect.signature(made).parameters
    if strictly:
        return name in parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
