"""Classes of an env that no module has: those of a script, of a notebook, or of a function's body.

Another process gets them by value, with the recipe that builds the env. A pickle of the env therefore names them, and
they are looked up in an env that the same recipe has built. The walk follows what a recipe carries along: bases, and
what methods and functions name, globally or in their closures. So it finds the same names in each process.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from paceline.fingerprint import is_found_by_name

Classes = dict[str, type]
"""Module and name → the class."""


def recipe_classes(env: Any) -> Classes:
    """The classes that travel with the recipe of an env. A name that two of them bear is left out."""
    found: Classes = {}
    twice: set[str] = set()
    waiting: list[Any] = [type(layer) for layer in _layers(env)]
    seen: set[int] = set()
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or not isinstance(thing, FunctionType | type) or is_found_by_name(thing):
            continue
        seen.add(id(thing))
        if isinstance(thing, FunctionType):
            waiting.extend(_named_by(thing))
            continue
        if found.setdefault(class_name(thing), thing) is not thing:
            twice.add(class_name(thing))
        waiting.extend(thing.__bases__)
        waiting.extend(part for value in vars(thing).values() for part in _functions_of(value))
    return {name: kind for name, kind in found.items() if name not in twice}


def class_name(kind: type) -> str:
    """How a pickle names such a class."""
    return f"{kind.__module__}:{kind.__qualname__}"


def _layers(env: Any) -> Iterator[Any]:
    while env is not None:
        yield env
        env = getattr(env, "env", None)


def _functions_of(value: Any) -> list[Any]:
    """The functions of a class's attribute; the class itself, if it is one."""
    if isinstance(value, property):
        return [value.fget, value.fset, value.fdel]
    return [getattr(value, "__func__", value)]


def _named_by(function: FunctionType) -> Iterator[Any]:
    scope = function.__globals__
    yield from (scope[name] for name in sorted(_global_names(function.__code__)) if name in scope)
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not bound yet
            continue


@cache
def _global_names(code: CodeType) -> frozenset[str]:
    own = {step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    return frozenset(own).union(*(_global_names(each) for each in code.co_consts if isinstance(each, CodeType)))
