"""From what a user writes to a factory of envs.

CartPole-v1, gym:CartPole-v1[,key=value …]      an id that Gymnasium knows
package:Name-v0[,key=value …]                   an id that `package` registers
sokoban, SimpleSokoban, sokoban,dim_x=8         a text environment by its name
forage, treasure_hunt,agents=8                  a mission by its name
pz:mpe2.simple_spread_v3, mettagrid:empty_room  a mission of PettingZoo or mettagrid
file.py:factory[,key=value …]                   a name in a file
package.module:factory[,key=value …]            a name in a module
text:…                                          any of the last three, as a text environment
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from paceline.catalog.loading import gymnasium_env, is_gymnasium, load
from paceline.catalog.missions import find_missions, mission_names
from paceline.catalog.text_envs import TAGS, TEXT, text_env_names, written_text_env
from paceline.doctor.text import Worded, kind_built
from paceline.errors import BadInput, place
from paceline.kinds import Kind, parallel_of
from paceline.options import split
from paceline.testing.elsewhere import Ended, Failed, own_hash_seed, run_elsewhere
from paceline.testing.generators import strange_generators
from paceline.testing.looking import check_is_env
from paceline.testing.playing import played

Factory = Callable[[], Any]

_MISSIONS = ("pz:", "mettagrid:")
_PATIENCE = 120.0  # seconds until an env has been built, reset and stepped once


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
        factory = _as_it_is_played(target)
        found = Loaded(name, factory, factory)
        try_out(found)
        yield found
        return
    path, modules = list(sys.path), set(sys.modules)
    try:
        recipe = partial(build, _absolute(target))
        _check_comes_back(target, recipe)
        found = Loaded(target, find(target), recipe)
        try_out(found)
        yield found
    finally:
        sys.path[:] = path
        _forget(modules, target)


def _check_comes_back(target: str, recipe: Factory) -> None:
    """Has another process play one step first: one that never ends, or ends its process, would do so here."""
    try:
        run_elsewhere(played, recipe, 0, 1, hash_seed=own_hash_seed() or "0", patience=_PATIENCE)
    except Ended as ended:
        what = f"{target} cannot be examined: built, reset and stepped once in a process of its own"
        raise BadInput(f"{what}, {str(ended).splitlines()[0]}") from ended
    except Failed:  # it is told when it is played here
        pass


def build(target: str) -> Any:
    """Finds the factory and builds an env with it: for a process that is there for nothing else."""
    return find(target)()


def find(target: str) -> Factory:
    """Gives the factory that a target names."""
    if target.startswith(TEXT) or _names_a_text_env(target):
        return partial(Worded, *written_text_env(target))
    if target.startswith(_MISSIONS) or _names_a_mission(target):
        return _as_it_is_played(find_missions([target])[0].build)
    if _has_options(target):
        return _with_options(target)
    return _gymnasium_env(target) if is_gymnasium(target) else _as_it_is_played(load(target))


def _gymnasium_env(target: str) -> Factory:
    name, options = split(target)
    try:
        return partial(gymnasium_env(name.removeprefix("gym:")), **options)
    except BadInput as error:
        if close := difflib.get_close_matches(name, [*TAGS, *text_env_names()], n=1):
            raise BadInput(f"{error}; or do you mean the text environment {close[0]}?") from None
        raise


def _names_a_text_env(target: str) -> bool:
    name = target.partition(",")[0]
    if name not in TAGS and name not in text_env_names():
        return False
    _check_is_no_id(name, "a text environment", f"{TEXT}{name}")
    return True


def _names_a_mission(target: str) -> bool:
    name = target.partition(",")[0]
    if name not in mission_names():
        return False
    _check_is_no_id(name, "a mission", "the mission's own factory, package.module:factory")
    return True


def _check_is_no_id(name: str, other: str, written: str) -> None:
    import gymnasium

    if name in gymnasium.registry:
        raise BadInput(f"{name!r} is a Gymnasium id and {other}: write gym:{name} or {written}")


def _has_options(target: str) -> bool:
    """Whether options stand behind a name of a file or a module."""
    return not target.startswith("gym:") and "," in target.partition(":")[2]


def _with_options(target: str) -> Factory:
    """Options are keywords of what makes an env; a text environment takes them as one thing."""
    name, options = split(target)
    made = partial(load(name), **options)
    with strange_generators(0):
        kind = kind_built(made)
    if kind in (Kind.GYMNASIUM, Kind.PARALLEL, Kind.AEC):
        return _as_it_is_played(made)
    return partial(Worded, *written_text_env(target))


def _as_it_is_played(factory: Callable[..., Any]) -> Factory:
    with strange_generators(0):
        kind = kind_built(factory)
    if kind is Kind.AEC:
        return partial(_parallel, factory)
    return partial(Worded, factory) if kind is Kind.TEXT else factory


def _parallel(factory: Factory) -> Any:
    return parallel_of(factory())


def _is_worded(factory: Factory) -> bool:
    return isinstance(factory, partial) and factory.func is Worded


def try_out(found: Loaded) -> None:
    """Builds one env, so that a factory that does not work is told as the user's mistake that it is."""
    try:
        with strange_generators(0):
            env = found.factory()
    except BadInput as error:
        raise BadInput(f"{found.name} does not build an env: {error}") from error
    except Exception as error:
        called = "with its options, or None" if _is_worded(found.factory) else "without arguments"
        remedy = f"it is called {called}" if isinstance(error, TypeError) else "make it work in plain Python first"
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
    file = _file(target)
    return target if file is None else target.replace(file, str(Path(file).resolve()), 1)


def _file(target: str) -> str | None:
    """The file that a target names."""
    where, suffix, _ = target.removeprefix(TEXT).partition(".py:")
    return where + ".py" if suffix else None


def _forget(before: set[str], target: str) -> None:
    """A file may be edited and looked at again: only what was imported from its directory is forgotten."""
    file = _file(target)
    if file is None:
        return
    directory = str(Path(file).resolve().parent)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(directory):
            del sys.modules[name]
