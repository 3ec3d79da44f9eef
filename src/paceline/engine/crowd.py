"""Threads of one worker, for members that wait: their rows are run beside each other instead of one after another.

run(function, items) ──► a queue that all threads take from ──► back when the last one is done
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any


class _Round:
    """What is run together."""

    __slots__ = ("_last", "_numbers", "_over", "function")

    def __init__(self, function: Callable[[Any], None], items: int) -> None:
        self.function = function
        self._numbers, self._last = count(1), items
        self._over = threading.Lock()
        self._over.acquire()

    def one_done(self) -> None:
        if next(self._numbers) == self._last:  # one step of the interpreter: nobody gets the same number
            self._over.release()

    def wait(self) -> None:
        self._over.acquire()


class Crowd:
    """So many threads at the most; they are started when there is work for them.

    One queue for all: a thread that has taken its item wakes the next, so that whoever asks does not wake them all.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._started = 0
        self._jobs: queue.SimpleQueue[tuple[_Round, Any]] = queue.SimpleQueue()

    def run(self, function: Callable[[Any], None], items: Sequence[Any]) -> None:
        """Calls `function`, which must not raise, with every item; returns when all are done."""
        while self._started < min(self._size, len(items)):
            self._started += 1
            threading.Thread(target=self._work, name=f"paceline-crowd-{self._started}", daemon=True).start()
        round_ = _Round(function, len(items))
        for item in items:
            self._jobs.put((round_, item))
        round_.wait()

    def _work(self) -> None:
        while True:
            round_, item = self._jobs.get()
            try:
                round_.function(item)
            finally:
                round_.one_done()
