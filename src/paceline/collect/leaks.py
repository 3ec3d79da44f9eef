"""The guard against leaks: a task is collected on or evaluated on, never both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from paceline.collect.jobs import Job
from paceline.errors import BadInput

SameTask = Callable[[Any], Any]
"""Equal for values that are the same task of a world."""


class Leaks:
    """What each task has been used for. Collectors of one agent share it.

    Tasks are compared by what they are, not by how they are written: 1, 1.0 and `np.float32(1)` are one task, and so
    are a tuple, a list and an array of the same numbers. A world of ours also says which values mean the same.

    Args:
        same_task: The world's own rule; None: it has none.
    """

    def __init__(self, same_task: SameTask | None = None) -> None:
        self._same_task = same_task
        self._used: dict[str, str] = {}

    def check(self, jobs: Sequence[Job], how: str) -> None:
        """Notes what tasks are used for.

        Args:
            jobs: The rollouts that are about to be played.
            how: "collected" or "evaluated".

        Raises:
            BadInput: one of the tasks has been used for the other before; then nothing is noted.
        """
        tasks = {self._key(options): (job, options) for job in jobs if (options := _options(job))}
        for key, (job, options) in tasks.items():
            known = self._used.get(key, how)
            if known != how:
                raise BadInput(
                    f"the task of rollout {job.index}, {options!r:.80}, has been {known} on before: "
                    "tasks for evaluation must be others than those that rollouts are collected on"
                )
        self._used.update(dict.fromkeys(tasks, how))

    def _key(self, options: Mapping[str, Any]) -> str:
        if self._same_task is not None and set(options) == {"task"}:
            try:
                return repr(self._same_task(options["task"]))
            except BadInput:  # no task of this world: the environment says so when it is given it
                pass
        return repr(_plain(options))


def same_task_of(world: Any) -> SameTask | None:
    """The rule of a world by which two values are the same task, if it has one."""
    kind: Any = getattr(getattr(world, "unwrapped", world), "tasks", None)
    if not (callable(getattr(kind, "key", None)) and callable(getattr(kind, "value", None))):
        return None
    return lambda task: kind.key(kind.value(task))


def _options(job: Job) -> dict[str, Any]:
    """What an environment is asked to set up; nothing, if it draws the task itself."""
    options = {} if job.task is None else dict(job.task.options)
    return {} if set(options) == {"task"} and options["task"] is None else options


def _plain(value: Any) -> Any:
    """A value without the types that it is written in: numbers as floats, sequences and arrays as tuples."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return sorted((str(name), _plain(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
