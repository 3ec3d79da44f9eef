"""Shared arrays: memory that main writes and members read where they live, outside of messages and journals.

    SharedArrays({"rewards": ((1000,), "f8")}) ── an unnamed file in memory ──► arrays here, to be written
        pickled ──► which process has it open, and as what ──► mapped again in a worker, to be read only
                                                           └─► on another machine: copied there, as far as fetched

What is passed in a call is the place, a few bytes; the rows stay where they are. A call that is run again after a
worker's death reads them again, so main must not overwrite what a journal still needs. Memory is taken page by page as
it is written: room that stays empty costs nothing. No name is left in any file system, whatever dies.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np

from paceline.engine.transport import machine, memory_file
from paceline.errors import BadInput

Array = np.ndarray[Any, Any]
Layout = Mapping[str, tuple[tuple[int, ...], str]]
"""Name of an array → its shape and type."""
Name = tuple[int, ...]
"""The process that has memory open, the descriptor, and the inode."""
Ranges = Mapping[str, Sequence[tuple[int, int]]]
"""Name of an array → its first row and the one behind the last, once or more."""

_PAGE = mmap.PAGESIZE


class Source(Protocol):
    """Where a worker on another machine gets rows from."""

    def fetch(self, name: Name, wanted: Sequence[tuple[str, int, int, Array]]) -> None: ...


_owned: WeakValueDictionary[Name, SharedArrays] = WeakValueDictionary()
_copies: WeakValueDictionary[Name, SharedArrays] = WeakValueDictionary()  # of memory on another machine
_source: Source | None = None


class SharedArrays:
    """Arrays in memory that other processes can read: those of this machine map it, others fetch rows.

    Args:
        layout: The arrays.

    Attributes:
        layout: The arrays: name → shape and type.
        arrays: Name → array; all zeros at first. Where they came from another process they cannot be written; where
            that is on another machine, there are none before the first `fetch`.
        mapped: Whether they are the memory itself, and not a copy that holds the rows that were fetched.

    Raises:
        TooLarge: so much memory cannot be had.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout, self.mapped, self._fd, self._place = dict(layout), True, -1, (0, -1, 0)
        self._where = machine.this_machine()
        self._rows: dict[str, Array] = {}  # of a copy, to be written
        self._fd = fd = memory_file.unnamed("paceline-arrays", max(_PAGE, _extent(layout)))
        self._place = os.getpid(), fd, os.fstat(fd).st_ino
        self.arrays = _mapped(fd, layout, mmap.ACCESS_WRITE)
        _owned[self._place] = self

    def fetch(self, ranges: Ranges | None = None) -> None:
        """Copies rows from the machine that has written them, before they are read; where they are mapped, nothing.

        Args:
            ranges: Which rows of which arrays; None: all.

        Raises:
            BadInput: the arrays are gone, or the process that has them cannot be reached.
        """
        if self.mapped:
            return
        if not self.arrays:
            self.arrays = {name: _read_only(rows) for name, rows in self._rows.items()}
        if ranges is None:
            ranges = {name: [(0, len(np.atleast_1d(rows)))] for name, rows in self._rows.items()}
        wanted = [
            (name, start, stop, np.atleast_1d(self._rows[name])[start:stop])
            for name, parts in ranges.items()
            for start, stop in parts
        ]
        _the_source(self._place[0]).fetch(self._place, wanted)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that have been written to, where it is mapped."""
        return 512 * os.stat(_path(*self._place[:2])).st_blocks

    def close(self) -> None:
        """Gives the memory back once no array of it is in use; workers that have mapped it may go on reading."""
        fd, self._fd = self._fd, -1
        self.arrays = {}
        if fd >= 0 and self._place[0] == os.getpid():
            _owned.pop(self._place, None)
            os.close(fd)

    def __del__(self) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return _attached, (*self._place, self._where, self.layout)


def read_from(source: Source) -> None:
    """Arrays of processes on other machines are fetched from there."""
    global _source
    _source = source


def in_use() -> bool:
    """Whether this process has arrays that it could send."""
    return bool(_owned)


def owned(name: Name) -> SharedArrays | None:
    """Arrays of this process, if they are there still."""
    return _owned.get(name)


def _attached(pid: int, fd: int, inode: int, where: machine.Machine | None, layout: Layout) -> SharedArrays:
    """Maps what another process, or this one, has open; on another machine, makes a copy or gives the one that is in
    use: it has the rows that were fetched before."""
    found = object.__new__(SharedArrays)
    found.layout, found.mapped, found._fd, found._place = dict(layout), True, -1, (pid, fd, inode)
    found._where, found.arrays = where, {}
    if where != machine.this_machine():
        _the_source(pid)
        copy = _copies.get(found._place)
        if copy is not None:
            return copy
        found.mapped, found._rows = False, _mapped(-1, layout, mmap.ACCESS_WRITE)
        return _copies.setdefault(found._place, found)
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


def _the_source(pid: int) -> Source:
    if _source is None:
        raise BadInput(f"shared arrays of process {pid} cannot be read here: that process is on another machine")
    return _source


def _read_only(rows: Array) -> Array:
    view = rows.view()
    view.flags.writeable = False
    return view


def _path(pid: int, fd: int) -> Path:
    return Path("/proc", str(pid), "fd", str(fd))


def _size(shape: tuple[int, ...], dtype: str) -> int:
    """Whole pages, so that no two arrays share one."""
    return -(-int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize // _PAGE) * _PAGE


def _extent(layout: Layout) -> int:
    return sum(_size(*entry) for entry in layout.values())


def _mapped(fd: int, layout: Layout, access: int) -> dict[str, Array]:
    mapping = mmap.mmap(fd, max(_PAGE, _extent(layout)), access=access)
    arrays, start = {}, 0
    for name, (shape, dtype) in layout.items():
        arrays[name] = np.ndarray(shape, dtype, mapping, start)
        start += _size(shape, dtype)
    return arrays
