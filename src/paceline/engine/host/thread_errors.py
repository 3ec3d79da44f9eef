"""Errors by which code says that it may not be run on the thread that it was run on."""

from __future__ import annotations

from paceline.engine.transport import codec

_SAYINGS = (
    "main thread",  # signal, tkinter, matplotlib
    "event loop in thread",  # asyncio
    "non-thread-safe operation",  # asyncio, uvloop
    "created in a thread",  # sqlite3, Django
    "'_thread._local' object has no attribute",  # what threading.local was given on another thread
    "from the same thread",  # pyglet
    "different apartment",  # Tcl
    "different thread",  # greenlet (and so Playwright), COM
    "another thread",  # PyO3
    "wrong thread",
)
"""What such errors say. The word alone would not do: a forum has threads, too."""


def speaks_of_threads(error: BaseException) -> bool:
    """Whether an error says that its code belongs to another thread."""
    words = in_a_line(error).lower()
    return any(saying in words for saying in _SAYINGS)


def in_a_line(error: BaseException) -> str:
    """Its class, and the first line of what it says."""
    return f"{type(error).__name__}: {codec.words(error)}".partition("\n")[0]
