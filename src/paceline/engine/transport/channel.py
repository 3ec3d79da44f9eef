"""A line between two processes: one packet per message, large ones by an unnamed piece of shared memory.

    message ── pickle ──► head + buffers ──┬── ≤ 64 KiB ──► one packet of a SEQPACKET socket
                                           └── larger ────► memfd, its descriptor rides on the packet

Nothing here has a name in any file system, so nothing can be left behind by a process that dies. Where main trusts a
worker with data only, what comes back is written and read by plain_data.py in the place of pickle.
"""

from __future__ import annotations

import array
import contextlib
import errno
import os
import pickle
import socket
import struct
from collections import deque
from typing import Any

import numpy as np

from paceline.engine.transport import memory_file, plain_data
from paceline.engine.transport.plain_data import Plain
from paceline.errors import NotData

_PACKET = 1 << 16
_ALIGN = 64
_HEADER = struct.Struct("<BxxxIQ")  # kind, number of buffers, bytes of content
_PLAIN, _INLINE, _SHARED, _WAKE = range(4)
_PLAIN_HEADER = _HEADER.pack(_PLAIN, 0, 0)
_WAKE_PACKET = _HEADER.pack(_WAKE, 0, 0)
_FD_SPACE = socket.CMSG_SPACE(2 * 4)
# Plain ints: to or two members of socket's enum costs more than a microsecond at every call.
_FLAGS = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
_NO_SIGNAL = int(socket.MSG_NOSIGNAL)
_TAKE = int(socket.MSG_CMSG_CLOEXEC)
_TAKE_NOW = int(socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT)

WAKE = object()
"""What `receive` gives for a packet that only wakes."""

Frame = tuple[list[Any], list[int]]
"""The parts of a packet, and the descriptors that ride on it: that of the content, if it is large, then a rider."""


class Channel:
    """One end of the line. The main process never blocks in `send`; a worker may."""

    def __init__(self, sock: socket.socket, *, writes_data: bool = False, reads_data: bool = False) -> None:
        self.sock = sock
        self._writes_data = writes_data
        self._reads_data = reads_data  # and nothing else: the other end is not trusted
        self.most = 0  # bytes that a message of data may have
        self._buffer = bytearray(_PACKET + _HEADER.size)
        self._view = memoryview(self._buffer)
        self._outbox: deque[Frame] = deque()
        self._rider = -1

    def fileno(self) -> int:
        return self.sock.fileno()

    @property
    def clogged(self) -> bool:
        """Whether something still waits to be sent."""
        return bool(self._outbox)

    def send(self, frame: Frame) -> None:
        """Sends an encoded message, or keeps it until `flush` if the line is full."""
        self._outbox.append(frame)
        self.flush()

    def send_blocking(self, message: Any) -> None:
        parts, fds = encode(message, data=self._writes_data)
        _transmit(self.sock, parts, fds, _NO_SIGNAL)

    def wake(self) -> None:
        """Rings the other end out of its sleep; a full line wakes it anyway."""
        try:
            self.sock.send(_WAKE_PACKET, _FLAGS)
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            return

    def flush(self) -> None:
        """Sends what the line takes now. A line whose other end is gone takes nothing, silently: the death of
        a worker is seen by its supervisor, in one place."""
        while self._outbox:
            parts, fds = self._outbox[0]
            try:
                _transmit(self.sock, parts, fds, _FLAGS)
            except BlockingIOError:
                return
            except (BrokenPipeError, ConnectionResetError):
                _close_all(fds)
            except OSError:  # no buffers, too many descriptors under way: it cannot be said, and must not be said later
                self._cut()
                return
            self._outbox.popleft()

    def _cut(self) -> None:
        """Ends the line: the worker finds it cut and ends itself, and its supervisor sees that as any other death.

        A message that was kept would go out with the next one, and every later answer would belong to another call.
        """
        for _, fds in self._outbox:
            _close_all(fds)
        self._outbox.clear()
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def receive(self, *, blocking: bool = False) -> Any:
        """Gives the next message, or `None` if none has come.

        Raises:
            EOFError: the other end is gone and everything it sent has been read.
            NotData: it is trusted with data only, and has sent something else.
        """
        flags = _TAKE if blocking else _TAKE_NOW
        try:
            try:
                count, ancillary, _, _ = self.sock.recvmsg_into([self._buffer], _FD_SPACE, flags)
            except ConnectionResetError:
                # It died with something of ours unread. The kernel says so once, before what it had said itself.
                count, ancillary, _, _ = self.sock.recvmsg_into([self._buffer], _FD_SPACE, flags)
        except BlockingIOError:
            return None
        if count == 0:
            raise EOFError
        return self._decode_data(count, ancillary) if self._reads_data else self._decode(count, ancillary)

    def take_descriptor(self) -> int:
        """Gives the descriptor that rode on the last message."""
        if self._rider < 0:
            raise OSError(errno.EMFILE, "a descriptor did not arrive: too many open files (see ulimit -n)")
        return self._rider

    def close(self) -> None:
        for _, fds in self._outbox:
            _close_all(fds)
        self._outbox.clear()
        self.sock.close()

    def _decode(self, count: int, ancillary: list[Any]) -> Any:
        kind, buffers, total = _HEADER.unpack_from(self._buffer)
        content = self._view[_HEADER.size : count]
        if kind == _PLAIN:
            self._rider = _descriptors(ancillary)[0] if ancillary else -1
            return pickle.loads(content)
        if kind == _WAKE:
            return WAKE
        fds = _descriptors(ancillary)
        if kind == _INLINE:
            self._rider = fds[0] if fds else -1
            return _open(memoryview(bytearray(content)), buffers)
        if not fds:
            raise OSError(errno.EMFILE, "a large message could not be opened: too many open files (see ulimit -n)")
        self._rider = fds[1] if len(fds) > 1 else -1
        try:
            return _open(_read_shared(fds[0], total), buffers)
        finally:
            os.close(fds[0])

    def _decode_data(self, count: int, ancillary: list[Any]) -> Any:
        """As `_decode`, of an end that may say anything: no descriptor is kept, and no length is believed."""
        fds = _descriptors(ancillary)
        try:
            kind, buffers, total = _HEADER.unpack_from(self._view[:count])
            if kind == _WAKE:
                return WAKE
            if kind == _SHARED:
                content = self._shared_data(fds, total)
            else:
                content = memoryview(bytearray(self._view[_HEADER.size : count]))
            head, *rest = [content] if kind == _PLAIN else _pieces(content, buffers)
            return plain_data.unpack(Plain(bytes(head), rest))
        except (OSError, ValueError, struct.error) as error:
            raise NotData(f"a message of a worker cannot be read: {error}") from None
        finally:
            _close_all(fds)

    def _shared_data(self, fds: list[int], total: int) -> memoryview:
        if not fds:
            raise OSError(errno.EMFILE, "a large message could not be opened: too many open files (see ulimit -n)")
        if total > self.most or os.fstat(fds[0]).st_size < total:
            raise NotData(f"a message of {total} bytes is above the limit of {self.most}, or longer than its memory")
        return _read_shared(fds[0], total)


def _descriptors(ancillary: list[Any]) -> list[int]:
    return [fd for _, _, data in ancillary for fd in array.array("i", data)]


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def encode(message: Any, descriptor: int | None = None, *, data: bool = False) -> Frame:
    """Lays a message out as the parts of one packet, or as a packet that refers to a memfd.

    A copy of `descriptor` rides along. A message of `data` is written by plain_data.py.
    """
    head, buffers = _written_as_data(message) if data else _pickled(message)
    if not buffers and len(head) <= _PACKET:
        return [_PLAIN_HEADER, head], _copied(descriptor)
    parts, total = _layout(head, buffers)
    if total <= _PACKET:
        return [_HEADER.pack(_INLINE, len(buffers), total), b"".join(parts)], _copied(descriptor)
    return [_HEADER.pack(_SHARED, len(buffers), total)], [_write_shared(parts, total), *_copied(descriptor)]


def _pickled(message: Any) -> tuple[bytes, list[memoryview]]:
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(message, 5, buffer_callback=buffers.append)
    return head, [buffer.raw() for buffer in buffers]


def _written_as_data(message: Any) -> tuple[bytes, list[memoryview]]:
    packed = plain_data.pack(message)
    return packed.head, [memoryview(buffer) for buffer in packed.buffers]


def _copied(descriptor: int | None) -> list[int]:
    return [] if descriptor is None else [os.dup(descriptor)]


def _layout(head: bytes, buffers: list[memoryview]) -> tuple[list[Any], int]:
    """Table of lengths, head, then each buffer on a cache line of its own."""
    lengths = [len(head), *(buffer.nbytes for buffer in buffers)]
    parts: list[Any] = [struct.pack(f"<{len(lengths)}Q", *lengths)]
    total = 8 * len(lengths)
    everything: list[bytes | memoryview] = [head, *buffers]
    for part in everything:
        pad = -total % _ALIGN
        parts += [bytes(pad), part]
        total += pad + memoryview(part).nbytes
    return parts, total


def _open(content: memoryview, buffers: int) -> Any:
    head, *rest = _pieces(content, buffers)
    return pickle.loads(head, buffers=rest)


def _pieces(content: memoryview, buffers: int) -> list[memoryview]:
    lengths = struct.unpack_from(f"<{buffers + 1}Q", content)
    pieces, start = [], 8 * len(lengths)
    for length in lengths:
        start += -start % _ALIGN
        pieces.append(content[start : start + length])
        start += length
    return pieces


def _write_shared(parts: list[Any], total: int) -> int:
    fd = memory_file.unnamed("paceline", total)
    try:
        for part in parts:
            view = memoryview(part).cast("B") if memoryview(part).nbytes else memoryview(b"")
            while view.nbytes:
                view = view[os.write(fd, view) :]
    except OSError as error:
        os.close(fd)
        raise memory_file.no_room(total, error) from error
    return fd


def _read_shared(fd: int, total: int) -> memoryview:
    # Copied out, not mapped: a mapping per answer that somebody keeps would count against the kernel's limit.
    content = np.empty(total, np.uint8).data
    done = 0
    while done < total:
        count = os.preadv(fd, [content[done:]], done)
        if not count:
            raise OSError(errno.EIO, "a large message ends too early")
        done += count
    return content


def _transmit(sock: socket.socket, parts: list[Any], fds: list[int], flags: int) -> None:
    if not fds:
        sock.sendmsg(parts, (), flags)
        return
    sock.sendmsg(parts, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))], flags)
    _close_all(fds)
