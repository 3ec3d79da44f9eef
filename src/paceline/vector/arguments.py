"""What `make_vec` and its envs are given: made into what they need, or refused in words that say what to give."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from operator import index
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from paceline.catalog.loading import Later
from paceline.catalog.registry import recipe_of_id
from paceline.engine import Plan
from paceline.errors import BadInput, brief
from paceline.kinds import check_names_no_mission
from paceline.spaces import Array, Leaf
from paceline.vector.instance import Tasks
from paceline.vector.refusals import NotABatch

Recipe = Callable[[], gymnasium.Env[Any, Any]]

_RECIPE = "give a function that makes an env, or an id or a spec of Gymnasium"


def recipes_of(given: Any, count: int | None, options: dict[str, Any], *, apart: bool = False) -> list[Recipe]:
    """A recipe per env; `apart`: the packages of ids are not imported in this process."""
    if count is not None and not (is_whole(count) and count >= 1):
        raise BadInput(f"num_envs={count!r}; give a whole number, 1 or more")
    if isinstance(given, gymnasium.Env):
        raise BadInput(f"{given!r} is an env, and each is made where it lives: {_RECIPE}")
    if isinstance(given, str | EnvSpec) or callable(given):
        if count is None:
            raise BadInput(f"make_vec({given!r}) needs num_envs: how many of them?")
        given = [given] * int(count)
    if not isinstance(given, Iterable):
        raise BadInput(f"{given!r} is no recipe, and no list of recipes: {_RECIPE}")
    recipes = list(given)
    if count not in (None, len(recipes)):
        raise BadInput(f"num_envs={count}, but there are {len(recipes)} recipes")
    if options and not all(isinstance(recipe, str | EnvSpec) for recipe in recipes):
        raise BadInput(f"make_vec knows no option {next(iter(options))!r}; options of envs are for ids and specs")
    for recipe in recipes:
        if isinstance(recipe, str):
            check_names_no_mission(recipe)
        elif not (callable(recipe) or isinstance(recipe, EnvSpec)):
            raise BadInput(f"{recipe!r} is no recipe: {_RECIPE}")
    return [_recipe(each, options, apart) for each in recipes]


def _recipe(given: Any, options: dict[str, Any], apart: bool) -> Recipe:
    if isinstance(given, EnvSpec):
        return partial(gymnasium.make, given, **options)
    return _recipe_of_id(given, options, apart) if isinstance(given, str) else given


def _recipe_of_id(env_id: str, options: dict[str, Any], apart: bool) -> Recipe:
    if apart and ":" in env_id:
        return partial(Later(_maker, env_id), **options)
    return recipe_of_id(env_id, **options)


def _maker(env_id: str) -> Callable[..., Any]:
    """The recipe of package:Name-v0, where that package may be imported."""
    return recipe_of_id(env_id)


def root_of(seed: Any) -> int:
    """The root of all that is drawn: the seed, or one from entropy."""
    if seed is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint32)[0] >> 1)
    if not is_whole(seed) or seed < 0:
        raise BadInput(f"seed={seed!r}; give a whole number, 0 or more, or None")
    return int(seed)


def seconds_of(deadline: Any) -> float | None:
    """A deadline in seconds, as Python's number or NumPy's."""
    if deadline is None:
        return None
    if not (is_whole(deadline) or isinstance(deadline, float | np.floating)) or not deadline > 0:
        raise BadInput(f"deadline={deadline!r}; give seconds above 0, or None")
    return float(deadline)


def planned(given: str | int | Plan, deadline: float | None) -> Plan:
    """The plan, or under auto one that keeps a deadline: nobody can end a step that hangs in the caller's process."""
    plan = Plan.parse(given)
    if deadline is None or deadline == math.inf:
        return plan
    if plan.backend in ("inline", "thread") or plan.helps:
        where = "envs that the caller steps, with helps=True" if plan.helps else f"the {plan.backend} backend"
        raise BadInput(
            f"deadline={deadline:g} cannot be kept on {where}: a step that hangs there cannot be ended; "
            "give plan='process', a number of workers, or 'auto'"
        )
    return replace(plan, isolate=True) if plan.backend == "auto" else plan


def mode_of(given: str | AutoresetMode) -> AutoresetMode:
    """When envs begin again."""
    for mode in AutoresetMode:
        if given is mode or str(given).lower().replace("_", "").replace("-", "") == mode.value.lower():
            return mode
    raise BadInput(f"autoreset={given!r}; give one of {', '.join(mode.value for mode in AutoresetMode)}")


def reseeds(given: str | None) -> bool:
    """Whether episodes that begin by themselves get seeds of their own."""
    if given not in (None, "episode"):
        raise BadInput(f"reseed={given!r}; give 'episode', or leave it away")
    return given == "episode"


def tasks_of(given: Tasks | Sequence[Any] | None) -> Tasks | None:
    """What gives episodes their tasks."""
    if given is None or callable(given):
        return given
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise BadInput(f"tasks={given!r}; give a list of tasks, or a function of (env, episode, generator)")
    return partial(_drawn, list(given))


def _drawn(tasks: list[Any], env: int, episode: int, rng: np.random.Generator) -> Any:
    return tasks[int(rng.integers(len(tasks)))]


def yes_or_no(name: str, given: Any) -> bool:
    """A switch."""
    if not isinstance(given, bool | np.bool_):
        raise BadInput(f"{name}={given!r}; give True or False")
    return bool(given)


def task_each(tasks: Any, count: int) -> list[Any]:
    """A task per env."""
    if isinstance(tasks, str) or not isinstance(tasks, Sequence | np.ndarray):
        raise BadInput(f"tasks are {brief(tasks)}; give a list with one for each of {count} envs")
    if len(tasks) != count:
        raise BadInput(f"there are {len(tasks)} tasks for {count} envs")
    return list(tasks)


def seed_each(seed: Any, count: int) -> list[int | None]:
    """What `SyncVectorEnv` makes of the seed of a reset."""
    if is_whole(seed):
        if seed < 0:
            raise BadInput(f"seed={brief(seed)}; Gymnasium takes whole numbers from 0")
        return [int(seed) + number for number in range(count)]
    if isinstance(seed, str) or not isinstance(seed, Sequence | np.ndarray):
        raise BadInput(f"seed={brief(seed)}; give a whole number, a list with one for each env, or None")
    if len(seed) != count:
        raise BadInput(f"there are {len(seed)} seeds for {count} envs")
    for each in seed:
        if each is not None and not is_whole(each):
            raise BadInput(f"seed={brief(seed)}: {each!r} is no whole number")
        if each is not None and each < 0:
            raise BadInput(f"seed={brief(seed)}: {each!r}; Gymnasium takes whole numbers from 0")
    return [None if each is None else int(each) for each in seed]


def chosen_envs(envs: Any, count: int) -> list[int]:
    """The numbers of some envs, each once; None: all."""
    if envs is None:
        return list(range(count))
    found = _numbers(envs)
    for env in set(found):
        if not 0 <= env < count:
            raise BadInput(f"there is no env {env}; there are 0 to {count - 1}")
    if len(set(found)) < len(found):
        twice = next(env for env in found if found.count(env) > 1)
        raise BadInput(f"env {twice} is sent to twice at once: give every env once")
    return found


def masked_envs(options: dict[str, Any] | None, count: int) -> list[int]:
    """Takes `reset_mask` out of the options of a reset: the numbers of the envs in it, or of all."""
    if options is None or "reset_mask" not in options:
        return list(range(count))
    mask, what = options.pop("reset_mask"), "`options['reset_mask']` must"
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"{what} be a numpy array, got {type(mask)}")
    if mask.shape != (count,):
        raise ValueError(f"{what} have shape `({count},)`, got {mask.shape}")
    if mask.dtype != np.bool_:
        raise TypeError(f"{what} have `dtype=np.bool_`, got {mask.dtype}")
    if not mask.any():
        raise ValueError(f"{what} contain a boolean array with at least one True value, got reset_mask={mask}")
    return [int(number) for number in np.flatnonzero(mask)]


def _numbers(envs: Any) -> list[int]:
    try:
        listed = envs.tolist() if isinstance(envs, np.ndarray) else list(envs)
        if bool not in set(map(type, listed)):  # a mask would be taken for envs 0 and 1
            return [index(env) for env in listed]
    except TypeError:
        pass
    raise BadInput(f"envs={brief(envs)}; give a list of their numbers, or None for all")


def is_whole(value: Any) -> bool:
    """Whether that is a whole number, Python's or NumPy's, and no True."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def action_rows(part: Any, leaf: Leaf, count: int) -> Array:
    """The actions of one leaf, a row per env, in the type that they were given in: where one of so many is chosen, by
    whole numbers only."""
    array, wanted = np.asarray(part), np.dtype(leaf.dtype)
    if array.shape == ():
        raise NotABatch(f"actions of shape () ({part!r:.60}); {count} envs need {(count, *leaf.shape)}, a row for each")
    if array.shape != (count, *leaf.shape) or array.dtype.kind not in ("biu" if leaf.number else "biuf"):
        raise BadInput(
            f"actions of shape {array.shape} and type {array.dtype}; needed are {(count, *leaf.shape)} and {wanted}"
        )
    return array


def type_names(types: Sequence[str]) -> str:
    """Types of actions, as one reads them."""
    return ", ".join(np.dtype(type_).name for type_ in types)
