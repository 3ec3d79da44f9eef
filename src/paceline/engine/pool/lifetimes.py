"""Pools that are open: one that is dropped leaves no workers behind, one that is open at the end is closed in order."""

from __future__ import annotations

import atexit
import weakref
from contextlib import suppress
from typing import Any

from paceline.engine import interrupts
from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.supervisor.supervisor import Crew
from paceline.engine.workers.process import fork_client
from paceline.engine.workers.process.handle import bury_the_abandoned

# Not a WeakSet: its bookkeeping runs Python when a crew is freed, and a Ctrl-C that arrives there is lost for good.
_open: set[Crew] = set()


def begin(pool: object, crew: Crew) -> weakref.finalize[Any, Any]:
    """From now on `crew` is looked after. Gives what ends it when `pool` is dropped."""
    finalizer = weakref.finalize(pool, _abandon, crew)
    finalizer.atexit = False
    _open.add(crew)
    interrupts.install()
    return finalizer


def end(finalizer: weakref.finalize[Any, Any], crew: Crew) -> None:
    """Ends it in order. Who is interrupted before that has begun may call it again."""
    try:
        crew.close()
    finally:
        if crew.over:
            finalizer.detach()
            _open.discard(crew)
        if not _open:
            interrupts.uninstall()


def _abandon(crew: Crew) -> None:
    """A pool was dropped without being closed."""
    _open.discard(crew)
    crew.abandon()


@atexit.register
def _close_everything() -> None:
    """At the end of the interpreter: pools first, so that members can close, then what started their workers.

    Ctrl-C ends what takes long; there is nobody any more to be told of it.
    """
    with suppress(KeyboardInterrupt):
        interrupts.install()
    with suppress(KeyboardInterrupt), UNINTERRUPTED:
        for crew in list(_open):
            crew.close()
        UNINTERRUPTED.interruptible(bury_the_abandoned)
        UNINTERRUPTED.interruptible(fork_client.close_servers)
