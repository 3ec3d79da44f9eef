"""Spaces as rows: which observations and actions fit into a row of an array, and how they get in and out.

What fits goes through shared memory without a pickle; everything else (Dict, Tuple, Text …) travels as a message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.errors import BadInput

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Shape:
    """How a value of a space lies in a row."""

    shape: tuple[int, ...]
    dtype: str
    number: bool  # a single int, and to be given as one


def shape_of(space: Any) -> Shape | None:
    """Gives the row of a space, or None if its values do not fit into one."""
    from gymnasium import spaces  # here, because `import paceline` should not wait for it

    if isinstance(space, spaces.Discrete):
        return Shape((), "<i8", True)
    if isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete) and space.shape is not None:
        return Shape(tuple(space.shape), np.dtype(space.dtype).str, False)
    return None


def put_observation(row: Array, value: Any, shape: Shape, agent: str) -> None:
    """Writes what an agent sees into its row, as its space declares it."""
    if type(value) is np.ndarray and value.shape == shape.shape and value.dtype == row.dtype:
        row[...] = value
        return
    array = np.asarray(value)
    if array.shape != shape.shape or not np.can_cast(array.dtype, row.dtype, "same_kind"):
        raise BadInput(
            f"the environment showed agent {agent!r} an observation of shape {array.shape} and type {array.dtype}; "
            f"its observation space declares {shape.shape} and {row.dtype}: correct the space, or the observation"
        )
    row[...] = array


def get_observation(row: Array, shape: Shape | None) -> Any:
    """The observation as the policy gets it: its own copy."""
    return int(row) if shape is not None and shape.number else row.copy()


def put_action(row: Array, action: Any, space: Any, who: str) -> None:
    """Writes an action into its row.

    Raises:
        BadInput: it is none of the action space; never mended, never ignored.
    """
    if space.shape == () and hasattr(space, "start"):  # Discrete
        row[...] = _whole(action, space, who)
        return
    array = np.asarray(action)
    fits = array.shape == space.shape and np.can_cast(array.dtype, row.dtype, "same_kind")
    # A Box is no cage: many policies answer beyond its bounds, and environments clip as they see fit.
    if not fits or not (hasattr(space, "low") or space.contains(array.astype(space.dtype))):
        raise BadInput(_complaint(action, space, who))
    row[...] = array


def checked(action: Any, space: Any, who: str) -> Any:
    """The same for an action that travels as a message: what fits into a row is what it would be there."""
    shape = shape_of(space)
    if shape is None:
        return action
    row = np.empty(shape.shape, shape.dtype)
    put_action(row[...], action, space, who)
    return get_action(row, shape)


def get_action(row: Array, shape: Shape) -> Any:
    """The action as the environment gets it."""
    return int(row) if shape.number else row.copy()


def _whole(action: Any, space: Any, who: str) -> int:
    # A policy may answer with an int, one of NumPy's, or an array that holds one (as SB3 does).
    if type(action) is not int:
        array = np.asarray(action)
        if array.size != 1 or array.dtype.kind not in "iu":
            raise BadInput(_complaint(action, space, who))
        action = int(array.reshape(-1)[0])
    if not space.start <= action < space.start + space.n:
        raise BadInput(_complaint(action, space, who))
    return int(action)


def _complaint(action: Any, space: Any, who: str) -> str:
    shown = repr(action)
    return f"{who} answered {shown if len(shown) < 80 else shown[:77] + '...'}, which is no action of {space}"
