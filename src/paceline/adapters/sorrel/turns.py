"""Turns: the environment's own `take_turn`, in which every agent has random streams of its own.

While a turn is played, each agent has stand-ins for the methods that a turn calls. They give the process-wide
generators to the agent, count its rewards, and, where agents are asked in workers, ask all of them before the first one
moves. After the turn the agent is what it was.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from paceline.adapters.sorrel.asking import Asking, can_act
from paceline.engine import OwnedStreams
from paceline.errors import BadInput

_METHODS = ("transition", "pov", "get_action", "act", "is_done", "add_memory")


class _StandIns:
    """What an agent has in place of its own methods while a turn is played."""

    def __init__(self, agent: Any, made: dict[str, Callable[..., Any]]) -> None:
        self._agent, self._made = agent, made
        self._own = {name: vars(agent).get(name) for name in made}

    def put(self) -> None:
        """Puts them in place, but for what the agent has been given since."""
        held = vars(self._agent)
        for name, made in self._made.items():
            if held.get(name) is self._own[name]:
                held[name] = made

    def take_back(self) -> None:
        """Gives the agent what it had; what it has been given since it keeps."""
        held = vars(self._agent)
        for name, made in self._made.items():
            if held.get(name) is made:
                del held[name]
                if (own := self._own[name]) is not None:
                    held[name] = own


class Turns:
    """Plays turns.

    Args:
        env: The environment.
        agents: Its agents, by number: those of a run stay the same ones, in whatever order they move.
        streams: Streams of process-wide generators.
        asking: Asks agents in workers; None: they are asked when their turns come.
    """

    def __init__(self, env: Any, agents: Sequence[Any], streams: OwnedStreams, asking: Asking | None) -> None:
        self._env, self._streams, self._asking = env, streams, asking
        self._begun = self._inside = False
        self.agents = list(agents)
        """By number."""
        self._numbers = {id(agent): number for number, agent in enumerate(agents)}
        self._put: list[_StandIns] = []
        self._own: Callable[[int], None] | None = None
        self.rewards: list[float] = []
        """By agent, since the epoch began."""
        self.begin_epoch()

    def play(self, epoch: int) -> None:
        """Plays one turn.

        Raises:
            BadInput: an agent has joined that is none of the run's, was made anew within the turn, or cannot have
                attributes.
        """
        if self._inside:  # a `take_turn` that calls `take_turn_parallel`
            self._take_turn()
            return
        self._take_in_new()
        # Made for every turn: since the last one an agent may have been given other methods, or another class.
        self._put = [self._stand_ins(number, agent) for number, agent in enumerate(self.agents)]
        self._begun, self._inside = False, True
        try:
            self._set()
            with self._streams.of("world"):
                self._own(epoch) if self._own is not None else self._take_turn()
        finally:
            self._inside = False
            self._unset()
        for agent in self._new():
            raise BadInput(
                f"an agent of class {type(agent).__name__} came into env.agents within take_turn(), where its rewards "
                "in that turn cannot be counted: make agents anew in reset()"
            )

    def begin_epoch(self) -> None:
        """Counts rewards from 0 on.

        Raises:
            BadInput: an agent has joined that is none of the run's.
        """
        self._take_in_new()
        self.rewards = [0.0] * len(self.agents)
        self._own = _own_turn(self._env)

    def _new(self) -> list[Any]:
        """The agents in play that have no number."""
        return [agent for agent in self._env.agents if id(agent) not in self._numbers]

    def _take_in_new(self) -> None:
        """Agents that were made anew take the numbers of those with the same model, which have gone: the lowest first.

        Raises:
            BadInput: more have come with a model than have gone, or fewer, so that it cannot be told which.
        """
        new = self._new()
        staying = {id(agent) for agent in self._env.agents}
        for model in {id(model): model for model in map(_model, new)}.values():
            come = [agent for agent in new if _model(agent) is model]
            gone = [n for n, known in enumerate(self.agents) if known.model is model and id(known) not in staying]
            if len(come) > len(gone):
                raise BadInput(
                    f"an agent of class {type(come[-1]).__name__} has joined in the middle of a run, whose agents are "
                    "those that it begins with: have it there from the beginning, with a can_act() that is false until "
                    "it joins"
                )
            if len(come) < len(gone):
                raise BadInput(
                    f"{len(gone)} agents that share a model have gone, and {len(come)} of class "
                    f"{type(come[0]).__name__} have come: which ones they are cannot be told. Make all of them anew"
                )
            for number, agent in zip(gone, come, strict=True):
                self._take_in(number, agent)

    def _take_in(self, number: int, agent: Any) -> None:
        del self._numbers[id(self.agents[number])]
        self.agents[number], self._numbers[id(agent)] = agent, number
        if self._asking is not None:
            self._asking.take_in(number, agent)

    def _take_turn(self) -> None:
        """The turn of an environment that has none: all that is no agent, then the agents, in their order."""
        env = self._env
        env.turn += 1
        agents = {id(agent) for agent in env.agents}
        for entity in list(entities(env.world.map)):
            if id(entity) not in agents and _moves(entity):
                entity.transition(env.world)
        for agent in env.agents:
            if not can_act(agent):
                continue
            if _has_transition(agent):
                agent.transition(env.world)
                continue
            state = agent.pov(env.world)
            action = agent.get_action(state)
            reward = agent.act(env.world, action)
            agent.add_memory(state, action, reward, agent.is_done(env.world))

    # -- stand-ins ---------------------------------------------------------------------------------------------

    def _stand_ins(self, number: int, agent: Any) -> _StandIns:
        names = [name for name in _METHODS if hasattr(agent, name)]
        if "transition" in names and not _has_transition(agent):
            names.remove("transition")
        own = {name: getattr(agent, name) for name in names}
        own["act"] = functools.partial(self._act, number, own["act"])
        if self._asking is not None:
            own["get_action"] = functools.partial(self._get_action, number)
        try:
            return _StandIns(agent, {name: self._with_streams(number, method) for name, method in own.items()})
        except TypeError:
            raise BadInput(f"{type(agent).__name__} has no __dict__ for attributes, which an agent must have") from None

    def _with_streams(self, number: int, own: Callable[..., Any]) -> Callable[..., Any]:
        """A method that is called with the streams of its agent."""
        owner, switch = ("act", number), self._streams.switch

        def call(*args: Any, **kwargs: Any) -> Any:
            if not self._begun:
                self._begun = True
                self._begin_agents()
            before = switch(owner)
            try:
                return own(*args, **kwargs)
            finally:
                switch(before)

        return call

    def _act(self, number: int, own: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        reward = own(*args, **kwargs)
        try:
            self.rewards[number] += float(0.0 if reward is None else reward)
        except (TypeError, ValueError):
            who = f"agent {number}, a {type(self.agents[number]).__name__}"
            raise BadInput(f"act() of {who}, gave {reward!r}: a reward is a number, or None") from None
        return reward

    def _get_action(self, number: int, state: Any) -> Any:
        assert self._asking is not None
        with self._plain():
            return self._asking.action(number, state)

    def _begin_agents(self) -> None:
        """The first agent moves: now is when all of them are asked."""
        if self._asking is None:
            return
        with self._plain():
            self._asking.ask_all(self._env.world, [self._numbers[id(agent)] for agent in self._in_play()])

    def _in_play(self) -> list[Any]:
        return [agent for agent in self._env.agents if id(agent) in self._numbers]

    @contextmanager
    def _plain(self) -> Iterator[None]:
        """Agents are looked at as they are: without stand-ins."""
        self._unset()
        try:
            yield
        finally:
            self._set()

    def _set(self) -> None:
        for stand_ins in self._put:
            stand_ins.put()

    def _unset(self) -> None:
        for stand_ins in self._put:
            stand_ins.take_back()


def _model(agent: Any) -> Any:
    return getattr(agent, "model", None)


def entities(places: Any) -> Iterator[Any]:
    """All that is on a map: an array of objects, nested lists, or a mapping from places."""
    if isinstance(places, np.ndarray):
        yield from places.flat
    elif isinstance(places, dict):
        yield from entities(list(places.values()))
    else:
        for place in places:
            if isinstance(place, list | tuple | np.ndarray):
                yield from entities(place)
            elif place is not None:
                yield place


def _moves(entity: Any) -> bool:
    no_agent = getattr(entity, "is_non_agent", True)
    if not (no_agent() if callable(no_agent) else no_agent):
        return False
    return bool(getattr(entity, "has_transitions", True)) and hasattr(entity, "transition")


def _has_transition(agent: Any) -> bool:
    """Whether an agent's `transition` is an agent's, and not that which every entity has."""
    for cls in type(agent).__mro__:
        if "transition" in vars(cls):
            return hasattr(cls, "get_action")
    return False


def _own_turn(env: Any) -> Callable[[int], None] | None:
    """The environment's `take_turn`, with the epoch if it takes one."""
    own = getattr(env, "take_turn", None)
    if own is None:
        return None
    takes_epoch = "epoch" in inspect.signature(own).parameters
    return own if takes_epoch else lambda epoch: own()
