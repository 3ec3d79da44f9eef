"""Tasks by name: `train` and `eval` are the sets that a world has, `draw` is its whole distribution."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from paceline.collect.given import tried
from paceline.engine import Plan
from paceline.errors import BadInput, attempt
from paceline.types import Mission

_SETS = {"train": "train_tasks", "eval": "eval_tasks"}
DRAW = "draw"
TASK_WORDS = (*_SETS, DRAW)


def named_tasks(word: str, mission: Mission, plan: Plan) -> Any:
    """The tasks that a word means: those of a set, or a function that draws one.

    Args:
        word: One of `TASK_WORDS`.
        mission: The world.
        plan: Where worlds are.

    Raises:
        BadInput: the word is none, or the world has no such tasks.
    """
    if word not in TASK_WORDS:
        raise BadInput(f"tasks={word!r}: give {', '.join(TASK_WORDS)}, tasks in a list, or a function that draws one")
    if word == DRAW and plan.trust == "data":
        raise BadInput(
            f"tasks={DRAW!r} builds {mission.name!r} in this process, and trust='data' (--untrusted) does not allow "
            "that: give 'train', 'eval', or the tasks themselves"
        )
    if word == DRAW:
        return DrawnTasks(mission)
    return tried(partial(_set_of, mission, word), mission, plan)


class DrawnTasks:
    """Draws tasks from the whole distribution of a world, which is built when the first is drawn."""

    def __init__(self, mission: Mission) -> None:
        self._mission = mission
        self._env: Any = None

    def __call__(self, rng: np.random.Generator) -> Any:
        """Draws one."""
        if self._env is None:
            self._env = _built(self._mission)
        return _attribute(self._env, "sample_tasks", self._mission, DRAW)(1, rng)[0]

    def close(self) -> None:
        """Ends the world. May be called again."""
        env, self._env = self._env, None
        if env is not None:
            _closed(env)


def _set_of(mission: Mission, word: str, _: None) -> list[Any]:
    env = _built(mission)
    try:
        found = list(_attribute(env, _SETS[word], mission, word))
    finally:
        _closed(env)
    if not found:
        raise BadInput(f"{mission.name!r} has no {word} tasks: its set is empty")
    return found


def _built(mission: Mission) -> Any:
    return attempt(mission.build, f"environment {mission.name!r}")


def _closed(env: Any) -> None:
    with suppress(Exception, SystemExit):  # told when rollouts are played
        env.close()


def _attribute(env: Any, name: str, mission: Mission, word: str) -> Any:
    for made in (env, getattr(env, "unwrapped", env)):
        if hasattr(made, name):
            return getattr(made, name)
    raise BadInput(
        f"tasks={word!r}: {mission.name!r} has no {name}, as the meta-RL worlds have; give the tasks themselves, or "
        "leave them away"
    )
