"""Reads what environments of other makes give back: the shapes of `reset` and `step`, and observations as text.

    (obs, info) │ obs                                       ── read_reset ──► obs
    (obs, reward, terminated, truncated, info)   Gymnasium  ┐
    (obs, reward, done, info)                    old gym    ├─ read_step ──► Result
    (obs, reward, done)                          plain      ┘

A shape that could mean two things is refused, and the message says what it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from paceline.errors import BadInput
from paceline.kinds import reward_of

MOST_NUMBERS = 400  # an array with more is no text that somebody would read


@dataclass(frozen=True)
class Result:
    """What a step gave, whatever its shape was."""

    obs: Any
    reward: float
    done: bool
    info: Mapping[str, Any]


def read_reset(answer: Any, name: str, space: Any = None) -> Any:
    """The observation of a reset: Gymnasium gives it with an info, others alone.

    Raises:
        BadInput: there are two parts, the second is no info, and the observation space has no parts.
    """
    if isinstance(answer, tuple) and len(answer) == 2:
        if isinstance(answer[1], Mapping):
            return answer[0]
        if space is not None and type(space).__name__ != "Tuple":
            raise BadInput(f"{name}.reset gave {_shape(answer)}: beside the observation its info must be a mapping")
    return answer


def read_step(answer: Any, name: str) -> Result:
    """The parts of a step.

    Raises:
        BadInput: the shape is none that is known; the message shows it.
    """
    if not isinstance(answer, tuple) or len(answer) not in (3, 4, 5):
        raise BadInput(
            f"{name}.step gave {_shape(answer)}; expected (obs, reward, terminated, truncated, info), "
            "(obs, reward, done, info) or (obs, reward, done): pass unpack=, a function that makes one of these of it"
        )
    obs, reward, *flags = answer
    info = flags.pop() if len(answer) > 3 else {}
    if not all(isinstance(flag, bool | np.bool_) for flag in flags):
        raise BadInput(
            f"{name}.step gave {_shape(answer)}: where it says whether it is over, there must be True or False"
        )
    if not isinstance(info, Mapping):
        raise BadInput(f"{name}.step gave {_shape(answer)}: its info must be a mapping")
    if len(flags) == 2:
        info = {**info, "truncated": bool(flags[1])}
    return Result(obs, read_reward(reward, name), any(map(bool, flags)), info)


def read_reward(reward: Any, name: str) -> float:
    """A reward as a number of its kind.

    Raises:
        BadInput: it is none.
    """
    if isinstance(reward, np.ndarray) and reward.size == 1:
        reward = reward.item()
    if not isinstance(reward, Real | np.bool_) or math.isnan(float(reward)):
        raise BadInput(f"{name} gave the reward {reward!r}; expected a number")
    return reward_of(reward)


def as_text(obs: Any, name: str) -> Any:
    """An observation as something to show: text, plain values printed, or an RGB picture as it is.

    Raises:
        BadInput: it cannot be printed so that it could be read.
    """
    if isinstance(obs, str):
        return obs
    if isinstance(obs, np.ndarray) and obs.dtype == np.uint8 and obs.ndim == 3 and obs.shape[2] == 3:
        return obs.copy()  # it may be the environment's own, which changes with the next step
    if isinstance(obs, Mapping):
        return "\n".join(f"{key}: {as_text(part, name)}" for key, part in obs.items())
    return str(_plain(obs, name))


def _plain(obs: Any, name: str) -> Any:
    if isinstance(obs, np.ndarray) and obs.size <= MOST_NUMBERS and obs.dtype != object:
        return obs.tolist()
    if isinstance(obs, np.generic):
        return obs.item()
    if isinstance(obs, list | tuple):
        return [_plain(part, name) for part in obs]
    if isinstance(obs, str | bool | int | float):
        return obs
    raise BadInput(
        f"{name} shows {_shape(obs)}, which has no text of its own: pass show=, from an observation to text, "
        "or show='render' if its render() gives text"
    )


def _shape(value: Any) -> str:
    """A value by its kind, for messages."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with shape {value.shape}"
    if isinstance(value, tuple):
        return f"({', '.join(type(part).__name__ for part in value)})"
    return "nothing" if value is None else f"a {type(value).__name__}"
