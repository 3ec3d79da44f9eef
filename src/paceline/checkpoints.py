"""Checkpoints: everything that a training goes on from, in one file that is whole or not there.

The file is a digest and a pickle: learners' snapshots are Python objects. Load only what you trust, as with any pickle.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

from paceline.errors import BadInput, NotKept

FILE = "checkpoint.pkl"
_SHARE = 0.05  # of the time that checkpoints may take
_FIRST = 1.0  # seconds before the first


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
        content = pickle.dumps(state, 5)
        half = self._path.with_suffix(".part")
        try:
            with half.open("wb") as file:
                file.write(hashlib.sha256(content).digest())
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            half.replace(self._path)
        except OSError as error:
            with suppress(OSError):  # what is half written takes room, and is of no use
                half.unlink()
            before = "the one before is kept" if self._path.exists() else "there is none before it"
            raise NotKept(f"{self._path} cannot be written: {error.strerror}; {before}") from error
        took = perf_counter() - since
        self._next = perf_counter() + took / _SHARE
        return len(content)

    def load(self) -> Any:
        """What was saved last; None: nothing.

        Raises:
            BadInput: the file is damaged.
        """
        try:
            raw = self._path.read_bytes()
        except FileNotFoundError:
            return None
        if hashlib.sha256(raw[32:]).digest() != raw[:32]:
            raise BadInput(f"{self._path} is damaged: remove it, and the training begins again from its first epoch")
        return pickle.loads(raw[32:])
