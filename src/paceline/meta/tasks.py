"""The world of a meta-training: several episodes of a task in a row, tasks to learn on, and others to be tried on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np

from paceline.catalog.resolve import missions_of
from paceline.collect.task_sets import DrawnTasks
from paceline.errors import BadInput, attempt
from paceline.meta.references import References, references_for
from paceline.seeds import sequence
from paceline.types import Mission, Seat
from paceline.worlds.meta import VariBadWrapper
from paceline.worlds.meta.tasks import Choice, Kind

UNSEEN = 400
"""How many tasks are drawn for evaluation where no number is given."""


@dataclass(frozen=True)
class Episodes:
    """Makes a world in which several episodes of a task are one long episode.

    Attributes:
        mission: The world with tasks.
        count: How many episodes of a task there are.
        oracle: Whether observations show the task.
    """

    mission: Mission
    count: int
    oracle: bool

    def __call__(self, **options: Any) -> VariBadWrapper:
        env = self.mission.build(**options)
        if not isinstance(env, gymnasium.Env) or not hasattr(env.unwrapped, "get_current_task"):
            raise BadInput(
                f"{self.mission.name!r} is no world with tasks: it needs Gymnasium's interface, get_current_task() "
                'and a task in reset(options={"task": …}), as paceline.worlds.meta.TaskWorld has them'
            )
        return VariBadWrapper(env, self.count, self.oracle)


@dataclass(frozen=True)
class World:
    """What is learned, and on which tasks.

    Attributes:
        mission: Makes the world, with several episodes of each task in a row.
        train: Draws the task of a rollout, or the tasks that are dealt in order.
        unseen: The tasks for evaluation.
        seen: Whether those are tasks for learning, too: the world has no others.
        steps: How many steps a rollout has at most.
        seat: The agent's.
        references: What others get on these tasks, if the library knows it.
    """

    mission: Mission
    train: DrawnTasks | Sequence[Any]
    unseen: Sequence[Any]
    seen: bool
    steps: int
    seat: Seat
    references: References | None


def world_of(
    env: Any, episodes: int, oracle: bool, num_train_tasks: int | None, num_eval_tasks: int | None, device: str
) -> World:
    """The world that is meant.

    With a number of train tasks, both sets are the world's own. Without one, tasks for learning are drawn from its
    whole distribution, for each rollout anew, and those for evaluation once, the same for every seed. A world that has
    only a few tasks, or no distribution, has its own sets in any case.

    Args:
        env: A name, what makes environments, or a `Mission`.
        episodes: How many episodes of a task a rollout has.
        oracle: Whether the agent is shown the task.
        num_train_tasks: How many train tasks there are; None: as many as rollouts, or as the world says.
        num_eval_tasks: How many eval tasks there are; None: `UNSEEN`, or as many as the world says.
        device: Where networks are put.

    Raises:
        BadInput: it is no world with tasks, or has no such tasks.
    """
    found = missions_of(env)
    if len(found) != 1:
        raise BadInput(f"{env!r:.60} names {len(found)} missions; a meta-training has one")
    inner = found[0]
    if num_train_tasks is not None:
        counts = {"num_train_tasks": num_train_tasks, "num_eval_tasks": num_eval_tasks}
        given = {name: count for name, count in counts.items() if count is not None}
        inner = replace(inner, options={**inner.options, **given})
    mission = Mission(inner.name, Episodes(inner, episodes, oracle), reuse=inner.reuse)
    made: VariBadWrapper = attempt(mission.build, f"environment {inner.name!r}")
    try:
        seat = Seat("agent_0", 0, made.observation_space, made.action_space, mission.name, device)
        drawn = num_train_tasks is None and _has_many(made)
        train, unseen, seen = _drawn(made, inner, num_eval_tasks) if drawn else _sets(made, inner, num_eval_tasks)
        references = references_for(made.unwrapped, unseen, episodes)
        return World(mission, train, unseen, seen, made.horizon_bamdp, seat, references)
    finally:
        made.close()


def _has_many(world: VariBadWrapper) -> bool:
    kind = getattr(world.unwrapped, "tasks", None)
    return isinstance(kind, Kind) and not isinstance(kind, Choice)


def _drawn(world: VariBadWrapper, inner: Mission, count: int | None) -> tuple[DrawnTasks, Sequence[Any], bool]:
    generator = np.random.default_rng(sequence(0, "unseen tasks"))
    tasks = world.sample_tasks(UNSEEN if count is None else count, generator)
    return DrawnTasks(inner), tasks, False


def _sets(world: VariBadWrapper, inner: Mission, count: int | None) -> tuple[Sequence[Any], Sequence[Any], bool]:
    try:
        train, unseen = list(world.train_tasks), list(world.eval_tasks)
    except AttributeError:
        raise BadInput(
            f"{inner.name!r} has no sets of tasks: it needs train_tasks and eval_tasks, as "
            "paceline.worlds.meta.TaskWorld has them"
        ) from None
    if not train:
        raise BadInput(f"{inner.name!r} has no train tasks: give num_train_tasks")
    if not unseen:  # as many as are asked for, of those that there are
        return train, [train[number % len(train)] for number in range(len(train) if count is None else count)], True
    if count is not None and count > len(unseen):
        raise BadInput(
            f"num_eval_tasks={count}: {inner.name!r} has {len(unseen)} eval tasks; say how many train tasks there are, "
            "too (num_train_tasks), or leave it away"
        )
    return train, unseen[:count], False


def dealt(tasks: DrawnTasks | Sequence[Any]) -> Any:
    """Tasks as a collector takes them: of a set each rollout draws one, by its own stream."""
    return tasks if isinstance(tasks, DrawnTasks) else _OneOf(tasks)


class _OneOf:
    """Draws one of some tasks."""

    def __init__(self, tasks: Sequence[Any]) -> None:
        self._tasks = tasks

    def __call__(self, rng: np.random.Generator) -> Any:
        return self._tasks[int(rng.integers(len(self._tasks)))]
