"""Shared arrays: memory that main writes and members read where they live, outside of messages and journals.

    SharedArrays({"rewards": ((1000,), "f8")}) ── an unnamed file in memory ──► arrays here, to be written
        pickled ──► which process has it open, and as what ──► mapped again in a worker, to be read only

What is passed in a call is the place, a few bytes; the rows stay where they are. A call that is run again after a
worker's death reads them again, so main must not overwrite what a journal still needs. Memory is taken page by page as
it is written: room that stays empty costs nothing. No name is left in any file system, whatever dies.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paceline.errors import BadInput

Array = np.ndarray[Any, Any]
Layout = Mapping[str, tuple[tuple[int, ...], str]]
"""Name of an array → its shape and type."""

_PAGE = mmap.PAGESIZE


class SharedArrays:
    """Arrays in memory that other processes of this machine can read.

    Args:
        layout: The arrays.

    Attributes:
        arrays: Name → array; all zeros at first. Of a copy that came from another process they cannot be written.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout, self._fd, self._place = dict(layout), -1, (0, -1, 0)
        self._fd = fd = os.memfd_create("paceline-arrays", os.MFD_CLOEXEC)
        os.ftruncate(fd, max(_PAGE, _extent(layout)))
        self._place = os.getpid(), fd, os.fstat(fd).st_ino
        self.arrays = _mapped(fd, layout, mmap.ACCESS_WRITE)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that have been written to."""
        return 512 * os.stat(_path(*self._place[:2])).st_blocks

    def close(self) -> None:
        """Gives the memory back once no array of it is in use; workers that have mapped it may go on reading."""
        fd, self._fd = self._fd, -1
        self.arrays = {}
        if fd >= 0 and self._place[0] == os.getpid():
            os.close(fd)

    def __del__(self) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return _attached, (*self._place, self._layout)


def _attached(pid: int, fd: int, inode: int, layout: Layout) -> SharedArrays:
    """Maps what another process, or this one, has open."""
    found = object.__new__(SharedArrays)
    found._layout, found._fd, found._place = dict(layout), -1, (pid, fd, inode)
    try:
        opened = os.open(_path(pid, fd), os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise BadInput(f"shared arrays of process {pid} cannot be read here: {error}; is it on this machine?") from None
    try:
        if os.fstat(opened).st_ino != inode:
            raise BadInput(f"shared arrays of process {pid} are gone: another file is open in their place")
        found.arrays = _mapped(opened, layout, mmap.ACCESS_READ)
    finally:
        os.close(opened)
    return found


def _path(pid: int, fd: int) -> Path:
    return Path("/proc", str(pid), "fd", str(fd))


def _size(shape: tuple[int, ...], dtype: str) -> int:
    """Whole pages, so that no two arrays share one."""
    return -(-int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize // _PAGE) * _PAGE


def _extent(layout: Layout) -> int:
    return sum(_size(*entry) for entry in layout.values())


def _mapped(fd: int, layout: Layout, access: int) -> dict[str, Array]:
    memory = mmap.mmap(fd, max(_PAGE, _extent(layout)), access=access)
    arrays, start = {}, 0
    for name, (shape, dtype) in layout.items():
        arrays[name] = np.ndarray(shape, dtype, memory, start)
        start += _size(shape, dtype)
    return arrays
