"""Containers: dicts, lists, deques, arrays of objects and sets, maybe with attributes beside what they hold."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import numpy as np

from paceline.adapters.sorrel.parts.attributes import Attributes
from paceline.adapters.sorrel.parts.notes import PLAIN, unchanged
from paceline.adapters.sorrel.parts.part import Change, Item, Part


class Holder(Attributes):
    """What has items, and maybe attributes beside them, as a subclass of a dict or list may have."""

    _OWN = ("attr", "delattr")

    def _now(self) -> dict[str, Any]:
        return super()._now() if self._dict or self._slots else {}

    def begin(self, item: Item) -> None:
        super().begin(item)
        self._items = self._noted(item)

    def _noted(self, item: Item) -> Any:
        raise NotImplementedError

    def children(self) -> Iterable[tuple[Hashable, Any]]:
        return [*super().children(), *self._inner()]

    def held(self) -> Iterable[Any]:
        return [*self._now().values(), *(value for _, value in self._inner())]

    def _inner(self) -> Iterable[tuple[Hashable, Any]]:
        raise NotImplementedError

    def changes(self, item: Item) -> Iterator[Change]:
        yield from super().changes(item)
        yield from self._item_changes(item)

    def _item_changes(self, item: Item) -> Iterator[Change]:
        raise NotImplementedError

    def make(self, change: Change) -> None:
        if change[1] in self._OWN:
            super().make(change)
        else:
            self._make(change)

    def _make(self, change: Change) -> None:
        raise NotImplementedError

    def agree(self, change: Change, item: Item) -> None:
        if change[1] in self._OWN:
            super().agree(change, item)
        else:
            self._agree(change, item)

    def _agree(self, change: Change, item: Item) -> None:
        raise NotImplementedError


class Mapping(Holder):
    """A dict."""

    def _noted(self, item: Item) -> dict[Any, Any]:
        return {key: item(value) for key, value in self.thing.items()}

    def _inner(self) -> Iterable[tuple[Hashable, Any]]:
        for number, (key, value) in enumerate(self.thing.items()):
            if type(key) in PLAIN:
                yield ("item", key), value
            else:  # it may be an object itself: a parameter, in the state of an optimizer
                yield ("key", number), key
                yield ("value", number), value

    def _item_changes(self, item: Item) -> Iterator[Change]:
        now, before = self.thing, self._items
        if len(now) < len(before) or any(key not in now for key in before) or not _in_order(now, before):
            yield "refill", tuple(now.items())
            return
        for key, value in now.items():
            if key not in before or not unchanged(value, before[key], item):
                yield "item", key, value

    def _make(self, change: Change) -> None:
        if change[1] == "item":
            self._plain.__setitem__(self.thing, change[2], change[3])
        else:
            self._plain.clear(self.thing)
            for key, value in change[2]:
                self._plain.__setitem__(self.thing, key, value)

    @property
    def _plain(self) -> type[dict[Any, Any]]:
        """Whose methods write to it and do nothing else."""
        return OrderedDict if isinstance(self.thing, OrderedDict) else dict

    def _agree(self, change: Change, item: Item) -> None:
        if change[1] == "item":
            self._items[change[2]] = item(change[3])
        else:
            self._items = {key: item(value) for key, value in change[2]}

    def revert(self, value: Callable[[Any], Any]) -> None:
        super().revert(value)
        self._make(((), "refill", [(key, value(item)) for key, item in self._items.items()]))


def _in_order(now: dict[Any, Any], before: dict[Any, Any]) -> bool:
    """Whether what was there comes first, in the same order."""
    return all(one is other or one == other for one, other in zip(now, before, strict=False))


class Sequence(Holder):
    """A list, a deque, or an array of objects."""

    def _values(self) -> Any:
        return self.thing.reshape(-1) if isinstance(self.thing, np.ndarray) else self.thing

    def _now(self) -> dict[str, Any]:
        return {} if type(self.thing) in (list, deque, np.ndarray) else super()._now()

    def _noted(self, item: Item) -> list[Any]:
        return [item(value) for value in self._values()]

    def _inner(self) -> Iterable[tuple[Hashable, Any]]:
        return ((("at", number), value) for number, value in enumerate(self._values()))

    def _item_changes(self, item: Item) -> Iterator[Change]:
        values, before = self._values(), self._items
        if len(values) < len(before):
            yield "tail", 0, tuple(values)
            return
        for number, (value, note) in enumerate(zip(values, before, strict=False)):
            if not unchanged(value, note, item):
                yield "at", number, value
        if len(values) > len(before):
            yield "tail", len(before), tuple(list(values)[len(before) :])

    def _make(self, change: Change) -> None:
        _, what, place, value = change
        if what == "at":
            if place < len(self._values()):
                self._values()[place] = value
            return
        while len(self.thing) > place:
            self.thing.pop()
        self.thing.extend(value)

    def _agree(self, change: Change, item: Item) -> None:
        _, what, place, value = change
        if what == "tail":
            self._items[place:] = [item(each) for each in value]
        elif place < len(self._items):
            self._items[place] = item(value)

    def revert(self, value: Callable[[Any], Any]) -> None:
        super().revert(value)
        items = [value(item) for item in self._items]
        if isinstance(self.thing, np.ndarray):
            self._values()[:] = items
        else:
            self.thing.clear()
            self.thing.extend(items)


class Elements(Part):
    """A set."""

    def children(self) -> Iterable[tuple[Hashable, Any]]:
        return ()  # what can be in one does not change

    def begin(self, item: Item) -> None:
        self._shadow = set(self.thing)

    def changes(self, item: Item) -> Iterator[Change]:
        if self.thing != self._shadow:
            yield "elements", tuple(self.thing)

    def make(self, change: Change) -> None:
        self.thing.clear()
        self.thing.update(change[2])

    def agree(self, change: Change, item: Item) -> None:
        self._shadow = set(change[2])

    def revert(self, value: Callable[[Any], Any]) -> None:
        self.make(((), "elements", self._shadow))
