"""A Group: agent policies that live together. The same code steps them here, on a thread, and in a process.

rows ──► Reader ──► AgentPolicy.step, one agent after another ──► actions and infos
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import cloudpickle
import numpy as np
from mettagrid.policy.policy import AgentPolicy, MultiAgentPolicy
from mettagrid.simulator.interface import AgentObservation
from mettagrid.types import Action

from paceline.adapters.mettagrid.policies import asked_in_batch, has_step_batch
from paceline.adapters.mettagrid.tokens import Reader
from paceline.engine import Anew
from paceline.errors import BadInput

Asked = tuple[int, int, bytes, tuple[Any, ...]]
"""(place in the group, agent id, the rows [tokens, 3] of what it sees, what it hears): plain data, cheap to send."""
Answer = tuple[Action, dict[str, Any]]
"""An action, and the infos that its policy had right after it."""

_NO_TOKEN = b"\xff\xff\xff"  # the row after the last token
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

    def restore(self, state: bytes) -> None:
        """Becomes what it was when it was saved."""
        self.parent, self.agents, self._next = cloudpickle.loads(state)
        self._readers.clear()

    def close(self) -> None:
        """Lets policies close, if they can: these are copies, which nothing else would close."""
        for policy in self.agents.values():
            close = getattr(policy, "close", None)
            if callable(close):
                close()


class LiveGroup(Group):
    """The caller's own policies in a pool of the engine. There is one of each, so none is ever built or run again."""

    def step(self, asked: Sequence[Asked]) -> Any:
        """As `Group.step`; its journal is always empty."""
        return Anew(super().step(asked), b"")

    def reset(self, place: int) -> Any:
        """As `Group.reset`; its journal is always empty."""
        return Anew(super().reset(place), b"")

    def restore(self, state: bytes) -> None:
        """It is what it is."""

    def close(self) -> None:
        """The caller's policies are the caller's to close."""


class BatchGroup(Group):
    """Policies that are stepped here: in one call, where they or their parent know how to."""

    def step_together(self, asked: Sequence[Asked]) -> list[Answer]:
        """Steps agents through the parent's `step_batch`, else their own `step_group`, else one by one."""
        if self.parent is not None and has_step_batch(type(self.parent)):
            return self._step_batch(self.parent, asked)
        policies = [self.agents[place] for place, *_ in asked]
        if policies[0].can_step_group(policies):
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


def _stepped(policy: AgentPolicy, obs: AgentObservation) -> Answer:
    try:
        return policy.step(obs), dict(policy.infos or {})
    except Exception as error:
        error.add_note(f"in step() of agent {obs.agent_id}")
        raise


def _rows(data: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(data, np.uint8).reshape(-1, 3)
