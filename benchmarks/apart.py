"""A contestant in a process of its own: nobody has what others hold in memory, where the collector goes through it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from multiprocessing import get_context
from types import TracebackType
from typing import Any

Making = Callable[..., AbstractContextManager[Callable[[], float]]]
"""A function of a module: makes a contestant, and gives what runs one slice of it."""


def _compete(make: Making, args: tuple[Any, ...], line: Any) -> None:
    with make(*args) as run:
        while line.recv():
            line.send(run())


class Apart:
    """Such a contestant; to call it runs a slice, and gives what that says."""

    def __init__(self, make: Making, *args: Any) -> None:
        spawn = get_context("spawn")
        self._line, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_compete, args=(make, args, theirs))  # no daemon: those have no children
        self._process.start()
        theirs.close()

    def __call__(self) -> float:
        self._line.send(True)
        seconds: float = self._line.recv()
        return seconds

    def __enter__(self) -> Apart:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._line.send(False)
        else:
            self._process.terminate()
        self._process.join()
