"""Players, and who of them sits where: planned from identities, before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.errors import BadInput
from paceline.seeds import Key, sequence


@dataclass(frozen=True)
class Player:
    """A policy as a job knows it: a name, a recipe, and how its seats are played.

    Attributes:
        name: How reports name it.
        factory: `factory(seat)` or `factory()`, for a policy; a plain callable `obs -> action` will do for one too.
        share: Its share of the seats, by proportion.
        agents: Where its minds live; None: as the job says.
    """

    name: str
    factory: Callable[..., Any]
    share: int = 1
    agents: str | None = None

    def declares(self, name: str, default: Any = None) -> Any:
        """What the factory says of its policies: `act_batch`, `together`, `deterministic`. Wrapped ones count too."""
        factory: Any = self.factory
        while factory is not None:
            if hasattr(factory, name):
                return getattr(factory, name)
            factory = getattr(factory, "func", None)  # a functools.partial
        return default


def counts(players: Sequence[Player], seats: int) -> list[int]:
    """How many seats each player gets: by proportion, the largest remainders first."""
    total = sum(player.share for player in players)
    if total <= 0 or any(player.share < 0 for player in players):
        raise BadInput("the shares of the seats must be 0 or more, and not all 0")
    exact = [player.share * seats / total for player in players]
    whole = [int(part) for part in exact]
    by_remainder = sorted(range(len(players)), key=lambda number: (whole[number] - exact[number], number))
    for number in by_remainder[: seats - sum(whole)]:
        whole[number] += 1
    return whole


def assign(players: Sequence[Player], seats: int, seed: int, *key: Key) -> list[int]:
    """Which player sits in which seat: `counts`, shuffled by a draw that follows from the identity of the episode."""
    order = [number for number, count in enumerate(counts(players, seats)) for _ in range(count)]
    if len(players) > 1:
        np.random.default_rng(sequence(seed, "seats", *key)).shuffle(order)
    return order
