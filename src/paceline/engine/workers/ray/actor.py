"""The worker's side of Ray: a Host in an actor, in a process that looks like one of the user's main.

handle(request) ──► Host ──► (news of ports, log records, reply): one parcel, so that none can overtake another
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from paceline.engine.host.host import Host
from paceline.engine.planning import budget
from paceline.engine.randomness.torch_import import TORCH_IMPORT
from paceline.engine.transport import codec, plain_data, shared_arrays
from paceline.engine.transport.machine import Machine, this_machine
from paceline.engine.transport.shared_memory import plain_arrays
from paceline.engine.workers.process import fork_client
from paceline.engine.workers.process.log_records import Fields, fields_of
from paceline.engine.workers.ray.array_server import ArraySource

_TAIL = 8192
_MARKS = (":job_id:", ":actor_name:", ":task_name:")  # lines that Ray writes for itself


class RayHost:
    """A Host in an actor."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._number = config["number"]
        self._data_only: bool = config["host"]["data_only"]
        self._news: list[Any] = []
        self._host = Host(**config["host"], tell=self._news.append)
        self._records = RecordsKept(self._tag)
        _settle_in(config, self._records)

    def __repr__(self) -> str:
        return f"worker {self._number}"  # Ray puts this before every line that the process prints

    def hello(self) -> tuple[int, Machine | None, str, dict[str, str | None]]:
        """Says which process this is, where, in which file its stderr ends, and what it was started with."""
        with contextlib.suppress(OSError):
            return os.getpid(), this_machine(), os.readlink("/proc/self/fd/2"), _started_with()
        return os.getpid(), None, "", _started_with()

    def adopt(self, environ: dict[str, str]) -> None:
        """Takes main's environment over."""
        os.environ.update(environ)

    def read_from(self, address: tuple[str, int], key: bytes) -> None:
        """Says where members get main's shared arrays from: this machine is not main's."""
        shared_arrays.read_from(ArraySource(address, key))

    def handle(self, parcel: codec.Packed) -> codec.Packed:
        """Runs one request. Members get copies: the memory of Ray's object store is read-only, and goes away.

        Where main trusts data only, the answer is bytes that neither Ray nor main unpickles."""
        request = codec.fresh(parcel)
        if request[0] == "bind":
            request = (*request[:-1], plain_arrays(request[-1]))
        reply = self._host.handle(request)
        self._host.current = -1
        said = self._news, self._records.kept, reply
        packed = plain_data.to_bytes(said) if self._data_only else pack(said)
        self._news.clear()
        self._records.kept.clear()
        return packed

    def _tag(self) -> str:
        member = self._host.current
        return f"worker {self._number} pid {os.getpid()}" + (f" member {member}" if member >= 0 else "")


class RecordsKept(logging.Handler):
    """Keeps log records, as fields, until the next reply takes them to main, whose own handlers and levels decide."""

    def __init__(self, tag: Callable[[], str]) -> None:
        super().__init__()
        self.kept: list[Fields] = []
        self._tag = tag

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.kept.append(fields_of(record, self._tag()))
        except Exception:
            self.handleError(record)


def pack(message: Any) -> codec.Packed:
    """Packs a message so that Ray's object store takes its large parts as they are."""
    packed = codec.pack(message)
    if not isinstance(packed, tuple):
        return packed
    head, buffers = packed
    return head, [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]


def _started_with() -> dict[str, str | None]:
    """What of the environment mattered when the interpreter started: read from the kernel, for os.environ changes."""
    try:
        with open("/proc/self/environ", "rb") as file:
            pairs = [pair.decode("utf-8", "replace").partition("=") for pair in file.read().split(b"\0")]
            environ = {name: value for name, _, value in pairs}
    except OSError:
        environ = dict(os.environ)
    return {name: environ.get(name) for name in fork_client.environment()}


def last_words(path: str) -> str:
    """The end of what a worker wrote to stderr, if that file is on this machine."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - _TAIL))
        lines = file.read().decode("utf-8", "replace").splitlines()
        return "\n".join(line for line in lines if not line.startswith(_MARKS)).strip()
    return ""


def _settle_in(config: dict[str, Any], records: logging.Handler) -> None:
    """Makes Ray's process look like one of the user's main; what must precede the interpreter is in its runtime_env."""
    sys.path[:] = config["sys_path"]
    with contextlib.suppress(OSError):
        os.chdir(config["cwd"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is main's to handle
    faulthandler.enable(file=2, all_threads=True)
    root = logging.getLogger()
    root.handlers[:] = [records]
    root.setLevel(config["log_level"])
    budget.assign(config["budget"])
    TORCH_IMPORT.hold_to_one_thread()
