"""The files of an evaluation: those of its policies and of its missions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from paceline import sources
from paceline.evaluate.run import Run


def digests(run: Run) -> dict[str, str]:
    """The files of a run, each named by whose it is, with the SHA-256 of its content."""
    return sources.digests(_files(run))


def _files(run: Run) -> Iterator[tuple[Path, str]]:
    for player in [player for cast in run.casts or (run.players,) for player in cast]:
        yield from ((path, f"policy {player.name!r}") for path in sources.files_of(player.factory))
    for mission in run.missions:
        yield from ((path, f"mission {mission.name!r}") for path in sources.files_of(mission.make))
