"""Standard output and standard error when they cannot be written to: a full disk, a limit, a reader that has gone.

    print ──► text ──► buffer ──► _Descriptor ──► the file, pipe or terminal
                                       └─ an error: the rest is dropped, the command goes on, and the end tells of it

A command whose results are on disk must not fail because its table cannot be shown. A pipe that is closed is the
reader's wish: it ends the command, and is not told.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path
from typing import Any, TextIO


class Output:
    """Standard output of the command.

    Attributes:
        results: The directory that holds the results of the command, if it keeps any.
    """

    def __init__(self) -> None:
        self.results: Path | None = None
        self._error: OSError | None = None

    def take(self) -> None:
        """Takes the place of Python's own streams. A sign that the terminal does not have is shown as its number."""
        sys.stdout = self._in_place_of(sys.stdout, self)
        sys.stderr = self._in_place_of(sys.stderr, None)

    def open(self, fd: int) -> TextIO:
        """Text that goes to a descriptor, which is closed with it."""
        return io.TextIOWrapper(io.BufferedWriter(_Descriptor(fd, self)), encoding="utf-8")

    def end(self, code: int) -> int:
        """Writes what is left. Gives the exit code: the command's own, or 1 if that is 0 and not all could be shown."""
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            return code or 1
        if self._error is None:
            return code
        where = "" if self.results is None else f"; results: {self.results}"
        print(f"error: standard output cannot be written ({self._error.strerror}){where}", file=sys.stderr)
        return code or 1

    def lose(self, error: OSError) -> None:
        """From here on there is nothing to be written to."""
        if error.errno == errno.EPIPE:
            raise error
        self._error = error

    @staticmethod
    def _in_place_of(stream: Any, output: Output | None) -> Any:
        if stream is None:  # closed, as by >&-
            return open(os.devnull, "w", encoding="utf-8")
        if not isinstance(stream, io.TextIOWrapper):
            return stream
        raw = _Descriptor(stream.fileno(), output, closefd=False)
        return io.TextIOWrapper(
            raw if stream.write_through else io.BufferedWriter(raw),  # PYTHONUNBUFFERED, python -u
            encoding=stream.encoding,
            errors="backslashreplace",
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )


class _Descriptor(io.FileIO):
    """A descriptor that is written to for as long as that is possible."""

    def __init__(self, fd: int, output: Output | None, *, closefd: bool = True) -> None:
        super().__init__(fd, "w", closefd=closefd)
        self._output, self._lost = output, False

    def write(self, data: Any, /) -> Any:
        if not self._lost:
            try:
                return super().write(data)
            except OSError as error:
                self._lost = True
                if self._output is not None:
                    self._output.lose(error)
        return len(data)


OUTPUT = Output()
