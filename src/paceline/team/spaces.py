"""Spaces as rows: which observations and actions fit into a row of an array, and how they get in and out.

What fits goes through shared memory without a pickle; everything else (Dict, Tuple, Text …) travels as a message.

    integers    kept as they are, at any width; what does not fit the space's type is refused
    floats      rounded to the width of the space's type; never made integers, never infinite by it
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
    kept = _kept(array, row.dtype) if array.shape == shape.shape else None
    if kept is None:
        raise BadInput(
            f"the environment showed agent {agent!r} an observation of shape {array.shape} and type {array.dtype}; "
            f"its observation space declares {shape.shape} and {row.dtype}: correct the space, or the observation"
        )
    row[...] = kept


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
    array = _as_array(action)
    if array is None or array.shape != space.shape:
        raise BadInput(_complaint(action, space, who, f"it must be an array of shape {space.shape}"))
    kept = _kept(array, row.dtype) if array.dtype.kind != "b" or _is_binary(space) else None
    if kept is None:
        why = f"its values are of type {array.dtype}, and do not all fit {row.dtype}"
        raise BadInput(_complaint(action, space, who, why))
    # A Box is no cage: many policies answer beyond its bounds, and environments clip as they see fit.
    if not (hasattr(space, "low") or space.contains(kept.astype(space.dtype))):
        raise BadInput(_complaint(action, space, who, "a value is out of its range"))
    row[...] = kept


def bounds_of(space: Any) -> tuple[int, int] | None:
    """The least number of a Discrete, and the first beyond it; None for other spaces."""
    if getattr(space, "shape", None) == () and hasattr(space, "start"):
        return int(space.start), int(space.start + space.n)
    return None


def noop_of(space: Any) -> Any:
    """The action that does nothing, of a space that says which that is; None for others."""
    return getattr(space, "noop", None)


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
    """A number of a Discrete: an int, one of NumPy's, or an array without dimensions, as Stable-Baselines3 gives it.

    What Gymnasium's own Discrete takes, and no more: of an array with a dimension nobody knows what it is a row of.
    """
    if type(action) is not int:
        array = _as_array(action)
        if array is None or array.dtype.kind not in "iu":
            raise BadInput(_complaint(action, space, who, "it must be an integer"))
        if array.shape != ():
            hint = f"an array of shape {array.shape}, where one integer is wanted"
            raise BadInput(_complaint(action, space, who, f"{hint}; answer action.item()" if array.size == 1 else hint))
        action = int(array)
    if not space.start <= action < space.start + space.n:
        least, most = int(space.start), int(space.start + space.n) - 1
        raise BadInput(_complaint(action, space, who, f"it must lie in {least} … {most}"))
    return int(action)


def _as_array(value: Any) -> Array | None:
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError):  # ragged lists; tensors that want a gradient, or live elsewhere
        return None


def _kept(array: Array, kind: np.dtype[Any]) -> Array | None:
    """The array in another type: the same integers, floats rounded to the width. None: something would be lost."""
    if array.dtype == kind:
        return array
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and kind.kind != "f"):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        kept = array.astype(kind)
    if kind.kind == "f":
        return kept if np.array_equal(np.isfinite(kept), np.isfinite(array)) else None
    return kept if np.array_equal(kept, array) else None


def _is_binary(space: Any) -> bool:
    return not hasattr(space, "low") and not hasattr(space, "nvec")


def _complaint(action: Any, space: Any, who: str, why: str) -> str:
    shown = repr(action)
    shown = shown if len(shown) < 80 else shown[:77] + "..."
    return f"{who} answered {shown}, which is no action of {space}: {why}"
