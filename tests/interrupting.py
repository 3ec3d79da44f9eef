"""Ctrl-C at a chosen line, or in the middle of a call."""

from __future__ import annotations

import linecache
import os
import signal
import sys
from collections.abc import Callable
from threading import Timer
from types import FrameType
from typing import Any

from paceline.engine.interrupts import UNINTERRUPTED, pressed


class Interrupting:
    """Raises KeyboardInterrupt at the given line of those that are run in these files while it is on.

    Args:
        line: Counted from 0, as they are run.
        files: How their paths end.
        even_if_kept_back: Also where Ctrl-C is kept back until later.
        but_at: Not at lines that begin so.
    """

    def __init__(
        self, line: int, files: tuple[str, ...], *, even_if_kept_back: bool = False, but_at: tuple[str, ...] = ()
    ) -> None:
        self._left, self._files, self._anywhere, self._but_at = line, files, even_if_kept_back, but_at

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.endswith(self._files):
            return None
        # At the word "try" nothing is run, and no signal looked at: what is raised there no handler would cover.
        line = linecache.getline(name, frame.f_lineno).strip()
        run = event == "line" and not line.startswith(("try:", *self._but_at))
        if run and (self._anywhere or not UNINTERRUPTED.depth):
            self._left -= 1
            if self._left < 0:
                sys.settrace(None)
                raise pressed()
        return self

    def __enter__(self) -> None:
        sys.settrace(self)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)


def interrupted(call: Callable[[], Any]) -> None:
    """Calls what waits for something, and presses Ctrl-C meanwhile."""
    Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
    call()
