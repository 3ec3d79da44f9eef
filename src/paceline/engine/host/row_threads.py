"""Threads of one worker, for members that wait: their rows are run beside each other instead of one after another.

member ──► the thread that it was built on: all of its code runs there, so that what belongs to a thread stays its own
run(function, entries) ──► each on its member's thread ──► back when the last one is done
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

_Jobs = tuple[list[Callable[[], None]], "_Round"]

_idents: set[int] = set()


def on_a_crowds_thread() -> bool:
    """Whether whoever asks is a member of a crowd: others may run beside it in this process."""
    return threading.get_ident() in _idents


class _Round:
    """What is run together, and whether it is over."""

    __slots__ = ("_last", "_numbers", "_over", "_parts", "error")

    def __init__(self, parts: list[tuple[queue.SimpleQueue[_Jobs], list[Callable[[], None]]]]) -> None:
        self.error: BaseException | None = None
        self._parts = iter(parts)
        self._numbers, self._last = count(1), len(parts)
        self._over = threading.Lock()
        self._over.acquire()

    def start_next(self) -> None:
        """Wakes the next thread. Each does that before its own jobs: for one to wake them all would take longer."""
        for line, jobs in self._parts:
            line.put((jobs, self))
            return

    def one_done(self) -> None:
        if next(self._numbers) == self._last:  # one step of the interpreter: nobody gets the same number
            self._over.release()

    def wait(self) -> None:
        """Waits for the last one. What one of them raised is raised here."""
        self._over.acquire()
        if self.error is not None:
            raise self.error


class Crowd:
    """So many threads; a member belongs to one of them.

    Attributes:
        together: Whether rows are run beside each other; not once somebody has been seen to draw meanwhile.
    """

    def __init__(self, size: int) -> None:
        self.together = True
        self._lines: list[queue.SimpleQueue[_Jobs]] = []
        self._size = size
        self._threads: dict[int, int] = {}  # member → its thread, also if it is built again

    def thread_of(self, member: int) -> int:
        """The thread of a member; it gets one when it is first asked for."""
        number = self._threads.setdefault(member, len(self._threads) % self._size)
        while len(self._lines) <= number:
            line: queue.SimpleQueue[_Jobs] = queue.SimpleQueue()
            name = f"paceline-crowd-{len(self._lines)}"
            threading.Thread(target=_work, args=(line,), name=name, daemon=True).start()
            self._lines.append(line)
        return number

    def call(self, thread: int, function: Callable[..., Any], *args: Any) -> Any:
        """Calls a member's function where it belongs, and waits for it."""
        answers: list[Any] = []
        self._run({thread: [lambda: answers.append(function(*args))]})
        return answers[0]

    def run(self, function: Callable[[Any], None], entries: Sequence[Any], threads: Sequence[int]) -> None:
        """Calls `function` with every entry, on the thread that is named for it; returns when all are done."""
        parts: dict[int, list[Callable[[], None]]] = {}
        for thread, entry in zip(threads, entries, strict=True):
            parts.setdefault(thread, []).append(partial(function, entry))
        self._run(parts)

    def _run(self, parts: dict[int, list[Callable[[], None]]]) -> None:
        round_ = _Round([(self._lines[thread], jobs) for thread, jobs in parts.items()])
        round_.start_next()
        round_.wait()


def _work(line: queue.SimpleQueue[_Jobs]) -> None:
    _idents.add(threading.get_ident())
    while True:
        jobs, round_ = line.get()
        round_.start_next()
        for job in jobs:
            try:
                job()
            except BaseException as error:
                round_.error = round_.error or error
        round_.one_done()
        del jobs, job, round_  # or it would hold on to what it ran until the next time
