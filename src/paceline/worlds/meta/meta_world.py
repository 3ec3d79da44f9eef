"""Meta-World's ML1: one manipulation, with goals and objects in other places from task to task.

Meta-World is a package of its own, and pins a MuJoCo that is older than Gymnasium's: install it where nothing else
needs MuJoCo. Its own benchmarks divide the tasks; train tasks and test tasks stay what they are there.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np

from paceline.errors import BadInput


class MetaWorldML1(gymnasium.Env[Any, Any]):
    """One manipulation of Meta-World. A task is one of its `Task` objects, a value that can be sent.

    Args:
        name: The manipulation: "reach-v3", "push-v3" …
        task_seed: What Meta-World draws the tasks from.

    Raises:
        BadInput: Meta-World is not installed, or has no such manipulation.
    """

    reusable: ClassVar[bool] = True

    def __init__(self, name: str = "reach-v3", task_seed: int = 0) -> None:
        self._name = name
        benchmark = _ml1(name, task_seed)
        self.train_tasks, self.eval_tasks = tuple(benchmark.train_tasks), tuple(benchmark.test_tasks)
        if shared := {task.data for task in self.train_tasks} & {task.data for task in self.eval_tasks}:
            raise BadInput(f"{len(shared)} of Meta-World's test tasks for {name!r} are train tasks, too")
        self._env = benchmark.train_classes[name]()
        self._env.set_task(self.train_tasks[0])  # before the first task it has no spaces that can be trusted
        self.observation_space, self.action_space = self._env.observation_space, self._env.action_space
        self.horizon = int(self._env.max_path_length)
        self.task: Any = None

    @property
    def n_tasks(self) -> int:
        """How many tasks the two sets have."""
        return len(self.train_tasks) + len(self.eval_tasks)

    def sample_tasks(self, count: int, generator: np.random.Generator | None = None) -> list[Any]:
        """Draws tasks from Meta-World's train tasks: it has no distribution of its own."""
        generator = self.np_random if generator is None else generator
        return [self.train_tasks[int(generator.integers(len(self.train_tasks)))] for _ in range(count)]

    def get_current_task(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Where the task puts goal and object."""
        task = self.train_tasks[0] if self.task is None else self.task
        return np.asarray(pickle.loads(task.data)["rand_vec"], dtype=np.float64).reshape(-1)

    def reset_task(self, task: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode of a task; None: one is drawn."""
        return self.reset(options={"task": task})

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode; as `TaskWorld.reset`. Meta-World's start states follow from the task alone.

        Raises:
            BadInput: it is no task of this manipulation.
        """
        super().reset(seed=seed)
        given = (options or {}).get("task")
        keeps = seed is None and self.task is not None and "task" not in (options or {})
        task = given if given is not None else self.task if keeps else self.sample_tasks(1)[0]
        if getattr(task, "env_name", None) != self._name:
            raise BadInput(f"{task!r} is no task of {self._name}: give one of train_tasks or eval_tasks")
        self._env.set_task(task)
        self.task = task
        observation, info = self._env.reset()
        return observation, dict(info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays one step."""
        observation, reward, terminated, truncated, info = self._env.step(action)
        return observation, float(reward), bool(terminated), bool(truncated), dict(info)

    def close(self) -> None:
        """Ends the simulation."""
        self._env.close()


def _ml1(name: str, seed: int) -> Any:
    try:
        import metaworld
    except ImportError as error:
        raise BadInput(
            f"Meta-World is not installed ({error}): pip install metaworld packaging, in a virtual environment of its "
            "own, because it pins another MuJoCo than Gymnasium's MuJoCo envs need"
        ) from error
    try:
        return metaworld.ML1(name, seed=seed)
    except (KeyError, ValueError) as error:
        raise BadInput(f"Meta-World has no manipulation {name!r}; its names are like 'reach-v3'") from error
