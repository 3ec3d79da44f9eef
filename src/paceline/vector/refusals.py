"""What a vector refuses, as errors of ours and of Gymnasium both: code that catches either finds it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError

from paceline.errors import BadInput, Closed, WorkerLost

Beginnings = dict[int, tuple[Any, ...]]
"""Env → the arguments of its reset, of which the first is its seed."""


class ClosedVector(Closed, ClosedEnvironmentError):
    """The envs have been closed."""


class CallPending(BadInput, AlreadyPendingCallError):
    """Envs have been asked for something, and what they gave has not been fetched."""

    def __str__(self) -> str:
        return str(self.args[0])


class NotABatch(BadInput, TypeError):
    """One action where each env needs its own."""


class NotReady(TimeoutError, multiprocessing.TimeoutError):
    """Not all envs were ready in time. They go on: wait again."""


def nothing_pending(what: str, more: str = "") -> NoAsyncCallError:
    """The error of a wait for what was not asked."""
    words = f"Calling `{what}_wait` without any prior call to `{what}_async`"
    return NoAsyncCallError(f"{words}. {more}" if more else f"{words}.", what)


def still_pending(what: str, pending: str, more: str) -> CallPending:
    """The error of a call that has to wait for another one."""
    return CallPending(f"Calling `{what}` while waiting for a pending call to `{pending}` to complete: {more}", pending)


def not_ready(count: int | str, timeout: float | None) -> NotReady:
    """The error of a wait that was not to take longer."""
    return NotReady(f"{count} envs were not ready within {timeout:g} seconds; they go on: wait again")


@contextmanager
def seeds_told(calls: Beginnings) -> Iterator[None]:
    """Adds to the error of a worker that is lost in a reset which seed that had."""
    try:
        yield
    except WorkerLost as error:
        if error.member is not None:
            error.add_note(f"env {error.member} was to begin with seed {calls[error.member][0]}")
        raise
