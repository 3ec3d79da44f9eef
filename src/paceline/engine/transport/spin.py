"""How long to spin before sleeping: as long as the wait is expected to be short.

Waking a sleeping process costs tens of microseconds on each side; spinning costs a core. So the last waits are
averaged: a short one is spun through with `sched_yield` (a naked spin collapses as soon as there are more
runnable processes than cores), a long one sleeps at once.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable
from time import perf_counter

SHORT = 1e-3
SHORT_FOR_A_CALL = 200e-6
"""A few times what a wake-up takes. Beyond it, to sleep costs a call little and to spin takes a core from the workers:
with more to do than cores, calls of 100 µs took nearly twice as long when they were spun through."""

_WEIGHT = 0.2

_fence_lock = threading.Lock()


def _locked_fence() -> None:
    with _fence_lock:
        pass


def _no_fence() -> None:
    return


fence: Callable[[], None] = _locked_fence
"""Orders a store before a later load (both sides of a sleep-and-wake handshake need it)."""

publish: Callable[[], None] = _no_fence if platform.machine() in ("x86_64", "AMD64", "i686") else _locked_fence
"""Orders a store before a later store: x86 does that by itself."""


class Patience:
    """Predicts the next wait from the last ones.

    Args:
        short: Seconds up to which a wait is spun through.
    """

    __slots__ = ("expected", "short")

    def __init__(self, short: float = SHORT) -> None:
        self.expected = 0.0
        self.short = short

    def spin(self, done: Callable[[], bool]) -> bool:
        """Spins while the predicted wait is short. Returns whether `done` came true."""
        if self.expected > self.short:
            return done()
        if done():
            return True
        sched_yield = os.sched_yield
        end = perf_counter() + self.short
        while perf_counter() < end:
            sched_yield()
            if done() or done() or done():  # a look costs a fraction of what a yield does
                return True
        return False

    def learn(self, waited: float) -> None:
        """Takes the last wait into account; a very long one (the caller was away) is soon forgotten."""
        self.expected += _WEIGHT * (min(waited, 4 * self.short) - self.expected)
