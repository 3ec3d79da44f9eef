"""Games that are installed beside cogames (cogsguard and others), and their missions by name."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from paceline.errors import BadInput

NAMES = ("cogsguard", "diplomacog", "hungercog", "overcogged", "tribalcog", "amongcogs", "werecog")
"""The games of cogames, each a package of its own that is in no registry."""


def are_there() -> bool:
    """Whether a cogames that knows games is installed: the last release of it is an empty package."""
    spec = importlib.util.find_spec("cogames")
    places = spec.submodule_search_locations if spec is not None else None
    known = any((Path(place) / "cli" / "mission.py").is_file() for place in places or ())
    return known and importlib.util.find_spec("mettagrid") is not None


def mission_names() -> list[str]:
    """The missions of all games, for wildcards and listings."""
    if not are_there():
        return []
    return list(dict.fromkeys(mission.full_name() for game in _games() for mission in _missions(game)))


def find(name: str, variants: Sequence[str], cogs: int | None) -> Any:
    """The configuration of MISSION or GAME:MISSION with variants and cogs, as cogames itself makes it.

    Returns:
        A `MettaGridConfig`; None if no game has such a mission.

    Raises:
        BadInput: the mission is there, and cannot have what is asked of it.
    """
    from cogames.cli.mission import find_mission, resolve_mission

    wanted, colon, mission = name.rpartition(":")
    for game in _games(wanted if colon else None):
        try:
            find_mission(game, mission, include_evals=True)
        except ValueError:
            continue
        try:
            _, config, _ = resolve_mission(game, mission, list(variants), cogs)
        except (ValueError, AssertionError) as error:
            raise BadInput(f"{name}: {error}") from error
        return config
    return None


def _games(wanted: str | None = None) -> Iterator[Any]:
    from cogames.game import _GAMES, get_game
    from cogames.standalone_games import STANDALONE_GAMES

    for name in dict.fromkeys([*_GAMES, *STANDALONE_GAMES]):
        root = STANDALONE_GAMES[name].module_name.partition(".")[0] if name in STANDALONE_GAMES else None
        if wanted in (None, name) and (root is None or importlib.util.find_spec(root) is not None):
            try:
                yield get_game(name)
            except Exception as error:  # another mission may be meant
                logging.getLogger("paceline").warning("the game %s cannot be loaded, and is left out: %s", name, error)


def _missions(game: Any) -> list[Any]:
    return [*game.missions, *game.eval_missions]
