"""Banks: one or more agents that act and learn in one call; a bank of the user's own learner has one.

Recipe ── seats, worlds ──► Bank: a stack of ours (`learning.bank`), a Single, or a policy InRows
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from paceline.errors import BadInput
from paceline.roles import Window
from paceline.team import Batch, Builder, Chair, Player
from paceline.types import Seat

Weights = Mapping[str, Any]
"""Agent → what carries a version of it to the copies that act."""

LEARNS = ("act", "learn", "snapshot", "restore")
"""What a learner must have."""


class Bank(Protocol):
    """One or more agents that act and learn in one call; see `learning.bank`."""

    memoryless: bool
    """Whether an answer follows from weights, observation and draw alone, so that an agent may be asked again."""

    def begin(self, epoch: int, seeds: Mapping[str, list[int]]) -> None:
        """An epoch begins: a seed for each agent and world."""

    def act(
        self, observations: Mapping[tuple[str, int], Any], again: Collection[tuple[str, int]] = ()
    ) -> Mapping[tuple[str, int], Any]:
        """Answers by (agent, world); only those that are due. Those that are asked again draw what they drew before."""

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

    @property
    def is_users(self) -> bool:
        """Whether it makes the bank of a user's own learner, or of a policy."""
        return isinstance(self.make, OneAgent)


@dataclass(frozen=True)
class OneAgent:
    """Makes the bank of an agent with a learner of the user's own, or with a policy that does not learn.

    Attributes:
        player: Makes the learners.
        lanes: Rows of a batch of a policy that answers in rows; 0: it is asked one by one.
        seed: Root of what such a policy draws.
    """

    player: Player
    lanes: int = 0
    seed: int = 0

    def __call__(self, seats: tuple[Seat, ...], worlds: int) -> Bank:
        if self.lanes:
            return InRows(seats[0], self.player, worlds, self.lanes, self.seed)
        return Single(seats[0], self.player, worlds)


class Single:
    """A bank of one agent: an object of the user's own in each world.

    Args:
        seat: The agent's place.
        player: Makes the objects.
        worlds: How many.
    """

    memoryless = False

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

    def act(
        self, observations: Mapping[tuple[str, int], Any], again: Collection[tuple[str, int]] = ()
    ) -> dict[tuple[str, int], Any]:
        """Asks the copy of each world; none is ever asked again, as it may have changed by being asked."""
        return {name: self._acts[name[1]](seen) for name, seen in observations.items()}

    def learn(self, windows: Mapping[str, Window]) -> dict[str, dict[str, float]]:
        """Lets the learner learn."""
        return {agent: _figures(agent, self._copies[0].learn(window)) for agent, window in windows.items()}

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


class InRows(Single):
    """A bank of one agent with a policy that answers in rows (`roles.RowPolicy`), and does not learn.

    Each world has a row of a batch of `lanes`, as seats have in an evaluation; more worlds have more batches.

    Args:
        seat: The agent's place.
        player: Makes the policies.
        worlds: How many worlds there are.
        lanes: Rows of a batch.
        seed: Root of everything random.
    """

    def __init__(self, seat: Seat, player: Player, worlds: int, lanes: int, seed: int) -> None:
        self._agent, self._mission, self._lanes = seat.agent, seat.mission, lanes
        self._builder = Builder(player)
        chairs = [Chair(world, (seat.mission, world), seat, player) for world in range(worlds)]
        blocks = [chairs[first : first + lanes] for first in range(0, worlds, lanes)]
        build = partial(self._builder.build, seat)
        self._batches = [Batch(block, range(len(block)), lanes, seed, build) for block in blocks]

    def begin(self, epoch: int, seeds: Mapping[str, list[int]]) -> None:
        """Begins an episode in every row: epochs are counted through all worlds."""
        worlds = len(seeds[self._agent])
        for batch, mine in self._by_batch(range(worlds)):
            batch.begin({place: (self._mission, epoch * worlds + world) for place, world in mine.items()})

    def act(
        self, observations: Mapping[tuple[str, int], Any], again: Collection[tuple[str, int]] = ()
    ) -> dict[tuple[str, int], Any]:
        """Asks the rows of the worlds that are due."""
        return {
            (self._agent, mine[place]): answer
            for batch, mine in self._by_batch(world for _, world in observations)
            for place, answer in batch.act(
                {place: observations[self._agent, world] for place, world in mine.items()}
            ).items()
        }

    def _by_batch(self, worlds: Iterable[int]) -> Iterator[tuple[Batch, dict[int, int]]]:
        """The batches of some worlds, with the worlds by their rows."""
        found: dict[int, dict[int, int]] = {}
        for world in worlds:
            found.setdefault(world // self._lanes, {})[world % self._lanes] = world
        for number, mine in found.items():
            yield self._batches[number], mine

    def copies(self) -> bytes:
        """The batches, with what acting has changed in their policies."""
        import cloudpickle

        content: bytes = cloudpickle.dumps(self._batches)
        return content

    def become(self, copies: bytes) -> None:
        """Goes on with batches that `copies` gave."""
        self._batches = pickle.loads(copies)

    def close(self) -> None:
        """Ends the policies."""
        self._builder.close([policy for batch in self._batches for policy in batch.policies], sound=True)


def _figures(agent: str, told: Any) -> dict[str, float]:
    """What `learn` has given, as numbers.

    Raises:
        BadInput: it is no mapping, or has something else in it.
    """
    wanted = f"learn(window) of the learner of agent {agent!r} gives figures by name, {{'loss': 0.1}} say, or nothing"
    if not isinstance(told, Mapping | None):
        raise BadInput(f"{wanted}; it gave {told!r:.60}")
    try:
        return {str(name): float(value) for name, value in (told or {}).items()}
    except (TypeError, ValueError):
        raise BadInput(f"{wanted}; among {told!r:.200} is one that is no number") from None


def regrouped(agents: Sequence[str], saved: Mapping[tuple[str, ...], Any]) -> Any:
    """The snapshot of a bank, of those of the banks that its agents were in; see `learning.bank.Bank.snapshot`."""
    if tuple(agents) in saved:
        return saved[tuple(agents)]
    every = {agent: state for part in saved.values() for agent, state in part["agents"].items()}
    return {**next(iter(saved.values())), "agents": {agent: every[agent] for agent in agents}}
