"""Shared arrays for workers on other machines, which cannot map them: main sends the rows that are asked for.

    ArraySource, in a worker ── whose memory, which rows of which arrays, as JSON ──► ArrayServer, a thread of main
                             ◄── b"" or why not, then the rows as they lie in memory ──┘

Both ends prove that they know the server's key before anything is said. Neither unpickles what the other says. There is
one server as long as there is a worker that may ask it: none where workers are on this machine, or nothing is shared.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Sequence
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any

import numpy as np

from paceline.engine.transport.shared_arrays import Array, Name, owned
from paceline.errors import BadInput

Wanted = Sequence[tuple[str, int, int, Array]]
"""Array, its first row, the row behind the last, and the memory that these rows are to be written to."""

_MOST = 1 << 20  # bytes of a question
_CONNECT_WITHIN, _BETWEEN_TRIES = 20.0, 0.02  # seconds


class ArrayServer:
    """Sends rows of this process's shared arrays to those who know the key.

    Args:
        host: The address of this machine that workers can reach.

    Attributes:
        address: Where it listens.
        key: What those who ask must know.
    """

    def __init__(self, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self.key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._clients: set[socket.socket] | None = set()  # None: closed
        # Daemons: a process that ends without closing its pools must not wait for workers that ask nothing more.
        self._serving: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._accept, name="paceline-arrays", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hangs up on all, and listens no more."""
        with self._lock:
            clients, self._clients = self._clients or set(), None
            for each in (self._listener, *clients):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)  # what waits in `accept` or `recv` comes back
        self._thread.join()  # from then on there are no more that serve
        for thread in self._serving:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while self._clients is not None:
            try:
                client, _ = self._listener.accept()
            except OSError:  # it is closed, or this process has too many files open
                time.sleep(_BETWEEN_TRIES)
                continue
            self._serving = [thread for thread in self._serving if thread.is_alive()]
            thread = threading.Thread(target=self._serve, args=(client,), name="paceline-arrays", daemon=True)
            self._serving.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(EOFError, OSError, AuthenticationError):
            if not self._enter(client):
                return
            try:
                with _line(os.dup(client.fileno())) as line:
                    deliver_challenge(line, self.key)
                    answer_challenge(line, self.key)
                    while True:
                        _answer(line, line.recv_bytes(_MOST))
            finally:
                self._leave(client)

    def _enter(self, client: socket.socket) -> bool:
        with self._lock:
            if self._clients is None:
                return False
            self._clients.add(client)
        _send_at_once(client)
        return True

    def _leave(self, client: socket.socket) -> None:
        with self._lock:
            if self._clients is not None:
                self._clients.discard(client)


def _answer(line: Connection[Any, Any], question: bytes) -> None:
    try:
        parts = [np.ascontiguousarray(part) for part in _asked_for(*json.loads(question))]
    except (ValueError, TypeError, KeyError) as error:
        line.send_bytes(f"{type(error).__name__}: {error}".encode())
        return
    line.send_bytes(b"")
    for part in parts:
        line.send_bytes(_raw(part))


def _asked_for(name: list[int], ranges: list[tuple[str, int, int]]) -> list[Array]:
    shared = owned(tuple(name))
    if shared is None:
        raise KeyError("these shared arrays are gone")
    arrays = shared.arrays
    return [np.atleast_1d(arrays[array])[start:stop] for array, start, stop in ranges]


class ArraySource:
    """A worker's way to the arrays of main.

    Args:
        address: Where main's server listens.
        key: What it wants to be told.
    """

    def __init__(self, address: tuple[str, int], key: bytes) -> None:
        self._address, self._key = address, key
        self._lock = threading.Lock()
        self._line: Connection[Any, Any] | None = None

    def fetch(self, name: Name, wanted: Wanted) -> None:
        """Writes rows of main's arrays where they are wanted.

        Raises:
            BadInput: the arrays are gone, or main cannot be reached.
        """
        question = json.dumps([name, [part[:3] for part in wanted]]).encode()
        with self._lock:
            line, self._line = self._line, None  # put back once the answer has been read whole
            try:
                line = line or self._connect()
                line.send_bytes(question)
                refusal = line.recv_bytes()
                if not refusal:
                    for *_, rows in wanted:
                        line.recv_bytes_into(_raw(rows))
            except (EOFError, OSError, AuthenticationError) as error:
                raise BadInput(
                    "shared arrays of a process on another machine cannot be read: its {}, port {}, does not answer "
                    "({}); workers must be able to connect to it".format(*self._address, error or "it hung up")
                ) from None
            self._line = line
        if refusal:
            raise BadInput(f"shared arrays of process {name[0]} on another machine: {refusal.decode()}")

    def _connect(self) -> Connection[Any, Any]:
        reached = socket.create_connection(self._address, timeout=_CONNECT_WITHIN)
        reached.settimeout(None)
        _send_at_once(reached)
        line = _line(reached.detach())
        answer_challenge(line, self._key)
        deliver_challenge(line, self._key)
        return line


def _line(fd: int) -> Connection[Any, Any]:
    return Connection(fd)


def _send_at_once(line: socket.socket) -> None:
    """Questions are short and wait for an answer: held back to be sent with others, each would take 40 ms."""
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _raw(rows: Array) -> memoryview:
    """The memory of rows that lie together."""
    return rows.reshape(-1).view(np.uint8).data


_lock = threading.Lock()
_server: ArrayServer | None = None
_holders = 0


def hold(host: str) -> ArrayServer:
    """The server of this process, for one more worker."""
    global _server, _holders
    with _lock:
        _server = _server or ArrayServer(host)
        _holders += 1
        return _server


def release() -> None:
    """One of the workers is gone. With the last the server ends."""
    global _server, _holders
    with _lock:
        _holders -= 1
        if not _holders and _server is not None:
            _server.close()
            _server = None
