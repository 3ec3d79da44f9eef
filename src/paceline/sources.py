"""Sources: the files that something follows from, so that a run is continued only as what it was.

    factory ── unwrap ──► its own file, and weights ── SHA-256 ──► plan.json ──► compared by `resume`

A user's own file counts, not what it imports, nor what is installed: that is known by its version.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

_OURS = Path(__file__).parent
_INSTALLED = tuple({Path(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_WEIGHTS = ("weights", "model", "normalize")


def files_of(factory: Any) -> Iterator[Path]:
    """The files of a class, a function, an object, or of what `partial` has made of them; and what it names itself."""
    while isinstance(factory, partial):
        yield from weights_in(factory.keywords)
        for value in factory.keywords.values():
            if callable(value):
                yield from files_of(value)
        factory = factory.func
    named = getattr(factory, "files", None)
    yield from (path for path in (named if isinstance(named, list | tuple) else ()) if isinstance(path, Path))
    path = own_file(factory)
    if path is not None:
        yield path


def own_file(made: Any) -> Path | None:
    """The user's file in which something was written; None: it is installed, ours, or of the script that runs."""
    path = _source(made)
    return path if path is not None and is_own(path) else None


def is_own(path: Path) -> bool:
    """Whether a file is a user's own, and neither ours nor installed."""
    return not any(path.is_relative_to(place) for place in (_OURS, *_INSTALLED))


def weights_in(keywords: Mapping[str, Any]) -> Iterator[Path]:
    """What is called weights, or a model, and is there: a file, or a directory."""
    return _named((keywords.get(key) for key in _WEIGHTS), os.path.exists)


def data_in(options: Mapping[Any, Any]) -> Iterator[Path]:
    """The files that options name. Not directories: one of them may hold everything that somebody has."""
    return _named(options.values(), os.path.isfile)


def digests(files: Iterable[tuple[Path, str]]) -> dict[str, str]:
    """Files and whose they are, as "name of owner" → SHA-256; several of one name have one digest together."""
    found: dict[str, list[str]] = {}
    for path, owner in dict.fromkeys(files):
        found.setdefault(f"{path.name} of {owner}", []).append(content_digest(path))
    return {name: each[0] if len(each) == 1 else _digest("\n".join(each)) for name, each in found.items()}


def content_digest(path: Path) -> str:
    """The SHA-256 of a file; of a directory, that of everything in it."""
    if not path.is_dir():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    inside = sorted(file for file in path.rglob("*") if file.is_file())
    listed = "".join(f"{file.relative_to(path)}\n{content_digest(file)}\n" for file in inside)
    return _digest(listed)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _named(values: Iterable[Any], is_there: Callable[[str], bool]) -> Iterator[Path]:
    """Asked through `os.path`, which says no of text that is no name of a file; `Path` may raise."""
    for value in values:
        if isinstance(value, str | Path) and is_there(name := os.path.expanduser(value)):
            yield Path(name)


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
