"""Turns of a training as a table: one row for each action of an agent.

    an epoch's tape ── TurnLog ──► turns.csv ── finish, if asked ──► turns.parquet

The rows of an epoch are on disk before a checkpoint says that the epoch was played. A training that goes on from a
checkpoint plays the epochs after it again, so their rows are cut off first.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from paceline.errors import BadInput
from paceline.tape import Tape
from paceline.train.hosts import Name

FORMS = ("csv", "parquet")
_HEADER = ("epoch", "world", "turn", "agent", "action", "reward")


class TurnLog:
    """The turns of a training, on disk; a recorder for `train`.

    Args:
        directory: Of the run.
        form: "csv", or "parquet": then the file is rewritten as such in the end.

    Raises:
        BadInput: there is no such form, or what it needs is missing.
    """

    def __init__(self, directory: Path, form: str = "csv") -> None:
        if form not in FORMS:
            raise BadInput(f"turns are kept as {' or '.join(FORMS)}, not as {form!r}")
        if form == "parquet":
            _parquet()
        self._path, self._form = directory / "turns.csv", form
        self._file: IO[str] | None = None

    def __call__(self, epoch: int, tape: Tape) -> None:
        """Writes the rows of an epoch: world after world, agent after agent, in the order of their turns."""
        if self._file is None:
            self._file = _opened(self._path, epoch)
        rows = csv.writer(self._file)
        for name, track in tape.tracks.items():
            world, agent = cast(Name, name)
            columns = track.columns
            for turn, reward in enumerate(columns["rewards"].tolist()):
                rows.writerow([epoch, world, turn, agent, _written(columns["actions"], turn), reward])
        self._file.flush()
        os.fsync(self._file.fileno())

    def finish(self) -> None:
        """Ends the table; as Parquet if that was asked."""
        self.close()
        if self._form == "parquet" and self._path.exists():
            _rewrite(self._path, self._path.with_suffix(".parquet"))

    def close(self) -> None:
        """Ends the writing. May be called again."""
        if self._file is not None:
            self._file.close()


def _opened(path: Path, epoch: int) -> IO[str]:
    """The table, open for the rows of an epoch; rows of that epoch and later ones are cut off."""
    with path.open("a+b") as file:
        file.seek(0)
        kept = sum(_lengths_before(file, epoch))
        file.truncate(kept)
    opened = path.open("a", newline="", encoding="utf-8")
    if not kept:
        csv.writer(opened).writerow(_HEADER)
    return opened


def _lengths_before(file: IO[bytes], epoch: int) -> Iterator[int]:
    """The lengths of the lines before an epoch; half a line, left by a crash, is none of them."""
    for number, line in enumerate(file):
        if not line.endswith(b"\n") or (number and int(line.partition(b",")[0]) >= epoch):
            return
        yield len(line)


def _written(actions: Any, row: int) -> Any:
    """An action as a number, or as JSON if it has parts."""
    value = _plain(actions, row)
    return value if isinstance(value, int | float) else json.dumps(value, default=str)


def _plain(actions: Any, row: int) -> Any:
    if isinstance(actions, Mapping):
        return {name: _plain(part, row) for name, part in actions.items()}
    if isinstance(actions, tuple):
        return [_plain(part, row) for part in actions]
    value = actions[row]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _parquet() -> tuple[Any, Any, Any]:
    try:
        import pyarrow
        from pyarrow import csv as tables
        from pyarrow import parquet
    except ImportError:
        raise BadInput("turns as parquet need pyarrow: pip install 'paceline[llm]', or keep them as csv") from None
    return pyarrow, tables, parquet


def _rewrite(source: Path, target: Path) -> None:
    """Rewrites a table as Parquet, block by block; the target is there whole or not at all."""
    pyarrow, tables, parquet = _parquet()
    whole = dict.fromkeys(("epoch", "world", "turn"), pyarrow.int64())
    types = {**whole, "agent": pyarrow.string(), "reward": pyarrow.float64()}
    half = target.with_suffix(".part")
    options = tables.ConvertOptions(column_types=types)
    with (
        tables.open_csv(source, convert_options=options) as blocks,
        parquet.ParquetWriter(half, blocks.schema) as writer,
    ):
        for block in blocks:
            writer.write_batch(block)
    half.replace(target)
    source.unlink()
