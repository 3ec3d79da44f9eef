"""A function that a map runs: here as it is, packed once for the workers that it has to travel to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from paceline.engine import wire
from paceline.errors import NotSendable


class Mapped:
    """A function, and its packed form once somebody has needed it."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self._packed: wire.Packed | None = None

    def pack(self) -> wire.Packed:
        """Packs it, once.

        Raises:
            NotSendable: it cannot travel.
        """
        if self._packed is None:
            self._packed = wire.settle(wire.pack(self.function))
        return self._packed

    def for_worker(self, in_process: bool) -> Any:
        """What a worker is sent. What cannot travel after all, in mid-run, is what every item then answers."""
        if in_process:
            return self.function
        try:
            return self.pack()
        except NotSendable as error:
            return wire.pack(raising(error))


def received(function: Any) -> Callable[[Any], Any]:
    """The function as its worker runs it. If it cannot be unpacked there, every item answers why."""
    if callable(function):
        return function  # type: ignore[no-any-return]
    try:
        return wire.unpack(function)  # type: ignore[no-any-return]
    except Exception as error:
        return raising(error)


def raising(error: BaseException) -> Callable[[Any], Any]:
    """A function that raises `error`, whatever it is given."""
    return partial(_raise, error)


def _raise(error: BaseException, _: Any) -> NoReturn:
    raise error
