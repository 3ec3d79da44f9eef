"""The worker process: a Host, the socket that its calls come through, and the loop between them.

    bell changes ──► read the mail: host.handle(request) ──► reply on the socket
                └──► serve the ports: rows in shared memory, in place

Between two calls the worker spins for as long as the next one is expected soon, and sleeps otherwise.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from paceline.engine.host.host import Host
from paceline.engine.planning import budget
from paceline.engine.randomness.isolation import IN_FLIGHT
from paceline.engine.randomness.torch_import import TORCH_IMPORT
from paceline.engine.transport.channel import WAKE, Channel
from paceline.engine.transport.shared_memory import Control, SharedArrays
from paceline.engine.transport.spin import Patience, fence
from paceline.engine.workers.process import orphans
from paceline.engine.workers.process.log_records import RecordSender
from paceline.engine.workers.process.output import TaggedLines
from paceline.errors import TooLarge

WHERE = signal.SIGRTMAX - 1
"""The signal at which a worker writes down where it is, and dies: for one that hangs."""

# A lost wake-up is impossible where `fence` is a full fence; elsewhere it costs at most this long.
_LOOK_AGAIN_MS = 100


def run(config: dict[str, Any], fds: list[int]) -> None:
    """Works until the main process says close or goes away."""
    sock, control_fd, chatter_fd, records_fd = fds
    control = Control(control_fd)
    control.close_fd()
    worker = _Worker(config, Channel(socket.socket(fileno=sock), writes_data=config["data_only"]), control)
    _settle_in(config, chatter_fd, records_fd, worker.tag)
    with contextlib.suppress(EOFError):  # main is gone; its other children will be told by the kernel too
        worker.loop()


def _settle_in(config: dict[str, Any], chatter_fd: int, records_fd: int, tag: Any) -> None:
    """Makes this fork of the server look like a process of the user's main."""
    os.dup2(chatter_fd, 1)
    os.dup2(chatter_fd, 2)
    os.close(chatter_fd)
    sys.stdout = sys.stderr = TaggedLines(2, tag)
    # A library that was loaded before may have put its own handlers there, which end a worker by another signal.
    for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL):
        signal.signal(number, signal.SIG_DFL)
    faulthandler.enable(file=2, all_threads=True)
    faulthandler.register(WHERE, file=2, all_threads=True, chain=True)  # and then it dies of it
    marks = orphans.marks()  # what is started here is found by them
    os.environ.clear()
    os.environ.update({**config["environ"], **marks})
    sys.path[:] = config["sys_path"]
    with contextlib.suppress(OSError):
        os.chdir(config["cwd"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is main's to handle
    root = logging.getLogger()
    root.handlers[:] = [RecordSender(records_fd, tag)]
    root.setLevel(config["log_level"])
    budget.assign(budget.Budget(**config["budget"]))
    TORCH_IMPORT.hold_to_one_thread()


class _Worker:
    def __init__(self, config: dict[str, Any], channel: Channel, control: Control) -> None:
        self._channel = channel
        self._control = control
        self._words, self._times = control.words, control.times
        self._patience = Patience()
        self._mail_read = 0
        self._waited = 0.0  # seconds before what is in hand, if any
        self._number = config["number"]
        self._host = Host(
            seed=config["seed"],
            traced=config["traced"],
            max_message=config["max_message"],
            threads=config["threads"],
            may_leave=config["may_leave"],
            data_only=config["data_only"],
            alone=True,
            mark=_marker(control),
            tell=self._tell,
            ready=self._ready,
        )
        self._closing = False

    def tag(self) -> str:
        """Who is speaking: worker, pid and the member in hand."""
        member = IN_FLIGHT.get(threading.get_ident(), self._host.current)
        return f"worker {self._number} pid {os.getpid()}" + (f" member {member}" if member >= 0 else "")

    def loop(self) -> None:
        words = self._words
        poll = select.poll()
        poll.register(self._channel.fileno(), select.POLLIN)
        while not self._closing:
            bell = words[Control.BELL]
            if bell == words[Control.SERVED]:
                self._wait(poll)
                continue
            if self._mail_read != words[Control.MAIL]:
                self._read_mail()
            self._host.serve_ports()
            self._learn()  # now that whoever rang has been served
            self._times[Control.STARTED] = 0.0
            words[Control.SERVED] = bell
            fence()
            if words[Control.LISTENING] and not self._closing:
                self._channel.wake()

    def _learn(self) -> None:
        if self._waited:
            self._patience.learn(self._waited)
            self._waited = 0.0

    def _wait(self, poll: Any) -> None:
        words = self._words
        served = words[Control.SERVED]
        start = time.perf_counter()
        if not self._patience.spin(lambda: words[Control.BELL] != served):
            words[Control.ASLEEP] = 1
            fence()
            while words[Control.BELL] == served:
                if poll.poll(_LOOK_AGAIN_MS) and words[Control.BELL] == served:
                    self._discard_wakes()
            words[Control.ASLEEP] = 0
        self._waited = time.perf_counter() - start

    def _discard_wakes(self) -> None:
        # Readable without a new bell: a wake that came too late, or the end of main.
        if self._channel.receive() is not WAKE:
            os._exit(0)

    def _read_mail(self) -> None:
        while self._mail_read != self._words[Control.MAIL] and not self._closing:
            request = self._channel.receive(blocking=True)
            if request is WAKE:
                continue
            self._mail_read += 1
            self._serve(request)

    def _serve(self, request: tuple[Any, ...]) -> None:
        if request[0] == "close":
            self._closing = True
        if request[0] == "bind":
            request = self._with_shared_arrays(request)
        reply = self._host.handle(request)
        self._host.current = -1
        self._words[Control.CURRENT] = 0
        self._times[Control.STARTED] = 0.0
        try:
            self._say(("reply", reply))
        except TooLarge as error:
            self._say(("reply", (self._host.refusal(request, error), [])))

    def _with_shared_arrays(self, request: tuple[Any, ...]) -> tuple[Any, ...]:
        """A port's arrays arrive as a layout, and as a descriptor that rides on the packet."""
        op, port, method, rows, inputs, layout = request
        shared = SharedArrays(layout, self._channel.take_descriptor())
        shared.close()
        return op, port, method, rows, inputs, shared.arrays

    def _ready(self) -> None:
        """Some rows are done, others still to be run: main may be waiting for these."""
        if self._words[Control.LISTENING] > 1:
            self._channel.wake()

    def _tell(self, news: tuple[Any, ...]) -> None:
        self._say(("news", news))

    def _say(self, message: tuple[str, Any]) -> None:
        self._channel.send_blocking(message)
        self._words[Control.SPOKEN] += 1


def _marker(control: Control) -> Callable[[int], None]:
    """Notes who is called and since when, where main can see it. Hot: everything that it needs is at hand."""
    words, times, current, started, now = control.words, control.times, Control.CURRENT, Control.STARTED, time.monotonic

    def mark(member: int) -> None:
        words[current] = member + 1
        times[started] = now()

    return mark
