"""From what a user writes to a factory of envs.

CartPole-v1, gym:CartPole-v1, package:Name-v0   an id that Gymnasium knows, or that `package` registers
file.py:factory                                 a name in a file
package.module:factory                          a name in a module
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from paceline.catalog.loading import gymnasium_env, is_gymnasium, load, place
from paceline.errors import BadInput
from paceline.testing.generators import strange_generators
from paceline.testing.looking import check_is_env

Factory = Callable[[], Any]


@dataclass(frozen=True)
class Loaded:
    """A target that was found.

    Attributes:
        name: What to call it.
        factory: Builds the env.
        recipe: Builds it in another process too, even where the factory cannot be sent.
    """

    name: str
    factory: Factory
    recipe: Factory


@contextmanager
def loaded(target: str | Factory) -> Iterator[Loaded]:
    """Finds the factory; while it is in use its file can be imported, by workers too.

    Raises:
        BadInput: there is no such target, or it builds no env; says what to do.
    """
    if callable(target):
        name = getattr(target, "__qualname__", None) or repr(target)
        found = Loaded(name, target, target)
        try_out(found)
        yield found
        return
    path, modules = list(sys.path), set(sys.modules)
    try:
        found = Loaded(target, find(target), partial(build, _absolute(target)))
        try_out(found)
        yield found
    finally:
        sys.path[:] = path
        _forget(modules, target)


def build(target: str) -> Any:
    """Finds the factory and builds an env with it: for a process that is there for nothing else."""
    return find(target)()


def find(target: str) -> Factory:
    """Gives the factory that a target names."""
    return gymnasium_env(target.removeprefix("gym:")) if is_gymnasium(target) else load(target)


def try_out(found: Loaded) -> None:
    """Builds one env, so that a factory that does not work is told as the user's mistake that it is."""
    try:
        with strange_generators(0):
            env = found.factory()
    except Exception as error:
        remedy = (
            "it is called without arguments" if isinstance(error, TypeError) else "make it work in plain Python first"
        )
        raise BadInput(
            f"{found.name} does not build an env: {type(error).__name__}: {error}{place(error)}; {remedy}"
        ) from error
    try:
        check_is_env(env)
    except BadInput as error:
        raise BadInput(f"{found.name}: {error}") from None
    finally:
        with suppress(Exception):  # what is wrong there is a finding, later
            env.close()


def _absolute(target: str) -> str:
    where, _, name = target.rpartition(":")
    return f"{Path(where).resolve()}:{name}" if where.endswith(".py") else target


def _forget(before: set[str], target: str) -> None:
    """A file may be edited and looked at again: only what was imported from its directory is forgotten."""
    where = target.rpartition(":")[0]
    if not where.endswith(".py"):
        return
    directory = str(Path(where).resolve().parent)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(directory):
            del sys.modules[name]
