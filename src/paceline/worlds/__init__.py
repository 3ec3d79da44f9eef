"""The built-in worlds: what `paceline eval` plays when nothing else is installed.

forage         many agents gather berries that grow back      paceline.worlds.forage
cleanup        a social dilemma: who cleans the river?        paceline.worlds.cleanup
courier        one agent delivers parcels from memory         paceline.worlds.courier
treasure_hunt  agents compete for gems                        paceline.worlds.treasure_hunt
stag_hunt      hares alone or stags together                  paceline.worlds.stag_hunt
tag            some chase the others                          paceline.worlds.tag

A world is imported when it is built, so that to list the missions costs nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from paceline.errors import BadInput
from paceline.types import Mission, typed_name

if TYPE_CHECKING:
    from paceline.worlds.grid.game import Game

__all__ = [
    "MISSIONS",
    "make_cleanup",
    "make_courier",
    "make_forage",
    "make_stag_hunt",
    "make_tag",
    "make_treasure_hunt",
]


def make_forage(turn: str = "simultaneous", **options: Any) -> Any:
    """Builds a foraging grid; see `paceline.worlds.forage.Forage` for the options."""
    from paceline.worlds.forage import Forage

    return _env(_build("forage", Forage, {"turn": turn, **options}))


def make_cleanup(turn: str = "simultaneous", **options: Any) -> Any:
    """Builds a cleanup game; see `paceline.worlds.cleanup.Cleanup` for the options."""
    from paceline.worlds.cleanup import Cleanup

    return _env(_build("cleanup", Cleanup, {"turn": turn, **options}))


def make_courier(**options: Any) -> Any:
    """Builds a delivery round; see `paceline.worlds.courier.Courier` for the options."""
    from paceline.worlds.courier import Courier

    return _build("courier", Courier, options)


def make_treasure_hunt(turn: str = "simultaneous", **options: Any) -> Any:
    """Builds a treasure hunt; see `paceline.worlds.treasure_hunt.TreasureHunt` for the options."""
    from paceline.worlds.treasure_hunt import TreasureHunt

    return _env(_build("treasure_hunt", TreasureHunt, {"turn": turn, **options}))


def make_stag_hunt(turn: str = "simultaneous", **options: Any) -> Any:
    """Builds a stag hunt; see `paceline.worlds.stag_hunt.StagHunt` for the options."""
    from paceline.worlds.stag_hunt import StagHunt

    return _env(_build("stag_hunt", StagHunt, {"turn": turn, **options}))


def make_tag(turn: str = "simultaneous", **options: Any) -> Any:
    """Builds a game of tag; see `paceline.worlds.tag.Tag` for the options."""
    from paceline.worlds.tag import Tag

    return _env(_build("tag", Tag, {"turn": turn, **options}))


def _build(name: str, world: type, options: Mapping[str, Any]) -> Any:
    known = list(inspect.signature(world).parameters)
    if unknown := [option for option in options if option not in known]:
        raise BadInput(f"{name} has no option {', '.join(unknown)}; it has {', '.join(known)}")
    return world(**options)


def _env(game: Game) -> Any:
    """The form of a game that goes with its turns."""
    from paceline.worlds.grid.envs import Aec, Parallel

    return Aec(game) if game.ordered else Parallel(game)


_ALL = (
    Mission("forage", make_forage, about="Eight agents gather berries that grow back, each for itself."),
    Mission("forage-duel", make_forage, {"agents": 2}, about="Two agents and few berries."),
    Mission(
        "forage-dense",
        make_forage,
        {"agents": 16, "size": 14, "bushes": 24, "regrow": 10},
        about="Sixteen agents in a small place: everything is contested.",
    ),
    Mission("forage-64", make_forage, {"agents": 64}, about="Sixty-four agents on a large meadow."),
    Mission("cleanup", make_cleanup, about="Six agents; apples grow only if somebody cleans the river."),
    Mission("cleanup-24", make_cleanup, {"agents": 24}, about="The same river, with twenty-four agents along it."),
    Mission("courier", make_courier, about="One agent carries parcels to houses, through rooms it must remember."),
    Mission(
        "machina_1 (stand-in)",
        make_forage,
        {"agents": 4, "size": 40},
        about="A stand-in for the mission of that name in cogsguard: as many seats, but our own meadow.",
        caution="machina_1 is played on a built-in stand-in, not on cogsguard's map: its scores are not comparable",
    ),
    Mission("courier-maze", make_courier, {"rooms": 5, "steps": 800}, about="The same, in many more rooms."),
    Mission(
        "treasure_hunt",
        make_treasure_hunt,
        about="Four agents compete for gems; one that is taken comes back somewhere else.",
    ),
    Mission("stag_hunt", make_stag_hunt, about="Four agents: a hare for each alone, or a stag if two come together."),
    Mission("tag", make_tag, about="Five agents, one of whom is it and chases the others."),
)

MISSIONS: Mapping[str, Mission] = MappingProxyType({typed_name(mission.name): mission for mission in _ALL})
"""The built-in missions by the names that users type."""
