"""What a caller gives for missions and policies: names, objects and callables become `Mission`s and `Player`s."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from paceline.catalog.missions import find_missions
from paceline.catalog.policies import (
    default_policy,
    find_policy,
    numbered,
    policy_factory,
    policy_kind,
    tell_limit,
    with_shares,
)
from paceline.errors import BadInput
from paceline.run import Seconds, checked
from paceline.team import Player, is_policy
from paceline.types import Mission

Missions = str | Mission | Callable[..., Any] | Iterable[str | Mission | Callable[..., Any]]
Policies = object
"""A name, a `Player`, a policy, what makes policies, a torch module, a model of Stable-Baselines3; or several."""


def missions_of(given: Missions, *, apart: bool = False) -> tuple[Mission, ...]:
    """The missions that are meant.

    Args:
        given: What is given.
        apart: Those with a name are not loaded in this process.
    """
    return tuple(mission for item in _items(given) for mission in _missions(item, apart))


def _items(given: Any) -> list[Any]:
    """What is given, one by one. What can play is one thing, though it may be iterable, as torch's Sequential is."""
    one = isinstance(given, str | Mission | Player | Mapping) or is_policy(given) or not isinstance(given, Iterable)
    return [given] if one else list(given)


def _missions(item: Any, apart: bool) -> list[Mission]:
    if isinstance(item, Mission):
        return [item]
    if isinstance(item, str):
        return find_missions([item], apart=apart)
    if callable(item):
        return [Mission(_name(item), item)]
    hint = ""
    if hasattr(item, "reset") and hasattr(item, "step"):
        made = type(getattr(item, "unwrapped", item)).__name__
        hint = f" (it is an environment, and each episode has its own: give what makes it, such as its class {made})"
    raise BadInput(
        f"{item!r:.60} is no mission: give a name, what makes environments (a class will do), or a Mission{hint}"
    )


def casts_of(
    missions: Sequence[Mission], given: Policies, action_limit: float | None = None, *, apart: bool = False
) -> tuple[tuple[Player, ...], tuple[tuple[Player, ...], ...]]:
    """The players that are meant: all of them, and those of each mission.

    Args:
        missions: What is played.
        given: What plays.
        action_limit: Seconds that an action may take.
        apart: Those with a name are not loaded in this process.

    Raises:
        BadInput: one of them cannot be had, or the limit makes no sense.
    """
    checked("action_limit", Seconds | None, action_limit)
    items = _items(given)
    kinds: dict[Any, tuple[Player, ...]] = {}
    casts = []
    for mission in missions:
        kind = policy_kind(mission)
        if kind not in kinds:
            kinds[kind] = _cast(items, mission, action_limit, apart)
        casts.append(kinds[kind])
    everyone = {player.name: player for cast in reversed(casts) for player in reversed(cast)}
    order = dict.fromkeys(player.name for cast in casts for player in cast)
    return tuple(everyone[name] for name in order), tuple(casts)


def _cast(items: list[Any], mission: Mission, action_limit: float | None, apart: bool) -> tuple[Player, ...]:
    found = [player_of(item, mission, apart=apart) for item in items or [default_policy(mission)]]
    players = [player for player, _ in found]
    if all(isinstance(item, str) for item in items):
        players = numbered(players)
    cast = with_shares(players, [share for _, share in found])
    tell_limit(cast, mission, action_limit)
    return tuple(cast)


def player_of(item: Any, mission: Mission, *, apart: bool = False) -> tuple[Player, Any]:
    """The player that is meant, and its share as it is written; see `casts_of`."""
    if isinstance(item, Player):
        return replace(item, factory=policy_factory(item.factory, mission)), item.share
    if isinstance(item, str):
        return find_policy(item, mission, apart=apart)
    factory = policy_factory(item, mission)
    if is_policy(factory):
        return Player(_name(item), factory), 1
    raise BadInput(
        f"{item!r:.60} is no policy: give a name, a policy (an object with act, a callable), what makes policies, a "
        "torch module, a model of Stable-Baselines3, or a Player"
    )


def _name(item: Any) -> str:
    owner = getattr(item, "__self__", None)  # a class method makes what its class is called
    return str(getattr(owner if isinstance(owner, type) else item, "__name__", type(item).__name__))
