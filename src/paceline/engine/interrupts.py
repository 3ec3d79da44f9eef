"""Ctrl-C waits for the end of a line in the books.

A KeyboardInterrupt may come between any two instructions. In the middle of bookkeeping it would leave a call that is
answered but not in the journal, or half a ring. So our handler stands before Python's own and keeps the interrupt back
while `UNINTERRUPTED` is entered: microseconds, or as long as it takes to enter a step's answers in trajectories, as
nobody waits or calls a member in there. A handler that the user has installed is left alone, and Python's own is put
back when no pool is open any more.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from _thread import get_ident
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

_A_MOMENT = 0.002  # seconds
_AT_ONCE = 0.01  # of the thread's own time: others may have the processor meanwhile


class _Uninterrupted:
    """Keeps Ctrl-C back while it is entered; it is raised at the end."""

    def __init__(self) -> None:
        self._main = threading.main_thread().ident  # Python runs handlers there, and nowhere else
        self.depth = 0
        """How deep the main thread is in. Who must not be interrupted before it is in adds `on_main()` in a statement
        without a call: Python looks at signals when something is called, so at the beginning of `__enter__` too."""
        self.pending = False
        """Whether an interrupt is to be raised when the main thread is out."""
        self.front: Callable[[int, FrameType | None], object] | None = None
        """A handler that stands in the place of ours, and hands on to it: the command's."""

    def __enter__(self) -> None:
        if get_ident() == self._main:
            self.depth += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if get_ident() != self._main:
            return
        self.depth -= 1
        if self.pending and not self.depth:
            self.pending = False
            if not isinstance(error, KeyboardInterrupt):  # another error that is on its way becomes its context
                raise pressed()

    def interruptible(self, function: Callable[..., Any], *args: Any) -> bool:
        """Runs within it what may take long: Ctrl-C ends that at once, and is raised when we are out again.

        Returns:
            Whether it came to its end.
        """
        if get_ident() != self._main or not self.depth:
            function(*args)
            return True
        depth, pending = self.depth, self.pending
        self.depth, self.pending = 0, False
        try:
            function(*args)
        except KeyboardInterrupt:
            self.depth, self.pending = depth, True  # before anything is called, which would be another chance
            return False
        finally:
            self.depth = depth
            self.pending |= pending
        return True

    def on_main(self) -> bool:
        """Whether this is the thread that can be interrupted."""
        return get_ident() == self._main

    def after_fork(self) -> None:
        """In a child there is one thread, whichever that was: it is the main one now."""
        if get_ident() != self._main:
            self._main, self.depth = get_ident(), 0

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Our handler of SIGINT, and of signals that are to mean the same."""
        if self.depth:
            self.pending = True
        elif _frees_an_object(frame):
            threading.Thread(target=_come_again, args=[number], daemon=True).start()
        else:
            self.pending = False  # one that was lost before comes with this one
            # Without a name: that would hold it in its own traceback. At a prompt nothing is run that could lose it.
            raise pressed(None if frame is None else _Guard(frame))


def _frees_an_object(frame: FrameType | None) -> bool:
    """Whether Python is in the middle of freeing an object: what is raised there it prints and forgets."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or code.co_filename.endswith(("weakref.py", "_weakrefset.py")):
            return True
        frame = frame.f_back
    return False


class _Guard:
    """Goes with a KeyboardInterrupt, and sees to it that it is not lost: there is code in C that drops every error on
    its way (a third of those in NumPy's `choice`).

    An exception that is freed at once, within the very instruction that was interrupted, has been seen by nobody's
    Python. Then whoever leaves `UNINTERRUPTED` next is interrupted.
    """

    __slots__ = ("_place", "_until")

    def __init__(self, frame: FrameType) -> None:
        self._place, self._until = _place_in(frame), time.thread_time() + _AT_ONCE

    def __del__(self) -> None:
        frame = sys._getframe().f_back
        if frame is not None and _place_in(frame) == self._place and time.thread_time() < self._until:
            UNINTERRUPTED.pending = True


def pressed(guard: _Guard | None = None) -> KeyboardInterrupt:
    """What is raised for Ctrl-C; `was_pressed` knows it again."""
    error = KeyboardInterrupt()
    error.__dict__["guard"] = guard
    return error


def was_pressed(error: BaseException | None) -> bool:
    """Whether that comes from Ctrl-C. A KeyboardInterrupt that code raises by itself is an error like any other."""
    if not isinstance(error, KeyboardInterrupt):
        return False
    cause: BaseException | None = error
    while cause is not None and "guard" not in cause.__dict__:
        cause = cause.__cause__ or cause.__context__
    handler = signal.getsignal(signal.SIGINT)
    ours = handler in (UNINTERRUPTED.handle, UNINTERRUPTED.front)
    # Another handler, of the user's, leaves no mark.
    return cause is not None or (callable(handler) and not ours and UNINTERRUPTED.on_main())


def _place_in(frame: FrameType) -> tuple[int, int]:
    """Where a frame is, without holding it: that would hold all that it has in hand."""
    return id(frame), frame.f_lasti


def _come_again(number: int) -> None:
    time.sleep(_A_MOMENT)
    os.kill(os.getpid(), number)


UNINTERRUPTED = _Uninterrupted()


os.register_at_fork(after_in_child=UNINTERRUPTED.after_fork)


def install() -> None:
    """Puts our handler in the place of Python's own, if that is what stands there and we may."""
    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Nobody is in; a handler of the user's may have torn somebody out.
        UNINTERRUPTED.depth, UNINTERRUPTED.pending = 0, False
        signal.signal(signal.SIGINT, UNINTERRUPTED.handle)


def uninstall() -> None:
    """Puts Python's own handler back: others look whether it stands there before they put theirs (asyncio does)."""
    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(signal.SIGINT) == UNINTERRUPTED.handle:
        signal.signal(signal.SIGINT, signal.default_int_handler)
