"""Minds: a policy at its seat, or at all the seats that it plays together. They live in the team's pools.

    one policy per seat          the rule
    several seats, one mind      policies that share state (`together`), and those that answer in batches

A factory of policies that share state may have `act_seats(observations) -> actions`, both by the number of the seat:
then they are asked in one call.

A batch has `lanes` rows, always, and a seat of an episode has the same row wherever it is played: the bits of a forward
pass depend on both (law 7). Rows that nobody is due in are padding.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from paceline.errors import BadInput
from paceline.seeds import Key, seed_of, sequence
from paceline.team.blackbox import BlackBox
from paceline.team.players import Player
from paceline.team.spaces import Array, bounds_of, checked, get_observation, noop_of, put_action, shape_of
from paceline.types import Seat


@dataclass(frozen=True)
class Chair:
    """A seat of an episode, and who plays it.

    Attributes:
        name: What the team calls it.
        episode: Mission and index: what its random streams follow, with the agent.
        seat: The agent's place.
        player: Who plays it.
        most: The most seats that the player has in an episode of this mission, which its rows are counted by; 0: as
            many as in this one.
    """

    name: Hashable
    episode: tuple[str, int]
    seat: Seat
    player: Player
    most: int = 0


@dataclass(frozen=True)
class Recipe:
    """Builds a mind where it will live.

    Attributes:
        chairs: What it plays.
        rows: The row of each chair, for a policy that answers in batches; otherwise empty.
        seed: The run's seed.
        lanes: Rows of a batch.
        limit: Seconds after which an action counts as late; None: never.
        noop_if_late: Whether the action that does nothing is taken in place of a late one.
        blackbox: The directory in which it is written down who is being asked; None: nowhere.
    """

    chairs: tuple[Chair, ...]
    rows: tuple[int, ...]
    seed: int
    lanes: int
    limit: float | None
    noop_if_late: bool = False
    blackbox: str | None = None

    def __call__(self) -> Mind:
        return Mind(self)

    @property
    def key(self) -> Key:
        """Who it is: its random streams follow from this, never from where it lives."""
        first = self.chairs[0]
        if len(self.chairs) == 1 and not self.rows:
            return (*first.episode, first.seat.agent)
        return (*first.episode, "policy", first.player.name, first.seat.agent)


class Mind:
    """A policy, or several that stay together, at one or more chairs."""

    def __init__(self, recipe: Recipe) -> None:
        self._chairs, self._limit = recipe.chairs, recipe.limit
        self._places = {chair.name: number for number, chair in enumerate(recipe.chairs)}
        self._shapes = [shape_of(chair.seat.observation_space) for chair in recipe.chairs]
        self._spaces = [chair.seat.action_space for chair in recipe.chairs]
        self._bounds = [bounds_of(space) for space in self._spaces]
        self._whose = [f"policy {chair.player.name!r} of agent {chair.seat.agent!r}" for chair in recipe.chairs]
        self._noops = [noop_of(space) for space in self._spaces] if recipe.noop_if_late else []
        who = [(chair.seat.agent, chair.player.name) for chair in recipe.chairs]
        self._box = BlackBox(recipe.blackbox, recipe.chairs[0].episode, who)
        self._inhand = self._box.numbers
        self._late: list[Hashable] = []
        factory = _own(recipe.chairs[0].player.factory)
        self._batch: _Batch | _Joint | None = _Batch(recipe, factory) if recipe.rows else None
        self._policies = [] if self._batch else [self._seated(factory, chair, recipe.seed) for chair in recipe.chairs]
        if hasattr(factory, "act_seats"):
            self._batch = _Joint(recipe, factory.act_seats)
        self._acts = [policy if (act := getattr(policy, "act", None)) is None else act for policy in self._policies]
        if all(hasattr(policy, "snapshot") and hasattr(policy, "restore") for policy in self._minded):
            # Only then, because the engine takes whoever has these two for one that can be saved.
            self.snapshot, self.restore = self._save, self._go_on_from

    def act(self, observations: dict[Hashable, Any]) -> tuple[dict[Hashable, Any], list[Hashable]]:
        """Answers for those of its chairs that are due. Returns the actions, and who was late."""
        self._inhand[1] += 1
        due = {self._places[name]: obs for name, obs in observations.items()}
        if self._batch is not None:
            self._inhand[0] = next(iter(due)) + 1
            answers = self._timed(self._batch.act, due)
        else:
            answers = {place: self._ask(place, obs) for place, obs in due.items()}
        actions = {self._chairs[place].name: self._checked(place, action) for place, action in answers.items()}
        self._inhand[0] = 0
        return actions, self._lateness()

    def act_rows(self, observations: Array, due: Array, actions: Array) -> list[Hashable] | None:
        """The same on rows, one per chair; what is not due is left as it is. Returns who was late, if anybody was."""
        self._inhand[1] += 1
        if len(self._chairs) == 1 and self._batch is None:  # then it is due; hot
            self._put(actions, 0, self._ask(0, get_observation(observations[0, ...], self._shapes[0])))
            self._inhand[0] = 0
            return self._lateness() if self._late else None
        places = [place for place, is_due in enumerate(due.tolist()) if is_due]
        seen = {place: get_observation(observations[place, ...], self._shapes[place]) for place in places}
        if self._batch is not None:
            self._inhand[0] = places[0] + 1
            for place, action in self._timed(self._batch.act, seen).items():
                self._put(actions, place, action)
        else:
            for place, obs in seen.items():
                self._put(actions, place, self._ask(place, obs))
        self._inhand[0] = 0
        return self._lateness() or None

    def in_hand(self) -> Hashable:
        """Which chair it was answering for: asked after a failure."""
        place: int = self._inhand[0]
        return self._chairs[max(0, place - 1)].name

    def close(self) -> None:
        """Lets the policies close."""
        self._box.close()
        self._inhand = self._box.numbers
        for policy in self._minded:
            if hasattr(policy, "close"):
                policy.close()

    @property
    def _minded(self) -> list[Any]:
        return [self._batch.policy] if isinstance(self._batch, _Batch) else self._policies

    def _save(self) -> Any:
        rows = self._batch.generators() if isinstance(self._batch, _Batch) else None
        return [policy.snapshot() for policy in self._minded], rows

    def _go_on_from(self, state: Any) -> None:
        policies, generators = state
        for policy, saved in zip(self._minded, policies, strict=True):
            policy.restore(saved)
        if isinstance(self._batch, _Batch):
            self._batch.set_generators(generators)

    def _seated(self, factory: Callable[..., Any], chair: Chair, seed: int) -> Any:
        self._inhand[0] = self._places[chair.name] + 1
        policy = built(factory, chair.seat)
        if hasattr(policy, "reset"):
            policy.reset(seed_of(seed, "policy", *chair.episode, chair.seat.agent))
        self._inhand[0] = 0
        return policy

    def _ask(self, place: int, obs: Any) -> Any:
        self._inhand[0] = place + 1
        return self._timed(self._acts[place], obs) if self._limit is not None else self._acts[place](obs)

    def _put(self, actions: Array, place: int, action: Any) -> None:
        self._inhand[0] = place + 1
        bounds = self._bounds[place]
        if bounds is not None and type(action) is int and bounds[0] <= action < bounds[1]:  # nearly always
            actions[place] = action
            return
        put_action(actions[place, ...], action, self._spaces[place], self._whose[place])

    def _checked(self, place: int, action: Any) -> Any:
        self._inhand[0] = place + 1
        return checked(action, self._spaces[place], self._whose[place])

    def _timed(self, act: Callable[[Any], Any], what: Any) -> Any:
        begin = perf_counter()
        answer = act(what)
        if self._limit is None or perf_counter() - begin <= self._limit:
            return answer
        places = list(what) if self._batch else [self._inhand[0] - 1]
        self._late += [self._chairs[place].name for place in places]
        if not self._noops:
            return answer
        return {place: self._noops[place] for place in places} if self._batch else self._noops[places[0]]

    def _lateness(self) -> list[Hashable]:
        late, self._late = self._late, []
        return late


class _Joint:
    """Policies that share state and are asked together, by the numbers of their seats."""

    def __init__(self, recipe: Recipe, act_seats: Callable[[Mapping[int, Any]], Mapping[int, Any]]) -> None:
        self._seats, self._act_seats = [chair.seat.index for chair in recipe.chairs], act_seats

    def act(self, observations: dict[int, Any]) -> dict[int, Any]:
        """Answers by place, in one call."""
        answers = self._act_seats({self._seats[place]: obs for place, obs in observations.items()})
        return {place: answers[self._seats[place]] for place in observations}


class _Batch:
    """The rows of a policy that answers many seats at once."""

    def __init__(self, recipe: Recipe, factory: Callable[..., Any]) -> None:
        first = recipe.chairs[0]
        self.policy = built(factory, first.seat)
        if hasattr(self.policy, "reset"):
            # By player, not by episode: episodes that share a forward pass share the policy. Rows have generators.
            self.policy.reset(seed_of(recipe.seed, "policy", first.episode[0], first.player.name))
        self._rows, self._name = recipe.rows, first.player.name
        self._seats: list[Seat | None] = [None] * recipe.lanes
        padding = np.random.default_rng(0)  # padding must draw from nobody's stream
        self._rngs: list[np.random.Generator] = [padding] * recipe.lanes
        for row, chair in zip(recipe.rows, recipe.chairs, strict=True):
            self._seats[row] = chair.seat
            self._rngs[row] = np.random.default_rng(sequence(recipe.seed, "row", *chair.episode, chair.seat.agent))

    def act(self, observations: dict[int, Any]) -> dict[int, Any]:
        """Answers by place, in one call."""
        rows: list[Any] = [next(iter(observations.values()))] * len(self._seats)
        mask = np.zeros(len(rows), bool)
        for place, obs in observations.items():
            rows[self._rows[place]] = obs
            mask[self._rows[place]] = True
        answers = self.policy.act_batch(rows, self._seats, mask, self._rngs)
        _check_batch(answers, len(rows), self._name)
        return {place: answers[self._rows[place]] for place in observations}

    def generators(self) -> list[Any]:
        return [self._rngs[row].bit_generator.state for row in self._rows]

    def set_generators(self, states: Sequence[Any]) -> None:
        for row, state in zip(self._rows, states, strict=True):
            self._rngs[row].bit_generator.state = state


def _check_batch(answers: Any, lanes: int, policy: str) -> None:
    """A list, a tuple, an array or a tensor with an action in every row; what stands in rows of padding is not read."""
    rows = hasattr(answers, "__getitem__") and hasattr(answers, "__len__") and not isinstance(answers, Mapping | str)
    if rows and getattr(answers, "shape", (1,)) != () and len(answers) == lanes:
        return
    many = f"{len(answers)} rows" if rows and getattr(answers, "shape", (1,)) != () else f"a {type(answers).__name__}"
    raise BadInput(
        f"act_batch of policy {policy!r} was asked {lanes} rows (lanes={lanes}) and answered {many}: give a list or an "
        "array with one action per row, those where mask is false included"
    )


def built(factory: Callable[..., Any], seat: Seat) -> Any:
    """Builds a policy: the factory is given the seat if it takes one. A function of `obs` is a policy already."""
    try:
        takes = _signatures.get(factory) or _signatures.setdefault(factory, _takes(factory))
    except TypeError:  # it cannot be remembered
        takes = _takes(factory)
    if takes == "observations":
        return factory
    return factory(seat) if takes == "a seat" else factory()


_signatures: WeakKeyDictionary[Callable[..., Any], str] = WeakKeyDictionary()
"""What factories take: to read a signature takes as long as to build a small policy."""


def _takes(factory: Callable[..., Any]) -> str:
    try:
        parameters = inspect.signature(factory)
        if inspect.isfunction(factory) and next(iter(parameters.parameters), "") in _OBSERVATION:
            return "observations"
        parameters.bind(None)
    except (TypeError, ValueError):
        return "nothing"
    return "a seat"


def _own(factory: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of a factory that may hold state, as a mind in a process gets one by being sent there: what the policies
    of a mind share through their factory is theirs, and not another episode's. What cannot be copied cannot be sent
    either, and there is one of it."""
    if inspect.isroutine(factory) or inspect.isclass(factory):
        return factory
    try:
        return copy.deepcopy(factory)
    except Exception:
        return factory


_OBSERVATION = ("obs", "observation")
