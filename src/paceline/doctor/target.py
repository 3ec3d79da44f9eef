"""From what a user writes to a factory of envs.

CartPole-v1, gym:CartPole-v1, package:Name-v0   an id that Gymnasium knows, or that `package` registers
file.py:factory                                 a name in a file
package.module:factory                          a name in a module
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from paceline.errors import BadInput
from paceline.testing.generators import strange_generators
from paceline.testing.looking import check_is_env

Factory = Callable[[], Any]

_VERSIONED = re.compile(r"-v\d+$")
_FORMS = "write a Gymnasium id (CartPole-v1), file.py:factory, or package.module:factory"


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
    where, colon, name = target.removeprefix("gym:").rpartition(":")
    if target.startswith("gym:") or not colon or _VERSIONED.search(name):
        return _gymnasium(target.removeprefix("gym:"))
    module = _file(Path(where), target) if where.endswith(".py") else _module(where, target)
    factory = _attribute(module, name, where)
    if not callable(factory):
        raise BadInput(
            f"{name!r} in {where} is a {type(factory).__name__}, which cannot be called: "
            "name a function without parameters that makes an env"
        )
    return factory  # type: ignore[no-any-return]


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
            f"{found.name} does not build an env: {type(error).__name__}: {error}{_place(error)}; {remedy}"
        ) from error
    try:
        check_is_env(env)
    except BadInput as error:
        raise BadInput(f"{found.name}: {error}") from None
    finally:
        with suppress(Exception):  # what is wrong there is a finding, later
            env.close()


# -- Gymnasium -----------------------------------------------------------------------------------------


def _gymnasium(name: str) -> Factory:
    if name.endswith(".py"):
        raise BadInput(f"{name} is a file: say which factory in it, as {name}:factory{_choice(Path(name))}")
    import gymnasium

    package, _, env_id = name.rpartition(":")
    if package:
        _module(package, name)  # it registers its envs when it is imported
    try:
        # The spec and not the id: a worker need not have imported what registered it.
        spec = gymnasium.spec(env_id)
    except gymnasium.error.Error as error:
        raise BadInput(f"Gymnasium knows no env {env_id!r}{_similar(env_id, error)}; {_FORMS}") from None
    # We look at everything that the passive checker looks at, and its warnings would be printed as well.
    return partial(gymnasium.make, spec, disable_env_checker=True)


def _similar(name: str, error: Exception) -> str:
    import gymnasium

    close = difflib.get_close_matches(name, gymnasium.registry, n=3)
    return f"; close to it: {', '.join(close)}" if close else f" ({str(error).strip().partition(chr(10))[0]})"


# -- files and modules ---------------------------------------------------------------------------------


def _file(path: Path, target: str) -> ModuleType:
    """Imports a file as its directory's module of that name, as a worker will."""
    if not path.is_file():
        raise BadInput(f"there is no file {path} (looked in {Path.cwd()}): check the path in {target!r}")
    path = path.resolve()
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) != str(path):
        raise BadInput(
            f"{path.name} has the name of the module {path.stem!r}, which is imported already; rename the file"
        )
    sys.path.insert(0, str(path.parent))
    importlib.invalidate_caches()
    return _module(path.stem, target)


def _module(name: str, target: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise BadInput(f"{name} cannot be imported: {error}{_place(error)}; install what it needs") from error
        raise BadInput(f"there is no module {error.name!r}: in {target!r}, {_FORMS}") from None
    except Exception as error:
        raise BadInput(
            f"{name} cannot be imported: {type(error).__name__}: {error}{_place(error)}; "
            "a file of a package is named as package.module:factory"
        ) from error


def _attribute(module: ModuleType, name: str, where: str) -> Any:
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            close = difflib.get_close_matches(part, dir(value), n=3)
            hint = f"; close to it: {', '.join(close)}" if close else _choice(Path(where))
            raise BadInput(f"there is no {name!r} in {where}{hint}")
        value = getattr(value, part)
    return value


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


def _choice(path: Path) -> str:
    """What a file offers, read without running it."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ""
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return f"; it has {', '.join(names)}" if names else ""


def _place(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return "" if last.filename == __file__ else f" ({last.filename}, line {last.lineno})"
