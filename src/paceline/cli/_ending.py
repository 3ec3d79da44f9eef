"""SIGTERM ends a run that keeps its results as Ctrl-C does: schedulers, containers and `timeout` send it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from paceline.engine.interrupts import UNINTERRUPTED


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Within it SIGTERM is a KeyboardInterrupt; a handler that somebody else has installed is left alone."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Goes the way of Ctrl-C. A shell may have that ignored, as it does for `… &` in a script; SIGTERM still counts."""
    ctrl_c = signal.getsignal(signal.SIGINT)
    (ctrl_c if callable(ctrl_c) else UNINTERRUPTED.handle)(number, frame)
