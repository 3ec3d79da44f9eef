"""Sources: the files that a run follows from, so that it is continued only as what it was.

    players, missions ── unwrap ──► their own files, and weights ── SHA-256 ──► plan.json ──► compared by `resume`

A user's own file counts, not what it imports, nor what is installed: that is known by its version.
"""

from __future__ import annotations

import hashlib
import inspect
import sysconfig
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from paceline.evaluate.run import Run

_OURS = Path(__file__).parents[1]
_INSTALLED = tuple({Path(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def digests(run: Run) -> dict[str, str]:
    """The files of a run, each named by whose it is, with the SHA-256 of its content."""
    return {name: _digest(path) for name, path in _files(run)}


def _files(run: Run) -> Iterator[tuple[str, Path]]:
    for player in run.players:
        for path in dict.fromkeys(_of(player.factory)):
            yield f"{path.name} of policy {player.name!r}", path
    for mission in run.missions:
        for path in dict.fromkeys(_of(mission.make)):
            yield f"{path.name} of mission {mission.name!r}", path


def _of(factory: Any) -> Iterator[Path]:
    while isinstance(factory, partial):
        for key, value in factory.keywords.items():
            if key == "weights" and Path(str(value)).is_file():
                yield Path(str(value))
            elif callable(value):
                yield from _of(value)
        factory = factory.func
    path = _source(factory)
    if path is not None and not any(path.is_relative_to(place) for place in (_OURS, *_INSTALLED)):
        yield path


def _source(factory: Any) -> Path | None:
    """The file in which something was written. Not the script that runs: to ask for `resume` is to edit it."""
    made = factory if inspect.isclass(factory) or inspect.isroutine(factory) else type(factory)
    if getattr(made, "__module__", "__main__") == "__main__":
        return None
    try:
        file = inspect.getsourcefile(made)
    except TypeError:  # built in
        return None
    path = Path(file).resolve() if file else None
    return path if path is not None and path.is_file() else None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
