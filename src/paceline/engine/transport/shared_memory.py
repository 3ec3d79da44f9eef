"""Arrays in unnamed shared memory, and the control block through which two processes wake each other.

memfd ──► mmap ──┬─► SharedArrays   named numpy arrays, each on its own cache lines
                 └─► Control        a few words, one cache line each, one writer per word
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paceline.engine.transport.memory_file import unnamed

Array = np.ndarray[Any, Any]
Layout = Mapping[str, tuple[tuple[int, ...], str]]
"""Name → (shape, dtype string)."""

_LINE = 64


def _places(layout: Layout) -> tuple[dict[str, int], int]:
    starts, total = {}, 0
    for name, (shape, dtype) in layout.items():
        starts[name] = total
        nbytes = _nbytes(shape, dtype)
        total += nbytes + (-nbytes % _LINE)
    return starts, max(total, _LINE)


def _nbytes(shape: tuple[int, ...], dtype: str) -> int:
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class _Mapping:
    """Mapped memory that numpy can lie on. The standard `mmap` would hold a descriptor of its own all the while."""

    def __init__(self, fd: int, nbytes: int) -> None:
        place = _libc.mmap(None, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
        if place == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), f"{nbytes} bytes of shared memory could not be mapped")
        self._place, self._nbytes, self._unmap = place, nbytes, _libc.munmap
        self.__array_interface__ = {"data": (place, False), "shape": (nbytes,), "typestr": "|u1", "version": 3}

    def __del__(self) -> None:
        if hasattr(self, "_place"):
            self._unmap(self._place, self._nbytes)


def _mapped(fd: int, nbytes: int) -> Array:
    return np.asarray(_Mapping(fd, nbytes))


class SharedArrays:
    """Named arrays in one memfd; who gets the descriptor and the layout sees the same memory."""

    def __init__(self, layout: Layout, fd: int | None = None) -> None:
        starts, total = _places(layout)
        self.layout = dict(layout)
        if fd is None:
            fd = unnamed("paceline-arrays", total)
        self.fd = fd
        self.arrays = _laid_out(_mapped(fd, total), starts, layout)

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            self.close()

    def close(self) -> None:
        """Closes the descriptor; the memory itself goes when the last array does."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def plain_arrays(layout: Layout) -> dict[str, Array]:
    """The same arrays in ordinary memory, for members that live here."""
    starts, total = _places(layout)
    return _laid_out(np.zeros(total, np.uint8), starts, layout)


def _laid_out(memory: Array, starts: Mapping[str, int], layout: Layout) -> dict[str, Array]:
    return {
        name: memory[starts[name] :][: _nbytes(shape, dtype)].view(dtype).reshape(shape)
        for name, (shape, dtype) in layout.items()
    }


def span(neighbours: Sequence[Array]) -> tuple[Array, list[int]] | None:
    """The bytes from the first to the last of neighbours in a layout, and where among these each begins; None: they are
    no neighbours."""
    memory: Any = neighbours[0].base if neighbours else None
    if memory is None or any(array.base is not memory for array in neighbours):
        return None
    begins = [_address(array) - _address(memory) for array in neighbours]
    end = begins[-1] + neighbours[-1].nbytes
    return memory[begins[0] : end], [begin - begins[0] for begin in begins]


def _address(array: Array) -> int:
    place: int = array.__array_interface__["data"][0]
    return place


class Control:
    """The words that a worker and its main process tell each other without a system call.

    Each word has one writer and a cache line of its own:

        bell       main     counts everything that main has asked for, messages and rings alike
        mail       main     counts the packets that main has sent
        listening  main     1 while main sleeps until the worker has served; 2 if a part of it may be enough
        asleep     worker   1 while the worker sleeps until the bell changes
        served     worker   the bell that the worker has answered in full
        started    worker   when the call in hand began (monotonic seconds; 0: none)
        current    worker   the member in hand, plus one
        spoken     worker   counts the packets that the worker has sent
    """

    NBYTES = mmap.PAGESIZE
    BELL, MAIL, LISTENING, ASLEEP, SERVED, STARTED, CURRENT, SPOKEN = (8 * line for line in range(8))

    def __init__(self, fd: int | None = None) -> None:
        if fd is None:
            fd = unnamed("paceline-control", self.NBYTES)
        self.fd = fd
        memory = _mapped(fd, self.NBYTES)
        self.words = memory.data.cast("Q")
        self.times = memory.data.cast("d")

    def close_fd(self) -> None:
        """The mapping stays; a descriptor per worker would count against the limit of open files."""
        os.close(self.fd)
        self.fd = -1
