"""Which policies share state: found by walking what a pickle of each would hold, and noting what two of them reach.

Policies that share a mutable object must live together. In two processes each would have a copy, and the copies would
drift apart; on two threads both would change it at once.
"""

from __future__ import annotations

import enum
import functools
import logging
import pathlib
import re
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
from mettagrid.policy.policy_env_interface import PolicyEnvInterface

_CUT = True  # what `persistent_id` gives for an object that is not looked into

_OPAQUE = (type, types.ModuleType, logging.Logger, enum.Enum, PolicyEnvInterface)
"""Every process has its own of these, and they are no state of a policy."""

_IMMUTABLE = (
    *(str, bytes, int, float, complex, tuple, frozenset, range, slice),
    *(type(None), type(Ellipsis), type(NotImplemented)),
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial),
    *(re.Pattern, pathlib.PurePath, np.generic, np.dtype),
)
"""These do not change. What they hold may, so they are looked into."""

_IMMUTABLE_NAMES = ("torch.device", "torch.dtype")


class Part(NamedTuple):
    """Policies that must live together."""

    members: list[int]
    shared: str
    """The type of an object that two of them reach; empty for a policy that shares nothing."""


def parts(policies: Sequence[Any]) -> list[Part]:
    """Divides policies into parts that share no mutable object with each other.

    State that hangs on a class or a module is not seen: it belongs to the process.

    Args:
        policies: Agent policies; parts hold their numbers, in ascending order.
    """
    walk = _Walk(len(policies))
    for policy in policies:
        walk.ignore(getattr(policy, "policy_env_info", None))
    for number, policy in enumerate(policies):
        walk.visit(number, policy)
    return walk.parts()


class _Walk:
    """Visits policies one after another; an object that an earlier one has reached joins both."""

    def __init__(self, count: int) -> None:
        self._part = list(range(count))
        self._shared: dict[int, str] = {}
        self._met: dict[int, tuple[Any, int]] = {}  # holds the objects, so that no id is used twice
        self._ignored: dict[int, Any] = {}
        self._number = 0
        self._unreadable: int | None = None

    def ignore(self, interface: Any) -> None:
        """The description of the game is no policy's state, and neither are its parts, wherever a policy keeps them."""
        if isinstance(interface, PolicyEnvInterface) and id(interface) not in self._ignored:
            self._ignored[id(interface)] = interface
            for value in vars(interface).values():
                for each in [value, *(value if isinstance(value, list) else ())]:
                    self._ignored[id(each)] = each

    def visit(self, number: int, policy: Any) -> None:
        self._number = number
        try:
            _Walker(self).dump(policy)
        except Exception:  # of a reducer, or too deep: then nothing says that it shares nothing
            if self._unreadable is not None:
                self._join(self._unreadable, number, policy)
            self._unreadable = number

    def meet(self, value: Any) -> Any:
        """Notes an object. Returns None if it is to be looked into."""
        if isinstance(value, _OPAQUE) or id(value) in self._ignored:
            return _CUT
        if _is_immutable(value):
            return None
        _, first = self._met.setdefault(id(value), (value, self._number))
        if self._part[first] != self._part[self._number]:
            self._join(first, self._number, value)
        return None if first == self._number and not _is_array(value) else _CUT

    def forget(self, value: Any) -> None:
        """It is known by its name, as functions are: every process has its own."""
        self._met.pop(id(value), None)

    def _join(self, first: int, second: int, value: Any) -> None:
        old, new = self._part[second], self._part[first]
        self._shared.setdefault(new, type(value).__name__)
        self._part = [new if part == old else part for part in self._part]

    def parts(self) -> list[Part]:
        members: dict[int, list[int]] = {}
        for number, part in enumerate(self._part):
            members.setdefault(part, []).append(number)
        return [Part(numbers, self._shared.get(part, "")) for part, numbers in members.items()]


class _Walker(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles to nowhere. Of what cannot be pickled it takes note all the same, and goes on."""

    def __init__(self, walk: _Walk) -> None:
        super().__init__(_Nowhere(), 5, buffer_callback=lambda buffer: None)
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


class _Nowhere:
    def write(self, data: Any) -> int:
        return len(data)


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
