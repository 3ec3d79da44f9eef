"""The files of an evaluation: those of its policies and of its missions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from paceline.evaluate.run import Run
from paceline.sources import content_digest, files_of, told


def digests(run: Run) -> dict[str, str]:
    """The files of a run, each named by whose it is, with the SHA-256 of its content."""
    return {name: content_digest(path) for name, path in _files(run)}


def _files(run: Run) -> Iterator[tuple[str, Path]]:
    for player in run.players:
        for path in dict.fromkeys(files_of(player.factory)):
            yield f"{told(path)} of policy {player.name!r}", path
    for mission in run.missions:
        for path in dict.fromkeys(files_of(mission.make)):
            yield f"{told(path)} of mission {mission.name!r}", path
