"""Rows of a data file, read once per process: JSON lines, a JSON array, or Parquet.

    path ── stat ──► seen before, and unchanged? ──yes──► the same tuple as last time
                          └──no──► rows ──► make(row, where) ──► a tuple, kept

A hundred environments in a process share one copy. A file that has changed since is read anew.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from paceline.errors import BadInput

Row = Mapping[str, Any]
T = TypeVar("T")

KINDS = (".jsonl", ".json", ".parquet")


def load(path: str | Path, make: Callable[[Row, str], T | None], most: int | None = None) -> tuple[T, ...]:
    """Gives what `make` makes of the rows of a file.

    Args:
        path: A file of a kind in `KINDS`.
        make: From a row and the words that name its place, "train.jsonl, line 3"; None leaves the row out. It must be a
            function of a module, because what it has made is kept under it.
        most: How many rows are read at most.

    Raises:
        BadInput: the file cannot be read, or no row can be used, or one is wrong; the message names file and line.
    """
    place = Path(path).expanduser()
    if place.suffix not in KINDS:
        raise BadInput(f"{place} is no data file: its name must end in {', '.join(KINDS)}")
    try:
        found = place.stat()
    except OSError as error:
        raise BadInput(f"{place} cannot be read: {error.strerror or error}") from error
    return _made(str(place.resolve()), found.st_mtime_ns, found.st_size, make, most)


# No lock: two threads at once may both read a file, and get the same; a lock could be held for ever after a fork.
@lru_cache(maxsize=8)
def _made(path: str, modified: int, size: int, make: Callable[[Row, str], Any], most: int | None) -> tuple[Any, ...]:
    rows = itertools.islice(_READERS[Path(path).suffix](Path(path)), most)
    made = (make(_checked(row, where), where) for where, row in rows)
    kept = tuple(item for item in made if item is not None)
    if not kept:
        raise BadInput(f"{path} has no row that can be used here")
    return kept


def _checked(row: Any, where: str) -> Row:
    if not isinstance(row, Mapping):
        raise BadInput(f"{where}: a row must be an object of named fields, not {type(row).__name__}")
    return row


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                where = f"{path}, line {number}"
                yield where, _parsed(line, where)


def _array(path: Path) -> Iterator[tuple[str, Any]]:
    rows = _parsed(path.read_bytes(), str(path))
    if not isinstance(rows, list):
        raise BadInput(f"{path} must hold one JSON array; for an object on each line, name it .jsonl")
    for number, row in enumerate(rows, 1):
        yield f"{path}, row {number}", row


def _parsed(raw: bytes, where: str) -> Any:
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise BadInput(f"{where}: not UTF-8 ({error.reason} at byte {error.start})") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where}: not JSON ({error})") from error


def _table(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise BadInput(f"to read {path}, pyarrow is needed: pip install 'paceline[llm]'") from error
    try:
        table = parquet.ParquetFile(path)
        rows = (row for batch in table.iter_batches() for row in batch.to_pylist())
        for number, row in enumerate(rows, 1):
            yield f"{path}, row {number}", row
    except (pyarrow.ArrowException, OSError) as error:
        raise BadInput(f"{path} is no Parquet file that can be read: {error}") from error


_READERS: Mapping[str, Callable[[Path], Iterator[tuple[str, Any]]]] = {
    ".jsonl": _lines,
    ".json": _array,
    ".parquet": _table,
}
