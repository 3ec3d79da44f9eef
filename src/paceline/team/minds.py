"""Minds: a policy at its seat, or at all the seats that it plays together. They live in the team's pools.

    one policy per seat          the rule
    several seats, one mind      policies that share state (`together`), and those that answer in batches

A factory of policies that share state may have `act_seats(observations) -> actions`, both by the number of the seat:
then they are asked in one call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from paceline.engine import OwnStreams, Published, StoreKey, put_back, take
from paceline.errors import BadInput, brief
from paceline.lasting import LASTING
from paceline.seeds import Key, seed_of
from paceline.spaces import Array, bounds_of, checked, get_observation, noop_of, put_action, shape_of, usual_action
from paceline.tape import Track
from paceline.team.batches import Batch, Joint
from paceline.team.blackbox import BlackBox
from paceline.team.chairs import Chair
from paceline.team.copies import own, why_not_copied
from paceline.team.players import Player, plainly_acts
from paceline.types import Acted, Seat


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
        is_watched: Whether its process serves later episodes too, if nothing has changed there that lasts.
    """

    chairs: tuple[Chair, ...]
    rows: tuple[int, ...]
    seed: int
    lanes: int
    limit: float | None
    noop_if_late: bool = False
    blackbox: str | None = None
    is_watched: bool = False

    def __call__(self) -> Mind:
        return Mind(self)

    @property
    def key(self) -> Key:
        """Who it is: its random streams follow from this, never from where it lives."""
        first = self.chairs[0]
        if len(self.chairs) == 1 and not self.rows:
            return (*first.episode, first.seat.agent)
        return (*first.episode, "policy", first.player.name, first.seat.agent)


Outcome = tuple[float, bool, bool, Any]
"""Reward, terminated, truncated, and the final observation if the agent's episode ended."""


class Mind(OwnStreams):
    """A policy, or several that stay together, at one or more chairs."""

    def __init__(self, recipe: Recipe) -> None:
        self._chairs, self._limit, self._seed = list(recipe.chairs), recipe.limit, recipe.seed
        self._places = {chair.name: number for number, chair in enumerate(recipe.chairs)}
        self._shapes = [shape_of(chair.seat.observation_space) for chair in recipe.chairs]
        self._spaces = [chair.seat.action_space for chair in recipe.chairs]
        self._bounds = [bounds_of(space) for space in self._spaces]
        self._usual = [usual_action(space) for space in self._spaces]
        self._whose = [f"policy {chair.player.name!r} of agent {chair.seat.agent!r}" for chair in recipe.chairs]
        self._noops = [noop_of(space) for space in self._spaces] if recipe.noop_if_late else []
        who = [(chair.seat.agent, chair.player.name) for chair in recipe.chairs]
        self._box = BlackBox(recipe.blackbox, recipe.chairs[0].episode, who)
        self._inhand = self._box.numbers
        self._late: list[Hashable] = []
        self._extras: dict[Hashable, Mapping[str, Any]] = {}
        self._player = recipe.chairs[0].player
        self._builder = Builder(self._player)
        self._batch: Batch | Joint | None = None
        self._policies: list[Any] = []
        if recipe.is_watched:
            LASTING.meet(self._player.factory)
            LASTING.begin()  # what building changes, lasts too
        if recipe.rows:
            build = partial(self._builder.build, recipe.chairs[0].seat)
            self._batch = Batch(recipe.chairs, recipe.rows, recipe.lanes, recipe.seed, build)
        else:
            self._build(range(len(self._chairs)))
        self._tracks = [Track(chair.seat) for chair in self._chairs] if self._player.declares("learn") else []
        if self._batch.can_be_saved if isinstance(self._batch, Batch) else all(map(_saves_itself, self._policies)):
            # Only then, because the engine takes a member that has these two for one that can be saved.
            self.snapshot, self.restore = self._save, self._go_on_from
        if recipe.is_watched:
            LASTING.begin()

    # -- its policies ----------------------------------------------------------------------------------------

    def begin(self, episodes: Mapping[Hashable, tuple[str, int]]) -> None:
        """Begins the next episode of some chairs.

        Policies that keep what they have learned, and those that are declared to be as new after a reset, are reset;
        others are built anew.
        """
        places = {self._places[name]: episode for name, episode in episodes.items()}
        for place, episode in places.items():
            self._chairs[place] = self._chairs[place].playing(episode)
        if isinstance(self._batch, Batch):
            self._batch.begin(places)
        elif self._tracks or self._builder.reuses:
            for place in places:
                self._reset(place)
        elif len(places) == len(self._chairs):
            self._builder.close(self._policies, sound=True)
            self._builder, self._policies = Builder(self._player), []
            self._build(range(len(self._chairs)))
        else:
            raise BadInput(f"{self._whose[0]} shares state with others: all of its chairs begin together")

    def _build(self, places: Iterable[int]) -> None:
        for place in places:
            self._inhand[0] = place + 1
            self._policies.append(self._builder.build(self._chairs[place].seat))
            self._reset(place)
        self._inhand[0] = 0
        if self._builder.act_seats is not None:
            self._batch = Joint(self._chairs, self._builder.act_seats)
        self._acts = [policy if (act := getattr(policy, "act", None)) is None else act for policy in self._policies]

    def _reset(self, place: int) -> None:
        policy, chair = self._policies[place], self._chairs[place]
        if hasattr(policy, "reset"):
            self._inhand[0] = place + 1
            policy.reset(seed_of(self._seed, "policy", *chair.episode, chair.seat.agent))
            self._inhand[0] = 0

    def close(self) -> None:
        """Lets the policies close; those that may serve again are left to later episodes in this worker."""
        sound = self._inhand[0] == 0
        self._box.close()
        self._inhand = self._box.numbers
        self._builder.close(self._batch.policies if isinstance(self._batch, Batch) else self._policies, sound=sound)

    def _save(self) -> Any:
        episodes = {chair.name: chair.episode for chair in self._chairs}
        if isinstance(self._batch, Batch):
            return episodes, self._batch.save(), self._tracks
        return episodes, [policy.snapshot() for policy in self._policies], self._tracks

    def _go_on_from(self, state: Any) -> None:
        episodes, saved, tracks = state
        if any(chair.episode != episodes[chair.name] for chair in self._chairs):
            self.begin(episodes)
        self._tracks = tracks
        if isinstance(self._batch, Batch):
            self._batch.restore(saved)
            return
        for policy, mine in zip(self._policies, saved, strict=True):
            policy.restore(mine)

    # -- what it is asked --------------------------------------------------------------------------------------

    def act(
        self, observations: Mapping[Hashable, Any]
    ) -> tuple[dict[Hashable, Any], list[Hashable], dict[Hashable, Mapping[str, Any]]]:
        """Answers for those of its chairs that are due. Returns the actions, who was late, and extras."""
        self._inhand[1] += 1
        due = {self._places[name]: obs for name, obs in observations.items()}
        if self._batch is not None:
            self._inhand[0] = next(iter(due)) + 1
            answers = self._timed(self._batch.act, due)
        else:
            answers = {place: self._ask(place, obs) for place, obs in due.items()}
        actions = {self._chairs[place].name: self._checked(place, action) for place, action in answers.items()}
        for name, action in actions.items() if self._tracks else ():
            self._record(self._places[name], observations[name], action)
        self._inhand[0] = 0
        return actions, *(self._beside() if self._late or self._extras else ([], {}))

    def act_rows(
        self, observations: Array, due: Array, actions: Array
    ) -> tuple[list[Hashable], dict[Hashable, Mapping[str, Any]]] | None:
        """The same on rows, one per chair; what is not due is cleared, so that rows follow from what was asked. Returns
        who was late and extras, if there are any."""
        self._inhand[1] += 1
        if len(self._chairs) == 1 and self._batch is None and not self._tracks:  # then it is due; hot
            self._put(actions, 0, self._ask(0, get_observation(observations[0, ...], self._shapes[0])))
            self._inhand[0] = 0
            return self._beside() if self._late or self._extras else None
        actions[...] = 0
        places = [place for place, is_due in enumerate(due.tolist()) if is_due]
        seen = {place: get_observation(observations[place, ...], self._shapes[place]) for place in places}
        if self._batch is not None:
            self._inhand[0] = places[0] + 1
            for place, action in self._timed(self._batch.act, seen).items():
                self._put(actions, place, action)
        else:
            for place, obs in seen.items():
                self._put(actions, place, self._ask(place, obs))
        for place in places if self._tracks else ():
            self._record(place, seen[place], actions[place, ...].copy())
        self._inhand[0] = 0
        return self._beside() if self._late or self._extras else None

    def tell(self, outcomes: Mapping[Hashable, Outcome]) -> None:
        """Tells its policies what came of their last actions."""
        for name, outcome in outcomes.items():
            place = self._places[name]
            self._inhand[0] = place + 1
            if self._tracks:
                self._tracks[place].step(*outcome)
            tell = getattr(self._policies[place], "tell", None) if self._policies else None
            if tell is not None:
                tell(*outcome)
        if isinstance(self._batch, Batch):
            self._batch.tell({self._places[name]: outcome for name, outcome in outcomes.items()})
        self._inhand[0] = 0

    def states(self, names: Iterable[Hashable]) -> dict[Hashable, Any]:
        """What a row policy keeps for some of its chairs, if it can say so."""
        return self._batch.states(self._places[name] for name in names) if isinstance(self._batch, Batch) else {}

    def learn(self, names: Iterable[Hashable]) -> dict[Hashable, Mapping[str, float]]:
        """Lets learners learn from their rows since the last time. Returns their figures."""
        figures: dict[Hashable, Mapping[str, float]] = {}
        for name in names:
            place = self._places[name]
            self._inhand[0] = place + 1
            window, self._tracks[place] = self._tracks[place], Track(self._chairs[place].seat)
            figures[name] = dict(self._policies[place].learn(window))
        self._inhand[0] = 0
        return figures

    def draws(self) -> bool:
        """Whether it has ever drawn from a process-wide generator; to be called as a read."""
        return self.streams() is not None

    @staticmethod
    def lasting() -> tuple[bool, list[str]]:
        """Whether something has changed in this process that lasts, and the news of it; to be called as a read."""
        LASTING.end()
        return LASTING.has_changed, LASTING.news()

    def in_hand(self) -> Hashable:
        """Which chair it was answering for: asked after a failure."""
        place: int = self._inhand[0]
        return self._chairs[max(0, place - 1)].name

    def _ask(self, place: int, obs: Any) -> Any:
        self._inhand[0] = place + 1
        return self._timed(self._acts[place], obs) if self._limit is not None else self._acts[place](obs)

    def _record(self, place: int, obs: Any, action: Any) -> None:
        self._tracks[place].act(obs, action, self._extras.get(self._chairs[place].name, {}))

    def _put(self, actions: Array, place: int, action: Any) -> None:
        self._inhand[0] = place + 1
        bounds = self._bounds[place]
        if bounds is not None and type(action) is int and bounds[0] <= action < bounds[1]:  # nearly always
            actions[place] = action
            return
        action = self._without_extras(place, action)
        put_action(actions[place, ...], action, self._spaces[place], self._whose[place])

    def _checked(self, place: int, action: Any) -> Any:
        self._inhand[0] = place + 1
        if type(action) is Acted:
            action = self._without_extras(place, action)
        if type(action) is np.ndarray and (action.dtype, action.shape) == self._usual[place]:
            return action.copy()
        return checked(action, self._spaces[place], self._whose[place])

    def _without_extras(self, place: int, answer: Any) -> Any:
        """The action of an answer; what came beside it is kept for the team."""
        if type(answer) is not Acted:
            return answer
        self._extras[self._chairs[place].name] = answer.extras
        return answer.action

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

    def _beside(self) -> tuple[list[Hashable], dict[Hashable, Mapping[str, Any]]]:
        """Who was late, and extras, since the last time."""
        late, extras, self._late, self._extras = self._late, self._extras, [], {}
        return late, extras


class Builder:
    """Builds the policies of a mind; those that may serve again are taken from the worker's store, and put back.

    Args:
        player: Whose policies.
    """

    def __init__(self, player: Player) -> None:
        self._player = player
        by_row = player.declares("act_batch") is not None and player.declares("begin") is not None
        declared = by_row or bool(player.declares("reuse", False))
        self.reuses = declared and not plainly_acts(player) and player.recipe is not None
        """Whether a policy is as new after it has been reset."""
        self._factory = player.factory if self.reuses else own(player.factory)
        self.act_seats: Callable[[Mapping[int, Any]], Mapping[int, Any]] | None
        self.act_seats = getattr(self._factory, "act_seats", None)
        self._reused: dict[int, tuple[StoreKey, _Reused]] = {}

    def build(self, seat: Seat) -> Any:
        """A policy for a seat, with the player's weights."""
        if not self.reuses:
            policy = built(self._player, self._factory, seat)
            _load(policy, self._player.weights)
            return policy
        key = policy_key(self._player, seat)
        reused = take(key, lambda: _Reused(built(self._player, self._factory, seat)))
        while self._player.weights is None and reused.has_loaded:  # without weights it plays as it was built
            reused.close()
            reused = take(key, lambda: _Reused(built(self._player, self._factory, seat)))
        reused.load(self._player.weights)
        self._reused[id(reused.policy)] = key, reused
        return reused.policy

    def close(self, policies: Iterable[Any], *, sound: bool) -> None:
        """Ends policies, or leaves them to later episodes in this worker; one that failed in mid-answer is not."""
        for policy in policies:
            key, reused = self._reused.pop(id(policy), (None, None))
            if key is not None and sound:
                put_back(key, reused)
            elif hasattr(policy, "close"):
                policy.close()


class _Reused:
    """A policy in the worker's store, and which published weights it has."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        self.has_loaded = False
        """Whether it has been given weights, so that it is not as it was built."""
        self._has = ""

    def load(self, weights: tuple[int, Any] | None) -> None:
        """Loads weights, unless it has them: several chunks of an iteration are played with one version."""
        name = weights[1].name if weights is not None and isinstance(weights[1], Published) else ""
        if not name or name != self._has:
            self._has, self.has_loaded = "", self.has_loaded or weights is not None
            _load(self.policy, weights)
            self._has = name

    def close(self) -> None:
        """Ends the policy."""
        if hasattr(self.policy, "close"):
            self.policy.close()


def _load(policy: Any, weights: tuple[int, Any] | None) -> None:
    if weights is not None:
        version, value = weights
        if not hasattr(policy, "load"):
            raise BadInput(f"weights are given, and the policy has no load(version, weights): {brief(policy)}")
        policy.load(version, value.get() if isinstance(value, Published) else value)


def policy_key(player: Player, seat: Seat) -> StoreKey:
    """Names a player's policy at a seat, for the store."""
    assert player.recipe is not None
    spaces = repr((seat.observation_space, seat.action_space))
    return ("policy", player.recipe, seat.mission, seat.agent, seat.index, seat.device, spaces)


def _saves_itself(policy: Any) -> bool:
    return hasattr(policy, "snapshot") and hasattr(policy, "restore")


def built(player: Player, factory: Callable[..., Any], seat: Seat) -> Any:
    """A policy: what is given if it is one, otherwise what it makes. It is given the seat if it asks for one
    argument, or has one that is called `seat`."""
    policy = factory if plainly_acts(player) else _made(player, factory, seat)
    LASTING.meet(policy)
    return policy


def _made(player: Player, factory: Callable[..., Any], seat: Seat) -> Any:
    given = player.factory  # of which `factory` is a copy
    try:
        takes_seat = _takes_seat.get(given)
        if takes_seat is None:
            takes_seat = _takes_seat[given] = _takes_one(given)
    except TypeError:  # it cannot be remembered
        takes_seat = _takes_one(given)
    return factory(seat) if takes_seat else factory()


_takes_seat: WeakKeyDictionary[Callable[..., Any], bool] = WeakKeyDictionary()
"""Which factories take a seat: to read a signature takes as long as to build a small policy."""


def _takes_one(factory: Callable[..., Any]) -> bool:
    """Whether a factory is made for a seat. An argument with a default is a setting of its own."""
    try:
        signature = inspect.signature(factory)
        signature.bind(None)
    except (TypeError, ValueError):
        return False
    first = next(iter(signature.parameters.values()))
    return first.default is first.empty or first.name == "seat"


def cannot_be_copied(player: Player) -> str | None:
    """Why every seat and episode shares the policy that was given for a player; None: each has a copy, or its own."""
    return why_not_copied(player.factory) if plainly_acts(player) else None
