"""Archives: rollouts in one file in NumPy's npz format, as arrays and JSON, without pickles.

rollouts ── arrays, each under a name of its own ──► rollouts.npz
         └─ everything else, with those names ─────► `about` in it, as JSON
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from paceline.collect.jobs import Job
from paceline.collect.playing import Played
from paceline.errors import BadInput
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
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    with part.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays, about=np.frombuffer(json.dumps(content).encode(), np.uint8))
        file.flush()
        os.fsync(file.fileno())
    part.replace(target)
    return target


def read_archive(path: Path) -> tuple[dict[str, Any], list[Job], list[Played]]:
    """Reads what `write_archive` wrote; of a directory, its file of rollouts.

    Returns:
        What was written beside the rollouts; what was asked; what came of it.

    Raises:
        BadInput: there is no such file, or it is another kind of file.
    """
    path = path / ROLLOUTS if path.is_dir() else path
    try:
        with np.load(path, allow_pickle=False) as file:
            about = json.loads(file["about"].tobytes())
            arrays = {name: file[name] for name in file.files if name != "about"}
        columns, tasks = (_read(about[name], arrays) for name in ("columns", "tasks"))
        rollouts = about["rollouts"]
    except FileNotFoundError:
        raise BadInput(f"{path} is not there") from None
    except (KeyError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise BadInput(f"{path} holds no collection, or is damaged: {error}") from error
    jobs = [
        Job(about["iteration"], index, None if task is None else Task(_key(task[0]), task[1]))
        for (index, _, _), task in zip(rollouts, tasks, strict=True)
    ]
    played = [
        Played(index, mine, seconds, failure and Failure(**failure))
        for (index, seconds, failure), mine in zip(rollouts, columns, strict=True)
    ]
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


def _read(shape: Any, arrays: Mapping[str, Array]) -> Any:
    kind, content = shape
    if kind == "array":
        return arrays[content]
    if kind == "scalar":
        return arrays[content][()]
    if kind == "dict":
        return {key: _read(item, arrays) for key, item in content}
    if kind in ("list", "tuple"):
        items = [_read(item, arrays) for item in content]
        return items if kind == "list" else tuple(items)
    return content


def _key(key: Any) -> Any:
    return tuple(map(_key, key)) if isinstance(key, list) else key
