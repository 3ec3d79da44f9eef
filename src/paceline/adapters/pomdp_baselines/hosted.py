"""One env in a worker of a manager, and the messages that it answers.

    reset {task, seed, …}      ──► ("obs", observation)
    step action                ──► ("transition", (observation, reward, done, info))
    get_attr {attr, subattrs}  ──► ("attr", value)
    seed {seed}                ──► ("done", None)

Where `reset(seed, task)` makes an env as new, each reset has a seed of its own, so that a rebuild starts from the last
reset, and nothing of what was before has to be kept. Other envs are seeded once, and their streams go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paceline.engine import Anew
from paceline.errors import BadInput, brief
from paceline.kinds import check_gymnasium
from paceline.seeds import env_seed

Begun = tuple[int, int, dict[str, Any]]
"""The root of an env's seeds, how many resets it has had since, and the options of the last one."""


class HostedEnv:
    """An env in a worker.

    Args:
        make: Builds the env.
        worker: Its number, for messages.
        seed: For an env that its recipe leaves without a seed. The system's own entropy would be another in a rebuild.
    """

    def __init__(self, make: Callable[[], Any], worker: int, seed: int) -> None:
        self._env, self._worker = make(), worker
        check_gymnasium(self._env, f"env_fns[{worker}]", "ParallelEnvManager takes Gymnasium envs", derived=True)
        world = self._env.unwrapped
        self._is_reusable = bool(getattr(world, "reusable", False))
        is_seeded = getattr(world, "_np_random", None) is not None  # to ask `np_random` would seed it
        self._root = int(world.np_random.integers(1 << 31)) if is_seeded and self._is_reusable else seed
        self._resets = 0
        self._is_due = not is_seeded  # whether the next reset has to seed the env

    def about(self) -> dict[str, Any]:
        """What a manager shows of its envs."""
        env = self._env
        found = {name: getattr(env, name) for name in ("observation_space", "action_space", "spec")}
        names = ("n_tasks", "horizon_bamdp", "_max_episode_steps")
        return {**found, **{name: _found(env, name, None) for name in names}}

    def seed(self, seed: int) -> tuple[str, None]:
        """Begins the env's streams anew with the next reset, and those of its action space now."""
        if isinstance(seed, bool) or not hasattr(seed, "__index__") or seed < 0:
            raise BadInput(f"seed={seed!r} for worker {self._worker}: give a whole number, 0 or more")
        self._root, self._resets, self._is_due = int(seed), 0, True
        self._env.action_space.seed(self._root)
        return "done", None

    def reset(self, asked: Mapping[str, Any]) -> Any:
        """Begins the episodes of a task."""
        options = {**(asked.get("options") or {}), **_without(asked, "seed", "options")}
        if asked.get("seed") is not None:
            self.seed(asked["seed"])
        observation = self._begin(options)
        if not self._is_reusable:
            return "obs", observation
        return Anew(("obs", observation), state=(self._root, self._resets - 1, options))

    def restore(self, state: Begun) -> None:
        """Begins again as the last reset did."""
        self._root, self._resets, options = state
        self._begin(options)

    def _begin(self, options: dict[str, Any]) -> Any:
        seed = self._seed_of_reset() if self._is_reusable or self._is_due else None
        self._resets, self._is_due = self._resets + 1, False
        answer = self._env.reset(seed=seed, options=options or None)
        if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[1], Mapping):
            raise BadInput(f"env {self._worker} gave {brief(answer)} at reset: it must give (observation, info)")
        return answer[0]

    def _seed_of_reset(self) -> int:
        return self._root if self._resets == 0 else env_seed(self._root, "reset", self._resets)

    def step(self, action: Any) -> tuple[str, tuple[Any, float, bool, dict[str, Any]]]:
        """Plays one step. `info` tells an end from a cut by `TimeLimit.truncated`, and whether the goal is reached."""
        answer = self._env.step(action)
        if not isinstance(answer, tuple) or len(answer) != 5 or not isinstance(answer[4], Mapping):
            raise BadInput(
                f"env {self._worker} gave {brief(answer)} at step: it must give (observation, reward, terminated, "
                "truncated, info)"
            )
        observation, reward, terminated, truncated, info = answer
        info = dict(info)
        if terminated or truncated:
            info["TimeLimit.truncated"] = bool(truncated and not terminated)
        if hasattr(self._env.unwrapped, "is_goal_state"):
            info["is_goal_state"] = bool(self._env.unwrapped.is_goal_state())
        return "transition", (observation, float(reward), bool(terminated or truncated), info)

    def get_attr(self, name: str, subattrs: Sequence[str] = ()) -> tuple[str, Any]:
        """Gives an attribute of the env, of one of its wrappers or of what they wrap."""
        value = self._value(name, subattrs)
        path = ".".join([name, *subattrs])
        if callable(value):
            raise BadInput(f"{path!r} of worker {self._worker} is a method: call manager.unwrapped.{path}(…)")
        if value is self._env or value is self._env.unwrapped:
            raise BadInput(f"{path!r} of worker {self._worker} is an env, which stays there: ask for a value of it")
        return "attr", value

    def is_method(self, name: str) -> bool:
        """Whether an attribute of the innermost env is one to be called."""
        return callable(self._value("unwrapped", [name]))

    def ask(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Calls a method of the innermost env."""
        return getattr(self._env.unwrapped, name)(*args, **kwargs)

    def close(self) -> None:
        """Ends the env."""
        self._env.close()

    def _value(self, name: str, subattrs: Sequence[str]) -> Any:
        value = _found(self._env, name)
        for each in subattrs:
            value = getattr(value, each)
        return value


_REQUIRED = object()


def _found(env: Any, name: str, default: Any = _REQUIRED) -> Any:
    """An attribute of the outermost layer that has it."""
    if name in ("unwrapped", "env"):
        return getattr(env, name)
    if default is not _REQUIRED and not env.has_wrapper_attr(name):
        return default
    return env.get_wrapper_attr(name)


def _without(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}
