"""A small process that forks workers: single-threaded, everything heavy imported once, nothing of `__main__`.

    main ──(SEQPACKET: fork · status · quit)──► server ──fork──► worker ◄──(its own socket)──► main
                                                  │
                                                  └─ ends with main, and takes every descendant along

Forking a process that runs threads can deadlock the child, so main never forks; exec'ing every worker costs an
import of torch each. The server imports what main has imported (of a list known to be safe), checks that this has
started no thread, and forks workers in milliseconds. `multiprocessing`'s own fork server is not used because it
runs the user's `__main__` again in every worker and is one global object that others configure too.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import importlib
import json
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

from paceline.errors import PlanNotMet

# Packages that are dear to import, start no thread in doing so, and survive a fork.
PRELOADABLE = frozenset(
    [
        "paceline",
        "numpy",
        "scipy",
        "pandas",
        "PIL",
        "cv2",
        "gymnasium",
        "pettingzoo",
        "mujoco",
        "torch",
        "safetensors",
        "pygame",
        "mettagrid",
        "sorrel",
    ]
)
_IMPORT_RAY = frozenset(["paceline.engine.ray", "paceline.engine.rayhost", "paceline.engine.cluster"])  # it has threads
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    ),
    "1",
)
_PACKET = 1 << 20
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_START = """
import json, sys
fd, main, sys.path[:], preload = json.loads(sys.argv[1])
from paceline.engine.forkserver import serve
serve(fd, main, preload)
"""


def hash_seed() -> str:
    """The string hash seed of every worker: main's own if it is fixed, else 0."""
    seed = os.environ.get("PYTHONHASHSEED", "random")
    return "0" if seed == "random" else seed


def to_preload() -> tuple[str, ...]:
    """The modules that main has imported and that the server may import for everybody."""
    return tuple(
        sorted(name for name in sys.modules if name.partition(".")[0] in PRELOADABLE and name not in _IMPORT_RAY)
    )


# -- main's side ---------------------------------------------------------------------------------------


class ForkServer:
    """Main's handle on a running server."""

    def __init__(self, preload: tuple[str, ...]) -> None:
        self.roots = frozenset(name.partition(".")[0] for name in preload)
        self.owner = os.getpid()
        self._lock = threading.Lock()
        self._broken = False
        self._sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                _command(theirs.fileno(), self.owner, preload),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in a terminal is main's alone
                env={**os.environ, **ONE_THREAD, "PYTHONHASHSEED": hash_seed()},
            )

    def fork(self, config: dict[str, Any], fds: list[int]) -> tuple[int, int]:
        """Starts a worker that owns `fds`. Returns its pid and a descriptor that turns readable at its end."""
        answer, received = self._ask(("fork", config), fds)
        if isinstance(answer, str):
            raise PlanNotMet(f"a worker could not be started: {answer}")
        return answer, received[0]

    def status(self, pid: int) -> int | None:
        """How a dead worker ended (as `subprocess` counts: negative for a signal); None if nobody knows."""
        try:
            answer, _ = self._ask(("status", pid), [])
        except PlanNotMet:
            return None
        return answer if isinstance(answer, int) else None

    @property
    def alive(self) -> bool:
        return not self._broken and self.owner == os.getpid() and self._process.poll() is None

    def close(self) -> None:
        self._sock.close()
        if self.owner != os.getpid():
            return  # a fork of main: the server is not ours to end
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, request: tuple[Any, ...], fds: list[int]) -> tuple[Any, list[int]]:
        with self._lock:
            try:
                _send(self._sock, request, fds)
                return _receive(self._sock)
            except (OSError, EOFError) as error:
                raise PlanNotMet(
                    f"the process that starts workers is gone (exit code {self._process.poll()})"
                ) from error
            except BaseException:
                # Interrupted between question and answer: the next question would get this one's answer.
                self._broken = True
                self._process.kill()
                raise


_servers: list[ForkServer] = []
_servers_lock = threading.Lock()


def server() -> ForkServer:
    """The server of this process: a running one that has preloaded enough, or a new one."""
    preload = to_preload()
    roots = {name.partition(".")[0] for name in preload}
    with _servers_lock:
        for known in reversed(_servers):
            if known.alive and known.roots >= roots:
                return known
        _servers.append(ForkServer(preload))
        return _servers[-1]


def close_servers() -> None:
    """Ends every server of this process, and with them whatever still runs below them."""
    with _servers_lock:
        while _servers:
            _servers.pop().close()


# -- the server's side ---------------------------------------------------------------------------------


def _command(fd: int, main: int, preload: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-c", _START, json.dumps([fd, main, sys.path, preload])]


def serve(fd: int, main: int, preload: list[str]) -> None:
    """Runs the server until main goes away. Called in a fresh interpreter."""
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
        os.execv(sys.executable, _command(fd, main, ()))
    _prctl(_PR_SET_PDEATHSIG, 0)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    gc.collect()
    gc.freeze()  # so that a worker's garbage collector does not copy the pages that all workers share
    _Server(socket.socket(fileno=fd), main).run()


class _Server:
    def __init__(self, sock: socket.socket, main: int) -> None:
        self._sock = sock
        self._main = os.pidfd_open(main)
        self._wake_r, self._wake_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._statuses: dict[int, int | None] = {}

    def run(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_w, warn_on_full_buffer=False)
        poll = select.poll()
        for source in (self._sock.fileno(), self._main, self._wake_r):
            poll.register(source, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self._wake_r in ready:
                os.read(self._wake_r, 4096)
                self._reap()
            if self._main in ready or (self._sock.fileno() in ready and not self._answer()):
                break
        self._end_everybody()

    def _answer(self) -> bool:
        try:
            (op, argument), fds = _receive(self._sock)
        except (EOFError, OSError):
            return False
        if op == "fork":
            self._fork(argument, fds)
        elif op == "status":
            _send(self._sock, self._status(argument), [])
        return True

    def _fork(self, config: dict[str, Any], fds: list[int]) -> None:
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            _send(self._sock, str(error), [])
        else:
            if pid == 0:
                self._become_worker(config, fds, server)
            self._statuses[pid] = None
            pidfd = os.pidfd_open(pid)
            _send(self._sock, pid, [pidfd])
            os.close(pidfd)
        for fd in fds:
            os.close(fd)

    def _become_worker(self, config: dict[str, Any], fds: list[int], server: int) -> None:
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
            self._sock.close()
            os.setsid()
            from paceline.engine.worker import run

            run(config, fds)
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)

    def _status(self, pid: int) -> int | None:
        if self._statuses.get(pid, 0) is None:
            with contextlib.suppress(ChildProcessError):
                self._note(*os.waitpid(pid, 0))  # asked only of a process that has ended
        return self._statuses.pop(pid, None)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self._note(pid, status)

    def _note(self, pid: int, status: int) -> None:
        if pid not in self._statuses:
            return  # an orphan that came to us
        self._statuses[pid] = os.waitstatus_to_exitcode(status)
        # What a worker has started dies with it. A worker leads its own session, so its orphans are known.
        for child in _children():
            if _session(child) == pid:
                _kill(child)

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


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


# -- packets with descriptors --------------------------------------------------------------------------


def _send(sock: socket.socket, message: Any, fds: list[int]) -> None:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([pickle.dumps(message)], rights)


def _receive(sock: socket.socket) -> tuple[Any, list[int]]:
    data, ancillary, _, _ = sock.recvmsg(_PACKET, socket.CMSG_SPACE(4 * 8), socket.MSG_CMSG_CLOEXEC)
    if not data:
        raise EOFError
    fds = array.array("i")
    for _, _, raw in ancillary:
        fds.frombytes(raw[: len(raw) - len(raw) % fds.itemsize])
    return pickle.loads(data), list(fds)
