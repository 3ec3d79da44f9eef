"""Archives: rollouts in one file in NumPy's npz format, as arrays and JSON, without pickles.

rollouts ── arrays, each under a name of its own ──► rollouts.npz
         └─ everything else, with those names ─────► `about` in it, as JSON
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from io import RawIOBase
from pathlib import Path
from typing import Any

import numpy as np

from paceline.collect.jobs import Job
from paceline.collect.playing import Played
from paceline.errors import BadInput, NotKept
from paceline.run_files import anew
from paceline.types import Failure, Task

Array = np.ndarray[Any, Any]

ROLLOUTS = "rollouts.npz"
"""The file of rollouts in the directory of a run."""


def write_archive(path: Path, about: Mapping[str, Any], jobs: Sequence[Job], played: Sequence[Played]) -> Path:
    """Writes rollouts whole, or not at all.

    Args:
        path: The file; `.npz` is added if it is not there.
        about: What is written beside them: JSON.
        jobs: What was asked.
        played: What came of it, in the same order.

    Raises:
        NotKept: it cannot be written.
    """
    arrays: dict[str, Array] = {}
    content = {
        "paceline": "collection",
        **about,
        "rollouts": [
            [job.index, each.seconds, None if each.failure is None else asdict(each.failure)]
            for job, each in zip(jobs, played, strict=True)
        ],
        "columns": _written([each.columns for each in played], "r", arrays),
        "tasks": _written(
            [None if job.task is None else [job.task.key, dict(job.task.options)] for job in jobs], "t", arrays
        ),
    }
    target = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    part = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with anew(part, "xb", buffering=0) as file:
            whole = _Part(file)
            np.savez(whole, allow_pickle=False, **arrays, about=np.frombuffer(json.dumps(content).encode(), np.uint8))
            whole.check()
            os.fsync(file.fileno())
        part.replace(target)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise NotKept(f"{target} cannot be written: {error.strerror}") from error
    return target


class _Part:
    """A file that is being written. What fails is told once, at the end: a zip archive that cannot be written to its
    end complains again and again while it is closed."""

    def __init__(self, file: RawIOBase) -> None:
        self._file = file
        self._error: OSError | None = None

    def write(self, data: Any) -> int:
        """Writes all of it, unless something has failed."""
        left = memoryview(data).cast("B")
        count = len(left)
        try:
            while left and self._error is None:
                left = left[self._file.write(left) or 0 :]
        except OSError as error:
            self._error = error
        return count

    def read(self, size: int = -1) -> bytes:
        """Is there, as NumPy takes for files only what has it."""
        return self._file.read(size) or b""

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        """There is no buffer."""

    def check(self) -> None:
        """Raises what has failed."""
        if self._error is not None:
            raise self._error


def read_archive(path: Path) -> tuple[dict[str, Any], list[Job], list[Played]]:
    """Reads what `write_archive` wrote; of a directory, its file of rollouts.

    Returns:
        What was written beside the rollouts; what was asked; what came of it.

    Raises:
        BadInput: there is no such file, it is another kind of file, or has arrays that belong to no rollout.
    """
    path = path / ROLLOUTS if path.is_dir() else path
    try:
        with np.load(path, allow_pickle=False) as file:
            about = json.loads(file["about"].tobytes())
            arrays = {name: file[name] for name in file.files if name != "about"}
        columns, tasks = (_read(about[name], arrays) for name in ("columns", "tasks"))
        jobs = [
            _job(about["iteration"], index, task) for (index, _, _), task in zip(about["rollouts"], tasks, strict=True)
        ]
        played = [
            _played(index, seconds, failure, mine)
            for (index, seconds, failure), mine in zip(about["rollouts"], columns, strict=True)
        ]
    except FileNotFoundError:
        raise BadInput(f"{path} is not there") from None
    except Exception as error:  # zipfile, NumPy and what is built of it say in many ways what is wrong
        raise BadInput(f"{path} holds no collection, or is damaged: {error}") from error
    if arrays:
        raise BadInput(
            f"{path} is no collection as it was written: beside its rollouts it holds {', '.join(sorted(arrays))}"
        )
    return about, jobs, played


def _written(value: Any, name: str, arrays: dict[str, Array]) -> Any:
    """A value as JSON, with its arrays put into `arrays` under names of their own."""
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.hasobject:
            raise BadInput(f"a column of {value.dtype} objects cannot be saved: only arrays of numbers and text can")
        arrays[name] = np.asarray(value)
        return ["array", name] if isinstance(value, np.ndarray) else ["scalar", name]
    if isinstance(value, Mapping):
        return [
            "dict",
            [[key, _written(item, f"{name}.{place}", arrays)] for place, (key, item) in enumerate(value.items())],
        ]
    if isinstance(value, list | tuple):
        items = [_written(item, f"{name}.{place}", arrays) for place, item in enumerate(value)]
        return ["list" if isinstance(value, list) else "tuple", items]
    if value is None or isinstance(value, bool | int | float | str):
        return ["value", value]
    raise BadInput(
        f"a {type(value).__name__} cannot be saved with a collection: only arrays, numbers, text and containers can"
    )


def _read(shape: Any, arrays: dict[str, Array]) -> Any:
    """The value that was written so; its arrays are taken out of `arrays`, as each belongs to one place."""
    kind, content = shape
    if kind == "array":
        return arrays.pop(content)
    if kind == "scalar":
        return arrays.pop(content)[()]
    if kind == "dict":
        return {key: _read(item, arrays) for key, item in content}
    if kind in ("list", "tuple"):
        items = [_read(item, arrays) for item in content]
        return items if kind == "list" else tuple(items)
    return content


def _job(iteration: Any, index: Any, task: Any) -> Job:
    if task is None:
        return Job(_of(int | str, iteration), _of(int, index))
    key, options = task
    return Job(_of(int | str, iteration), _of(int, index), Task(_key(key), _of(dict, options)))


def _played(index: Any, seconds: Any, failure: Any, columns: Any) -> Played:
    for each in _of(dict, columns).values():
        _of(dict, each)
    return Played(index, columns, _of(float | int, seconds), None if failure is None else Failure(**failure))


def _of(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"there is {value!r:.60}")
    return value


def _key(key: Any) -> Any:
    return tuple(map(_key, key)) if isinstance(key, list) else key
