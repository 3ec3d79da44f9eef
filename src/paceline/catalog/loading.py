"""From what a user writes to an object: files, modules, Gymnasium's registry.

CartPole-v1, gym:CartPole-v1, package:Name-v0   an id that Gymnasium knows, or that `package` registers
file.py:name                                    a name in a file
package.module:name                             a name in a module
"""

from __future__ import annotations

import ast
import difflib
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from paceline.catalog.registry import recipe_of_id
from paceline.errors import BadInput, place
from paceline.sources import is_own

_VERSIONED = re.compile(r"-v\d+$")
FORMS = "write a Gymnasium id (CartPole-v1), file.py:factory, or package.module:factory"


def is_gymnasium(target: str) -> bool:
    """Whether a target is meant for Gymnasium's registry."""
    _, colon, name = target.rpartition(":")
    return target.startswith("gym:") or not colon or bool(_VERSIONED.search(name))


def has_version(name: str) -> bool:
    """Whether a name ends as Gymnasium's ids do: CartPole-v1."""
    return bool(_VERSIONED.search(name))


def load(target: str, what: str = "a function without parameters that makes an env", *kinds: type) -> Any:
    """Gives the callable that file.py:name or package.module:name is; or something else, of one of these kinds.

    Raises:
        BadInput: there is none; says what there is.
    """
    where, _, name = target.rpartition(":")
    if not where or not name:
        raise BadInput(f"{target!r} is only half of a name: write file.py:name or package.module:name")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a console script does not look there by itself; workers are told of it
    module = load_file(Path(where), target) if where.endswith(".py") else import_module(where, target)
    found = _attribute(module, name, where)
    if not callable(found) and not isinstance(found, kinds):
        raise BadInput(f"{name!r} in {where} is a {type(found).__name__}, which cannot be called: name {what}")
    return found


class Later:
    """What a name means, found where it is used: here it is only the name, and nothing is imported.

    Where only data is trusted, main holds this in the place of a user's class or function. In a worker it is unpickled
    as the class or function itself.

    Args:
        find: Finds it; a function of a module.
        words: What `find` is given.
        target: file.py:name or package.module:name, whose file counts as a source; empty: none does.
    """

    def __init__(self, find: Callable[..., Any], *words: Any, target: str = "") -> None:
        self._find, self._words = find, words
        self.files = list(_own_file(target.rpartition(":")[0]))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._find, self._words

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """Raises `BadInput`: it is to be called elsewhere."""
        raise BadInput(f"{self._words[0]} is not loaded in this process: the plan says trust='data' (--untrusted)")


def _own_file(where: str) -> Iterator[Path]:
    """The file of a module, or the file itself, if it is a user's own; nothing is imported to find it."""
    path = Path(where) if where.endswith(".py") else None
    places: Any = [*sys.path, os.getcwd()]
    for end in range(where.count(".") + 1 if where and path is None else 0):
        spec = PathFinder.find_spec(".".join(where.split(".")[: end + 1]), places)
        places = spec.submodule_search_locations if spec is not None else []
        path = Path(spec.origin) if spec is not None and spec.origin else None
    if path is not None and path.is_file() and is_own(path.resolve()):
        yield path.resolve()


# -- Gymnasium -----------------------------------------------------------------------------------------


def gymnasium_env(name: str) -> Callable[..., Any]:
    """Gives the recipe of an env that Gymnasium knows."""
    check_is_no_file(name)
    import gymnasium

    package, _, env_id = name.rpartition(":")
    if package:
        import_module(package, name)  # it registers its envs when it is imported
    try:
        gymnasium.spec(env_id)
    except gymnasium.error.Error as error:
        raise BadInput(f"Gymnasium knows no env {env_id!r}{_similar(env_id, error)}; {FORMS}") from None
    # We look at everything that the passive checker looks at, and its warnings would be printed as well.
    return recipe_of_id(env_id, disable_env_checker=True)


def check_is_no_file(name: str, what: str = "factory") -> None:
    """Raises `BadInput` for a file without a name in it; says which names it has."""
    if name.endswith(".py"):
        raise BadInput(f"{name} is a file: say which {what} in it, as {name}:{what}{_choice(Path(name))}")


def _similar(name: str, error: Exception) -> str:
    import gymnasium

    close = difflib.get_close_matches(name, gymnasium.registry, n=3)
    return f"; close to it: {', '.join(close)}" if close else f" ({str(error).strip().partition(chr(10))[0]})"


# -- files and modules ---------------------------------------------------------------------------------


def load_file(path: Path, target: str) -> ModuleType:
    """Imports a file as its directory's module of that name, as a worker will.

    Raises:
        BadInput: it is not there, or cannot be imported.
    """
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
    return import_module(path.stem, target)


def entry_points(group: str, name: str | None = None) -> list[metadata.EntryPoint]:
    """What other packages offer under a group; of that name, if one is given.

    To look through everything that is installed takes as long as a small evaluation, so it is done once; and again if
    a directory in which packages lie has changed since.
    """
    found = _installed(group, tuple(_as_it_is(place) for place in sys.path))
    return [point for point in found if name in (None, point.name)]


@lru_cache(maxsize=8)
def _installed(group: str, _: tuple[tuple[str, int], ...]) -> tuple[metadata.EntryPoint, ...]:
    return tuple(metadata.entry_points(group=group))


def _as_it_is(place: str) -> tuple[str, int]:
    try:
        return place, Path(place or ".").stat().st_mtime_ns
    except OSError:
        return place, 0


def load_entry_point(point: Any, group: str) -> Any:
    """Gives what another package has put under a name; what is wrong with that package is told with its name."""
    try:
        return point.load()
    except Exception as error:
        package = point.dist.name if point.dist is not None else point.value
        raise BadInput(
            f"{point.name!r} of the package {package} ({group}: {point.value}) cannot be loaded: "
            f"{type(error).__name__}: {error}; repair or uninstall that package"
        ) from error


def import_module(name: str, target: str) -> ModuleType:
    """Imports a module; what goes wrong is told as the user's mistake that it is."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise BadInput(f"{name} cannot be imported: {error}{place(error)}; install what it needs") from error
        raise BadInput(f"there is no module {error.name!r}: in {target!r}, {FORMS}") from None
    except Exception as error:
        raise BadInput(
            f"{name} cannot be imported: {type(error).__name__}: {error}{place(error)}; "
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


def _choice(path: Path) -> str:
    """What a file offers, read without running it."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ""
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return f"; it has {', '.join(names)}" if names else ""
