"""A Host here, in the caller's own process: the definition of what every other backend has to give."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from paceline.engine.host.host import Host
from paceline.engine.planning.plan import Meter
from paceline.engine.randomness.isolation import Refusing, Swapping
from paceline.engine.randomness.torch_import import TORCH_IMPORT
from paceline.engine.workers.base import Reply, Request, Settings


class InlineWorker:
    """Runs a request when its reply is asked for."""

    backend = "inline"
    in_process = True
    shares_memory = True
    can_kill = False
    rings = True

    def __init__(self, number: int, settings: Settings) -> None:
        self.number = number
        self.pid = os.getpid()
        self._requests: deque[Request] = deque()
        self._news: deque[Reply] = deque()
        self.meter: Meter | None = None  # who wants to know how long calls take here
        self.host = Host(
            seed=settings.seed,
            traced=settings.traced,
            here=True,
            interruptible=True,
            isolation=_isolation(settings.beside_threads),
            max_message=settings.max_message,
            tell=lambda news: self._news.append(("news", news)),
        )
        """Who waits in this process may run its members without asking."""

    def send(self, request: Request, descriptor: int | None = None) -> None:
        self._requests.append(request)

    def ring(self) -> None:
        """Rows have been asked for; they are run when their outputs are waited for."""

    def help(self) -> None:
        """Runs the rows that have been asked for."""
        TORCH_IMPORT.on_one_thread(self.host.serve_ports)

    def has_served(self) -> bool:
        """Whether everything asked for has been done."""
        return True

    def listen(self, until: Callable[[], bool] | None, eager: bool = False) -> None:
        """Nobody sleeps here."""

    def receive(self) -> Reply | None:
        if self._news:
            return self._news.popleft()
        if not self._requests:
            return None
        request = self._requests.popleft()
        reply = ("reply", self._handle(request) if self.meter is None else self._measured(request, self.meter))
        if not self._news:
            return reply
        self._news.append(reply)
        return self._news.popleft()

    def _measured(self, request: Request, meter: Meter) -> Any:
        recorded = request[0] == "call" and request[2]  # a read is no work: it is in no round
        with meter.handling(len(request[3])) if recorded else nullcontext():
            return self._handle(request)

    def _handle(self, request: Request) -> Any:
        return TORCH_IMPORT.on_one_thread(self.host.handle, request)

    def busy_since(self) -> float | None:
        return None

    def kill(self) -> None:
        raise AssertionError("a worker that lives in the caller's process cannot be killed")

    def beside_threads(self, on: bool) -> None:
        """Threads run members in this process too, or no longer do: generators are refused, or swapped."""
        self.host.isolation = _isolation(on)

    kill_the_hung = kill

    def abandon(self) -> None:
        """Forgets what was asked."""
        self._requests.clear()

    def say_goodbye(self) -> None:
        self._requests.clear()
        self._handle(("close",))

    def close(self, grace: float) -> None:
        return


def _isolation(beside_threads: bool) -> Swapping | Refusing:
    return Refusing(interruptible=True) if beside_threads else Swapping(interruptible=True)


class InlineBackend:
    """Workers that take turns in the caller's thread."""

    name = "inline"

    def start(self, numbers: Sequence[int], settings: Settings) -> list[Any]:
        return [InlineWorker(number, settings) for number in numbers]

    def wait(self, workers: Sequence[Any], timeout: float | None) -> bool:
        return True


BACKEND = InlineBackend()
