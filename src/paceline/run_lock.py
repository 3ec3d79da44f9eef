"""Run lock: one writer at a time in the directory of a run. The system lets go of it when its process ends."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from paceline.errors import BadInput
from paceline.run_files import unfollowed

LOCK = ".lock"


class RunLock:
    """Holds a directory until it is released, or the process ends.

    Args:
        path: The directory; it exists.

    Raises:
        BadInput: another writer holds it, or it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.note = ""
        """Why the directory is not held: its file system has no locks. Empty: it is held."""
        try:
            self._file = open(path / LOCK, "a+", encoding="utf-8", opener=unfollowed)  # noqa: SIM115, it is kept
        except OSError as error:
            raise BadInput(f"{path / LOCK} cannot be written: {error.strerror}; give another directory") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise self._taken(path) from error
            self.note = f"{path} cannot be locked ({error.strerror}): see to it that no other process writes into it"
        try:
            self._file.truncate(0)
            self._file.write(f"{os.getpid()}\n")
            self._file.flush()
        except OSError as error:
            with suppress(OSError):  # what could not be written cannot be written at the end, either
                self._file.close()
            raise BadInput(f"{path / LOCK} cannot be written: {error.strerror}; give another directory") from error

    def _taken(self, path: Path) -> BadInput:
        self._file.seek(0)
        holder = self._file.read().strip()
        self._file.close()
        return BadInput(
            f"another run{f' (process {holder})' if holder else ''} is writing into {path}: wait until it has ended, "
            "or give another directory; nothing was changed"
        )

    def release(self) -> None:
        """Lets others write. May be called again."""
        if not self._file.closed:
            fcntl.flock(self._file, fcntl.LOCK_UN)  # a child that was forked has this descriptor, too
            self._file.close()
