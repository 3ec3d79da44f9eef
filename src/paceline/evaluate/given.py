"""What a caller gives, and what is meant by it: missions, policies, a device, a number of workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
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
from paceline.engine import Plan
from paceline.engine.budget import WORKER_BYTES, current
from paceline.errors import BadInput
from paceline.team import Player
from paceline.team.device import find_device
from paceline.types import Mission

Missions = str | Mission | Callable[..., Any] | Iterable[str | Mission | Callable[..., Any]]
Policies = str | Player | Callable[..., Any] | Iterable[str | Player | Callable[..., Any]]


def missions_of(given: Missions) -> tuple[Mission, ...]:
    """The missions that are meant."""
    items = list(given) if isinstance(given, Iterable) and not isinstance(given, str | type) else [given]
    return tuple(mission for item in items for mission in _missions(item))


def _missions(item: Any) -> list[Mission]:
    if isinstance(item, Mission):
        return [item]
    if isinstance(item, str):
        return find_missions([item])
    if callable(item):
        return [Mission(getattr(item, "__name__", type(item).__name__), item)]
    raise BadInput(f"{item!r:.60} is no mission: give a name, what makes environments (a class will do), or a Mission")


def casts_of(
    missions: Sequence[Mission], given: Policies, action_limit: float | None = None
) -> tuple[tuple[Player, ...], tuple[tuple[Player, ...], ...]]:
    """The players that are meant: all of them, and those of each mission.

    Raises:
        BadInput: one of them cannot be had, or the limit makes no sense.
    """
    if action_limit is not None and not 0 < action_limit < math.inf:
        raise BadInput(f"an action may take {action_limit:g} s at most: that makes no sense; give more than 0")
    items = list(given) if isinstance(given, Iterable) and not isinstance(given, str | type) else [given]
    kinds: dict[Any, tuple[Player, ...]] = {}
    casts = []
    for mission in missions:
        kind = policy_kind(mission)
        if kind not in kinds:
            kinds[kind] = _cast(items, mission, action_limit)
        casts.append(kinds[kind])
    everyone = {player.name: player for cast in reversed(casts) for player in reversed(cast)}
    order = dict.fromkeys(player.name for cast in casts for player in cast)
    return tuple(everyone[name] for name in order), tuple(casts)


def _cast(items: list[Any], mission: Mission, action_limit: float | None) -> tuple[Player, ...]:
    found = [_player(item, mission) for item in items or [default_policy(mission)]]
    players = [player for player, _ in found]
    if all(isinstance(item, str) for item in items):
        players = numbered(players)
    cast = with_shares(players, [share for _, share in found])
    tell_limit(cast, mission, action_limit)
    return tuple(cast)


def _player(item: Any, mission: Mission) -> tuple[Player, Any]:
    """A player, and its share as it is written."""
    if isinstance(item, Player):
        return replace(item, factory=policy_factory(item.factory, mission)), item.share
    if isinstance(item, str):
        return find_policy(item, mission)
    if callable(item):
        return Player(getattr(item, "__name__", type(item).__name__), policy_factory(item, mission)), 1
    raise BadInput(f"{item!r:.60} is no policy: give a name, a factory, or a Player")


def chosen_device(name: str) -> str:
    """The device that a name means here; torch is not asked where there is no need."""
    return name if name == "cpu" else find_device(name)


def affordable(plan: Plan, episodes: int) -> Plan:
    """The plan, with no more workers than there are episodes or room in memory; it says so if they are fewer."""
    if plan.workers is None or plan.backend == "inline":
        return plan
    room = current().memory // WORKER_BYTES if plan.backend in ("auto", "process") else plan.workers
    used = max(1, min(plan.workers, episodes, room))
    if used == plan.workers:
        return plan
    why = f"there {'are' if used > 1 else 'is'} {used} to play" if used == episodes else f"memory has room for {used}"
    return replace(plan, workers=used, why=f"{plan.workers} were asked for, and {why}")
