"""What a caller gives, and what is meant by it: missions, policies, a device, a number of workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from paceline.catalog import find_missions, find_policies, policy_factory, policy_kind
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
    """The players that are meant: all of them, and those of each mission."""
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
    if all(isinstance(item, str) for item in items):
        return tuple(find_policies([str(item) for item in items], mission, action_limit=action_limit))
    return tuple(_player(item, mission, action_limit) for item in items)


def _player(item: Any, mission: Mission, action_limit: float | None) -> Player:
    if isinstance(item, Player):
        return item
    if isinstance(item, str):
        return find_policies([item], mission, action_limit=action_limit)[0]
    if callable(item):
        return Player(getattr(item, "__name__", type(item).__name__), policy_factory(item, mission))
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
