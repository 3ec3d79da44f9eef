"""The process that forks workers: single-threaded, everything heavy imported once, nothing of `__main__`.

    main, or a worker ──(Line: fork · status)──► server ──fork──► worker ── its own Line back here
                                                   │
                                                   └─ ends with main, and takes every descendant along

It imports what main has imported (of a list known to be safe), checks that this has started no thread, and forks
workers in milliseconds: those of main, and those of pools within workers, which end with the worker that asked.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import glob
import importlib
import os
import select
import shutil
import signal
import socket
import sys
from typing import Any

from paceline.engine.workers.process.fork_client import command, inherit, noted, receive, roots, send

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_MOMENT_MS = 5000


def serve(fd: int, main: int, preload: list[str], directories: str) -> None:
    """Runs the server until main goes away. Called in a fresh interpreter.

    Args:
        fd: Main's line.
        main: Its pid.
        preload: The modules to import.
        directories: How the paths of its temporary directories begin.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # An import may spend seconds in C, where no loop looks at the socket. The signal follows the thread that
    # started us, which waits for its first worker meanwhile; afterwards the socket and a pidfd tell of main.
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != main:
        os._exit(1)
    for name in preload:
        # What fails here fails again in the worker that needs it, and there it is reported.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    if len(os.listdir("/proc/self/task")) > 1:
        # An import has started a thread: a fork could deadlock, so start over without preloading.
        os.set_inheritable(fd, True)
        note = noted(fd, main, (), directories)
        os.execv(sys.executable, command(note.fileno()))
    _prctl(_PR_SET_PDEATHSIG, 0)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    gc.collect()
    gc.freeze()  # so that a worker's garbage collector does not copy the pages that all workers share
    _Server(socket.socket(fileno=fd), main, roots(preload), directories).run()


class _Line:
    """Somebody who may ask for workers, and how those have ended that were asked for (None: they run)."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.workers: dict[int, int | None] = {}


class _Server:
    def __init__(self, sock: socket.socket, main: int, known: frozenset[str], directories: str) -> None:
        self._known, self._directories = known, directories
        self._dismissed = False  # main has said that it goes on without us
        self._own = frozenset(_children())  # what imported modules have started
        self._main = os.pidfd_open(main)
        self._wake_r, self._wake_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll = select.poll()
        self._lines: dict[int, _Line] = {}
        self._first = self._open(sock)

    def _open(self, sock: socket.socket) -> _Line:
        line = self._lines[sock.fileno()] = _Line(sock)
        self._poll.register(sock.fileno(), select.POLLIN)
        return line

    def run(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_w, warn_on_full_buffer=False)
        for source in (self._main, self._wake_r):
            self._poll.register(source, select.POLLIN)
        try:
            self._serve()
        finally:
            self._end_everybody()
            if not self._dismissed:
                self._clean_up()

    def _serve(self) -> None:
        while True:
            ready = {fd for fd, _ in self._poll.poll()}
            if self._wake_r in ready:
                os.read(self._wake_r, 4096)
                self._reap()
            for line in [self._lines[fd] for fd in ready if fd in self._lines]:
                if line.sock.fileno() >= 0 and not self._answer(line):  # else it was hung up with main's, just now
                    self._hang_up(line)
            if self._main in ready or not self._lines:
                return

    def _answer(self, line: _Line) -> bool:
        try:
            (op, argument), fds = receive(line.sock)
            if op == "fork":
                self._fork(line, argument, fds)
            elif op == "status":
                send(line.sock, self._status(line, argument), [])
            elif op == "bye" and line is self._first:
                self._dismissed = True
        except (EOFError, OSError, ValueError, TypeError):  # gone, or it says what cannot be read
            return False
        return True

    def _hang_up(self, line: _Line) -> None:
        """A worker has ended, or main: then whatever runs for them ends too."""
        self._poll.unregister(line.sock.fileno())
        del self._lines[line.sock.fileno()]
        line.sock.close()
        for pid, status in line.workers.items():
            if status is None:  # else its number may be somebody else's by now
                _kill(pid)
        if line is self._first:
            for other in list(self._lines.values()):
                self._hang_up(other)

    def _fork(self, line: _Line, config: dict[str, Any], fds: list[int]) -> None:
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                pid = self._forked(config, fds, ours, theirs)
            self._open(ours)
            line.workers[pid] = None
            pidfd = os.pidfd_open(pid)
        except OSError as error:  # no process, or no descriptor, to be had
            send(line.sock, str(error), [])
            return
        finally:
            for fd in fds:
                os.close(fd)
        try:
            send(line.sock, pid, [pidfd])
        finally:
            os.close(pidfd)

    def _forked(self, config: dict[str, Any], fds: list[int], ours: socket.socket, theirs: socket.socket) -> int:
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            raise
        if pid == 0:
            ours.close()
            self._become_worker(config, fds, theirs, server)
        return pid

    def _become_worker(self, config: dict[str, Any], fds: list[int], up: socket.socket, server: int) -> None:
        """Never returns. The child keeps its own descriptors only."""
        code = 1
        try:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != server:
                return  # the server died before the line above took effect
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for fd in (self._main, self._wake_r, self._wake_w):
                os.close(fd)
            for line in self._lines.values():
                line.sock.close()
            _prctl(_PR_SET_CHILD_SUBREAPER, 1)
            os.setsid()
            inherit(up, self._known)
            from paceline.engine.workers.process.child import run

            run(config, fds)
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)

    def _status(self, line: _Line, pid: int) -> int | None:
        if line.workers.get(pid, 0) is None:
            with contextlib.suppress(ChildProcessError):
                ended, status = os.waitpid(pid, os.WNOHANG)  # never waits for one that is stuck in the kernel
                if ended:
                    self._note(ended, status)
        return line.workers.pop(pid, None)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self._note(pid, status)

    def _note(self, pid: int, status: int) -> None:
        for line in self._lines.values():
            if pid in line.workers:
                line.workers[pid] = os.waitstatus_to_exitcode(status)
        # What a worker has started dies with it, in a session of its own, too. A living worker adopts its orphans:
        # what the server has beside workers was left behind by those that have ended.
        workers = {each for line in self._lines.values() for each in line.workers}
        for child in _children():
            if child not in workers and child not in self._own:
                _kill(child)

    def _clean_up(self) -> None:
        """Removes the temporary directories that a main that was killed could not remove. Its line may have closed
        before its end is seen; one that lives on keeps them."""
        end = select.poll()
        end.register(self._main, select.POLLIN)
        if end.poll(_MOMENT_MS):
            for path in glob.glob(glob.escape(self._directories) + "*"):
                shutil.rmtree(path, ignore_errors=True)

    def _end_everybody(self) -> None:
        for _ in range(100):
            children = _children()
            if not children:
                return
            for child in children:
                _kill(child)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, 0)


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
