"""Steps by message, of envs whose spaces do not come down to arrays."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import numpy as np
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from paceline.engine import Pool
from paceline.errors import BadInput
from paceline.spaces import Array
from paceline.vector.refusals import not_ready


class Messages:
    """What envs are asked and what they answer, where that is not written into rows.

    Args:
        pool: The envs.
        action_space: Of all of them.
        seen_space: Of the observations of one.
        add: Adds the info of an env to those of the others.
    """

    def __init__(
        self,
        pool: Pool,
        action_space: Any,
        seen_space: Any,
        add: Callable[[dict[Any, Any], dict[str, Any], int], dict[Any, Any]],
    ) -> None:
        self._pool, self._action_space, self._seen_space, self._add = pool, action_space, seen_space, add
        self._count = len(pool)
        self.seen: list[Any] = [None] * self._count
        self._batch: Any = create_empty_array(seen_space, n=self._count, fn=np.zeros)
        self._waiting: Any = None

    @property
    def pending(self) -> bool:
        """Whether envs have been asked to step and not been waited for."""
        return self._waiting is not None

    def post(self, actions: Any) -> None:
        """Asks every env to step."""
        each = list(iterate(self._action_space, actions))
        if len(each) != self._count:
            raise BadInput(f"{len(each)} actions for {self._count} envs: {actions!r:.60}; give each its own")
        self._waiting = self._pool.post("step", {number: (action,) for number, action in enumerate(each)})

    def wait(self, timeout: float | None, copied: bool) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Waits for the envs' messages. After an interruption it can be called again: the envs step all the same."""
        wait_for(self._waiting, timeout)
        try:
            told = self._told(self._waiting.wait(), copied)
            self._pool.round_over(self._waiting)
        except Exception:
            self._waiting = None
            raise
        self._waiting = None
        return told

    def _told(self, answers: Mapping[int, Any], copied: bool) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        rewards, ended, cut = np.zeros(self._count), np.zeros(self._count, bool), np.zeros(self._count, bool)
        infos: dict[str, Any] = {}
        for number, (observation, rewards[number], ended[number], cut[number], said) in answers.items():
            self.seen[number] = observation
            for info in said:
                infos = self._add(infos, info, number)
        return self.observations(copied), rewards, ended, cut, infos

    def observations(self, copied: bool) -> Any:
        """The last observations of all envs, as a copy or in memory that is written again."""
        self._batch = concatenate(self._seen_space, self.seen, self._batch)
        return copy.deepcopy(self._batch) if copied else self._batch


def wait_for(handle: Any, timeout: float | None) -> None:
    """Waits for what was posted, for so many seconds at the most."""
    end = None if timeout is None else monotonic() + timeout
    while not handle.done:
        left = None if end is None else end - monotonic()
        if left is not None and left <= 0:
            raise not_ready("some", timeout)
        handle.go_on(left)
