"""A Host in a thread of the caller's process: for members that wait, or that release the GIL.

Process-wide random generators cannot be kept apart here, so a member that touches one gets `SharedRandomness`; where
the pool says so, members that do take turns instead.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from functools import partial
from typing import Any

from paceline.engine.host.host import Host
from paceline.engine.randomness.isolation import BUILDING, IN_FLIGHT, Refusing, on_a_worker_thread
from paceline.engine.randomness.torch_import import TORCH_IMPORT
from paceline.engine.randomness.turns import ROOM, Turns
from paceline.engine.workers.base import Reply, Request, Settings

_RING: Request = ("ring",)  # known by its identity

# Every pool that waits for threads looks at the same condition; waking one too many is cheap.
_something_done = threading.Condition()


class ThreadWorker:
    """A thread that runs requests in their order."""

    backend = "thread"
    in_process = True
    shares_memory = True
    can_kill = False
    rings = True

    def __init__(self, number: int, settings: Settings) -> None:
        self.number = number
        self.pid = os.getpid()
        self._inbox: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._outbox: deque[Reply] = deque()
        self._rung = self._served = 0
        self._callers_threads = 0  # of torch's
        self._until: Callable[[], bool] | None = None  # who listens wants to be woken when this holds
        self.knocked = False
        # A pool within a call of a member on a thread must not wait for others: that call is one of them.
        self._turns = settings.draw_alone and not on_a_worker_thread()
        self._host = Host(
            seed=settings.seed,
            traced=settings.traced,
            here=True,
            isolation=Turns(settings.alone_first) if self._turns else Refusing(),
            max_message=settings.max_message,
            may_leave=settings.may_leave,
            mark=self._mark,
            tell=lambda news: self._outbox.append(("news", news)),
        )
        # In a context like the caller's: what is set there (NumPy's errors, decimal's precision) holds for members too.
        run = partial(copy_context().run, self._run)
        self._thread = threading.Thread(target=run, name=f"paceline-worker-{number}", daemon=True)
        self._thread.start()

    def send(self, request: Request, descriptor: int | None = None) -> None:
        self._callers_threads = TORCH_IMPORT.threads()
        self._inbox.put(request)

    def receive(self) -> Reply | None:
        return self._outbox.popleft() if self._outbox else None

    @property
    def has_spoken(self) -> bool:
        """Whether there is a reply, or whoever listens has what they wait for."""
        return bool(self._outbox) or self.knocked

    def ring(self) -> None:
        """Tells the thread that rows have been asked for."""
        self._rung += 1
        self._callers_threads = TORCH_IMPORT.threads()
        self._inbox.put(_RING)

    def help(self) -> None:
        """Nothing to do here: the thread does it itself."""

    def has_served(self) -> bool:
        """Whether the thread has run all rows that it was told of."""
        return self._served == self._rung

    def listen(self, until: Callable[[], bool] | None, eager: bool = False) -> None:
        """Asks the thread to wake the caller when it has run rows and `until` holds; None: not any more."""
        with _something_done:
            self._until, self.knocked = until, False

    def busy_since(self) -> float | None:
        return None

    def kill(self) -> None:
        raise AssertionError("a thread cannot be killed")

    kill_the_hung = kill

    def abandon(self) -> None:
        """Lets the thread end after the call in hand; nobody waits for it, and it says nothing of it any more."""
        self._host.retired = True
        ROOM.forget(self._thread.ident)
        BUILDING.forget(self._thread.ident)
        self._inbox.put(None)

    def say_goodbye(self) -> None:
        self._inbox.put(("close",))
        self._inbox.put(None)

    def close(self, grace: float) -> None:
        self._thread.join(grace)
        if self._thread.is_alive():  # it does not come back; as a daemon it ends with the process
            self.abandon()

    def _run(self) -> None:
        while (request := self._inbox.get()) is not None:
            if request is _RING:
                self._serve()
                continue
            with TORCH_IMPORT.held(self._callers_threads), self._building(request):
                reply = self._host.handle(request)
            IN_FLIGHT.pop(threading.get_ident(), None)
            self._outbox.append(("reply", reply))
            with _something_done:
                _something_done.notify_all()
        self._host.store.close()  # if it was given up, it has not been told to close

    @contextmanager
    def _building(self, request: Request) -> Iterator[None]:
        """While members are built: tells the threads beside this one, and members that draw are built alone."""
        if request[0] != "build":
            yield
            return
        with ROOM.alone() if self._turns else nullcontext(), BUILDING:
            yield

    def _serve(self) -> None:
        """Runs rows. The thread itself looks whether the caller has enough: to wake it for each would take longer."""
        with TORCH_IMPORT.held(self._callers_threads):
            self._host.serve_ports()
        IN_FLIGHT.pop(threading.get_ident(), None)
        self._served += 1
        until = self._until
        if until is not None and until():
            with _something_done:
                if self._until is until:  # else whoever listened has gone, and the next to wait would be woken for ever
                    self.knocked = True
                    _something_done.notify_all()

    def _mark(self, member: int) -> None:
        IN_FLIGHT[threading.get_ident()] = member


class ThreadBackend:
    """Workers in threads."""

    name = "thread"

    def start(self, numbers: Sequence[int], settings: Settings) -> list[Any]:
        return [ThreadWorker(number, settings) for number in numbers]

    def wait(self, workers: Sequence[Any], timeout: float | None) -> bool:
        end = None if timeout is None else time.monotonic() + timeout
        with _something_done:
            while not any(worker.has_spoken for worker in workers):
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return False
                _something_done.wait(left)
        return True


BACKEND = ThreadBackend()
