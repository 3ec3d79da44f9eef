"""What functions hold: objects of methods, arguments of partials, variables of closures."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Iterator
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any

from paceline.adapters.sorrel.parts.notes import same
from paceline.adapters.sorrel.parts.part import Change, Item, Part

FUNCTIONS = (FunctionType, MethodType, BuiltinMethodType, functools.partial)


def captures(function: FunctionType) -> bool:
    """Whether a function has variables of others. What a scheduler puts around `step` is left out by optimizers."""
    return function.__closure__ is not None and not hasattr(function, "_wrapped_by_lr_sched")


class Captured(Part):
    """A function, with what it has captured: the object of a method, arguments of a partial, variables of a closure."""

    def children(self) -> Iterable[tuple[Hashable, Any]]:
        thing = self.thing
        if isinstance(thing, functools.partial):
            return ("func", thing.func), ("args", thing.args), ("keywords", thing.keywords)
        if isinstance(thing, FunctionType):
            return tuple(enumerate(thing.__closure__ or ()))
        own = thing.__self__
        inside = () if isinstance(own, ModuleType) else (("self", own),)
        return inside if isinstance(thing, BuiltinMethodType) else (*inside, ("func", thing.__func__))

    def changes(self, item: Item) -> Iterator[Change]:
        return iter(())

    def revert(self, value: Callable[[Any], Any]) -> None:
        pass


class Cell(Part):
    """A variable that functions have captured."""

    def _content(self) -> tuple[Any, ...]:
        try:
            return (self.thing.cell_contents,)
        except ValueError:  # not assigned yet
            return ()

    def children(self) -> Iterable[tuple[Hashable, Any]]:
        return enumerate(self._content())

    def begin(self, item: Item) -> None:
        self._shadow = item(self._content())

    def changes(self, item: Item) -> Iterator[Change]:
        if not same(item(now := self._content()), self._shadow):
            yield "cell", now

    def make(self, change: Change) -> None:
        for content in change[2]:
            self.thing.cell_contents = content

    def agree(self, change: Change, item: Item) -> None:
        self._shadow = item(change[2])

    def revert(self, value: Callable[[Any], Any]) -> None:
        self.make(((), "cell", value(self._shadow)))
