"""What lasts beyond an episode because it belongs to the process: attributes of classes, and variables of modules.

    env, policy ──► its own classes, the functions that these use ──► seen now and then ──► what differs is told once

Results depend on the plan where such a thing changes in play: it follows from which episodes and envs share a process.
Looked at is code of the user's own, and in it plain data and random generators; nothing is called. A value that was
empty and is filled, a list or a set that only grows, and a dict whose values stay, are caches and not told.
"""

from __future__ import annotations

import builtins
import dis
import itertools
import logging
import random
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any
from weakref import WeakSet, ref

import numpy as np

from paceline.fingerprint import is_bound
from paceline.sources import is_own

_INSTALLED = {"site-packages", "dist-packages"}
_WRAPPED = ("env", "made", "aec_env", "par_env")
"""Where wrappers of environments keep what they wrap."""
_MOST_ITEMS, _MOST_BYTES, _DEEPEST = 10_000, 1 << 16, 4
"""Of one value, however nested; more of it makes it one that is not looked at. An array is looked at in samples."""
_BYTES_OF_AN_ITEM = 64
_PLAIN = (bool, int, str, bytes, complex, type(None), range)
_OF_A_FILLING, _ENOUGH = 1, 2
_Place = tuple[ref[type] | None, str]
"""A class (None: a module), and the name of its attribute or variable."""
_log = logging.getLogger("paceline.lasting")


class Lasting:
    """What lasts in this process, as far as environments and policies that were met lead there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forgets everything: another run begins in this process."""
        self._met: WeakSet[Any] = WeakSet()
        self._classes: dict[ref[type], str] = {}  # by the class itself: a factory makes several of one name
        self._variables: dict[str, tuple[Mapping[str, Any], str]] = {}
        self._plays, self._next, self._looks = 0, 1, False
        self._seen: dict[_Place, Any] = {}  # where → value, as something that can be compared later
        self._weights: Counter[_Place] = Counter()
        self._told: set[str] = set()
        self._news: list[str] = []
        self.has_changed = False
        """Whether something has, other than a cache: then another process would not go on as this one does."""

    def meet(self, thing: Any) -> None:
        """Learns what is to be looked at of an environment or a policy."""
        known = len(self._classes) + len(self._variables)
        try:
            for each in _layers(thing):
                for part in _parts(each):
                    self._explore(part)
        except Exception:  # a user's object may be anything; what is not looked at is not told
            return
        if len(self._classes) + len(self._variables) > known:
            self._plays, self._next = 0, 1

    def begin(self) -> None:
        """An episode begins, or an environment has been built. Looks at the first since something new was met, at the
        second, the fourth, the eighth …"""
        self._plays += 1
        self._looks = self._plays >= self._next
        if self._looks:
            self._next = 2 * self._plays
            self.look()

    def end(self) -> None:
        """The episode ends that was begun last."""
        if self._looks:
            self._looks = False
            self.look()

    def news(self) -> list[str]:
        """What has been found since this was last asked."""
        news, self._news = self._news, []
        return news

    def say(self) -> None:
        """Gives the news to the log: a worker's comes to the caller's process."""
        for text in self.news() if self._news else ():
            _log.warning(text, extra={"lasting": text})

    def hear(self, news: Iterable[str]) -> None:
        """Takes over what has been found in another process."""
        new = [text for text in dict.fromkeys(news) if text not in self._told]
        self._told.update(new)
        self._news += new

    def look(self) -> None:
        """Looks, and compares with what was there before."""
        with self._lock:
            seen = dict(self._values())
            for place, value in seen.items():
                before = self._seen.get(place, value)
                if not _is_kept(before, value):
                    fills = _is_empty(before)
                    self.has_changed |= not fills or before[0] in (int, float)  # a number counts something
                    self._weights[place] += _OF_A_FILLING if fills else _ENOUGH
                    if self._weights[place] >= _ENOUGH:
                        self._tell(*place)
            self._seen = seen

    def _tell(self, kind: ref[type] | None, name: str) -> None:
        self.hear([_sentence(name, is_variable=kind is None)])

    def _explore(self, root: Any) -> None:
        left = [root]
        while left:
            thing = left.pop()
            mark = thing.__code__ if isinstance(thing, FunctionType) else thing
            if mark in self._met:
                continue
            self._met.add(mark)
            if not _is_own(thing.__module__ or ""):
                continue
            if isinstance(thing, FunctionType):
                left += self._of_function(thing)
            else:
                self._take_in(thing)
                left += [part for value in list(vars(thing).values()) for part in _code_in(value)]
                left += thing.__bases__

    def _take_in(self, kind: type) -> None:
        known = self._classes
        known[ref(kind, lambda gone: known.pop(gone, None))] = f"{kind.__module__}.{kind.__qualname__}"

    def _of_function(self, function: FunctionType) -> list[Any]:
        """Notes the variables that a function uses. Returns the functions and classes among them and in its closure."""
        variables = function.__globals__
        used = {name: variables.get(name) for name in _names(function.__code__) - vars(builtins).keys()}
        for name, value in used.items():
            if not _code_in(value):
                self._variables[f"{function.__module__}.{name}"] = variables, name
        cells = [cell.cell_contents for cell in function.__closure__ or () if is_bound(cell)]
        return [part for value in [*used.values(), *cells] for part in _code_in(value)]

    def _values(self) -> Iterator[tuple[_Place, Any]]:
        for kind, name in list(self._classes.items()):
            for attribute, value in list(vars(kind() or object).items()):
                if not attribute.startswith("__") and (plain := _looked_at(value)) is not None:
                    yield (kind, f"{name}.{attribute}"), plain
        for name, (variables, variable) in list(self._variables.items()):
            if (plain := _looked_at(variables.get(variable, ...))) is not None:
                yield (None, name), plain


LASTING = Lasting()
"""Of this process."""


class _Once(logging.Filter):
    """Lets a finding through once, from whichever worker it comes first."""

    def __init__(self) -> None:
        super().__init__()
        self._told: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        text = str(getattr(record, "lasting", record.msg))
        is_new = text not in self._told
        self._told.add(text)
        return is_new


_log.addFilter(_Once())


def _sentence(name: str, *, is_variable: bool) -> str:
    what, who, where = (
        ("a variable of a module", "all code", "in an object, or in a closure")
        if is_variable
        else ("an attribute of a class", "all instances", "in the instance")
    )
    return (
        f"{name} is {what} and changes in play: {who} in a process share it, so results can depend on the plan, which "
        f"says what shares one; keep it {where}"
    )


# -- what leads where --------------------------------------------------------------------------------------


def _layers(thing: Any) -> Iterator[Any]:
    """A thing, what it wraps, what that wraps; each once, as wrappers may refer to each other."""
    seen: set[int] = set()
    while thing is not None and id(thing) not in seen:
        seen.add(id(thing))
        yield thing
        thing = next((inside for name in _WRAPPED if (inside := _own_attribute(thing, name)) is not None), None)


def _own_attribute(thing: Any, name: str) -> Any:
    """An attribute of an instance, without a call of its code, and without its `__dict__`: when that is asked for,
    Python makes a dict, and every later access to an attribute of the instance is slower."""
    if hasattr(getattr(type(thing), name, None), "__get__"):
        return None
    try:
        return object.__getattribute__(thing, name)
    except AttributeError:
        return None


def _parts(thing: Any) -> list[Any]:
    """The classes and functions of an environment or a policy."""
    while isinstance(thing, partial):
        thing = thing.func
    if isinstance(thing, MethodType):
        return [type(thing.__self__), *_code_in(thing.__func__)]
    return _code_in(thing) or [type(thing)]


def _code_in(value: Any) -> list[Any]:
    """The function or class that a value is, or that it wraps."""
    if isinstance(value, property):
        return [part for each in (value.fget, value.fset) for part in _code_in(each)]
    value = getattr(value, "__func__", value) if isinstance(value, staticmethod | classmethod | MethodType) else value
    return [value] if isinstance(value, FunctionType | type) else []


@cache
def _names(code: CodeType) -> frozenset[str]:
    """The variables of its module that code reads or writes."""
    found = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "STORE_GLOBAL")}
    inside = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return frozenset(found).union(*map(_names, inside))


@cache
def _is_own(module: str) -> bool:
    """Whether a module is a user's own, and not installed, nor ours."""
    if module == "__main__":
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return False
    path = Path(file).resolve()
    return is_own(path) and not _INSTALLED.intersection(path.parts)


# -- values ------------------------------------------------------------------------------------------------


def _looked_at(value: Any) -> Any:
    """Something that equals itself as long as the value is the same; None: the value is no plain data, or too large."""
    try:
        return _Look().plain(value)
    except Exception:  # it may be anything, and another thread may change it in the meantime
        return None


class _Look:
    """A look at one value, as long as it has no more items than one may have."""

    def __init__(self) -> None:
        self._left = _MOST_ITEMS

    def plain(self, value: Any, depth: int = 0) -> Any:
        """What the value holds; None: it is no plain data, or there is too much of it."""
        if type(value) in _PLAIN:
            return type(value), value
        if isinstance(value, float | np.generic | itertools.count):
            return type(value), repr(value)  # NaN is the same as NaN
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, random.Random):
            state = value.getstate()
            return state if self._affords(len(state[1])) else None
        if isinstance(value, np.random.Generator):
            return self.plain(value.bit_generator.state, depth)
        if isinstance(value, np.random.RandomState):
            return self.plain(value.get_state(legacy=False), depth)
        return self._container(value, depth + 1) if depth < _DEEPEST else None

    def _array(self, array: np.ndarray[Any, Any]) -> Any:
        affordable = self._affords(min(array.nbytes, _MOST_BYTES) // _BYTES_OF_AN_ITEM)
        return (array.shape, array.dtype.str, _sample(array)) if affordable and not array.dtype.hasobject else None

    def _container(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind not in (dict, list, tuple, deque, set) or not self._affords(len(value)):
            return None
        keys = [key for key in list(value) if type(key) in _PLAIN] if kind is dict else ()
        if value and kind is dict and not keys:
            return None
        parts = []
        for each in map(value.__getitem__, keys) if kind is dict else list(value):
            part = self.plain(each, depth)
            if part is None:
                return None
            parts.append(part)
        if kind is dict:
            return dict(zip(keys, parts, strict=True))
        return kind, frozenset(map(repr, parts)) if kind is set else parts

    def _affords(self, items: int) -> bool:
        self._left -= items
        return self._left >= 0


def _sample(array: np.ndarray[Any, Any]) -> bytes:
    flat = array.reshape(-1)
    return flat[:: max(1, array.nbytes // _MOST_BYTES)].tobytes()


def _is_empty(plain: Any) -> bool:
    """Whether a value was None, False, 0 or an empty container: it may be filled once, as a cache is."""
    if isinstance(plain, dict):
        return not plain
    return plain[1] in (None, False, 0, "", b"", "0.0") or (plain[0] in (list, tuple, deque, set) and not plain[1])


def _is_kept(before: Any, now: Any) -> bool:
    """Whether a value is what it was, or is a list or a set that has grown, or a dict whose values are kept."""
    if isinstance(before, dict) and isinstance(now, dict):
        return all(_is_kept(value, now[key]) for key, value in before.items() if key in now)
    if isinstance(before, dict) or isinstance(now, dict) or before[0] != now[0] or before[0] not in (list, set):
        return bool(before == now)
    was, has = before[1], now[1]
    return bool(was <= has if before[0] is set else was == has[: len(was)])
