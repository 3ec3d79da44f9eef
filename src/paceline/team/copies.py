"""Copies of what a user gives for a policy: one for each seat and episode, so that none remembers another's play.

    object ──► copy.deepcopy
    function ──► a function with cells, defaults and attributes of its own; cells that functions share stay shared

`copy.deepcopy` takes a function for a constant. One that draws from a generator in its closure, or that writes into a
default, is none: its results would follow from where its episodes are played, and in which order.
"""

from __future__ import annotations

import copy
import gc
import inspect
import random
import sys
from collections.abc import Callable, Iterator
from types import BuiltinMethodType, CellType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from paceline.fingerprint import is_bound

_NOT_LOOKED_INTO = (type, ModuleType, CodeType, FrameType)


def own(given: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of what may hold state, as a mind in a process gets one by being sent there: what the policies of a mind
    share through their factory is theirs, and not another episode's. What cannot be copied cannot be sent either, and
    there is one of it."""
    try:
        return copied(given)
    except Exception:
        return given


def why_not_copied(given: Callable[..., Any]) -> str | None:
    """Why something cannot be copied, in words; None: it can."""
    try:
        copied(given)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def copied(given: Any) -> Any:
    """A deep copy, functions with their state included; what has no state of its own, a class say, is given back.

    Raises:
        Exception: what `copy.deepcopy` raises of something that cannot be copied.
    """
    if inspect.isclass(given) or (isinstance(given, FunctionType) and not _has_state(given)):
        return given
    return _Memo(given).copied(given)


class _Memo(dict[int, Any]):
    """What `copy.deepcopy` has copied; it looks for everything here first, and so finds what it would not copy itself.

    Args:
        root: What is about to be copied.
    """

    def __init__(self, root: Any) -> None:
        super().__init__((id(thing), thing) for thing in _process_wide())
        self._functions: dict[int, Any] = {}  # all that may be come upon; only those that are get a copy
        for thing in _within(root):
            if isinstance(thing, ModuleType):
                self[id(thing)] = thing
            elif isinstance(thing, FunctionType) or _is_bound_method(thing):
                self._functions[id(thing)] = thing

    def copied(self, thing: Any) -> Any:
        """The copy of a thing."""
        return copy.deepcopy(thing, self)

    def get(self, key: int, default: Any = None) -> Any:
        """What has been copied already; a function is copied when it is first looked for."""
        thing = self._functions.pop(key, None)
        if isinstance(thing, FunctionType):
            self._function(thing)
        elif thing is not None:
            self[key] = getattr(self.copied(thing.__self__), thing.__name__)
        return super().get(key, default)

    def _function(self, function: FunctionType) -> None:
        """Copies a function: empty first, for it may be a part of its own parts."""
        cells = function.__closure__ or ()
        new = [cell for cell in cells if id(cell) not in self]
        self.update((id(cell), CellType()) for cell in new)
        closure = tuple(self[id(cell)] for cell in cells)
        made = FunctionType(function.__code__, function.__globals__, function.__name__, None, closure)
        self[id(function)] = made
        made.__qualname__, made.__module__ = function.__qualname__, function.__module__
        made.__doc__, made.__annotations__ = function.__doc__, function.__annotations__
        made.__defaults__ = self.copied(function.__defaults__)
        made.__kwdefaults__ = self.copied(function.__kwdefaults__)
        vars(made).update(self.copied(vars(function)))
        for cell in filter(is_bound, new):
            self[id(cell)].cell_contents = self.copied(cell.cell_contents)


def _has_state(function: FunctionType) -> bool:
    return bool(function.__closure__ or function.__defaults__ or function.__kwdefaults__ or vars(function))


def _is_bound_method(thing: Any) -> bool:
    """Whether it is a method, written in C, of an object."""
    return isinstance(thing, BuiltinMethodType) and not isinstance(thing.__self__, type | ModuleType | None)


def _process_wide() -> Iterator[Any]:
    """The generators that belong to the process: each member has its own stream of them, so there is one of each."""
    yield random.random.__self__  # type: ignore[attr-defined]
    yield np.random.mtrand._rand
    if (torch := sys.modules.get("torch")) is not None and hasattr(torch, "default_generator"):
        yield torch.default_generator


def _within(root: Any) -> Iterator[Any]:
    """A thing, and all that can be come upon from it by way of containers, objects and the cells of functions."""
    seen, left = set[int](), [root]
    while left:
        thing = left.pop()
        if id(thing) in seen or not gc.is_tracked(thing):  # numbers, texts, arrays: they hold nothing
            continue
        seen.add(id(thing))
        yield thing
        if isinstance(thing, FunctionType):
            left += [thing.__closure__, thing.__defaults__, thing.__kwdefaults__, vars(thing)]
        elif not isinstance(thing, _NOT_LOOKED_INTO):
            left += gc.get_referents(thing)
