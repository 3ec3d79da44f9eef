"""A Group: agent policies that live together. The same code steps them here, on a thread, and in a process.

rows ──► Reader ──► AgentPolicy.step, one agent after another ──► actions and infos
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import cloudpickle
import numpy as np
from mettagrid.policy.policy import AgentPolicy, MultiAgentPolicy
from mettagrid.simulator.interface import AgentObservation
from mettagrid.types import Action

from paceline.adapters.mettagrid.policies import asked_in_batch, describing, has_step_batch
from paceline.adapters.mettagrid.tokens import Reader
from paceline.adapters.mettagrid.wrappers.pickles import KeepingPickler, KeepingUnpickler
from paceline.engine import Anew, OwnedStreams, OwnStreams, draws_of
from paceline.errors import BadInput, SharedRandomness
from paceline.seeds import Key

Asked = tuple[int, int, bytes, tuple[Any, ...]]
"""(place in the group, agent id, the rows [tokens, 3] of what it sees, what it hears): plain data, cheap to send."""
Answer = tuple[Action, dict[str, Any]]
"""An action, and the infos that its policy had right after it."""

_log = logging.getLogger("paceline")
_NO_TOKEN = b"\xff\xff\xff"  # the row after the last token
_MOST_SAVED = 1 << 16  # bytes
_LONG = 1000  # calls after which a rebuild should not have to run all of them again


def packed(place: int, obs: AgentObservation) -> Asked:
    """An observation as it travels."""
    rows = np.array([token.raw_token for token in obs.tokens], np.uint8).tobytes() or _NO_TOKEN
    talk = tuple((heard.agent_id, heard.text, *heard.location, heard.remaining_steps) for heard in obs.talk)
    return place, obs.agent_id, rows, talk


class Group:
    """Agent policies that share state, or one that shares none, and the multi-agent policy that made them.

    Every observation is made anew from its rows, so a policy may keep it: nothing in it changes later.

    Args:
        parent: Makes policies for later episodes; None if it stays elsewhere.
        agents: The policies, by their places.
    """

    def __init__(self, parent: MultiAgentPolicy | None, agents: Iterable[AgentPolicy]) -> None:
        self.parent = parent
        self.agents = dict(enumerate(agents))
        self._next = len(self.agents)
        self._readers: dict[int, Reader] = {}
        self._calls = 0

    def step(self, asked: Sequence[Asked]) -> Any:
        """Steps agents one after another, in the order given. Returns an `Answer` for each."""
        self._calls += 1
        return [_stepped(self.agents[place], obs) for place, obs in self._read(asked)]

    def _read(self, asked: Sequence[Asked]) -> list[tuple[int, AgentObservation]]:
        return [
            (place, self._reader(place).observation(agent, _rows(rows), talk)) for place, agent, rows, talk in asked
        ]

    def _reader(self, place: int) -> Reader:
        if place not in self._readers:
            self._readers[place] = Reader(self.agents[place].policy_env_info)
        return self._readers[place]

    def reset(self, place: int) -> Any:
        """Resets one agent: bare, as some policies take no argument, and a simulation cannot be sent."""
        self._calls += 1
        self.agents[place].reset()

    # -- attributes -------------------------------------------------------------------------------------------

    def get(self, place: int | None, name: str) -> tuple[bool, Any]:
        """An attribute of an agent (None: of the parent), or that it is a method: that stays where it is."""
        value = getattr(self.whose(place), name)
        return (True, None) if callable(value) else (False, value)

    def set(self, place: int | None, name: str, value: Any) -> None:
        """Sets an attribute of an agent, or of the parent."""
        self._calls += 1
        setattr(self.whose(place), name, value)

    def invoke(self, place: int | None, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Calls a method of an agent, or of the parent."""
        self._calls += 1
        return getattr(self.whose(place), name)(*args, **keywords)

    def whose(self, place: int | None) -> Any:
        """An agent's policy, or the parent."""
        return self.parent if place is None else self.agents[place]

    # -- later episodes ---------------------------------------------------------------------------------------

    def add(self, policy: AgentPolicy) -> int:
        """Takes another policy in. Returns its place."""
        place, self._next = self._next, self._next + 1
        self.agents[place] = policy
        return place

    def drop(self, places: Iterable[int]) -> None:
        """Forgets policies that are not used any more."""
        for place in places:
            self.agents.pop(place, None)
            self._readers.pop(place, None)

    def make(self, agent_id: int, keep: bool, gone: Sequence[int]) -> Any:
        """Has the parent make a policy; every copy of the parent does so, that they stay alike, and one keeps it.

        Returns:
            The place of the policy, with which the journal begins anew if it has grown long.
        """
        self.drop(gone)
        assert self.parent is not None
        policy = self.parent.agent_policy(agent_id)
        place = self.add(policy) if keep else -1
        self._calls += 1
        if self._calls < _LONG:
            return place
        self._calls = 0
        try:
            return Anew(place, cloudpickle.dumps((self.parent, self.agents, self._next)))
        except Exception:  # it could be sent once, and cannot any more: a rebuild takes longer
            return place

    def restore(self, state: Any) -> None:
        """Becomes what it was when it was saved."""
        self.parent, self.agents, self._next = cloudpickle.loads(state)
        self._readers.clear()

    def draws(self) -> list[int]:
        """The places of agents that have drawn from process-wide generators, to be called as a read."""
        return list(self.agents) if OwnStreams().streams() is not None else []

    def close(self) -> None:
        """Lets policies close, if they can: these are copies, which nothing else would close."""
        for policy in self.agents.values():
            close = getattr(policy, "close", None)
            if callable(close):
                close()


class LiveGroup(Group):
    """The caller's own policies in a pool of the engine. There is one of each, so none is ever built again.

    On threads somebody may be seen to draw from a process-wide generator when several have been stepped beside each
    other. Then an agent that shares nothing is put back to where it was before its step, and steps again, alone.
    """

    def __init__(self, parent: MultiAgentPolicy | None, agents: Iterable[AgentPolicy]) -> None:
        super().__init__(parent, agents)
        self._lone = len(self.agents) == 1  # its agents, one after another episode by episode, share nothing; and none
        # has been met that cannot be saved
        self._run = 0  # how often it has been called
        self._before: Saved | None = None
        self._drew = False  # it, or somebody beside it on another thread
        self._drew_before = False  # whether it was known to draw when it was last called, and so ran alone

    @property
    def goes_back(self) -> bool:
        """Whether it can be put back to where it was: one agent, of which a pickle holds everything."""
        return self._saved(next(iter(self.agents))) is not None

    def _saved(self, place: int | None) -> Saved | None:
        try:
            return Saved(self.agents[place], self.parent) if self._lone and place is not None else None
        except Exception:
            self._lone = False  # it is not tried again in every step
            return None

    def begin(self) -> Any:
        """Its journal begins: it is always empty from then on."""
        return Anew(None, self._run)

    def _called(self, place: int | None, method: Callable[..., Any], *args: Any) -> Any:
        self._before = self._saved(place)
        self._drew_before = bool(self.draws())
        self._run += 1
        with draws_of() as drawn:
            try:
                return Anew(method(*args), self._run)
            finally:
                self._drew |= bool(drawn())

    def draws(self) -> list[int]:
        """As `Group.draws`; one that cannot be built again has streams swapped in whether it draws or not."""
        return super().draws() if self._drew else []

    def step(self, asked: Sequence[Asked]) -> Any:
        """As `Group.step`."""
        return self._called(asked[0][0], super().step, asked)

    def reset(self, place: int) -> Any:
        """As `Group.reset`."""
        return self._called(place, super().reset, place)

    def invoke(self, place: int | None, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """As `Group.invoke`."""
        return self._called(place, super().invoke, place, name, args, keywords)

    def restore(self, state: int) -> None:
        """It is what it is; but what it has run since then does not count.

        Raises:
            SharedRandomness: it has drawn, late and beside others, and cannot go back.
        """
        if self._run == state:
            return
        if self._before is not None:
            self._before.put_back()
        elif self.draws() and not self._drew_before:
            (first, *_) = self.agents.values()
            raise SharedRandomness(
                f"{type(first).__name__} has drawn from a process-wide random generator beside other agents on threads "
                "for the first time: such draws cannot be told apart, and it cannot be put back to where it was (it "
                "shares state, or holds what cannot be pickled). Give it a generator of its own "
                "(numpy.random.default_rng), or use PerAgentProcessWrapper"
            )
        self._run = state

    def close(self) -> None:
        """The caller's policies are the caller's to close."""


class BatchGroup(Group):
    """Policies that are stepped here: in one call, where they or their parent know how to.

    Args:
        parent: As for `Group`.
        agents: As for `Group`.
        streams: Of the process-wide generators: of each agent, and of the agents that share state.
        owners: Whose streams those of each agent are.
    """

    def __init__(
        self,
        parent: MultiAgentPolicy | None,
        agents: Iterable[AgentPolicy],
        streams: OwnedStreams,
        owners: Sequence[Key],
    ) -> None:
        super().__init__(parent, agents)
        self.owners = dict(enumerate(owners))
        self._streams = streams

    def _stream_of(self, place: int | None) -> AbstractContextManager[None]:
        return self._streams.of(next(iter(self.owners.values())) if place is None else self.owners[place])

    def draws(self) -> list[int]:
        """The places of agents that have drawn."""
        drawn = self._streams.have_drawn()
        return [place for place, owner in self.owners.items() if owner in drawn and place in self.agents]

    def step(self, asked: Sequence[Asked]) -> Any:
        """As `Group.step`, each agent with its own streams."""
        answers = []
        for place, obs in self._read(asked):
            with self._stream_of(place):
                answers.append(_stepped(self.agents[place], obs))
        return answers

    def reset(self, place: int) -> Any:
        """As `Group.reset`, with the agent's own streams."""
        with self._stream_of(place):
            super().reset(place)

    def invoke(self, place: int | None, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """As `Group.invoke`, with the agent's own streams."""
        with self._stream_of(place):
            return super().invoke(place, name, args, keywords)

    def step_together(self, asked: Sequence[Asked]) -> list[Answer]:
        """Steps agents through the parent's `step_batch`, else their own `step_group`, else one by one.

        What one call draws for all of them comes from the stream of the first.
        """
        if self.parent is not None and has_step_batch(type(self.parent)):
            with self._stream_of(asked[0][0]):
                return self._step_batch(self.parent, asked)
        policies = [self.agents[place] for place, *_ in asked]
        if policies[0].can_step_group(policies):
            with self._stream_of(asked[0][0]):
                return self._step_group(policies, asked)
        answers: list[Answer] = self.step(asked)
        return answers

    @staticmethod
    def _step_batch(parent: MultiAgentPolicy, asked: Sequence[Asked]) -> list[Answer]:
        names = parent.policy_env_info.all_action_names
        numbers = asked_in_batch(parent, {agent: _rows(rows) for _, agent, rows, _ in asked})
        return [(Action(names[numbers[agent]]), {}) for _, agent, _, _ in asked]

    def _step_group(self, policies: list[AgentPolicy], asked: Sequence[Asked]) -> list[Answer]:
        for policy in policies:
            policy._infos = {}
        seen = [obs for _, obs in self._read(asked)]
        actions = policies[0].step_group([(obs.agent_id, obs) for obs in seen])
        if len(actions) != len(seen):
            raise BadInput(f"step_group gave {len(actions)} actions for {len(seen)} agents")
        told = getattr(policies[0], "group_step_infos", None)
        infos = told([obs.agent_id for obs in seen]) if callable(told) else [policy.infos for policy in policies]
        return [(action, dict(said or {})) for action, said in zip(actions, infos, strict=True)]


class _Small(io.BytesIO):
    """A file that takes little: it is written in every step."""

    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > _MOST_SAVED:
            raise OverflowError("too much to be kept in every step")
        return super().write(data)


class Saved:
    """What an agent was, as a pickle of its attributes. What others hold too is kept as it is: classes, modules and the
    description of the game.

    Raises:
        Exception: it cannot be pickled, is too large for that, or holds the policy that made it, which others hold.
    """

    def __init__(self, agent: AgentPolicy, parent: MultiAgentPolicy | None) -> None:
        self._agent = agent
        file = _Small()
        pickler = KeepingPickler(file, keep=describing([agent.policy_env_info]), refuse=[parent, agent])
        pickler.dump(vars(agent))
        self._pickle, self._kept = file.getvalue(), pickler.kept

    def put_back(self) -> None:
        """The agent is what it was."""
        was = KeepingUnpickler(io.BytesIO(self._pickle), self._kept).load()
        vars(self._agent).clear()
        vars(self._agent).update(was)
        _tell_of_copies(type(self._agent).__name__)


@cache
def _tell_of_copies(kind: str) -> None:
    _log.warning(
        "a %s was put back to where it was before its step, as agents beside each other on threads have drawn from a "
        "process-wide random generator: its attributes are copies now, and what the caller holds of the old ones does "
        "not follow it. Give agents generators of their own (numpy.random.default_rng)",
        kind,
    )


def _stepped(policy: AgentPolicy, obs: AgentObservation) -> Answer:
    try:
        return policy.step(obs), dict(policy.infos or {})
    except Exception as error:
        error.add_note(f"in step() of agent {obs.agent_id}")
        raise


def _rows(data: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(data, np.uint8).reshape(-1, 3)
