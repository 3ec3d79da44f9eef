"""Objects with attributes, in a `__dict__` or in slots."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from paceline.adapters.sorrel.parts.notes import unchanged
from paceline.adapters.sorrel.parts.part import Change, Item, Part

_HANDLES = frozenset({"_thread", "threading", "multiprocessing", "_io", "io", "socket", "queue", "_queue", "weakref"})
"""Modules whose objects belong to a process."""


class Attributes(Part):
    """An object with attributes."""

    def __init__(self, thing: Any) -> None:
        super().__init__(thing)
        cls: Any = type(thing)
        self._slots = slots_of(cls)

    @property
    def _dict(self) -> dict[str, Any] | None:
        return getattr(self.thing, "__dict__", None)

    def _now(self) -> dict[str, Any]:
        if not self._slots:
            return self.thing.__dict__  # type: ignore[no-any-return]
        held = {name: getattr(self.thing, name) for name in self._slots if hasattr(self.thing, name)}
        return {**held, **(self._dict or {})}

    def children(self) -> Iterable[tuple[Hashable, Any]]:
        return sorted(self._now().items(), key=_by_name)

    def held(self) -> Iterable[Any]:
        return self._now().values()

    def begin(self, item: Item) -> None:
        self._shadow = {name: item(value) for name, value in self._now().items()}

    def changes(self, item: Item) -> Iterator[Change]:
        now, before = self._now(), self._shadow
        for name, value in now.items():
            if name not in before or not unchanged(value, before[name], item):
                yield "attr", name, value
        if len(now) < len(before) or not now.keys() >= before.keys():
            yield from (("delattr", name) for name in before if name not in now)

    def make(self, change: Change) -> None:
        _, what, name, *value = change
        if self._dict is None or name in self._slots:
            object.__setattr__(self.thing, name, *value) if value else object.__delattr__(self.thing, name)
        elif what == "attr":
            self._dict[name] = value[0]
        else:
            self._dict.pop(name, None)

    def agree(self, change: Change, item: Item) -> None:
        _, what, name, *value = change
        if what == "attr":
            self._shadow[name] = item(value[0])
        else:
            self._shadow.pop(name, None)

    def revert(self, value: Callable[[Any], Any]) -> None:
        for name in [name for name in self._now() if name not in self._shadow]:
            self.make(((), "delattr", name))
        for name, item in self._shadow.items():
            self.make(((), "attr", name, value(item)))

    def unpickled(self, value: Callable[[Any], Any]) -> None:
        """Gives the object what pickling leaves out of it, and it may have made anew: an optimizer its hooks, say."""
        cls: Any = type(self.thing)
        if cls.__getstate__ is object.__getstate__:
            return
        state = self.thing.__getstate__()
        for name, note in self._shadow.items() if isinstance(state, dict) else ():
            if name not in state:
                self.make(((), "attr", name, value(note)))

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: item for name, item in self._shadow.items() if not is_handle(item)}
        return {**vars(self), "_shadow": kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        made = {name: value for name, value in self._now().items() if name not in self._shadow and is_handle(value)}
        self._shadow.update(made)  # a lock is not sent: the copy has one of its own


@functools.cache
def slots_of(cls: Any) -> tuple[str, ...]:
    names: list[str] = []
    for base in cls.__mro__:
        own = base.__dict__.get("__slots__", ())
        names += [own] if isinstance(own, str) else list(own)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def is_handle(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in _HANDLES


def _by_name(pair: tuple[str, Any]) -> str:
    return pair[0]
