"""What Gymnasium's `Env` and PettingZoo's `ParallelEnv` promise of their answers, and what is wrong with an answer.

A complaint says whether nothing can be done with the answer, what it is about, and what is wrong in plain words.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from paceline.testing.playing import is_parallel, is_text


class BrokenPromise(Exception):
    """An answer that is not what an env of its kind gives, in words."""


Complaints = Iterator[tuple[bool, str, str]]


def about_spaces(env: Any) -> Iterator[tuple[str, str]]:
    """What is wrong with the spaces of an env, or with the names of its actions."""
    if is_text(env):
        if not all(isinstance(name, str) for name in env.action_names):
            yield "action_lookup", f"Its action_lookup gives {_shown(env.action_names)}; the names must be text"
        return
    for name in ("observation_space", "action_space"):
        for whose, space in _spaces(env, name):
            if not (hasattr(space, "contains") and hasattr(space, "sample")):
                yield name, f"Its {name}{whose} is {_shown(space)}, not a gymnasium.spaces.Space"


def _spaces(env: Any, name: str) -> Iterator[tuple[str, Any]]:
    if not is_parallel(env):
        yield "", getattr(env, name, None)
        return
    for agent in env.possible_agents:
        function = getattr(env, name, None)
        yield f"({agent!r})", function(agent) if callable(function) else function


def about_reset(env: Any, answer: Any) -> Complaints:
    """What is wrong with the answer to a reset."""
    if not (isinstance(answer, tuple) and len(answer) == 2):
        yield True, "form", f"reset() gave {_shown(answer)}; it must give a tuple (observation, info)"
        return
    observation, info = answer
    if not isinstance(info, dict):
        yield False, "info", f"The info of reset() is {_shown(info)}; it must be a dict"
    yield from _about_observation(env, observation, list(getattr(env, "agents", ())))


def about_step(env: Any, acting: list[Any], answer: Any) -> Complaints:
    """What is wrong with the answer to a step in which these agents acted."""
    if not (isinstance(answer, tuple) and len(answer) == 5):
        what = f"a tuple of {len(answer)}" if isinstance(answer, tuple) else _shown(answer)
        hint = " (a text environment gives four: examine it as text:…)" if what == "a tuple of 4" else ""
        yield True, "form", f"step() gave {what}; it must give (observation, reward, terminated, truncated, info){hint}"
        return
    observation, *parts, info = answer
    if not isinstance(info, dict):
        yield False, "info", f"The info of step() is {_shown(info)}; it must be a dict"
    yield from _about_observation(env, observation, list(env.agents) if is_parallel(env) else [])
    for name, check, part in zip(
        ("reward", "terminated", "truncated"), (_about_reward, _about_flag, _about_flag), parts, strict=True
    ):
        if not is_parallel(env):
            yield from check(name, part)
        elif isinstance(part, dict) and part.keys() >= set(acting):
            for agent in acting:
                yield from check(f"{name} of {agent!r}", part[agent])
        else:
            yield True, name, f"The {name} is {_shown(part)}; it must be a dict with every agent that acted: {acting}"


def _about_observation(env: Any, observation: Any, agents: list[Any]) -> Complaints:
    if is_text(env):
        if not isinstance(observation, str | np.ndarray | list):
            yield True, "state", f"render() gave {_shown(observation)}; a state is text, an RGB array or a list of them"
    elif not is_parallel(env):
        yield from _about_membership("The observation", observation, env.observation_space)
    elif not isinstance(observation, dict) or not observation.keys() >= set(agents):
        yield (
            True,
            "observation",
            f"The observations are {_shown(observation)}; they must be a dict with every agent: {agents}",
        )
    else:
        for agent, each in observation.items():
            yield from _about_membership(f"The observation of {agent!r}", each, env.observation_space(agent))


def _about_membership(whose: str, observation: Any, space: Any) -> Complaints:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a space warns of a type that it then refuses anyway
        inside = space.contains(observation)
    if not inside:
        yield False, "observation", f"{whose} is not in its space: {_shown(observation)} is not in {_shown(space)}"


def _about_reward(name: str, reward: Any) -> Complaints:
    if not isinstance(reward, int | float | np.number):
        yield False, "reward", f"The {name} is {_shown(reward)}; it must be a number"
    elif not math.isfinite(reward):
        yield False, "reward", f"The {name} is {reward}; it must be finite"


def _about_flag(name: str, flag: Any) -> Complaints:
    if not isinstance(flag, bool | np.bool_):
        yield False, name, f"The flag {name} is {_shown(flag)}; it must be a bool"


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        span = f" from {value.min():g} to {value.max():g}" if value.size and value.dtype.kind in "biuf" else ""
        return f"an array of {value.dtype} {value.shape}{span}"
    text = " ".join(repr(value).split())
    return text if len(text) < 80 else text[:79] + "…"
