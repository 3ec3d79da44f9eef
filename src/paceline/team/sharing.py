"""Which policies share state: found by walking what a pickle of each would hold, and noting what two of them reach.

Policies that share a mutable object must live together. In two processes each would have a copy, and the copies would
drift apart; on two threads both would change it at once. A mutable container on a class is shared by all its objects.

    policies ── parts ──► those that live together, and what they share        likeness ──► whether two are made alike
"""

from __future__ import annotations

import enum
import functools
import hashlib
import logging
import pathlib
import random
import re
import sys
import types
from collections.abc import Iterable, Iterator, MutableMapping, MutableSequence, MutableSet, Sequence
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

_CUT = True  # what `persistent_id` gives for an object that is not looked into

_OPAQUE = (type, types.ModuleType, logging.Logger, enum.Enum)
"""Every process has its own of these, and they are no state of a policy."""

_IMMUTABLE = (
    *(str, bytes, int, float, complex, tuple, frozenset, range, slice),
    *(type(None), type(Ellipsis), type(NotImplemented)),
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial),
    *(re.Pattern, pathlib.PurePath, np.generic, np.dtype),
)
"""These do not change. What they hold may, so they are looked into."""

_IMMUTABLE_NAMES = ("torch.device", "torch.dtype")

_CONTAINERS = (MutableMapping, MutableSequence, MutableSet, np.ndarray, random.Random, np.random.Generator)
"""What counts as state where a class holds it."""

_OTHERS = frozenset({*sys.stdlib_module_names, "numpy", "torch"})
"""Packages whose classes hold no state of a policy."""


class Part(NamedTuple):
    """Policies that must live together."""

    members: tuple[int, ...]
    shared: str
    """What two of them reach, by its type; empty for a policy that shares nothing."""


def parts(policies: Sequence[Any], described: Iterable[Any] = ()) -> list[Part]:
    """Divides policies into parts that share no mutable object with each other.

    State that hangs on a module is not seen: it belongs to the process.

    Args:
        policies: What is divided; parts hold their numbers, in ascending order.
        described: Objects that say what a game is: no policy's state, wherever a policy keeps them.
    """
    walk = _Walk(len(policies), described)
    for number, policy in enumerate(policies):
        walk.visit(number, policy)
    return walk.parts()


def likeness(policy: Any, described: Iterable[Any] = ()) -> str:
    """A digest of what a policy is made of, within this process: equal for two that are made alike."""
    digest = hashlib.sha256()
    _Walk(1, described, digest).visit(0, policy)
    return digest.hexdigest()


class _Walk:
    """Visits policies one after another; an object that an earlier one has reached joins both."""

    def __init__(self, count: int, described: Iterable[Any], digest: Any = None) -> None:
        self.digest = digest
        """Takes in what is met, if that is wanted."""
        self._part = list(range(count))
        self._shared: dict[int, str] = {}
        self._met: dict[int, tuple[Any, int]] = {}  # holds the objects, so that no id is used twice
        self._described = {id(thing): thing for thing in described}
        self._number = 0
        self._classes: set[type] = set()  # of what the present policy holds
        self._unreadable: int | None = None

    def visit(self, number: int, policy: Any) -> None:
        self._number, self._classes = number, set()
        try:
            _Walker(self).dump(policy)
        except Exception:  # of a reducer, or too deep: then nothing says that it shares nothing
            if self._unreadable is not None:
                self._join(self._unreadable, number, type(policy).__name__)
            self._unreadable = number

    def meet(self, value: Any) -> Any:
        """Notes an object. Returns None if it is to be looked into."""
        if self.digest is not None:
            self.digest.update(_told(value))
        if isinstance(value, _OPAQUE) or id(value) in self._described:
            return _CUT
        self._meet_class(type(value))
        if _is_immutable(value):
            return None
        first = self._note(value, type(value).__name__)
        return None if first == self._number and not _is_array(value) else _CUT

    def _meet_class(self, kind: type) -> None:
        """Notes the containers on the class of an object."""
        if kind not in self._classes:
            self._classes.add(kind)
            for name, owner, container in _containers_on(kind):
                self._note(container, f"{type(container).__name__} ({name!r} of class {owner})")

    def _note(self, value: Any, what: str) -> int:
        _, first = self._met.setdefault(id(value), (value, self._number))
        if self._part[first] != self._part[self._number]:
            self._join(first, self._number, what)
        return first

    def forget(self, value: Any) -> None:
        """It is known by its name, as functions are: every process has its own."""
        self._met.pop(id(value), None)

    def _join(self, first: int, second: int, what: str) -> None:
        old, new = self._part[second], self._part[first]
        self._shared.setdefault(new, what)
        self._part = [new if part == old else part for part in self._part]

    def parts(self) -> list[Part]:
        members: dict[int, list[int]] = {}
        for number, part in enumerate(self._part):
            members.setdefault(part, []).append(number)
        return [Part(tuple(numbers), self._shared.get(part, "")) for part, numbers in members.items()]


class _Walker(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles to a digest. Of what cannot be pickled it takes note all the same, and goes on."""

    def __init__(self, walk: _Walk) -> None:
        super().__init__(_Digested(walk), 5, buffer_callback=lambda buffer: None)
        self._walk = walk

    def persistent_id(self, value: Any) -> Any:
        return self._walk.meet(value)

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, types.FunctionType):
            return tuple, (list(_held_by(value)),)
        try:
            reduce = self.dispatch_table.get(type(value))
            reduced = value.__reduce_ex__(5) if reduce is None else reduce(value)
        except Exception:
            return object, ()
        if isinstance(reduced, str):
            self._walk.forget(value)
        return reduced


class _Digested:
    """The file of a pickle of which only a digest is kept."""

    def __init__(self, walk: _Walk) -> None:
        self._digest = walk.digest

    def write(self, data: Any) -> int:
        if self._digest is not None:
            self._digest.update(data)
        return len(data)


def _told(value: Any) -> bytes:
    """What a digest takes in of an object that a pickle would not say: its class, the name of one, numbers."""
    kind = value if isinstance(value, type) else type(value)
    name = f"{kind.__module__}.{kind.__qualname__};".encode()
    if not _is_array(value):
        return name
    return name + np.asarray(value.detach().cpu() if hasattr(value, "detach") else value).tobytes()


def _containers_on(kind: type) -> Iterator[tuple[str, str, Any]]:
    """The mutable containers on a class and those before it: name, class, container."""
    for owner in kind.__mro__:
        if owner.__module__.partition(".")[0] not in _OTHERS:
            for name, value in list(vars(owner).items()):
                if not name.startswith("__") and isinstance(value, _CONTAINERS):
                    yield name, owner.__name__, value


def _held_by(function: types.FunctionType) -> Iterable[Any]:
    """What a function keeps for itself: the variables around it, and its defaults."""
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def _is_immutable(value: Any) -> bool:
    if isinstance(value, _IMMUTABLE):
        return True
    kind = type(value)
    frozen = getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
    return bool(frozen) or f"{kind.__module__}.{kind.__qualname__}" in _IMMUTABLE_NAMES


def _is_array(value: Any) -> bool:
    """Whether it is numbers all through: to look into it would copy them."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return True
    return isinstance(value, np.ndarray) and not value.dtype.hasobject
