"""What a text environment is built from: the class of its options, made of what a user has written.

Config = …                      a class attribute: a dataclass, or `paceline.settings.Settings`
def __init__(self, config: C)   a dataclass that the first parameter is annotated with, or has for its default
NameConfig                      a dataclass beside the class `Name`, as RAGEN's environments have them

A class that has none of these is given the options as they are: a dict, or None.
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

from paceline.errors import BadInput
from paceline.settings import Settings


def options_for(make: Callable[..., Any], given: Any, where: str) -> Any:
    """Gives what `make` is called with.

    Args:
        make: Builds an environment.
        given: What the user has written: a mapping, or None.
        where: How an error names the place, "custom_envs.Sokoban.env_config" say.

    Raises:
        BadInput: an option is not known, is missing, or is refused by the class of the options.
    """
    kind = _class_of(make)
    if kind is None or isinstance(given, kind):
        return given
    if issubclass(kind, Settings):
        return kind.read(given, where)
    names = [field.name for field in fields(kind) if field.init]  # type: ignore[arg-type]
    if given is not None and not isinstance(given, Mapping):
        raise BadInput(f"{where} is {given!r:.60}; expected a mapping of {', '.join(names)}")
    options = dict(given or {})
    for name in options:
        if name not in names:
            close = difflib.get_close_matches(str(name), names, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
            raise BadInput(f"{where}.{name} is not known; {hint}")
    try:
        return kind(**options)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{where}: {kind.__name__} refuses {options!r:.200}: {error}") from error


def _class_of(make: Callable[..., Any]) -> type | None:
    """The class of the options; None if it is told nowhere."""
    found = getattr(make, "Config", None)
    if isinstance(found, type) and (is_dataclass(found) or issubclass(found, Settings)):
        return found
    if not isinstance(make, type):
        return None
    return next(iter((*_annotated(make), *_named(make))), None)


def _annotated(make: type) -> Iterator[type]:
    """Dataclasses that the first parameter says: in its annotation (also `C | None`), or by its default."""
    try:
        first = next(iter(inspect.signature(make).parameters.values()), None)
    except (TypeError, ValueError):  # written in C: it does not say what it takes
        return
    if first is None:
        return
    try:
        hint = get_type_hints(make.__init__).get(first.name)  # type: ignore[misc]
    except Exception:  # an annotation that names what is only there for type checkers
        hint = None
    for said in (hint, *get_args(hint), type(first.default)):
        if isinstance(said, type) and is_dataclass(said):
            yield said


def _named(make: type) -> Iterator[type]:
    for base in make.__mro__:
        found = getattr(sys.modules.get(base.__module__), f"{base.__name__}Config", None)
        if isinstance(found, type) and is_dataclass(found):
            yield found
