"""Team: the policies of one rollout, wherever they live.

    seats ──► Minds (one per seat, or one for all seats of a policy that answers in batches)
                 └── live in Pools: here, on threads, in processes ──► act(observations) → actions, in seat order

A policy that offers `act_batch` is called through it in every mode, padded to `lanes` rows, each seat always in the same
row: the bits of a forward pass depend on both, and must not depend on where it runs (law 7).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.engine import Pool
from paceline.errors import BadInput
from paceline.seeds import Key, seed_of, sequence
from paceline.types import Seat

HERE_MODES = ("off", "batch", "gpu")
MODES = ("auto", "off", "thread", "process", "batch", "gpu")


@dataclass(frozen=True)
class Player:
    """A policy as an evaluation knows it: a name, a recipe, and how its seats are played.

    Attributes:
        name: How reports name it.
        factory: `factory(seat)` or `factory()`; a plain callable `obs -> action` made by the factory will do too.
        share: Its share of the seats, by proportion.
        agents: Where its minds live: "off" (here), "thread", "process", "batch", "gpu" or "auto"; None: as the job says.
    """

    name: str
    factory: Callable[..., Any]
    share: int = 1
    agents: str | None = None


def assign(players: Sequence[Player], seats: int, seed: int, *key: Key) -> list[int]:
    """Which player sits in which seat: shares by proportion, the largest remainders first, shuffled by identity."""
    total = sum(player.share for player in players)
    if total <= 0 or any(player.share < 0 for player in players):
        raise BadInput("shares of the seats must be 0 or more, and not all 0")
    exact = [player.share * seats / total for player in players]
    counts = [int(part) for part in exact]
    by_remainder = sorted(range(len(players)), key=lambda p: (counts[p] - exact[p], p))
    for player in by_remainder[: seats - sum(counts)]:
        counts[player] += 1
    order = [player for player, count in enumerate(counts) for _ in range(count)]
    np.random.default_rng(sequence(seed, "seats", *key)).shuffle(order)
    return order


class Team:
    """The minds of one rollout."""

    def __init__(
        self,
        seats: Sequence[Seat],
        players: Sequence[Player],
        seating: Sequence[int],
        *,
        seed: int,
        key: tuple[Key, ...],
        lanes: int = 8,
        agents: str = "off",
        workers: int | None = None,
    ) -> None:
        self._stack = ExitStack()
        self._minds: dict[str, tuple[Pool, int]] = {}  # agent → where its mind lives
        groups = _groups(seats, players, seating)
        by_mode: dict[str, list[Group]] = {}
        for group in groups:
            by_mode.setdefault(_mode(group.player, agents), []).append(group)
        self._pools = [self._open(mode, mine, seed, key, lanes, workers) for mode, mine in by_mode.items()]

    def _open(
        self, mode: str, groups: list[Group], seed: int, key: tuple[Key, ...], lanes: int, workers: int | None
    ) -> Pool:
        backend = "inline" if mode in HERE_MODES else mode
        count = len(groups) if backend == "thread" else workers
        recipes = [_Recipe(group, seed, key, lanes) for group in groups]
        keys = [(*key, group.seats[0].agent) for group in groups]
        pool = Pool(recipes, backend=backend, workers=1 if backend == "inline" else count, seed=seed, keys=keys)
        self._stack.enter_context(pool)
        for number, group in enumerate(groups):
            self._minds.update({seat.agent: (pool, number) for seat in group.seats})
        return pool

    def act(self, observations: Mapping[str, Any]) -> dict[str, Any]:
        """Asks everybody who is due, all at once where they live apart. Returns the actions by agent."""
        handles = []
        for pool in self._pools:
            calls = self._calls(pool, observations)
            if calls:
                handles.append(pool.post("act", calls))
        answers: dict[str, Any] = {}
        for handle in handles:
            for actions in handle.wait().values():
                answers.update(actions)
        return {agent: answers[agent] for agent in observations}

    def _calls(self, pool: Pool, observations: Mapping[str, Any]) -> dict[int, tuple[dict[str, Any]]]:
        calls: dict[int, tuple[dict[str, Any]]] = {}
        for agent, obs in observations.items():
            home, number = self._minds[agent]
            if home is pool:
                calls.setdefault(number, ({},))[0][agent] = obs
        return calls

    @property
    def plans(self) -> list[str]:
        """Where the minds live, and why."""
        return [pool.plan.why for pool in self._pools]

    def close(self) -> None:
        """Ends every pool."""
        self._stack.close()

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class Group:
    """The seats that one mind plays."""

    player: Player
    seats: tuple[Seat, ...]


def _groups(seats: Sequence[Seat], players: Sequence[Player], seating: Sequence[int]) -> list[Group]:
    groups: list[Group] = []
    for number, player in enumerate(players):
        mine = [seat for seat, who in zip(seats, seating, strict=True) if who == number]
        if not mine:
            continue
        if _together(player):
            groups.append(Group(player, tuple(mine)))
        else:
            groups += [Group(player, (seat,)) for seat in mine]
    return groups


def _together(player: Player) -> bool:
    """Whether one mind plays all seats: a policy that answers in batches, or that declares shared state."""
    factory = player.factory
    return bool(getattr(factory, "together", False) or hasattr(factory, "act_batch"))


def _mode(player: Player, default: str) -> str:
    mode = player.agents or default
    if mode not in MODES:
        raise BadInput(f"agents={mode!r} for policy {player.name!r}; give one of {', '.join(MODES)}")
    return mode


@dataclass(frozen=True)
class _Recipe:
    """Builds a mind where it will live."""

    group: Group
    seed: int
    key: tuple[Key, ...]
    lanes: int

    def __call__(self) -> Mind:
        return Mind(self.group, self.seed, self.key, self.lanes)


class Mind:
    """A policy at its seat, or one policy at all of its seats."""

    def __init__(self, group: Group, seed: int, key: tuple[Key, ...], lanes: int) -> None:
        self._seats = group.seats
        self._name = group.player.name
        self._policy = _built(group.player.factory, group.seats[0])
        first = group.seats[0]
        if hasattr(self._policy, "reset"):
            self._policy.reset(seed_of(seed, "policy", *key, first.agent))
        self._batched = hasattr(self._policy, "act_batch")
        self._lanes = lanes
        self._rngs = [np.random.default_rng(sequence(seed, "row", *key, seat.agent)) for seat in group.seats]
        self._spare = np.random.default_rng(0)  # padding must draw from nobody's stream

    def act(self, observations: dict[str, Any]) -> dict[str, Any]:
        """Answers for its seats."""
        if self._batched:
            return self._act_in_rows(observations)
        act = self._policy.act if hasattr(self._policy, "act") else self._policy
        return {agent: act(obs) for agent, obs in observations.items()}

    def _act_in_rows(self, observations: dict[str, Any]) -> dict[str, Any]:
        actions: dict[str, Any] = {}
        filler = next(iter(observations.values()))
        for start in range(0, len(self._seats), self._lanes):
            seats: list[Seat | None] = [*self._seats[start : start + self._lanes]]
            rngs = [*self._rngs[start : start + self._lanes]]
            padding = self._lanes - len(seats)
            seats += [None] * padding
            rngs += [self._spare] * padding
            mask = np.array([seat is not None and seat.agent in observations for seat in seats])
            rows = [observations.get(seat.agent, filler) if seat is not None else filler for seat in seats]
            if mask.any():
                answers = self._policy.act_batch(rows, seats, mask, rngs)
                actions.update({s.agent: a for s, a, asked in zip(seats, answers, mask, strict=True) if s and asked})
        return actions

    def close(self) -> None:
        """Lets the policy close."""
        if hasattr(self._policy, "close"):
            self._policy.close()


def _built(factory: Callable[..., Any], seat: Seat) -> Any:
    try:
        inspect.signature(factory).bind(seat)
    except (TypeError, ValueError):
        return factory()
    return factory(seat)
