"""A function that a map runs: here as it is, packed once for the workers that it has to travel to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import CodeType
from typing import Any, NoReturn

from paceline.engine.transport import codec
from paceline.errors import NotSendable


class Mapped:
    """A function, its packed form once it has been needed, and whether it draws.

    Args:
        function: The function.
        memory: What the pool knows of functions: whether they draw. Every map of the same code adds to it.
    """

    def __init__(self, function: Callable[[Any], Any], memory: dict[Any, bool]) -> None:
        self.function = function
        self._memory, self._code = memory, _code_of(function)
        self._packed: codec.Packed | None = None

    def pack(self) -> codec.Packed:
        """Packs it, once.

        Raises:
            NotSendable: it cannot travel.
        """
        if self._packed is None:
            self._packed = codec.settle(codec.pack(self.function))
        return self._packed

    @property
    def draws(self) -> bool | None:
        """Whether items have been seen to draw from process-wide generators; None: none has been run yet."""
        return self._memory.get(self._code)

    def learn(self, drew: bool) -> None:
        """An item has been run: whether it drew."""
        self._memory[self._code] = drew or self._memory.get(self._code, False)

    def for_worker(self, in_process: bool) -> Any:
        """What a worker is sent. What cannot travel after all, in mid-run, is what every item then answers."""
        if in_process:
            return self.function
        try:
            return self.pack()
        except NotSendable as error:
            return codec.pack(raising(error))


def _code_of(function: Any) -> Any:
    """What stays the same when a partial or a closure of the same code is made again for the next map."""
    while isinstance(function, partial):
        function = function.func
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else (type(function), str(getattr(function, "__qualname__", "")))


def received(function: Any) -> Callable[[Any], Any]:
    """The function as its worker runs it. If it cannot be unpacked there, every item answers why."""
    if callable(function):
        return function  # type: ignore[no-any-return]
    try:
        return codec.unpack(function)  # type: ignore[no-any-return]
    except Exception as error:
        return raising(error)


def raising(error: BaseException) -> Callable[[Any], Any]:
    """A function that raises `error`, whatever it is given."""
    return partial(_raise, error)


def _raise(error: BaseException, _: Any) -> NoReturn:
    raise error
