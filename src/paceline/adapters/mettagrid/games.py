"""Games that are installed beside cogames (cogsguard and others), and their missions by name."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from typing import Any

from paceline.errors import BadInput


def are_there() -> bool:
    """Whether cogames is installed, and so there may be games."""
    return importlib.util.find_spec("mettagrid") is not None and importlib.util.find_spec("cogames") is not None


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
            yield get_game(name)


def _missions(game: Any) -> list[Any]:
    return [*game.missions, *game.eval_missions]
