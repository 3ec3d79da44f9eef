"""Players, and who of them sits where: planned from identities, before anything runs.

as many seats as players, or more    shares of the seats, in every episode
fewer seats                          turns: shares of the seats of all episodes, counted from the first
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from paceline.errors import BadInput
from paceline.seeds import sequence
from paceline.types import Seat, recipe_digest

if TYPE_CHECKING:
    from paceline.team.sharing import Part


@dataclass(frozen=True)
class Player:
    """A policy as a job knows it: a name, a recipe, and how its seats are played.

    Attributes:
        name: How reports name it.
        factory: `factory(seat)` or `factory()`, for a policy; or a policy itself, which every seat and episode gets a
            copy of: an object with `act`, or a plain callable `obs -> action`.
        share: Its share of the seats, by proportion.
        agents: Where its minds live; None: as the job says.
        weights: A version and what its policies' `load(version, weights)` is given before they play, which may be
            `Published`; None: nothing.
        acts: Whether `factory` is a policy itself; None: the job finds out, see `callables`.
        parts: Which seats, by number, share state, and what; None: nothing says so but what the factory declares.
    """

    name: str
    factory: Callable[..., Any]
    share: int = 1
    agents: str | None = None
    weights: tuple[int, Any] | None = None
    acts: bool | None = None
    parts: tuple[Part, ...] | None = None

    @cached_property
    def recipe(self) -> str | None:
        """Tells factories apart, whatever they are called; None where that cannot be told."""
        return recipe_digest(self.factory)

    def declares(self, name: str, default: Any = None) -> Any:
        """What the factory says of its policies: `act_batch`, `together`, `find_parts`, `deterministic`, `reuse`,
        `begin`, `learn`, `tell`, `tell_rows`. Wrapped ones count too."""
        factory: Any = self.factory
        while factory is not None:
            if hasattr(factory, name):
                return getattr(factory, name)
            factory = getattr(factory, "func", None)  # a functools.partial
        return default

    @property
    def is_told(self) -> bool:
        """Whether its policies take the outcomes of their actions: they declare `tell`, `tell_rows` or `learn`."""
        return any(self.declares(name) for name in ("tell", "tell_rows", "learn"))


def is_policy(thing: Any) -> bool:
    """Whether it could answer observations: by `act`, by `act_batch`, or when it is called."""
    return callable(thing) or callable(getattr(thing, "act", None)) or callable(getattr(thing, "act_batch", None))


def with_parts(player: Player, seats: Sequence[Seat]) -> Player:
    """The player with `parts` found, where its factory can find them: once, before anything is played, because random
    streams follow from them."""
    find = player.declares("find_parts")
    return player if find is None else replace(player, parts=tuple(find(seats)))


def plainly_acts(player: Player) -> bool | None:
    """Whether what a player was given is a policy, where that is said or seen without trying it; None: it is not."""
    given: Any = player.factory
    if player.acts is not None:
        return player.acts
    while isinstance(given, partial):
        given = given.func
    if isinstance(given, type):
        return False
    return True if callable(getattr(given, "act", None)) or callable(getattr(given, "act_batch", None)) else None


def counts(players: Sequence[Player], seats: int, index: int = 0) -> list[int]:
    """How many seats each player gets in an episode: by proportion, the largest remainders first.

    Where there are fewer seats than players, they take turns: see `turns`.
    """
    return _counts(_shares(players), seats, index)


def most_counts(players: Sequence[Player], seats: int) -> tuple[int, ...]:
    """The most seats that each player has in any episode."""
    return _most_counts(_shares(players), seats)


def first_episodes(players: Sequence[Player], seats: int) -> list[int | None]:
    """The first episode in which each player sits; None: it never does."""
    shares = _shares(players)
    found: list[int | None] = [None] * len(players)
    for index in reversed(range(_rounds(shares, seats))):
        for number, count in enumerate(_counts(shares, seats, index)):
            if count:
                found[number] = index
    return found


def assign(
    players: Sequence[Player],
    seats: int,
    seed: int,
    mission: str,
    index: int,
    seating: str | tuple[tuple[int, ...], ...] = "drawn",
) -> list[int]:
    """Which player sits in which seat: `counts`, shuffled as the mission says; see `Mission.seating`."""
    if not isinstance(seating, str):
        return list(seating[index])
    order = [number for number, count in enumerate(counts(players, seats, index)) for _ in range(count)]
    if seating == "chained" and not _take_turns(_shares(players), seats):
        return list(_chain(tuple(order), seed).of(index))
    if len(players) > 1:
        np.random.default_rng(sequence(seed, "seats", mission, index)).shuffle(order)
    return order


class _Chain:
    """Shuffles of one list by one generator, each of what the one before has left; as many as have been asked for."""

    def __init__(self, order: Sequence[int], seed: int) -> None:
        self._rng, self._order = random.Random(seed), list(order)
        self._known: list[tuple[int, ...]] = []
        self._lock = threading.Lock()  # episodes on threads ask for their seats at the same time

    def of(self, index: int) -> tuple[int, ...]:
        with self._lock:
            while len(self._known) <= index:
                self._rng.shuffle(self._order)
                self._known.append(tuple(self._order))
            return self._known[index]


@lru_cache(maxsize=64)
def _chain(order: tuple[int, ...], seed: int) -> _Chain:
    return _Chain(order, seed)


@lru_cache(maxsize=16)
def turns(shares: tuple[int, ...]) -> tuple[int, ...]:
    """Who gets the next seat, and the next …; then it begins again.

    After any number of seats, each has its proportion, rounded up or down. (Largest remainders by themselves would
    not do: they give and take when there is one seat more.) So an episode does not depend on how many follow it.
    """
    shares = tuple(share // math.gcd(*shares) for share in shares)
    total, have = sum(shares), [0] * len(shares)
    order: list[int] = []
    for seat in range(1, total + 1):
        # Whoever has its proportion already, rounded up, must wait: Balinski and Young's quota method.
        behind = [number for number, share in enumerate(shares) if have[number] * total < share * seat]
        following = max(behind, key=lambda number: (shares[number] / (have[number] + 1), -number))
        have[following] += 1
        order.append(following)
    return tuple(order)


def _counts(shares: tuple[int, ...], seats: int, index: int) -> list[int]:
    if _take_turns(shares, seats):
        order = turns(shares)
        mine = [order[place % len(order)] for place in range(index * seats, (index + 1) * seats)]
        return [mine.count(number) for number in range(len(shares))]
    exact = [share * seats / sum(shares) for share in shares]
    whole = [int(part) for part in exact]
    by_remainder = sorted(range(len(shares)), key=lambda number: (whole[number] - exact[number], number))
    for number in by_remainder[: seats - sum(whole)]:
        whole[number] += 1
    return whole


@lru_cache(maxsize=64)
def _most_counts(shares: tuple[int, ...], seats: int) -> tuple[int, ...]:
    every = [_counts(shares, seats, index) for index in range(_rounds(shares, seats))]
    return tuple(max(each) for each in zip(*every, strict=True))


def _shares(players: Sequence[Player]) -> tuple[int, ...]:
    shares = tuple(player.share for player in players)
    if sum(shares) <= 0 or min(shares) < 0:
        raise BadInput("the shares of the seats must be 0 or more, and not all 0")
    return shares


def _take_turns(shares: tuple[int, ...], seats: int) -> bool:
    return 0 < seats < sum(share > 0 for share in shares)


def _rounds(shares: tuple[int, ...], seats: int) -> int:
    """After how many episodes the turns begin again."""
    if not _take_turns(shares, seats):
        return 1
    return len(turns(shares)) // math.gcd(len(turns(shares)), seats)
