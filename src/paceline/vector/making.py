"""How a vector is made: what the caller says, checked, and put into the words of the vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from paceline.engine import Plan, Trace
from paceline.errors import NotSendable
from paceline.vector.arguments import (
    Recipe,
    mode_of,
    planned,
    recipes_of,
    reseeds,
    root_of,
    seconds_of,
    tasks_of,
    yes_or_no,
)
from paceline.vector.env import PaceVectorEnv
from paceline.vector.instance import Rules, Tasks


def make_vec(
    env_fns: Sequence[Recipe | str | EnvSpec] | Recipe | str | EnvSpec,
    num_envs: int | None = None,
    *,
    seed: int | None = None,
    plan: str | int | Plan = "auto",
    autoreset: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    observation_mode: str | tuple[Any, Any] = "same",
    reseed: str | None = None,
    tasks: Tasks | Sequence[Any] | None = None,
    copy: bool = True,
    check: bool = False,
    deadline: float | None = None,
    trace: Trace | None = None,
    **options: Any,
) -> PaceVectorEnv:
    """Many envs as one `gymnasium.vector.VectorEnv`: what `SyncVectorEnv` gives, bit for bit, at any number of workers.

    Args:
        env_fns: A recipe per env, one recipe for all (`MyEnv`), or an id or a spec of Gymnasium.
        num_envs: How many, if there is one for all.
        seed: For the first `reset()` that is given none, and the root of `reseed`, `tasks`, and what envs draw from
            process-wide generators; None: drawn once, here, and kept in `seed`.
        plan: Where the envs live: "auto", a backend, a number of workers (0: here), or a `Plan`.
        autoreset: "NextStep", "SameStep" or "Disabled", as Gymnasium names them.
        observation_mode: "same", "different", or a pair of spaces, as `SyncVectorEnv` takes it.
        reseed: "episode": episodes that begin by themselves get seeds of their own, from (seed, env, episode).
        tasks: What episodes set up that are given none: a function of (env, episode, generator), or tasks to draw from.
        copy: Whether arrays that are returned stay as they are; False: they are written again at the next step.
        check: Whether observations must lie in their space, and hold no NaN.
        deadline: Seconds that a step or a reset of an env may take before its worker is killed; under auto, all envs
            live in processes then.
        trace: Records where the time goes.
        options: For `gymnasium.make`, if ids or specs are given.

    Raises:
        BadInput: an option makes no sense.
        NotSendable: an env cannot be built in a worker, as its recipe cannot be sent there.
    """
    limit = seconds_of(deadline)
    where = planned(plan, limit)
    recipes = recipes_of(env_fns, num_envs, options, apart=where.trust == "data")
    rules = Rules(mode_of(autoreset), root_of(seed), reseeds(reseed), tasks_of(tasks), yes_or_no("check", check))
    arrays = yes_or_no("copy", copy)
    try:
        return PaceVectorEnv(recipes, rules, where, observation_mode, arrays, limit, trace, seeded=seed is not None)
    except NotSendable as error:  # the recipe matters, not where among our lines it was packed
        raise error.with_traceback(None) from error.__cause__
