"""Makes the worlds of meta-RL by their ids, as pomdp-baselines does: here, or one in each of several processes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import gymnasium
import numpy as np

from paceline.adapters.pomdp_baselines.manager import ParallelEnvManager
from paceline.errors import BadInput
from paceline.seeds import env_seed
from paceline.worlds.meta import VariBadWrapper


def make_env(
    env_id: str,
    episodes_per_task: int,
    seed: int | None = None,
    oracle: bool = False,
    *,
    compat: Literal["varibad"] | None = None,
    **kwargs: Any,
) -> VariBadWrapper:
    """Makes a world in which several episodes of a task are one long episode.

    It is a Gymnasium env: `reset(options={"task": task})` gives (observation, info), `step` five values.

    Args:
        env_id: An id that Gymnasium knows, of a world with tasks.
        episodes_per_task: How many episodes of a task there are.
        seed: Seeds the world, as `reset(seed=seed)` does, and its action space; None: drawn afresh.
        oracle: Whether observations show the task.
        compat: As `VariBadWrapper` has it.
        kwargs: For the world: `num_train_tasks`, `num_eval_tasks`, `train_tasks`, `horizon` and others.

    Raises:
        BadInput: there is no such world, it has no tasks, or it does not take these arguments.
    """
    env = VariBadWrapper(_made(env_id, kwargs), episodes_per_task, oracle, compat)
    if seed is not None:
        env.unwrapped.np_random = np.random.default_rng(_checked(seed))  # as the first reset with this seed would
        env.action_space.seed(int(seed))
    return env


def make_parallel_env(
    env_id: str,
    episodes_per_task: int,
    num_workers: int,
    seed: int | None = None,
    oracle: bool = False,
    *,
    compat: Literal["varibad"] | None = None,
    **kwargs: Any,
) -> ParallelEnvManager:
    """Makes one such world in each of several processes.

    Worker i draws from a stream of (seed, i): its play does not depend on how many workers there are, and is neither
    that of another worker nor that of `make_env` with a seed near this one.

    Args:
        env_id: As for `make_env`.
        episodes_per_task: As for `make_env`.
        num_workers: How many processes, with a world each.
        seed: Root of all streams; None: drawn afresh.
        oracle: As for `make_env`.
        compat: As for `make_env`.
        kwargs: As for `make_env`.

    Raises:
        BadInput: as `make_env` does, or the number of workers makes no sense.
    """
    if isinstance(num_workers, bool) or not isinstance(num_workers, int | np.integer) or num_workers < 1:
        raise BadInput(f"num_workers={num_workers!r} must be a whole number, 1 or more")
    root = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else _checked(seed)
    make = partial(make_env, env_id, episodes_per_task, oracle=oracle, compat=compat, **kwargs)
    # Not seed + worker: the env for evaluation has seed + 1, and would then draw what worker 1 is trained on.
    seeds = [env_seed(root, "parallel env", worker) for worker in range(num_workers)]
    return ParallelEnvManager([partial(make, seed=each) for each in seeds], seed=root)


def _made(env_id: str, kwargs: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    try:
        return gymnasium.make(env_id, **kwargs)
    except (gymnasium.error.Error, TypeError) as error:
        given = ", ".join(f"{name}={value!r:.40}" for name, value in kwargs.items())
        raise BadInput(f"{env_id!r} cannot be made with {given or 'no arguments'}: {error}") from error


def _checked(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise BadInput(f"seed={seed!r} must be a whole number, 0 or more")
    return int(seed)
