"""What lives in the pools of a training: agents that act, and learners, as banks of one or more agents.

    Recipe ──► Acting: begin(epoch), act(observations), load(weights)      a version of the weights, in every world
           └─► Learning: learn(spans) ──► Learned: figures and weights     the learner itself, and the optimizer

An agent acts with copies, one in each world, and learns with one that never acts: a version travels from the one to the
others as weights, or as a snapshot. So what acts in an epoch is known by its number, wherever both live.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from paceline.engine import OwnStreams, SharedArrays
from paceline.errors import Diverged
from paceline.roles import Window
from paceline.seeds import sequence
from paceline.spaces import checked
from paceline.team import Builder, Player
from paceline.train.rings import Rows, RowWindow, Span
from paceline.types import Acted, Failure, Seat

Name = tuple[int, str]
"""A world, and an agent in it."""

Weights = Mapping[str, Any]
"""Agent → what carries a version of it to the copies that act."""

LEARNS = ("act", "learn", "snapshot", "restore")
"""What a learner must have."""


class Bank(Protocol):
    """One or more agents that act and learn in one call; see `learning.bank`."""

    def begin(self, epoch: int, seeds: Mapping[str, list[int]]) -> None:
        """An epoch begins: a seed for each agent and world."""

    def act(self, observations: Mapping[tuple[str, int], Any]) -> Mapping[tuple[str, int], Any]:
        """Answers by (agent, world); only those that are due."""

    def learn(self, windows: Mapping[str, Window]) -> Mapping[str, Mapping[str, float]]:
        """Updates some of its agents, each by its own rows."""

    def weights(self) -> Weights:
        """A version of every agent."""

    def load(self, weights: Weights) -> None:
        """Takes another version of some agents."""

    def snapshot(self) -> Any:
        """Everything."""

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot."""


@dataclass(frozen=True)
class Recipe:
    """Makes a bank.

    Attributes:
        seats: Its agents.
        make: Makes it, of the seats and the number of worlds.
        learns: Whether its agents learn; otherwise they only act.
    """

    seats: tuple[Seat, ...]
    make: Callable[[tuple[Seat, ...], int], Bank]
    learns: bool = True

    @property
    def agents(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(seat.agent for seat in self.seats)


@dataclass(frozen=True)
class OneAgent:
    """Makes the bank of an agent with a learner of the user's own, or with a policy that does not learn.

    Attributes:
        player: Makes the learners.
    """

    player: Player

    def __call__(self, seats: tuple[Seat, ...], worlds: int) -> Bank:
        return Single(seats[0], self.player, worlds)


class Single:
    """A bank of one agent: an object of the user's own in each world.

    Args:
        seat: The agent's place.
        player: Makes the objects.
        worlds: How many.
    """

    def __init__(self, seat: Seat, player: Player, worlds: int) -> None:
        self._agent = seat.agent
        self._builder = Builder(player)
        self._copies = [self._builder.build(seat) for _ in range(worlds)]
        self._acts = [getattr(each, "act", each) for each in self._copies]

    def begin(self, epoch: int, seeds: Mapping[str, list[int]]) -> None:
        """Resets the copies."""
        for each, seed in zip(self._copies, seeds[self._agent], strict=True):
            if hasattr(each, "reset"):
                each.reset(seed)

    def act(self, observations: Mapping[tuple[str, int], Any]) -> dict[tuple[str, int], Any]:
        """Asks the copy of each world."""
        return {name: self._acts[name[1]](seen) for name, seen in observations.items()}

    def learn(self, windows: Mapping[str, Window]) -> dict[str, dict[str, float]]:
        """Lets the learner learn."""
        return {agent: dict(self._copies[0].learn(window) or {}) for agent, window in windows.items()}

    def weights(self) -> dict[str, Any]:
        """The learner's weights if they can be loaded, else a snapshot of it."""
        learner = self._copies[0]
        if not hasattr(learner, "snapshot"):
            return {}
        if hasattr(learner, "weights") and hasattr(learner, "load"):
            return {self._agent: {"weights": learner.weights()}}
        return {self._agent: {"snapshot": learner.snapshot()}}

    def load(self, weights: Weights, versions: Mapping[str, int] | None = None) -> None:
        """Gives every copy a version of its own, with its number."""
        if self._agent not in weights:
            return
        version = weights[self._agent]
        for number, each in enumerate(self._copies):
            mine = copy.deepcopy(version) if number else version
            if "weights" in mine:
                each.load((versions or {}).get(self._agent, 0), mine["weights"])
            else:
                each.restore(mine["snapshot"])

    def snapshot(self) -> Any:
        """Of the learner."""
        return self._copies[0].snapshot()

    def restore(self, state: Any) -> None:
        """Of the learner."""
        self._copies[0].restore(state)

    def copies(self) -> bytes:
        """The copies themselves, with what acting has changed in them: more than a snapshot of the learner has."""
        import cloudpickle

        content: bytes = cloudpickle.dumps(self._copies)
        return content

    def become(self, copies: bytes) -> None:
        """Goes on with copies that `copies` gave."""
        self._copies = pickle.loads(copies)
        self._acts = [getattr(each, "act", each) for each in self._copies]

    def close(self) -> None:
        """Ends the copies."""
        self._builder.close(self._copies, sound=True)


class Acting(OwnStreams):
    """The acting half of a bank, in every world.

    Args:
        recipe: Makes the bank.
        worlds: How many worlds there are.
    """

    def __init__(self, recipe: Recipe, worlds: int) -> None:
        self._bank = recipe.make(recipe.seats, worlds)
        self._spaces = {seat.agent: seat.action_space for seat in recipe.seats}

    def begin(self, epoch: int, seeds: Mapping[str, list[int]]) -> None:
        """An epoch begins."""
        self._bank.begin(epoch, seeds)

    def act(self, observations: Mapping[Name, Any]) -> tuple[dict[Name, Any], dict[Name, Mapping[str, Any]]]:
        """Answers those that are due. Returns actions, and what came beside them."""
        answers = self._bank.act({(agent, world): seen for (world, agent), seen in observations.items()})
        actions: dict[Name, Any] = {}
        extras: dict[Name, Mapping[str, Any]] = {}
        for (agent, world), answer in answers.items():
            if isinstance(answer, Acted):
                extras[world, agent] = answer.extras
                answer = answer.action
            actions[world, agent] = checked(answer, self._spaces[agent], f"the learner of agent {agent!r}")
        return actions, extras

    def load(self, weights: Weights, versions: Mapping[str, int]) -> None:
        """Takes another version of some agents: its weights and its number."""
        if isinstance(self._bank, Single):
            self._bank.load(weights, versions)
        else:
            self._bank.load(weights)

    def snapshot(self) -> Any:
        """Everything that acts, also in the middle of an epoch."""
        return self._bank.copies() if isinstance(self._bank, Single) else self._bank.snapshot()

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot."""
        if isinstance(self._bank, Single):
            self._bank.become(state)
        else:
            self._bank.restore(state)

    def close(self) -> None:
        """Ends the bank."""
        _close(self._bank)


@dataclass(frozen=True)
class Learned:
    """What came of an update.

    Attributes:
        figures: What the learner said: a loss, say.
        weights: The version that it made.
        failure: Why there is none, if there is none.
    """

    figures: Mapping[str, float] = field(default_factory=dict)
    weights: Any = None
    failure: Failure | None = None


class Learning(OwnStreams):
    """The learning half of a bank.

    Args:
        recipe: Makes the bank.
        seed: Root of everything random.
        again: Whether an update that raises is tried once more, from where it began.
    """

    def __init__(self, recipe: Recipe, seed: int, again: bool = False) -> None:
        self._bank, self._seed, self._again = recipe.make(recipe.seats, 1), seed, again
        self._rows = {seat.agent: Rows(seat) for seat in recipe.seats}

    def learn(self, updates: Mapping[str, tuple[int, Span]], shared: Mapping[str, SharedArrays]) -> dict[str, Learned]:
        """Runs one update of some agents.

        Args:
            updates: Agent → the number of its update, and its rows.
            shared: Agent → the memory that they are in.
        """
        before = self._bank.snapshot() if self._again else None
        try:
            figures = self._bank.learn(self._windows(updates, shared))
        except Exception:
            if not self._again:
                raise
            self._bank.restore(before)
            figures = self._bank.learn(self._windows(updates, shared))
        weights = self._bank.weights()
        return {agent: _checked(agent, updates[agent][0], figures[agent], weights[agent]) for agent in updates}

    def _windows(
        self, updates: Mapping[str, tuple[int, Span]], shared: Mapping[str, SharedArrays]
    ) -> dict[str, Window]:
        return {
            agent: RowWindow(
                self._rows[agent],
                shared[agent].arrays,
                span,
                np.random.default_rng(sequence(self._seed, "update", agent, number)),
            )
            for agent, (number, span) in updates.items()
        }

    def weights(self) -> Weights:
        """A version of every agent."""
        return self._bank.weights()

    def snapshot(self) -> Any:
        """Everything that is learned."""
        return self._bank.snapshot()

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot."""
        self._bank.restore(state)

    def close(self) -> None:
        """Ends the bank."""
        _close(self._bank)


def _close(bank: Any) -> None:
    if hasattr(bank, "close"):
        bank.close()


def _checked(agent: str, number: int, figures: Mapping[str, float], weights: Any) -> Learned:
    """A version with numbers that are none is a failure: it would act, and spoil every later update."""
    odd = next((name for name, value in figures.items() if not np.isfinite(value)), None)
    if odd is None and _is_finite(weights):
        return Learned(figures, weights)
    what = f"figure {odd!r} is {figures[odd]}" if odd is not None else "its weights have numbers that are not finite"
    error = Diverged(f"update {number} of agent {agent!r} diverged: {what}; lower the rate, or clip gradients")
    return Learned(figures, None, Failure.of(error, agent))


def _is_finite(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_is_finite(part) for part in value.values())
    if isinstance(value, list | tuple):
        return all(_is_finite(part) for part in value)
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if isinstance(value, float | np.floating | np.ndarray) and np.asarray(value).dtype.kind == "f":
        return bool(np.isfinite(value).all())
    return True
