"""Arrays in unnamed shared memory, and the control block through which two processes wake each other.

memfd ──► mmap ──┬─► SharedArrays   named numpy arrays, each on its own cache lines
                 └─► Control        a few words, one cache line each, one writer per word
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Layout = Mapping[str, tuple[tuple[int, ...], str]]
"""Name → (shape, dtype string)."""

_LINE = 64


def _places(layout: Layout) -> tuple[dict[str, int], int]:
    starts, total = {}, 0
    for name, (shape, dtype) in layout.items():
        starts[name] = total
        nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        total += nbytes + (-nbytes % _LINE)
    return starts, max(total, _LINE)


class SharedArrays:
    """Named arrays in one memfd; who gets the descriptor and the layout sees the same memory."""

    def __init__(self, layout: Layout, fd: int | None = None) -> None:
        starts, total = _places(layout)
        self.layout = dict(layout)
        if fd is None:
            fd = os.memfd_create("paceline-arrays", os.MFD_CLOEXEC)
            os.ftruncate(fd, total)
        self.fd = fd
        self._memory = mmap.mmap(fd, total)
        self.arrays: dict[str, Array] = {
            name: np.frombuffer(
                self._memory, dtype, count=int(np.prod(shape, dtype=np.int64)), offset=starts[name]
            ).reshape(shape)
            for name, (shape, dtype) in layout.items()
        }

    def close(self) -> None:
        """Closes the descriptor; the memory itself goes when the last array does."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def plain_arrays(layout: Layout) -> dict[str, Array]:
    """The same arrays in ordinary memory, for members that live here."""
    return {name: np.zeros(shape, dtype) for name, (shape, dtype) in layout.items()}


class Control:
    """The words that a worker and its main process tell each other without a system call.

    Each word has one writer and a cache line of its own:

        bell       main     counts everything that main has asked for, messages and rings alike
        mail       main     counts the packets that main has sent
        listening  main     1 while main sleeps until the worker has served
        asleep     worker   1 while the worker sleeps until the bell changes
        served     worker   the bell that the worker has answered in full
        started    worker   when the call in hand began (monotonic seconds; 0: none)
        current    worker   the member in hand, plus one
    """

    NBYTES = mmap.PAGESIZE
    BELL, MAIL, LISTENING, ASLEEP, SERVED, STARTED, CURRENT = (8 * line for line in range(7))

    def __init__(self, fd: int | None = None) -> None:
        self._owned = fd is None
        if fd is None:
            fd = os.memfd_create("paceline-control", os.MFD_CLOEXEC)
            os.ftruncate(fd, self.NBYTES)
        self.fd = fd
        self._memory = mmap.mmap(fd, self.NBYTES)
        self.words = memoryview(self._memory).cast("Q")
        self.times = memoryview(self._memory).cast("d")

    def close_fd(self) -> None:
        """The mapping stays; a descriptor per worker would count against the limit of open files."""
        os.close(self.fd)
        self.fd = -1
