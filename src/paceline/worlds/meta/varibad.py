"""VariBadWrapper: k episodes of one task are one long episode, in which an agent can use what it has learnt.

    reset ──► task, start state ─ steps ─► inner end: done_mdp, next start state ─ steps ─► … ─► end after k episodes

The name and its contract are VariBAD's. In one point it differs: at an inner end the observation is the state in which
the next episode starts. VariBAD shows the state in which the last one ended, on which the agent then acts in vain;
`compat="varibad"` does so, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.utils import RecordConstructorArgs

from paceline.errors import BadInput
from paceline.worlds.meta.tasks import Value

Array = np.ndarray[Any, Any]


class VariBadWrapper(gymnasium.Wrapper[Array, Any, Array, Any], RecordConstructorArgs):
    """Several episodes of one task as one long episode.

    An observation is the env's state, then the task if `oracle`, then 1 at the end of an inner episode or else 0 if
    there are several. Actions from [-1, 1] are mapped to the env's bounds. `info["done_mdp"]` says that an inner
    episode has ended, `info["terminated_mdp"]` that it ended by itself. At an inner end `info["final_obs"]` is the
    observation in which the episode ended, and `info["start_state"]` the one in which the next starts.

    Args:
        env: A world with tasks: it has `get_current_task`; `reset(options={"task": value})` sets the task, None draws
            one, and without this option and a seed `reset` keeps the task. A `TaskWorld` is one.
        episodes_per_task: How many episodes of a task there are.
        oracle: Whether observations show the task.
        compat: "varibad": at an inner end the observation is the state in which the episode ended.

    Raises:
        BadInput: the env has no tasks, its spaces cannot be used, or an argument makes no sense.
    """

    def __init__(
        self,
        env: gymnasium.Env[Array, Any],
        episodes_per_task: int,
        oracle: bool = False,
        compat: Literal["varibad"] | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(self, episodes_per_task=episodes_per_task, oracle=oracle, compat=compat)
        gymnasium.Wrapper.__init__(self, env)
        if isinstance(episodes_per_task, bool) or not isinstance(episodes_per_task, int) or episodes_per_task < 1:
            raise BadInput(f"episodes_per_task={episodes_per_task!r} must be a whole number, 1 or more")
        if compat not in (None, "varibad"):
            raise BadInput(f"compat={compat!r} is unknown; give 'varibad' or nothing")
        if not env.has_wrapper_attr("get_current_task"):
            raise BadInput(f"{env} has no tasks: it needs get_current_task() and reset(options={{'task': …}})")
        self.episodes_per_task, self.oracle, self.compat = episodes_per_task, bool(oracle), compat
        self.episode_count = 0
        """How many inner episodes have ended."""
        self.step_count_bamdp = 0
        """How many steps have been played of this task."""
        self.done_mdp = True
        """Whether the last step ended an inner episode."""
        self._state: Array | None = None
        self._shown: Array | None = None  # the task, if it is shown
        self._options: dict[str, Any] | None = None  # what the env was given beside the task
        self.action_space, self._bounds = _actions(env)
        self.observation_space = space = self._observations(env)
        self._blank: Array = np.zeros(space.shape, space.dtype)

    @property
    def horizon(self) -> int:
        """After how many steps an inner episode is cut off.

        Raises:
            BadInput: the env does not say.
        """
        if self.env.has_wrapper_attr("horizon"):
            return int(self.env.get_wrapper_attr("horizon"))
        spec = self.env.spec
        if spec is None or spec.max_episode_steps is None:
            raise BadInput(f"{self.env} has no horizon: give it an attribute `horizon`, or register max_episode_steps")
        return int(spec.max_episode_steps)

    @property
    def horizon_bamdp(self) -> int:
        """How many steps there are at most of one task."""
        return self.episodes_per_task * self.horizon

    @property
    def reusable(self) -> bool:
        """Whether `reset(seed, task)` makes it as new."""
        return bool(getattr(self.env.unwrapped, "reusable", False))

    @property
    def n_tasks(self) -> int | None:
        """How many tasks the env's sets have; None: it has no sets."""
        count: int | None = self.env.get_wrapper_attr("n_tasks")
        return count

    @property
    def train_tasks(self) -> tuple[Value, ...]:
        """The env's train tasks."""
        return tuple(self.env.get_wrapper_attr("train_tasks"))

    @property
    def eval_tasks(self) -> tuple[Value, ...]:
        """The env's eval tasks."""
        return tuple(self.env.get_wrapper_attr("eval_tasks"))

    def sample_tasks(self, count: int, generator: np.random.Generator | None = None) -> list[Value]:
        """Draws tasks from the whole distribution; see `TaskWorld.sample_tasks`."""
        tasks: list[Value] = self.env.get_wrapper_attr("sample_tasks")(count, generator)
        return tasks

    def get_current_task(self) -> Array:
        """The task that is played, as an array."""
        task: Array = self.env.get_wrapper_attr("get_current_task")()
        return task

    def reset_task(self, task: Value | None = None) -> tuple[Array, dict[str, Any]]:
        """Begins the episodes of a task; None: one is drawn."""
        return self.reset(options={"task": task})

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begins the episodes of a task.

        Args:
            seed: Seeds the env.
            options: `{"task": value}` sets the task. Without one it is drawn by the env, from the whole distribution.
        """
        state, info = self.env.reset(seed=seed, options={"task": None, **(options or {})})
        self._options = {name: option for name, option in (options or {}).items() if name != "task"} or None
        self._shown = self.get_current_task() if self.oracle else None
        self._state, self.episode_count, self.step_count_bamdp, self.done_mdp = state, 0, 0, False
        return self._observed(state, False), {**info, "done_mdp": False}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Plays one step; after the last of an inner episode the next one begins.

        Raises:
            BadInput: it has not been reset, or all episodes are over.
        """
        if self._state is None:
            raise BadInput("all episodes of this task are over, or none has begun: call reset() first")
        state, reward, terminated, truncated, info = self.env.step(self._mapped(action))
        self.step_count_bamdp += 1
        self.done_mdp = bool(terminated or truncated)
        observation = self._observed(state, self.done_mdp)
        info = {**info, "done_mdp": self.done_mdp}
        if not self.done_mdp:
            return observation, float(reward), False, False, info
        self.episode_count += 1
        info["terminated_mdp"] = bool(terminated)
        if self.episode_count == self.episodes_per_task:
            self._state = None
            return observation, float(reward), bool(terminated), bool(truncated), info
        info["final_obs"] = observation
        self._state, _ = self.env.reset(options=self._options)
        if self.compat == "varibad":
            info["start_state"] = self._observed(self._state, False)
        else:
            observation = self._observed(self._state, True)
            info["start_state"] = observation.copy()
        return observation, float(reward), False, False, info

    def _observed(self, state: Array, done: bool) -> Array:
        observation = self._blank.copy()  # [state, task if oracle, flag if there are several episodes]
        observation[: len(state)] = state
        if self._shown is not None:
            observation[len(state) : len(state) + len(self._shown)] = self._shown
        if self.episodes_per_task > 1:
            observation[-1] = done
        return observation

    def _mapped(self, action: Any) -> Any:
        if self._bounds is None:
            return action
        low, high = self._bounds
        share = (np.minimum(np.maximum(np.asarray(action, low.dtype), -1), 1) + 1) * low.dtype.type(0.5)
        return np.minimum(np.maximum(low + share * (high - low), low), high)  # np.clip takes three times as long

    def _observations(self, env: gymnasium.Env[Array, Any]) -> Box:
        space = env.observation_space
        if not isinstance(space, Box) or len(space.shape) != 1 or space.dtype is None or space.dtype.kind != "f":
            raise BadInput(
                f"{env} has observations of {space}: wrap it so that they are a row of floating-point numbers"
            )
        low, high = [space.low], [space.high]
        if self.oracle:
            size = _task_size(env)
            low, high = [*low, np.full(size, -np.inf)], [*high, np.full(size, np.inf)]
        if self.episodes_per_task > 1:
            low, high = [*low, np.zeros(1)], [*high, np.ones(1)]
        kind: Any = space.dtype.type
        return Box(np.concatenate(low).astype(kind), np.concatenate(high).astype(kind), dtype=kind)


def _task_size(env: gymnasium.Env[Array, Any]) -> int:
    if env.has_wrapper_attr("tasks"):
        return max(1, int(env.get_wrapper_attr("tasks").size))
    return len(env.get_wrapper_attr("get_current_task")())


def _actions(env: gymnasium.Env[Array, Any]) -> tuple[gymnasium.Space[Any], tuple[Array, Array] | None]:
    """The space that the agent sees, and the bounds of the env's if its actions are mapped."""
    space = env.action_space
    if not isinstance(space, Box):
        return space, None
    if not np.isfinite(space.low).all() or not np.isfinite(space.high).all():
        raise BadInput(f"{env} has actions without bounds, {space}: [-1, 1] cannot be mapped to them")
    kind: Any = space.dtype.type if space.dtype is not None else np.float32
    return Box(-1.0, 1.0, space.shape, kind), (space.low, space.high)


def inner_returns(observations: Array, rewards: Array, episodes: int) -> Array:
    """The return of each inner episode of a rollout: [episodes].

    Args:
        observations: What the agent has seen: [steps, numbers]. The last number says that an episode has just ended,
            if there are several.
        rewards: What came of its actions: [steps].
        episodes: How many inner episodes there are.
    """
    returns = np.zeros(episodes)
    begins = observations[:, -1] > 0.5 if episodes > 1 else np.zeros(len(rewards), bool)
    np.add.at(returns, np.cumsum(begins), rewards)
    return returns
