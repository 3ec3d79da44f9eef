"""What an object has, read and set without a look at its `__dict__`.

Up to CPython 3.12 an object keeps its attributes in a compact form until somebody asks for its `__dict__`, as every
pickle does; from then on each is found more slowly, and a step of CartPole takes a tenth longer. So the names are taken
from the code of its class that sets them, and the values one by one. The garbage collector knows how many there are:
if the two do not agree, something has been set from outside, and the `__dict__` has the word.
"""

from __future__ import annotations

import dis
import gc
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

_ABSENT = object()


def attributes(thing: Any) -> dict[str, Any]:
    """The attributes of a plain object, whose class has no `__slots__`; in no order that means anything."""
    found = _looked_up(thing)
    return dict(vars(thing)) if found is None else found


def set_attributes(thing: Any, state: dict[str, Any]) -> None:
    """Gives an object its attributes."""
    for name, value in state.items():
        object.__setattr__(thing, name, value)


def _looked_up(thing: Any) -> dict[str, Any] | None:
    """The attributes that the class's own code sets; None if these are not all of them."""
    kind: Any = type(thing)
    held = Counter(map(id, gc.get_referents(thing)))
    held[id(kind)] -= 1
    found, doubtful = {}, {}
    for name in _set_by(kind):
        of_class = _of_class(kind, name)
        if hasattr(type(of_class), "__get__"):
            continue  # a property, which is not to be asked, or a method: the class's, or the count will show it
        value = _got(thing, name)
        if value is of_class:
            doubtful[name] = value  # its own, or its class's?
        elif value is not _ABSENT:
            found[name] = value
            held[id(value)] -= 1
    for name, value in doubtful.items():
        if held[id(value)] > 0 and _is_its_own(thing, name, value):
            found[name] = value
            held[id(value)] -= 1
    return None if any(held.values()) else found


def _is_its_own(thing: Any, name: str, value: Any) -> bool:
    """Whether an attribute that its class has too is the object's own; while it is away, its class's stands in."""
    try:
        object.__delattr__(thing, name)
    except AttributeError:
        return False
    object.__setattr__(thing, name, value)
    return True


def _got(thing: Any, name: str) -> Any:
    try:
        return object.__getattribute__(thing, name)
    except AttributeError:
        return _ABSENT


@lru_cache(maxsize=256)
def _set_by(kind: Any) -> tuple[str, ...]:
    """Names that may be attributes. Only names: what a class has under them may change."""
    names = dict.fromkeys(name for base in kind.__mro__ for name in _names_in(base))
    return tuple(name for name in names if not name.startswith("__"))


def _of_class(kind: type, name: str) -> Any:
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), _ABSENT)


def _names_in(base: type) -> Iterator[str]:
    for name, value in vars(base).items():
        yield name
        for function in _functions(value):
            yield from _set_in(function.__code__)
    yield from vars(base).get("__annotations__", ())


def _functions(value: Any) -> list[FunctionType]:
    parts = (value, *(getattr(value, part, None) for part in ("fget", "fset", "fdel", "__func__", "__wrapped__")))
    return [part for part in parts if isinstance(part, FunctionType)]


def _set_in(code: CodeType) -> Iterator[str]:
    """Names of attributes that are set there, of whatever object."""
    yield from (step.argval for step in dis.get_instructions(code) if step.opname == "STORE_ATTR")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _set_in(constant)
