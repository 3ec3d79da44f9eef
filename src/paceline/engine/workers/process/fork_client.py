"""The line to the process that forks workers (`fork_server.py`): who may ask for one, and how.

    main ──(SEQPACKET: fork · status)──► server ──fork──► worker ◄──(its own socket)──► main
                                           ▲                │
                                           └────────────────┘  a worker that has a pool of its own asks the same server

Forking a process that runs threads can deadlock the child, so main never forks; exec'ing every worker costs an
import of torch each. `multiprocessing`'s own fork server is not used because it runs the user's `__main__` again in
every worker and is one global object that others configure too.
"""

from __future__ import annotations

import array
import contextlib
import errno
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, BinaryIO

from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.workers.process.orphans import end_marked, environment_with, new_mark
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
_IMPORT_RAY = frozenset(
    ["paceline.engine.workers.ray.handle", "paceline.engine.workers.ray.actor", "paceline.engine.workers.ray.cluster"]
)  # it has threads
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
_START_SECONDS, _TORCH_SECONDS = 0.4, 1.0  # until a server is there, and until it has imported torch
_START = """
import json, sys
with open(int(sys.argv[1])) as note:
    fd, main, sys.path[:], preload, directories = json.load(note)
from paceline.engine.workers.process.fork_server import serve
serve(fd, main, preload, directories)
"""


def hash_seed() -> str:
    """The string hash seed of every worker: main's own if it is fixed, else 0."""
    seed = os.environ.get("PYTHONHASHSEED", "random")
    return "0" if seed == "random" else seed


def environment() -> dict[str, str]:
    """What has to be in a worker's environment before its interpreter starts."""
    return {**ONE_THREAD, "PYTHONHASHSEED": hash_seed()}


def to_preload() -> tuple[str, ...]:
    """The modules that main has imported and that the server may import for everybody."""
    return tuple(
        sorted(name for name in sys.modules if name.partition(".")[0] in PRELOADABLE and name not in _IMPORT_RAY)
    )


class ServerKilled(PlanNotMet):
    """The server was killed from outside, while it was asked for something: another one may live."""


class ForkServer:
    """A line to a running server.

    Args:
        sock: Our end.
        roots: The packages that the server has imported.
        process: The server itself, if it is ours to end.
        mark: What everything below it inherits.
    """

    def __init__(
        self,
        sock: socket.socket,
        roots: frozenset[str],
        process: subprocess.Popen[bytes] | None = None,
        mark: str = "",
    ) -> None:
        self.roots = roots
        self.owner = os.getpid()
        self._lock = threading.Lock()
        self._broken = False
        self._owed = process is not None  # an answer that is still to come, and that nobody waits for
        self._torn = False  # we may have been interrupted in the middle of a message
        self._sock, self._process, self._mark = sock, process, mark
        self._line = select.poll()
        self._line.register(sock, select.POLLIN)
        if self._owed:
            send(sock, ("status", 0), [])  # it answers when it has imported everything

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
        ours = not self._broken and self.owner == os.getpid()
        return ours and (self._process is None or self._process.poll() is None)

    def close(self) -> None:
        if self._process is not None and self.owner == os.getpid():
            with contextlib.suppress(OSError):  # it is gone, or has too much to read
                self._sock.setblocking(False)
                send(self._sock, ("bye", 0), [])
        self._sock.close()
        if self._process is None or self.owner != os.getpid():
            return  # in a worker, or a fork of main: the server is not ours to end
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.end_left_behind()

    def end_left_behind(self) -> None:
        """Ends what was started below the server, if it is gone and could not do so itself."""
        if self._mark and self._process is not None and self.owner == os.getpid() and self._process.poll():
            end_marked(self._mark)
            self._mark = ""

    @property
    def ready(self) -> bool:
        """Whether it has imported everything, so that it forks at once."""
        if self._owed and self._lock.acquire(blocking=False):  # else it is being asked for a worker
            try:
                if self._line.poll(0):
                    self._take_owed()
            except (OSError, EOFError):  # it is gone: who asks it for a worker is told
                self._broken, self._owed = True, False
            finally:
                self._lock.release()
        return not self._owed

    def _ask(self, request: tuple[Any, ...], fds: list[int]) -> tuple[Any, list[int]]:
        with self._lock:
            try:
                if self._owed:
                    self._take_owed()
                with UNINTERRUPTED:
                    self._torn = True
                    send(self._sock, request, fds)
                    self._owed, self._torn = True, False
                return self._answer()
            except (OSError, EOFError) as error:
                if getattr(error, "errno", None) == errno.EMSGSIZE:  # nothing was sent, and the server lives
                    self._torn = False
                    raise PlanNotMet(_too_large()) from error
                self._broken = True
                self._bury()
                code = None if self._process is None else self._process.poll()
                kind = ServerKilled if code == -signal.SIGKILL else PlanNotMet
                why = "" if self._process is None else f" (exit code {code})"
                raise kind(f"the process that starts workers is gone{why}") from error
            except BaseException:
                if self._torn:  # by a handler of the user's: the next question might get this one's answer
                    self._broken = True
                    if self._process is not None:
                        self._process.kill()
                raise

    def _answer(self) -> tuple[Any, list[int]]:
        """The answer that is owed. Ctrl-C may come while we wait for it: then it is taken before the next question."""
        self._line.poll()
        with UNINTERRUPTED:
            self._torn = True
            answer = receive(self._sock)
            self._owed = self._torn = False
        return answer

    def _take_owed(self) -> None:
        for fd in self._answer()[1]:  # of a worker that nobody has, and that ends by itself
            os.close(fd)

    def _bury(self) -> None:
        """The line has closed, so the server is dead or dying: waits for it, then ends what it has left behind."""
        if self._process is not None and self.owner == os.getpid():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=2)
            self.end_left_behind()


def _too_large() -> str:
    name, value = max(os.environ.items(), key=lambda each: len(each[1]))
    size = sum(len(key) + len(text) for key, text in os.environ.items())
    return (
        f"the environment variables are too large to be handed on to workers: {size:,} bytes, {len(value):,} of them "
        f"in {name}; unset what is not needed"
    )


def start(preload: tuple[str, ...]) -> ForkServer:
    """Starts a server that imports these modules first."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    mark = new_mark()
    with theirs, noted(theirs.fileno(), os.getpid(), preload, _directories()) as note:
        process = subprocess.Popen(
            command(note.fileno()),
            pass_fds=[theirs.fileno(), note.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in a terminal is main's alone
            env={**environment_with(mark), **environment()},
        )
    return ForkServer(ours, roots(preload), process, mark)


def inherit(sock: socket.socket, known: frozenset[str]) -> None:
    """In a new worker: pools of its own ask the server that the worker itself came from."""
    _servers[:] = [ForkServer(sock, known)]


def roots(preload: Iterable[str]) -> frozenset[str]:
    """The packages of modules."""
    return frozenset(name.partition(".")[0] for name in preload)


def temporary_directory() -> TemporaryDirectory[str]:
    """A directory for a `with`. If this process is killed in the middle of that, its fork server removes it."""
    parent, begin = os.path.split(_directories())
    return TemporaryDirectory(prefix=begin, dir=parent, ignore_cleanup_errors=True)


def _directories() -> str:
    """How the paths of this process's temporary directories begin."""
    if os.getpid() not in _tokens:  # a fork has its own
        _tokens[os.getpid()] = secrets.token_hex(8)
    return os.path.join(gettempdir(), f"paceline-{_tokens[os.getpid()]}-")


def noted(fd: int, main: int, preload: tuple[str, ...], directories: str) -> BinaryIO:
    """What a server is told at its start. Not on its command line, which has a limit, and is everybody's to read."""
    note = os.fdopen(os.memfd_create("paceline-start", 0), "w+b", buffering=0)
    note.write(json.dumps([fd, main, sys.path, preload, directories]).encode())
    note.seek(0)
    return note


def command(note: int) -> list[str]:
    """What starts a server that reads this note."""
    return [sys.executable, "-c", _START, str(note)]


_servers: list[ForkServer] = []
_tokens: dict[int, str] = {}
_servers_lock = threading.Lock()


def server() -> ForkServer:
    """The server to ask: a running one that has preloaded enough, or a new one."""
    preload = to_preload()
    with _servers_lock:
        for known in reversed(_servers):
            if not known.alive:
                known.end_left_behind()
            elif known.roots >= roots(preload):
                return known
        _servers.append(start(preload))
        return _servers[-1]


def is_running() -> bool:
    """Whether workers can be had at once."""
    return bool(_servers)


def prepare() -> bool:
    """Has the server start and import, on a core that is idle, without waiting for it. Returns whether it is ready:
    a caller that has something to do meanwhile asks again."""
    try:
        return server().ready
    except OSError:  # to start a worker will say so
        return True


def seconds_until_ready() -> float:
    """About how long it takes until workers can be forked; 0 if they can."""
    if is_running():
        return 0.0
    return _START_SECONDS + (_TORCH_SECONDS if "torch" in sys.modules else 0.0)


def close_servers() -> None:
    """Ends every server of this process, and with them whatever still runs below them."""
    with _servers_lock:
        while _servers:
            _servers.pop().close()


# -- packets with descriptors --------------------------------------------------------------------------


def send(sock: socket.socket, message: Any, fds: list[int]) -> None:
    """Sends a message, and copies of descriptors. As JSON: every worker holds a line to the server, and whatever is
    written there must not be able to run anything in it."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([json.dumps(message).encode()], rights)


def receive(sock: socket.socket) -> tuple[Any, list[int]]:
    """Waits for a message, and the descriptors that came with it."""
    data, ancillary, _, _ = sock.recvmsg(_PACKET, socket.CMSG_SPACE(4 * 8), socket.MSG_CMSG_CLOEXEC)
    if not data:
        raise EOFError
    fds = array.array("i")
    for _, _, raw in ancillary:
        fds.frombytes(raw[: len(raw) - len(raw) % fds.itemsize])
    return json.loads(data), list(fds)
