"""Faults that are real: wrap a recipe, and what it builds kills its worker, hangs or raises at a chosen call.

    main:    kill_worker_at(factory, call=7) ──► Faulty, a recipe like any other, and a private directory
    worker:  Faulty() ──► Rigged(member): counts the calls; at the 7th claims a file in the directory, and dies
    again:   the member is rebuilt, its journal is replayed, the 7th call comes again; no file is left to claim

A fault happens only in another process than the one that made the wrapper, so the same recipes run inline (and on
threads) without any: that is the reference that the faulty run has to equal.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paceline.errors import BadInput

BUILDING = "__init__"
"""The `method` that stands for building the member."""

HOUSEKEEPING = frozenset({"snapshot", "restore", "recall", "close"})
"""What an engine calls by itself, when it sees fit: counted only if it is the `method` that is named."""

_EXIT_CODE = 17
_FOR_EVER = 1 << 30


def kill_worker_at(
    factory: Callable[[], Any],
    call: int,
    *,
    method: str | None = None,
    times: int | None = 1,
    how: str = "SIGKILL",
) -> Faulty:
    """Wraps a recipe so that its member kills the worker that it lives in.

    Args:
        factory: The recipe.
        call: At which call of the member, counted from 1; replayed calls count too.
        method: Count this method only ("__init__": building it); None counts every public method, except
            `snapshot`, `restore`, `recall` and `close`.
        times: How often it happens in all, over every rebuild and every member made from this wrapper; None: always.
        how: "SIGKILL", "exit" (at once, without cleaning up), "segfault", or "abort".

    Returns:
        A recipe. It works without a fault in the process that made it.
    """
    return Faulty(factory, Fault(call, method, times, _chosen(KILLS, how)))


def hang_at(
    factory: Callable[[], Any],
    call: int,
    *,
    method: str | None = None,
    times: int | None = 1,
    how: str = "sleep",
) -> Faulty:
    """Wraps a recipe so that its member never comes back from a call.

    Args:
        factory: The recipe.
        call: At which call of the member, counted from 1; replayed calls count too.
        method: Count this method only; None: as in `kill_worker_at`.
        times: How often it happens in all; None: always.
        how: "sleep" (for ever, deaf to SIGTERM), "spin" (in Python), or "gil" (in C, and no other thread of the
            process ever runs again).

    Returns:
        A recipe. It works without a fault in the process that made it.
    """
    return Faulty(factory, Fault(call, method, times, _chosen(HANGS, how)))


def raise_at(
    factory: Callable[[], Any],
    call: int,
    *,
    error: BaseException | type[BaseException] | None = None,
    method: str | None = None,
    times: int | None = None,
    here: bool = False,
) -> Faulty:
    """Wraps a recipe so that its member raises `error` in place of running a call.

    Args:
        factory: The recipe.
        call: At which call of the member, counted from 1; replayed calls count too.
        error: What is raised; by default a RuntimeError that says where it comes from.
        method: Count this method only; None: as in `kill_worker_at`.
        times: How often it happens in all. An exception is an answer like any other, and a rebuilt member has to
            give it again; so the default is None, always.
        here: Raise in the process that made the wrapper too.

    Returns:
        A recipe. It works without a fault in the process that made it, unless `here`.
    """
    raised = error if error is not None else RuntimeError(f"raise_at: call {call}")
    return Faulty(factory, Fault(call, method, times, Raising(raised), here=here))


class Faulty:
    """A recipe whose member has a fault. Keep it while the fault may still happen: it owns the count."""

    def __init__(self, factory: Callable[[], Any], fault: Fault) -> None:
        self._factory = factory
        self._fault = fault

    def __call__(self) -> Any:
        """Builds the member."""
        count = Count(self._fault)
        if self._fault.method == BUILDING:
            count.next()
        return Rigged(self._factory(), count)


class Fault:
    """When something goes wrong, what it is, and how often it has been."""

    def __init__(
        self, call: int, method: str | None, times: int | None, action: Callable[[], Any], here: bool = False
    ) -> None:
        _check(call, method, times)
        self.call = call
        self.method = method
        self._times = times
        self._action = action
        self._home = None if here else os.getpid()
        self._directory = _private_directory(self)

    def counts(self, name: str) -> bool:
        """Whether calls of this method are counted."""
        if self.method is not None:
            return name == self.method
        return not name.startswith("_") and name not in HOUSEKEEPING

    def happen(self) -> None:
        """Does it, if it is still to be done."""
        if os.getpid() != self._home and self._claim():
            self._action()

    def _claim(self) -> bool:
        # A file is made by one process only, and stays when that process dies; so nothing is ever counted twice.
        return self._times is None or any(self._make(number) for number in range(self._times))

    def _make(self, number: int) -> bool:
        try:
            (self._directory / str(number)).touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            return False
        except FileNotFoundError:
            raise RuntimeError(
                "the recipe with this fault is gone: keep it, on this machine, while it is used"
            ) from None
        return True


class Count:
    """Counts the calls of one member that was built."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self._calls = 0

    def next(self) -> None:
        """A call begins."""
        self._calls += 1
        if self._calls == self.fault.call:
            self.fault.happen()


class Rigged:
    """Stands in front of a member: the same attributes and methods, but the calls are counted."""

    def __init__(self, member: Any, count: Count) -> None:
        object.__setattr__(self, "_rigged", (member, count))

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # so that isinstance() sees an env where there is one
        return type(self._rigged[0])

    def __getattr__(self, name: str) -> Any:
        member, count = object.__getattribute__(self, "_rigged")
        value = getattr(member, name)
        if not callable(value) or not count.fault.counts(name):
            return value

        def counted(*args: Any, **kwargs: Any) -> Any:
            count.next()
            return value(*args, **kwargs)

        return counted

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._rigged[0], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._rigged[0], name)

    def __dir__(self) -> list[str]:
        return dir(self._rigged[0])

    def __repr__(self) -> str:
        return repr(self._rigged[0])

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return Rigged, self._rigged


class Raising:
    """Raises its error; a callable of its own so that it can be sent."""

    def __init__(self, error: BaseException | type[BaseException]) -> None:
        self._error = error

    def __call__(self) -> None:
        raise self._error


def _sigkill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _exit() -> None:
    os._exit(_EXIT_CODE)


def _segfault() -> None:
    ctypes.string_at(0)


def _sleep() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    while True:
        time.sleep(3600)


def _spin() -> None:
    while True:
        pass


def _hold_the_gil() -> None:
    # PyDLL, unlike CDLL, does not let go of the GIL; a signal would end the sleep, and Python would look up.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        ctypes.PyDLL(None).sleep(_FOR_EVER)


KILLS: dict[str, Callable[[], Any]] = {
    "SIGKILL": _sigkill,
    "exit": _exit,
    "segfault": _segfault,
    "abort": os.abort,
}
HANGS: dict[str, Callable[[], Any]] = {"sleep": _sleep, "spin": _spin, "gil": _hold_the_gil}


def _chosen(actions: dict[str, Callable[[], Any]], how: str) -> Callable[[], Any]:
    if how not in actions:
        raise BadInput(f"how={how!r}; give one of {', '.join(map(repr, actions))}")
    return actions[how]


def _check(call: int, method: str | None, times: int | None) -> None:
    if call < 1:
        raise BadInput(f"call={call} never comes; calls are counted from 1")
    if method == BUILDING and call != 1:
        raise BadInput(f"call={call} of {BUILDING} never comes: a member is built once; give call=1")
    if times is not None and times < 1:
        raise BadInput(f"times={times} means no fault at all; give 1 or more, or None for always")


def _private_directory(owner: object) -> Path:
    """A directory for its owner's process alone; it goes when the owner goes, or this process ends."""
    directory = tempfile.mkdtemp(prefix="paceline-fault-")  # mkdtemp makes it 0700
    weakref.finalize(owner, _remove, directory, os.getpid())
    return Path(directory)


def _remove(directory: str, made_by: int) -> None:
    if os.getpid() == made_by:  # a fork of the maker has the finalizer too
        shutil.rmtree(directory, ignore_errors=True)
