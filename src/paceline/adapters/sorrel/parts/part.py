"""A part: a mutable object with a shadow, which is what it was when both sides last agreed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

Item = Callable[[Any], Any]
"""Notes a value; see `notes`."""

Change = tuple[Any, ...]
"""(name, what, …): what is done to the object of that name."""


class Part:
    """A mutable object."""

    is_numbers = False

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def children(self) -> Iterable[tuple[Hashable, Any]]:
        """What it holds, by key, in an order that is the same on both sides."""
        return ()

    def held(self) -> Iterable[Any]:
        """What it holds, in any order."""
        return [value for _, value in self.children()]

    def begin(self, item: Item) -> None:
        """Takes the first shadow."""

    def unpickled(self, value: Callable[[Any], Any]) -> None:
        """Is told when all that it holds has been unpickled, too."""

    def changes(self, item: Item) -> Iterator[Change]:
        """How it differs from its shadow."""
        raise NotImplementedError

    def make(self, change: Change) -> None:
        """Makes a change of the other side, in place."""
        raise NotImplementedError

    def agree(self, change: Change, item: Item) -> None:
        """Makes the same change to the shadow."""
        raise NotImplementedError

    def revert(self, value: Callable[[Any], Any]) -> None:
        """Makes the object what the shadow is."""
        raise NotImplementedError
