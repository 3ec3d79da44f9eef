"""A for loop over envs: the yardstick of vectors; and two of them in processes that know nothing of each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from vector_envs import Make


def action_of(space: Any, number: int) -> Any:
    """What env `number` is told in every step: the same whoever steps it, as the cost of a step may depend on it."""
    space.seed(number)
    return space.sample()


def actions_of(space: Any, envs: int) -> Any:
    return np.stack([np.asarray(action_of(space, number)) for number in range(envs)])


class Loop:
    """Steps envs one after another.

    Args:
        make: Makes one.
        numbers: Which of the envs of the whole race; each number is a seed.
    """

    def __init__(self, make: Make, numbers: Iterable[int]) -> None:
        self._envs = [make() for _ in numbers]
        self._actions = [action_of(env.action_space, number) for env, number in zip(self._envs, numbers, strict=True)]
        self._over = [False] * len(self._envs)
        for env, number in zip(self._envs, numbers, strict=True):
            env.reset(seed=number)

    def step(self) -> None:
        """Steps each once. One that is over is reset instead, which Gymnasium's vectors count as a step too."""
        over = self._over
        for place, (env, action) in enumerate(zip(self._envs, self._actions, strict=True)):
            if over[place]:
                env.reset()
                over[place] = False
            else:
                _, _, ended, cut, _ = env.step(action)
                over[place] = ended or cut

    def close(self) -> None:
        for env in self._envs:
            env.close()


_loops: list[Loop] = []  # the one of this process


def serve(asked: tuple[Make, range] | int) -> None:
    """What an unconnected process does: makes its loop, and then as many rounds as it is told."""
    if not isinstance(asked, int):
        _loops[:] = [Loop(*asked)]
        return
    for _ in range(asked):
        _loops[0].step()
