"""A Host in a process of its own: forked by the fork server, called through one socket, killed when it must be.

ProcessWorker ── Channel (requests, replies) ──► child.py
              ── Control (bell, progress) ─────►
              ◄─ pidfd (its end) · Voice (its output) · RecordReader (its log) ──
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import select
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from time import perf_counter
from typing import Any

from paceline.engine.transport.channel import WAKE, Channel, encode
from paceline.engine.transport.shared_memory import Control
from paceline.engine.transport.spin import SHORT_FOR_A_CALL, Patience, fence
from paceline.engine.workers.base import Gone, Reply, Request, Settings
from paceline.engine.workers.process import fork_client
from paceline.engine.workers.process.child import WHERE
from paceline.engine.workers.process.log_records import RecordReader
from paceline.engine.workers.process.output import LISTENER, Voice
from paceline.engine.workers.reply_check import Sentry
from paceline.errors import NotData, PlanNotMet

_FDS_PER_WORKER = 4  # socket, pidfd, output, log records
_FDS_TO_START = 4  # the worker's own ends, until they are passed on
_SPARE_FDS = 12
_SERVERS = 10  # that are started one after another where each is killed before its workers stand
_LAST_WORDS = 0.5  # seconds to write a stack down in

_log = logging.getLogger("paceline")
_told_of_hashing = False


class ProcessWorker:
    """Main's end of a worker process."""

    backend = "process"
    in_process = False
    shares_memory = True
    can_kill = True
    rings = True

    def __init__(self, number: int, settings: Settings) -> None:
        self.number = number
        self.control = Control()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        hear, speak = os.pipe2(os.O_CLOEXEC)
        read_records, write_records = os.pipe2(os.O_CLOEXEC)
        self._server = fork_client.server()
        try:
            config = _config(number, settings)
            self.pid, self.pidfd = self._server.fork(config, [theirs.fileno(), self.control.fd, speak, write_records])
        except BaseException:
            ours.close()
            os.close(hear)
            os.close(read_records)
            raise
        finally:
            theirs.close()
            os.close(speak)
            os.close(write_records)
            self.control.close_fd()
        self._sentry = Sentry(settings.max_message, settings.threads > 1) if settings.data_only else None
        self.channel = Channel(ours, reads_data=settings.data_only)
        self._words = self.control.words
        self._heard = 0
        self.listened = False
        self.patience = Patience(SHORT_FOR_A_CALL)
        self.poll = select.poll()
        self.poll.register(ours.fileno(), select.POLLIN)
        self.poll.register(self.pidfd, select.POLLIN)
        self._voice = Voice(hear, self._tag)
        self._records = RecordReader(read_records, self._tag)
        LISTENER.add(self._voice)
        LISTENER.add(self._records)
        self._ended = False

    def send(self, request: Request, descriptor: int | None = None) -> None:
        frame = encode(request, descriptor)  # first, for it may fail: then nothing has been said
        if self._sentry is not None:
            self._sentry.asked(request)
            self.channel.most = self._sentry.most
        # The words before the packet: a worker that wakes up by it must find the bell changed.
        self._words[Control.MAIL] += 1
        self._words[Control.BELL] += 1
        self.channel.send(frame)

    def ring(self) -> None:
        """Tells the worker that rows have been asked for."""
        words = self._words
        words[Control.BELL] += 1
        fence()
        if words[Control.ASLEEP]:
            self.channel.wake()

    def help(self) -> None:
        """Nothing to do here: the worker does it itself."""

    def has_served(self) -> bool:
        """Whether the worker has done everything that it has been asked."""
        return self._words[Control.SERVED] == self._words[Control.BELL]

    @property
    def has_spoken(self) -> bool:
        """Whether a reply, or news, is there to be received; what we have heard may not have been counted yet."""
        return self._words[Control.SPOKEN] > self._heard

    def listen(self, until: Callable[[], bool] | None, eager: bool = False) -> None:
        """Asks the worker to send a packet when it has served; None: not any more."""
        self.listened = until is not None
        self._words[Control.LISTENING] = self.listened + (self.listened and eager)
        fence()

    def receive(self) -> Reply | None:
        try:
            if self.channel.clogged:
                self.channel.flush()
            # Twice, because it may speak between our listening and our looking whether it lives.
            for _ in range(2):
                message = self._next_message()
                if message is not None or not self._dead():
                    return message
        except EOFError:
            pass
        except NotData as error:
            gone = self._obituary()
            raise Gone(f"was ended because it is trusted with data only, and {error}", gone.last_words) from None
        raise self._obituary()

    def _next_message(self) -> Reply | None:
        while (message := self.channel.receive()) is WAKE:
            continue
        self._heard += message is not None
        if message is not None and self._sentry is not None:
            return self._sentry.heard(message)
        reply: Reply | None = message
        return reply

    def busy_since(self) -> float | None:
        return self.control.times[Control.STARTED] or None

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def kill_the_hung(self) -> None:
        # It writes its stack to its output, from where the obituary takes it. It must not live on after that: the
        # signal may have woken it, and what it answered then would be wrong.
        if _hears(self.pid, WHERE):
            self._voice.hush()
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, WHERE)
            self._dead(_LAST_WORDS)
        self.kill()

    def say_goodbye(self) -> None:
        if not self._ended:
            self.send(("close",))

    def close(self, grace: float) -> None:
        if self._ended:
            return
        self._dead(grace)
        self.kill()
        self._dead(5.0)
        self._bury()

    def abandon(self) -> None:
        """Ends the worker without a lock or a wait; `bury_the_abandoned` does the rest, at a better time."""
        if not self._ended:
            self.kill()
            _abandoned.append(self)

    def _dead(self, timeout: float = 0.0) -> bool:
        if self._ended:
            return True
        poll = select.poll()  # not select(): descriptors above 1023 are ordinary with many workers
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(timeout * 1000))

    def _obituary(self) -> Gone:
        self.kill()  # the line is cut, so the worker is of no use even if it lives on
        self._dead(5.0)
        code, words = self._bury()
        if code is None and not self._server.alive:
            return Gone("died with the process that starts workers", words, with_its_server=True)
        return Gone(_ending(code), words)

    def _bury(self) -> tuple[int | None, str]:
        self._ended = True
        code = self._server.status(self.pid)
        words = self._voice.last_words()
        LISTENER.remove(self._records)
        LISTENER.remove(self._voice)
        self.channel.close()
        os.close(self.pidfd)
        return code, words

    def _tag(self) -> str:
        member = int(self._words[Control.CURRENT]) - 1
        return f"worker {self.number} pid {self.pid}" + (f" member {member}" if member >= 0 else "")


def _hears(pid: int, number: int) -> bool:
    """Whether a process has a thread that does not block this signal."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/status") as file:
                blocked = next((line.split()[1] for line in file if line.startswith("SigBlk:")), "0")
                if not int(blocked, 16) >> (number - 1) & 1:
                    return True
    return False


_abandoned: deque[ProcessWorker] = deque()


def bury_the_abandoned() -> None:
    """A finaliser may run anywhere, also in the middle of what it would need; so burials wait for this."""
    while _abandoned:
        _abandoned.popleft().close(0.0)


def _ending(code: int | None) -> str:
    if code is None:
        return "ended, nobody knows how"
    if code == -WHERE:
        return "was killed"
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _config(number: int, settings: Settings) -> dict[str, Any]:
    return {
        "number": number,
        "seed": dict(settings.seed) if isinstance(settings.seed, Mapping) else int(settings.seed),
        "traced": settings.traced,
        "max_message": settings.max_message,
        "threads": settings.threads,
        "data_only": settings.data_only,
        "may_leave": settings.may_leave and settings.threads > 1,
        "budget": asdict(settings.budget),
        "sys_path": list(sys.path),
        "cwd": os.getcwd(),
        "environ": {**os.environ, **fork_client.environment()},
        "log_level": logging.getLogger().level,
    }


class ProcessBackend:
    """Workers in processes."""

    name = "process"
    reads_data = True

    def start(self, numbers: Sequence[int], settings: Settings) -> list[Any]:
        if sys.platform != "linux":
            raise PlanNotMet("the process backend needs Linux (memfd, pidfd); use plan='thread' or plan='ray'")
        bury_the_abandoned()
        _tell_of_hashing()
        _check_descriptors(len(numbers))
        for _ in range(_SERVERS - 1):
            with contextlib.suppress(fork_client.ServerKilled):
                return self._started(numbers, settings)
        return self._started(numbers, settings)

    def _started(self, numbers: Sequence[int], settings: Settings) -> list[Any]:
        workers: list[ProcessWorker] = []
        try:
            for number in numbers:
                workers.append(ProcessWorker(number, settings))
        except (OSError, PlanNotMet) as error:
            for worker in workers:
                worker.kill()
                worker.close(0.0)
            if isinstance(error, fork_client.ServerKilled):
                raise
            raise PlanNotMet(f"worker {len(workers) + 1} of {len(numbers)} could not be started: {error}") from error
        return workers

    def wait(self, workers: Sequence[Any], timeout: float | None) -> bool:
        if workers[0].listened:  # a port waits, and has spun as long as that pays
            return self._sleep(workers, timeout)
        start = perf_counter()
        patience = workers[0].patience
        spun = patience.spin(lambda: any(worker.has_spoken for worker in workers))
        ready = spun or self._sleep(workers, timeout)
        patience.learn(perf_counter() - start)
        return ready

    def _sleep(self, workers: Sequence[Any], timeout: float | None) -> bool:
        alone = len(workers) == 1 and not workers[0].channel.clogged
        poll = workers[0].poll if alone else self._poll_of(workers)
        return bool(poll.poll(None if timeout is None else timeout * 1000))

    def _poll_of(self, workers: Sequence[Any]) -> Any:
        poll = select.poll()
        for worker in workers:
            poll.register(worker.channel.fileno(), select.POLLIN | (select.POLLOUT if worker.channel.clogged else 0))
            poll.register(worker.pidfd, select.POLLIN)
        return poll


def _check_descriptors(workers: int) -> None:
    """Better a sentence now than `OSError 24` somewhere in the middle."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    used = len(os.listdir("/proc/self/fd"))
    needed = used + workers * _FDS_PER_WORKER + _FDS_TO_START + _SPARE_FDS
    if needed > allowed:
        possible = max(0, (allowed - used - _FDS_TO_START - _SPARE_FDS) // _FDS_PER_WORKER)
        raise PlanNotMet(
            f"{workers} workers need about {needed} open files and {allowed} are allowed: "
            f"raise the limit (ulimit -n {needed}) or use at most {possible} workers"
        )


def _tell_of_hashing() -> None:
    global _told_of_hashing
    if _told_of_hashing or os.environ.get("PYTHONHASHSEED", "random") != "random":
        return
    _told_of_hashing = True
    _log.warning(
        "PYTHONHASHSEED is not set: workers use 0, this process a random one, so code that depends on the order "
        "of a set of strings can differ between the two. Start python with PYTHONHASHSEED=0 to rule that out."
    )


BACKEND = ProcessBackend()
