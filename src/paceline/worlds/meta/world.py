"""TaskWorld: what makes a Gymnasium env a world with tasks.

    class Wind(TaskWorld, Plane): ...        TaskWorld first, then the env whose rules the task changes

`TaskWorld` holds the task, the sets of tasks for training and evaluation, and the horizon. All draws come from the
generator that `reset(seed=…)` seeds, so `reset(seed, task)` makes a world as new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np

from paceline.errors import BadInput
from paceline.worlds.meta.tasks import Kind, Value, check_disjoint


class TaskWorld(gymnasium.Env[Any, Any]):
    """A Gymnasium env whose rules depend on a task.

    Override `tasks`, `horizon`, and what the task changes: `apply_task`, or the methods that read `self.task`.

    Args:
        num_train_tasks: How many train tasks are drawn; None: as many as the world says.
        num_eval_tasks: How many eval tasks are drawn; None: as many as the world says.
        train_tasks: The train tasks themselves.
        eval_tasks: The eval tasks themselves.
        task_seed: What the two sets are drawn from. Not the seed of `reset`: all copies of a world have the same sets.
        horizon: After how many steps an episode is cut off; None: as the world says.
        options: For the env that it stands on.

    Raises:
        BadInput: a task is of another form, is in both sets, or there are not so many different tasks.
    """

    # -- override these --------------------------------------------------------------------------------------

    tasks: Kind
    """What a task is, and the distribution that `sample_tasks` draws from."""

    horizon: int
    """After how many steps an episode is cut off; it may end earlier."""

    set_sizes: ClassVar[tuple[int, int]] = (80, 20)
    """How many train tasks and eval tasks there are unless numbers are given."""

    def apply_task(self, task: Value) -> None:
        """Changes the rules to those of a task. By default nothing: the rules may read `self.task`."""

    # -- machinery -------------------------------------------------------------------------------------------

    reusable: ClassVar[bool] = True
    """`reset(seed, task)` makes it as new, so that one env may serve many rollouts."""

    def __init__(
        self,
        *,
        num_train_tasks: int | None = None,
        num_eval_tasks: int | None = None,
        train_tasks: Iterable[Value] | None = None,
        eval_tasks: Iterable[Value] | None = None,
        task_seed: int = 0,
        horizon: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if horizon is not None:
            self.horizon = _whole("horizon", horizon, 1)
        self.task: Value = None
        """The task that is played; None before the first reset."""
        self.steps = 0
        """How many steps of the episode have been played."""
        # A stream of its own: the tasks that `reset(seed=task_seed)` draws must not be those of the sets.
        seeds = np.random.SeedSequence(_whole("task_seed", task_seed, 0), spawn_key=(1,))
        generator = np.random.default_rng(seeds)
        sizes = self.set_sizes
        self.train_tasks = self._set("train_tasks", train_tasks, num_train_tasks, sizes[0], generator, ())
        self.eval_tasks = self._set("eval_tasks", eval_tasks, num_eval_tasks, sizes[1], generator, self.train_tasks)
        check_disjoint(self.tasks, self.train_tasks, self.eval_tasks)

    def _set(
        self,
        name: str,
        given: Iterable[Value] | None,
        count: int | None,
        default: int,
        generator: np.random.Generator,
        without: tuple[Value, ...],
    ) -> tuple[Value, ...]:
        if given is None:
            return self.tasks.draw_set(
                _whole(f"num_{name}", default if count is None else count, 0), generator, without
            )
        if count is not None:
            raise BadInput(f"{name} are given, so num_{name}={count} has no meaning: leave one of the two away")
        return tuple(map(self.tasks.value, given))

    @property
    def n_tasks(self) -> int:
        """How many tasks the two sets have."""
        return len(self.train_tasks) + len(self.eval_tasks)

    def sample_tasks(self, count: int, generator: np.random.Generator | None = None) -> list[Value]:
        """Draws tasks from the whole distribution.

        Args:
            count: How many.
            generator: What draws them; by default the world's own, which `reset(seed=…)` seeds.
        """
        generator = self.np_random if generator is None else generator
        return [self.tasks.sample(generator) for _ in range(count)]

    def get_current_task(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The task that is played, as an array: what an oracle is shown.

        Raises:
            BadInput: it has not been reset, so there is none.
        """
        if self.task is None:
            raise BadInput("there is no task yet: call reset() first")
        return self.tasks.vector(self.task)

    def reset_task(self, task: Value | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode of a task.

        Args:
            task: The task's value; None: one is drawn.
        """
        return self.reset(options={"task": task})

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode.

        With a seed the world is as new: its task is the one in `options`, or else is drawn. The start state is the
        same for every task. Without a seed and without a task it is the next episode of the same task.

        Args:
            seed: Seeds the generator of the start states and of tasks that are drawn.
            options: `{"task": value}` sets the task, `{"task": None}` draws one; others are the env's.

        Raises:
            BadInput: the task is of another form.
        """
        others = dict(options or {})
        is_drawn = others.get("task", self.task if seed is None else None) is None
        given = others.pop("task", None)
        chosen = None if given is None else self.tasks.value(given)
        observation, info = super().reset(seed=seed, options=others or None)
        # A seeded reset draws even if the task is given, so that the same task is the same world however it was chosen.
        drawn = self.tasks.sample(self.np_random) if seed is not None or is_drawn else self.task
        self.task = drawn if chosen is None else chosen
        self.steps = 0
        self.apply_task(self.task)
        return observation, {**info, "task": self.task}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Plays one step; the last of the horizon cuts the episode off.

        Raises:
            BadInput: it has not been reset.
        """
        if self.task is None:
            raise BadInput("the world has no task yet: call reset() before the first step")
        observation, reward, terminated, truncated, info = super().step(action)
        self.steps += 1
        return observation, reward, terminated, truncated or self.steps >= self.horizon, info


def _whole(name: str, number: Any, least: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < least:
        raise BadInput(f"{name}={number!r} must be a whole number, {least} or more")
    return int(number)
