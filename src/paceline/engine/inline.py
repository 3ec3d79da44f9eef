"""A Host here, in the caller's own process: the definition of what every other backend has to give."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from paceline.engine.backend import Reply, Request, Settings
from paceline.engine.host import Host
from paceline.engine.isolation import Refusing, Swapping


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
        self._host = Host(
            seed=settings.seed,
            traced=settings.traced,
            here=True,
            interruptible=True,
            isolation=_isolation(settings.beside_threads),
            max_message=settings.max_message,
            tell=lambda news: self._news.append(("news", news)),
        )

    def send(self, request: Request, descriptor: int | None = None) -> None:
        self._requests.append(request)

    def ring(self) -> None:
        """Rows have been asked for; they are run when their outputs are waited for."""

    def help(self) -> None:
        """Runs the rows that have been asked for."""
        self._host.serve_ports()

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
        reply = ("reply", self._host.handle(self._requests.popleft()))
        if not self._news:
            return reply
        self._news.append(reply)
        return self._news.popleft()

    def busy_since(self) -> float | None:
        return None

    def kill(self) -> None:
        raise AssertionError("a worker that lives in the caller's process cannot be killed")

    def beside_threads(self, on: bool) -> None:
        """Threads run members in this process too, or no longer do: generators are refused, or swapped."""
        self._host.isolation = _isolation(on)

    kill_the_hung = kill

    def abandon(self) -> None:
        """Forgets what was asked."""
        self._requests.clear()

    def say_goodbye(self) -> None:
        self._requests.clear()
        self._host.handle(("close",))

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
