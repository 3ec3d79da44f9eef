"""Checkpoints: everything that a training goes on from, in one file that is whole or not there.

The file is a digest and a pickle: learners' snapshots are Python objects. Load only what you trust, as with any pickle.
It is written and read piece by piece, as rows can be most of what there is memory for.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import IO, Any

from paceline.errors import BadInput, NotKept

FILE = "checkpoint.pkl"
_SHARE = 0.05  # of the time that checkpoints may take
_FIRST = 1.0  # seconds before the first
_DIGEST = 32  # bytes


class Checkpoints:
    """The checkpoint of a run, written now and then.

    Args:
        path: The directory of the run.
    """

    def __init__(self, path: Path) -> None:
        self._path = path / FILE
        self._next = perf_counter() + _FIRST

    @property
    def due(self) -> bool:
        """Whether it is time for one: they take a small share of the time."""
        return perf_counter() >= self._next

    def save(self, state: Any, since: float) -> int:
        """Writes a checkpoint; `since` is when the trainer began to make it. Gives its bytes.

        Raises:
            NotKept: it cannot be written.
        """
        half = self._path.with_suffix(".part")
        try:
            with half.open("wb") as file:
                size = _write(state, file)
                file.flush()
                os.fsync(file.fileno())
            half.replace(self._path)
        except BaseException as error:
            with suppress(OSError):  # what is half written takes room, and is of no use
                half.unlink()
            if not isinstance(error, OSError):
                raise
            before = "the one before is kept" if self._path.exists() else "there is none before it"
            raise NotKept(f"{self._path} cannot be written: {error.strerror}; {before}") from error
        took = perf_counter() - since
        self._next = perf_counter() + took / _SHARE
        return size

    def load(self) -> Any:
        """What was saved last; None: nothing.

        Raises:
            BadInput: the file is damaged.
        """
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return None
        with file:
            digest = file.read(_DIGEST)
            if hashlib.file_digest(file, "sha256").digest() != digest:
                begins = "remove it, and the training begins again from its first epoch"
                raise BadInput(f"{self._path} is damaged: {begins}")
            file.seek(_DIGEST)
            return pickle.load(file)


def _write(state: Any, file: IO[bytes]) -> int:
    """Writes a digest and a pickle. Gives their bytes."""
    file.write(bytes(_DIGEST))  # the place of what is known in the end
    digested = _Digested(file)
    pickle.dump(state, digested, 5)
    size = file.tell()
    file.seek(0)
    file.write(digested.digest())
    return size


class _Digested:
    """A file, and the digest of what is written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash = file, hashlib.sha256()

    def write(self, piece: Any) -> int:
        self._hash.update(piece)
        return self._file.write(piece)

    def digest(self) -> bytes:
        return self._hash.digest()
