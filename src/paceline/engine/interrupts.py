"""Ctrl-C waits for the end of a line in the books.

A KeyboardInterrupt may come between any two instructions. In the middle of bookkeeping it would leave a call that is
answered but not in the journal, or half a ring. So our handler stands before Python's own and keeps the interrupt back
while `UNINTERRUPTED` is entered: microseconds, as nobody waits or runs a member's code in there. A handler that the
user has installed is left alone.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class _Uninterrupted:
    """Keeps Ctrl-C back while it is entered; it is raised at the end."""

    def __init__(self) -> None:
        self._depth = 0
        self._pending = False

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._depth -= 1
        if self._pending and not self._depth:
            self._pending = False
            if error is None:
                raise KeyboardInterrupt

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Our SIGINT handler."""
        if self._depth and threading.current_thread() is threading.main_thread():
            self._pending = True
        else:
            signal.default_int_handler(number, frame)


UNINTERRUPTED = _Uninterrupted()


def install() -> None:
    """Puts our handler in the place of Python's own, if that is what stands there and we may."""
    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, UNINTERRUPTED.handle)
