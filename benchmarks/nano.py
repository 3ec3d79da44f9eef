"""Members that do next to nothing, so that what is measured is the engine; and pools of them, safe and unsafe.

A module of its own, and a small one: every worker imports it.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from paceline import Pool
from paceline.engine.host import host as host_module
from paceline.engine.host.host import Host
from paceline.engine.journal.journal import Journal


class Nano:
    """A member that does nothing, in every way in which a member can be asked."""

    def __init__(self, off: bool = False) -> None:
        if off:
            switch_off_here()

    def echo(self, value: Any) -> Any:
        return value

    def run(self, action: Any, out: Any) -> None:
        out[...] = action

    def nap(self, seconds: float) -> None:
        time.sleep(seconds)

    def blob(self, nbytes: int) -> Any:
        return np.ones(nbytes, np.uint8)

    def snapshot(self) -> Any:
        return None

    def restore(self, state: Any) -> None: ...


class Cart(Nano):
    """A member that costs what CartPole costs, about 6 µs: its physics in Python, its observation in an array."""

    def __init__(self, off: bool = False) -> None:
        super().__init__(off)
        self.place = self.speed = self.angle = self.turn = 0.01

    def echo(self, action: Any) -> Any:
        self._move(10.0 if action > 0.5 else -10.0)
        done = abs(self.place) > 2.4 or abs(self.angle) > 0.21
        if done:
            self.place = self.speed = self.angle = self.turn = 0.01
        seen = np.array((self.place, self.speed, self.angle, self.turn), np.float32)
        return np.clip(seen, -4.8, 4.8), 1.0, bool(done)

    def run(self, action: Any, out: Any) -> None:
        out[...] = self.echo(action)[1]

    def snapshot(self) -> Any:
        # By name: once somebody has asked for `vars(self)`, Python 3.11 finds attributes at half the speed.
        return self.place, self.speed, self.angle, self.turn

    def restore(self, state: Any) -> None:
        self.place, self.speed, self.angle, self.turn = state

    def _move(self, force: float) -> None:
        cos, sin = math.cos(self.angle), math.sin(self.angle)
        push = (force + 0.05 * self.turn * self.turn * sin) / 1.1
        twist = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3.0 - 0.1 * cos * cos / 1.1))
        drive = push - 0.05 * twist * cos / 1.1
        self.place, self.speed = self.place + 0.02 * self.speed, self.speed + 0.02 * drive
        self.angle, self.turn = self.angle + 0.02 * self.turn, self.turn + 0.02 * twist


class Env(Cart):
    """A member that costs what an ordinary env costs, about 100 µs: always the same work, whatever the clock says."""

    def echo(self, action: Any) -> Any:
        for _ in range(100):
            self.place = self.speed = self.angle = self.turn = 0.01
            self._move(10.0 if action > 0.5 else -10.0)
        return super().echo(action)


def pool(members: int = 1, workers: int = 1, kind: type[Nano] = Nano, **options: Any) -> Pool:
    return Pool([kind] * members, backend="process", workers=workers, **options)


def by_call(owner: Pool) -> Callable[[], Any]:
    """One tiny call of one member."""
    return lambda: owner.call("echo", {0: (1.0,)})


def by_port(owner: Pool) -> Callable[[], Any]:
    """One round trip of everybody through a port."""
    port = owner.port("run", {"action": ((), np.float64)}, {"out": ((), np.float64)})
    if isinstance(owner, UnsafePool):
        take_out(port.book, "log", NoLog())

    def ring() -> None:
        port.post()
        port.wait()

    return ring


def start_worker() -> float:
    begin = time.perf_counter()
    with pool() as one:
        by_call(one)()
        return time.perf_counter() - begin


# -- without the safety net -----------------------------------------------------------------------------


class NoJournal(Journal):
    def add(self, entry: Any, base: Any) -> None: ...


class NoLog:
    def ring(self, asked: Any) -> None: ...

    def served(self, items: Any) -> None: ...

    def failed(self, item: Any) -> None: ...


class NoIsolation:
    groups_rows = True

    def run(self, streams: Any, name: str, function: Callable[..., Any], args: Any, keep: bool = True) -> Any:
        streams.quiet.add(name)  # as a member that never draws has it: ports then run it in groups
        return function(*args)

    def watch(self) -> tuple[()]:
        return ()

    def quiet_since(self, before: tuple[()]) -> bool:
        return True


class UnsafePool(Pool):
    """A pool without its safety net. There is no such switch: here the parts are taken out one by one.

    In main: nothing is journaled, so no snapshot is asked for either, and no call has a deadline. In the worker (a
    process of its own, so that nobody else is touched): answers are not checked, random streams neither swapped nor
    watched, and a call's begin is not marked for a deadline. Transport, packing and supervision stay as they are.
    """

    def __init__(self, kind: type[Nano], members: int) -> None:
        super().__init__([lambda: kind(off=True)] * members, backend="process")
        for member in self._crew.members:
            take_out(member, "journal", NoJournal())
            take_out(member, "snapshots", False)

    def _limit(self, deadline: float | None) -> None:
        return None


def switch_off_here() -> None:
    """The worker's half. A member's constructor runs there, so it finds the Host that builds it."""
    (host,) = (thing for thing in gc.get_objects() if type(thing) is Host)
    take_out(host, "mark", None)
    take_out(host, "isolation", NoIsolation())
    take_out(host_module, "echo_of", lambda answer, packed: 0)


def take_out(owner: Any, name: str, substitute: Any) -> None:
    getattr(owner, name)  # if the engine no longer has this part, the comparison must not go on without a word
    setattr(owner, name, substitute)
