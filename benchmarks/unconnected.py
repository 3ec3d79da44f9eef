"""Sequential processes that know nothing of each other: what parallelism is measured against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from multiprocessing import get_context
from typing import Any


def _alone(serve: Callable[[Any], None], line: Any) -> None:
    """Does what it is told, and says when it is done."""
    while (asked := line.recv()) is not None:
        serve(asked)
        line.send(True)


class Unconnected:
    """Such processes, started and warm; each does its part.

    Args:
        serve: Does a part; a function of a module.
        count: How many processes.
    """

    def __init__(self, serve: Callable[[Any], None], count: int = 2) -> None:
        spawn = get_context("spawn")
        pipes = [spawn.Pipe() for _ in range(count)]
        self._lines = [ours for ours, _ in pipes]
        self._processes = [spawn.Process(target=_alone, args=(serve, theirs), daemon=True) for _, theirs in pipes]
        for process in self._processes:
            process.start()

    def ask(self, parts: Sequence[Any]) -> None:
        """Everybody works on a part; returns when all are done."""
        for line, part in zip(self._lines, parts, strict=True):
            line.send(part)
        for line in self._lines:
            line.recv()

    def close(self) -> None:
        for line in self._lines:
            line.send(None)
        for process in self._processes:
            process.join()
