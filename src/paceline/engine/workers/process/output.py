"""What workers print reaches main: tagged with worker, pid and member, and kept for the obituary.

worker: stdout, stderr, faulthandler ──► pipe ─┬─► one thread here ─┬─► sys.stderr, a tag before each line
                                               │                    └─► the last lines, for WorkerLost, CallTimeout
        logging, as fields (log_records.py) ───┘  a pipe of their own

What comes through the first pipe is text and nothing else: members, C libraries and their child processes write there.
A line of a library that comes again, from any worker, is counted and told once: MuJoCo warns with every model that it
compiles. What goes through `sys.stdout` and `sys.stderr` is told as often as it is written.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import select
import sys
import threading
from collections.abc import Callable

from paceline.engine.workers.process.log_records import SPEAKING
from paceline.engine.workers.process.pipe_reader import PipeReader

_TAGGED = b"\x1e"
_HALF = b"\x1f"  # part of a line that has been flushed; the line itself will come as a whole
_LONG = 1 << 16  # characters without an end of line: then they are one
_TAIL = 8192
_DYING = b"Fatal Python error"  # a stack follows, which is told whole
_STACK = (b"Traceback", b"Current thread", b"Thread 0x")  # and here: up to the first line that is not indented
_SHORT, _MANY = 1000, 200  # bytes of a line that is known again, and how many such lines are


class Repeated:
    """Lines of libraries that have been told while there are workers, and how often they have come since."""

    def __init__(self) -> None:
        self._more: dict[bytes, int] = {}

    def take(self, line: bytes) -> bool:
        """Whether a line has been told before; then it is counted."""
        known = line in self._more
        if not known and (len(line) > _SHORT or len(self._more) >= _MANY):
            return False
        self._more[line] = self._more[line] + 1 if known else 0
        return known

    def tell(self) -> None:
        """Says how often lines have come again, and forgets them."""
        told, self._more = self._more, {}
        for line, more in told.items():
            if more and line.strip():
                _show(f"[workers] {more} times more: {line.decode('utf-8', 'replace')}")


REPEATED = Repeated()


def _show(text: str) -> None:
    with contextlib.suppress(Exception):  # stderr may be closed, or a pipe that nobody reads any more
        print(text, file=sys.stderr, flush=True)


class Voice(PipeReader):
    """One worker's output as main hears it."""

    def __init__(self, fd: int, tag: Callable[[], str]) -> None:
        super().__init__(fd)
        self.tag = tag
        self.tail = b""
        self._rest: list[bytes] = []  # of a line whose end has not come: joined once, however long it gets
        self._half = b""
        self._hushed = self._dying = self._in_stack = False

    def hush(self) -> None:
        """From now on what comes untagged is kept for the last words, and told at debug level only: a stack that was
        asked for is part of an error."""
        self.listen()  # what is in the pipe by now is not that stack
        self._hushed = True

    def last_words(self) -> str:
        """Everything still in the pipe is read first, so that a C stack written in dying is there."""
        self.listen()
        return (self.tail + self._half + b"".join(self._rest)).decode("utf-8", "replace").strip()

    def _end(self) -> None:
        for rest in (self._half, b"".join(self._rest)):
            if rest:
                self._line(rest)
        self._half, self._rest = b"", []

    def _take(self, data: bytes) -> None:
        first, *others = data.split(b"\n")
        self._rest.append(first)
        if not others:
            return
        lines = [b"".join(self._rest), *others[:-1]]
        self._rest = others[-1:]
        with SPEAKING:
            for line in lines:
                self._line(line)

    def _line(self, line: bytes) -> None:
        if line.startswith(_HALF):
            self._half = (self._half + line[1:])[-_TAIL:]
            return
        if line.startswith(_TAGGED):
            self._half = b""
        self.tail = (self.tail + line.lstrip(_TAGGED) + b"\n")[-_TAIL:]
        text = line.decode("utf-8", "replace")
        # The worker tags what goes through sys.stderr itself, exactly; lines from C get the tag of the moment.
        tagged = line.startswith(_TAGGED)
        shown = text[1:] if tagged else f"[{self.tag()}] {text}"
        if self._hushed and not tagged:
            logging.getLogger("paceline").debug("%s", shown)
            return
        self._dying = self._dying or line.startswith(_DYING)
        if tagged or self._dying or self._is_part(line) or not REPEATED.take(line):
            _show(shown)

    def _is_part(self, line: bytes) -> bool:
        """Whether a line means nothing without those before it: of a stack, up to its error; indented; or blank."""
        if line.startswith(_STACK):
            self._in_stack = True
            return True
        if not line.strip() or line[:1].isspace():
            return True
        ending, self._in_stack = self._in_stack, False
        return ending


class Listener:
    """The one thread that listens to all workers of this process; it ends when the last one has gone."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Knows of no worker."""
        self._voices: dict[int, PipeReader] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._nudge = -1

    def add(self, voice: PipeReader) -> None:
        with self._lock:
            self._voices[voice.fd] = voice
            if self._thread is None:
                waker, self._nudge = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
                self._thread = threading.Thread(target=self._run, args=(waker,), name="paceline-listener", daemon=True)
                self._thread.start()
            else:
                os.write(self._nudge, b"+")

    def remove(self, voice: PipeReader) -> None:
        """Closes the voice; waits for the thread if this was the last one."""
        with self._lock:
            self._voices.pop(voice.fd, None)
            ended = self._thread if not self._voices else None
            if self._thread is not None:
                os.write(self._nudge, b"-")
            if ended is not None:
                self._thread = None
                nudge, self._nudge = self._nudge, -1
        voice.close()
        if not self._voices:
            REPEATED.tell()
        if ended is not None:
            if ended is not threading.current_thread():
                ended.join()
            os.close(nudge)

    def _run(self, waker: int) -> None:
        while True:
            with self._lock:
                voices = dict(self._voices)
            if not voices:
                break
            self._serve_once(waker, voices)
        os.close(waker)

    def _serve_once(self, waker: int, voices: dict[int, PipeReader]) -> None:
        poll = select.poll()
        poll.register(waker, select.POLLIN)
        for fd in voices:
            poll.register(fd, select.POLLIN)
        while True:
            events = poll.poll()
            for fd, _ in events:
                if fd != waker and not voices[fd].listen():
                    poll.unregister(fd)
            if any(fd == waker for fd, _ in events):
                os.read(waker, 4096)
                return


LISTENER = Listener()


def _after_fork() -> None:
    """The thread does not come along into a fork of the process: whoever starts workers there needs one of its own."""
    SPEAKING.release()
    LISTENER.begin_anew()


# Nobody is in the middle of a line when the process forks: the child would inherit a stream that is locked for ever.
os.register_at_fork(before=SPEAKING.acquire, after_in_parent=SPEAKING.release, after_in_child=_after_fork)


# -- the worker's side ---------------------------------------------------------------------------------


class TaggedLines(io.TextIOBase):
    """A text stream for a worker's `sys.stdout` and `sys.stderr`: each line leaves whole, with its tag."""

    def __init__(self, fd: int, tag: Callable[[], str]) -> None:
        super().__init__()
        self._fd = fd
        self._tag = tag
        self._rest: list[str] = []
        self._length = 0  # of the rest
        self._flushed = 0  # how many of its parts have been flushed
        self.buffer = os.fdopen(fd, "wb", buffering=0, closefd=False)  # for those who write bytes

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def write(self, text: str) -> int:
        *lines, rest = text.split("\n")
        for line in lines:
            self._end_with(line)
        if rest:
            self._rest.append(rest)
            self._length += len(rest)
        if self._length > _LONG:
            self._cut()
        return len(text)

    def _cut(self) -> None:
        """Of a progress bar that goes back to the start of its line again and again, only the last one is kept."""
        _, back, last = "".join(self._rest).rpartition("\r")
        if back and len(last) < _LONG:
            self._rest, self._length, self._flushed = [last], len(last), 1
        else:
            self._end_with("")

    def flush(self) -> None:
        """Half a line is shown when its end comes: two workers' halves must not mix. Until then main only keeps it,
        for a worker's last words."""
        half = "".join(self._rest[self._flushed :])
        self._flushed = len(self._rest)
        if half:
            self._write(_HALF + half.encode("utf-8", "replace") + b"\n")

    def close(self) -> None:
        """Stays open: a worker has nowhere else to speak to."""
        if self._rest:
            self._end_with("")

    def _end_with(self, end: str) -> None:
        line = "".join((*self._rest, end))
        self._rest, self._length, self._flushed = [], 0, 0
        self._write(f"\x1e[{self._tag()}] {line}\n".encode("utf-8", "replace"))

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._fd

    def writable(self) -> bool:
        return True

    def _write(self, data: bytes) -> None:
        left = memoryview(data)  # a pipe takes a little at a time: what is left is not copied each time
        while left:
            left = left[os.write(self._fd, left) :]
