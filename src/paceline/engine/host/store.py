"""What lives in a worker between the items of its maps: environments, models, whatever is dear to build.

    take(key, build) ──► the idle object of that key, or a new one ──► put_back(key, value), if it is still sound
    kept(key, build) ──► the same, put back by the store when the item has ended without an error

Every worker of a pool has one store, inline and in threads too; two pools never share one. A killed worker loses its
store, and the one after it builds again. The store closes what it holds when the pool is closed or the worker ends.

What an item computes must not depend on what earlier items did to an object: the item resets what it takes. Building
never shows in a result either: `build` runs under random streams of its own, which follow the key alone, and the item
draws afterwards what it would have drawn if the object had been found. Objects that draw from process-wide generators
later and remember what they drew (lazy weights) carry one item's numbers into the next; draw in `build` instead.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.randomness.isolation import Refusing, Stale, Streams, Swapping, on_a_worker_thread
from paceline.engine.transport import codec
from paceline.errors import BadInput

T = TypeVar("T")

StoreKey = int | str | bytes | tuple["StoreKey", ...]
"""What names a recipe: the same key is the same recipe. A digest of the recipe is a good key; the run's seed belongs in
it if what is built is to follow that."""

MOST_IDLE = 64
"""How many objects wait in one store at the most; the one that has waited longest is closed for the next."""

_log = logging.getLogger("paceline")


def take(key: StoreKey, build: Callable[[], T]) -> T:
    """Takes an object out of the store of the worker that runs this item; builds it if none of that key is idle.

    The caller owns it from then on, and ends with it in one of two ways: `put_back`, or its `close()` if it may not be
    sound any more (an episode that failed halfway). Outside of a map nothing is stored: there it is always built.

    Args:
        key: Names the recipe: ints, strings, bytes and tuples of them.
        build: Makes the object, under random streams that follow the key.

    Raises:
        BadInput: the key is of another kind.
    """
    name, store = _name(key), _current()
    found = None if store is None else store.find(name)
    return _built(_isolation(store), name, build) if found is None else found[0]


def put_back(key: StoreKey, value: Any) -> None:
    """Gives an object that was taken to the store, for later items of this worker. Outside of a map it is closed."""
    name, store = _name(key), _current()
    if store is None:
        with UNINTERRUPTED:
            _close(_isolation(None), name, value)
    else:
        store.add(name, value)


def kept(key: StoreKey, build: Callable[[], T]) -> T:
    """Gives the object of that key that lives in this worker, and builds it at first use.

    The store owns it: it is there for the whole item, however often it is asked for, and for later items. After an item
    that raised an error it is closed and forgotten, because it may have been left in the middle of something.

    Args:
        key: As for `take`.
        build: As for `take`.

    Raises:
        BadInput: no map runs this, so that nothing would ever close the object; or the key is of another kind.
    """
    name, store = _name(key), _current()
    if store is None:
        raise BadInput(
            "kept() was called outside of a function that Pool.map or Pool.stream runs, where no worker would close "
            "the object; use take() and put_back(), or build it"
        )
    if name not in store.held:
        store.held[name] = take(key, build)
    return store.held[name]  # type: ignore[no-any-return]


class Store:
    """The idle objects of one worker, and those that the item in hand keeps.

    Args:
        isolation: Gives the isolation that the worker runs its items under.

    Attributes:
        held: What `kept` gave to the item in hand.
        closed: Whether the worker has ended: then it takes nothing any more.
    """

    def __init__(self, isolation: Callable[[], Swapping | Refusing]) -> None:
        self.isolation = isolation
        self.held: dict[str, Any] = {}
        self.closed = False
        self._idle: list[tuple[str, Any, int]] = []  # the last one was put back last; and by which item
        self._item = 0

    def begin(self) -> None:
        """An item begins on this thread."""
        self._item += 1
        _here.store = self

    def end(self, outer: Store | None, *, sound: bool) -> None:
        """The item has ended; what it kept is put by if it ended well.

        Args:
            outer: The store that was `_here` before: of the item around this one, if its pool lives within an item.
            sound: Whether it ended well.
        """
        _here.store = outer
        if self.held and sound:
            for name, value in self.held.items():
                self.add(name, value)
            self.held = {}
        elif self.held:
            self.discard()

    def discard(self) -> None:
        """Closes what the item in hand has kept or put back: it failed, or it is run again with its own streams and
        the first run has shown these objects random numbers of another stream."""
        mine = [(name, value) for name, value, item in self._idle if item == self._item]
        self._idle = [entry for entry in self._idle if entry[2] != self._item]
        mine += self.held.items()
        self.held = {}
        with UNINTERRUPTED:
            for name, value in mine:
                _close(self.isolation(), name, value)

    def find(self, name: str) -> tuple[Any] | None:
        """Takes the object of that name out that was put back last, if there is one."""
        for place in range(len(self._idle) - 1, -1, -1):
            if self._idle[place][0] == name:
                return (self._idle.pop(place)[1],)
        return None

    def add(self, name: str, value: Any) -> None:
        """Puts an object by."""
        self._idle.append((name, value, self._item))
        if len(self._idle) > MOST_IDLE:
            with UNINTERRUPTED:
                _close(self.isolation(), *self._idle.pop(0)[:2])

    def close(self) -> None:
        """Closes everything that is idle, in the order in which it was put back."""
        self.closed = True
        with UNINTERRUPTED:  # those, too, that come after one in whose close() Ctrl-C was pressed
            while self._idle:
                _close(self.isolation(), *self._idle.pop(0)[:2])


class _Here(threading.local):
    """The store of the item that this thread runs."""

    store: Store | None = None


_here = _Here()


def innermost() -> Store | None:
    """The store of the item that this thread runs, as `Store.end` wants it back."""
    return _here.store


def _current() -> Store | None:
    store = _here.store
    return None if store is None or store.closed else store


def _isolation(store: Store | None) -> Swapping | Refusing:
    if store is not None:
        return store.isolation()
    return Refusing() if on_a_worker_thread() else Swapping(interruptible=True)


def _built(isolation: Swapping | Refusing, name: str, build: Callable[[], T]) -> T:
    values: list[T] = []
    if not _run_apart(isolation, name, lambda: values.append(build())):
        # It has imported torch and drawn from it, before torch had a stream to give: now there is one.
        with UNINTERRUPTED:
            _close(isolation, name, values.pop())
        _run_apart(isolation, name, lambda: values.append(build()))
    return values[0]


def _close(isolation: Swapping | Refusing, name: str, value: Any) -> None:
    """Closes an object, if it can be closed. What it raises is logged: no item is to blame for it.

    To be called where `UNINTERRUPTED` is entered.
    """
    try:
        close = getattr(value, "close", None)
        if callable(close):
            _run_apart(isolation, name, lambda: UNINTERRUPTED.interruptible(close))
    except BaseException as error:
        words = codec.words(error)
        _log.warning("what was kept as %s raised in close(): %s: %s", name, type(error).__name__, words)


def _run_apart(isolation: Swapping | Refusing, name: str, function: Callable[[], Any]) -> bool:
    """Runs a function under the random streams of a name; on threads, where streams cannot be told apart, as it is.

    Returns:
        Whether it had a stream for everything that it drew from.
    """
    if isinstance(isolation, Refusing):
        function()
        return True
    with suppress(Stale):
        isolation.run(Streams(0, ("store", name), isolated=True), "store", function, (), keep=False)
        return True
    return False


def _name(key: StoreKey) -> str:
    """The key as text, because 1 and True are equal and not the same."""
    _check(key)
    return repr(key)


def _check(key: StoreKey) -> None:
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, tuple):
            _check(part)
        elif not isinstance(part, int | str | bytes):
            raise BadInput(
                f"{part!r} (a {type(part).__name__}) cannot be a key of the store, or part of one: give ints, strings, "
                "bytes and tuples of them, which mean the same in every process"
            )
