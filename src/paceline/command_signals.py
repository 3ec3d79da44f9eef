"""Ctrl-C and SIGTERM, from the first instruction of the command to its last.

    import paceline ──► main ──► a command's body ──► its exit code is known ──► the end of the process
    └── leave, with 130 ───────┘└ KeyboardInterrupt ┘└── leave, with that code ─┘└──── ignore ────────┘

Importing the package takes longer than many commands, and Python's own handler shows a traceback there. So the package
puts this one in place before it imports anything else, if the process is the command. To leave is to end at once:
before a command's body nothing has been started, and after it everything is closed or ends with this process.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

INTERRUPTED = 130
RESTARTED = "PACELINE_RESTARTED"
"""Set in the environment of a command that has started itself again, with both signals held back."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_Handler = Callable[[int, FrameType | None], object]


class CommandSignals:
    """The handler of both signals while nothing is under way, and of Ctrl-C while a command's body runs."""

    def __init__(self) -> None:
        self._process = 0
        self._inner: _Handler | None = None
        self._code: int | None = None

    def install(self) -> None:
        """Handles both signals, where Python or the system would. One that a shell has set to be ignored stays so."""
        if self._process != os.getpid():
            self._process = os.getpid()
            atexit.register(self._ignore)  # before all others, so that it comes after them
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self.handle)
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self.handle)
        if RESTARTED in os.environ:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def hold_back(self) -> None:
        """Has both signals wait until the command that this process becomes by `exec` has installed its handler."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)

    @contextmanager
    def given_to(self, inner: _Handler) -> Iterator[None]:
        """Within it Ctrl-C is `inner`'s, which raises KeyboardInterrupt. SIGTERM is the system's: see `_ending`."""
        with_term = signal.getsignal(signal.SIGTERM) == self.handle
        if with_term:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._inner = inner
        try:
            yield
        finally:
            self._inner = None
            if with_term:
                signal.signal(signal.SIGTERM, self.handle)

    def settle(self, code: int) -> None:
        """The exit code is known: from here on a signal only ends the process sooner."""
        self._code = code

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The handler."""
        if os.getpid() != self._process:  # a fork that an environment has made
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            signal.raise_signal(number)
        elif self._inner is not None:
            self._inner(number, frame)
        else:
            self._leave()

    def _ignore(self) -> None:
        """For the last moments, in which libraries are unloaded: Python would give its handlers up, but not this."""
        for number in _SIGNALS:
            if signal.getsignal(number) == self.handle:
                signal.signal(number, signal.SIG_IGN)

    def _leave(self) -> None:
        if self._code is None:
            with suppress(OSError):
                os.write(2, b"interrupted\n")
        os._exit(INTERRUPTED if self._code is None else self._code)


COMMAND_SIGNALS = CommandSignals()


def is_the_command() -> bool:
    """Whether this process is the command: `paceline …`, or `python -m paceline …` about to import the package."""
    program = sys.argv[0] if getattr(sys, "argv", None) else ""
    if program != "-m":
        return os.path.basename(program) == "paceline"
    arguments = sys.orig_argv
    return "-m" in arguments and arguments[arguments.index("-m") + 1 :][:1] == ["paceline"]
