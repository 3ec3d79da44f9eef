"""A member as its host holds it, and what comes back of a call."""

from __future__ import annotations

from typing import Any

from paceline.engine.randomness.isolation import Streams

OK, ERROR, STALE, SHARED, UNFIT = range(5)
"""Answered; raised; drew from a stream that is not its own, unknown to it; drew on threads, which is an error; raised
because it may not be run on its thread, which it will be taken away from."""

Result = tuple[int, int, Any, int | None, Any]
"""(member or item, kind, packed answer or error, its check or None, where its journal may start anew). Of a snapshot
the fourth is how many nanoseconds it took."""


class Anew:
    """A member's way to say: what I am now depends on my recipe and this call alone, forget what was before.

    Return `Anew(answer)` from a method (a seeded reset, say) and the caller gets `answer`. With `state`, a rebuild
    calls the member's `restore(state)` in place of running this call again.
    """

    __slots__ = ("answer", "state")

    def __init__(self, answer: Any = None, state: Any = None) -> None:
        self.answer = answer
        self.state = state


class Seat:
    """One member in its host."""

    __slots__ = ("deterministic", "error", "index", "stale", "streams", "value")

    def __init__(self, index: int, streams: Streams, deterministic: bool) -> None:
        self.index = index
        self.streams = streams
        self.deterministic = deterministic
        self.value: Any = None
        self.error: BaseException | None = None  # it could not be built; every call says so
        self.stale = False  # awaiting its rebuild; what is called meanwhile is called again afterwards


def ability(value: Any, name: str) -> Any:
    """A member's method of that name, or None. A member that raises when it is asked for one does not have it."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None
