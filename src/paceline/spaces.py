"""Spaces as rows: the arrays that values of a space lie in, and how observations and actions get in and out of them.

    Dict(image=Box, pose=Tuple(Box, Discrete)) ──► leaves "o.image", "o.pose.0", "o.pose.1" ──► an array each

A space with a part that fits into no array (Text, Sequence, Graph …) has no leaves; its values travel as messages.

    observations           checked: nothing may be lost on the way into a row
    a policy's actions     cast to the action space and checked against it (`put_action`, `checked`)
    a caller's actions     handed on as they are, in the type that they have (`reader`), as Gymnasium's vectors do

Nothing is lost where integers stay what they are, at any width, and floats are rounded to the width of the space's
type: never made integers, never infinite by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter, methodcaller
from typing import TYPE_CHECKING, Any

import numpy as np

from paceline.errors import BadInput, brief

if TYPE_CHECKING:  # `import paceline` should not wait for it
    from gymnasium import spaces

Array = np.ndarray[Any, Any]
Path = tuple[Any, ...]

_NUMBER, _COPY = itemgetter(()), methodcaller("copy")


# -- layout ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """How a value lies in a row of one array."""

    shape: tuple[int, ...]
    dtype: str
    number: bool  # a single int, and given to policies and envs as one


@dataclass(frozen=True)
class Leaf(Shape):
    """One array of a space: its name, and the keys that lead to its value."""

    name: str
    path: Path


def shape_of(space: Any) -> Shape | None:
    """Gives the row of a space, or None if its values do not fit into one."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return Shape((), np.dtype(space.dtype).str, True)
    if isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete) and space.shape is not None:
        return Shape(tuple(space.shape), np.dtype(space.dtype).str, False)
    return None


def leaves(space: spaces.Space[Any], prefix: str) -> list[Leaf] | None:
    """Gives the leaves of a space, or None if it does not come down to arrays."""
    found: list[Leaf] = []
    for path, part in _parts(space, ()):
        shape = shape_of(part)
        if shape is None:
            return None
        name = ".".join([prefix, *(str(key) for key in path)])
        found.append(Leaf(shape.shape, shape.dtype, shape.number, name, path))
    return found if len({leaf.name for leaf in found}) == len(found) else None


def _parts(space: spaces.Space[Any], path: Path) -> Iterator[tuple[Path, spaces.Space[Any]]]:
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from _parts(part, (*path, key))
    elif isinstance(space, spaces.Tuple):
        for number, part in enumerate(space.spaces):
            yield from _parts(part, (*path, number))
    else:
        yield path, space


def assembled(space: spaces.Space[Any], arrays: Mapping[Path, Any], path: Path = ()) -> Any:
    """Puts arrays back into the form of a space: dicts and tuples of them."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return {key: assembled(part, arrays, (*path, key)) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(assembled(part, arrays, (*path, number)) for number, part in enumerate(space.spaces))
    return arrays[path]


def part_at(value: Any, path: Path) -> Any:
    """The part of a value that lies at a leaf.

    Raises:
        LookupError, TypeError: there is none.
    """
    for key in path:
        value = value[key]
    return value


# -- what fits into a row ----------------------------------------------------------------------------------


def fitted(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array | None:
    """A value as an array of this shape and type; None if it has another shape, or something would be lost."""
    array = _as_array(value)
    return None if array is None or array.shape != shape else _kept(array, dtype)


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
    if np.can_cast(array.dtype, kind, "safe"):
        return array.astype(kind)
    with np.errstate(over="ignore", invalid="ignore"):
        kept = array.astype(kind)
    if kind.kind == "f":
        return kept if np.isfinite(kept).all() or np.array_equal(np.isfinite(kept), np.isfinite(array)) else None
    return kept if np.array_equal(kept, array) else None


# -- observations ------------------------------------------------------------------------------------------


def same_bits(one: Any, other: Any) -> bool:
    """Whether two values have the same types, shapes and bits; of what fits into no array, whether they are one."""
    if isinstance(one, Mapping):
        alike = isinstance(other, Mapping) and one.keys() == other.keys()
        return alike and all(same_bits(part, other[name]) for name, part in one.items())
    if isinstance(one, tuple | list):
        return type(one) is type(other) and len(one) == len(other) and all(map(same_bits, one, other))
    first, second = np.asarray(one), np.asarray(other)
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()


def put_observation(row: Array, value: Any, shape: Shape, agent: str) -> None:
    """Writes what an agent sees into its row.

    Raises:
        BadInput: it has another shape than its space declares, or does not fit its type.
    """
    if type(value) is np.ndarray and value.shape == shape.shape and value.dtype == row.dtype:
        row[...] = value
        return
    kept = fitted(value, shape.shape, row.dtype)
    if kept is None:
        raise BadInput(
            f"the environment showed agent {agent!r} an observation of {_form(value)}; its observation "
            f"space declares {shape.shape} and {row.dtype}: correct the space, or the observation"
        )
    row[...] = kept


def get_observation(row: Array, shape: Shape | None) -> Any:
    """The observation as the policy gets it: its own copy."""
    return int(row) if shape is not None and shape.number else row.copy()


class Writer:
    """Writes what an env shows into its rows, one per leaf, and says what does not fit.

    Args:
        found: The leaves of the space.
        space: The space, for the message.
        who: The env, for the message.
        check: Whether values must lie in the space, and be no NaN.
    """

    def __init__(self, found: Sequence[Leaf], space: spaces.Space[Any], who: str, check: bool = False) -> None:
        self._paths = [leaf.path for leaf in found]
        self._dtypes = [np.dtype(leaf.dtype) for leaf in found]
        self._space, self.who, self._check = space, who, check
        self._plain = len(found) == 1 and not found[0].path
        # What is nearly always shown: an array of just this kind.
        self.usual = (self._dtypes[0], found[0].shape) if self._plain and not check else (None, None)

    def write(self, rows: Sequence[Array], value: Any, step: int) -> None:
        """Writes one observation.

        Raises:
            BadInput: a part is missing, has another shape than its space, or does not fit its type; names env, step and
                value.
        """
        if type(value) is np.ndarray and (value.dtype, value.shape) == self.usual:
            rows[0][...] = value
            return
        if self._check and (not self._space.contains(value) or _has_nan(value)):
            raise BadInput(self._complaint(value, step))
        if self._plain:
            self._put(rows[0], value, self._dtypes[0], value, step)
            return
        for row, path, dtype in zip(rows, self._paths, self._dtypes, strict=True):
            try:
                part = part_at(value, path)
            except (KeyError, IndexError, TypeError):
                raise BadInput(self._complaint(value, step)) from None
            self._put(row, part, dtype, value, step)

    def _put(self, row: Array, part: Any, dtype: Any, whole: Any, step: int) -> None:
        if type(part) is np.ndarray and part.dtype == dtype and part.shape == row.shape:
            row[...] = part
            return
        kept = fitted(part, row.shape, dtype)  # never broadcast
        if kept is None:
            raise BadInput(self._complaint(whole, step))
        row[...] = kept

    def _complaint(self, value: Any, step: int) -> str:
        when = f"step {step}" if step else "reset"
        return f"{self.who} showed at {when} what is none of {self._space}: {_form(value)}, {brief(value)}"


def _form(value: Any) -> str:
    array = _as_array(value)
    if array is None or array.dtype.kind == "O":
        return f"type {type(value).__name__}"
    return f"shape {array.shape} and type {array.dtype}"


def _has_nan(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_nan(part) for part in value.values())
    if isinstance(value, tuple | list):
        return any(_has_nan(part) for part in value)
    array = np.asarray(value)
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


# -- actions that a caller gives ---------------------------------------------------------------------------


def reader(space: spaces.Space[Any], found: Sequence[Leaf]) -> Callable[[Any], Any]:
    """How an env gets its action out of its row, or the first of its rows: numbers as NumPy's own, arrays as copies."""
    if len(found) == 1 and not found[0].path:
        return _NUMBER if found[0].shape == () else _COPY
    if len(found) == 1:
        return lambda row: assembled(space, {found[0].path: row[()] if row.ndim == 0 else row.copy()})
    paths = [leaf.path for leaf in found]

    def read(rows: Sequence[Array]) -> Any:
        values = [row[()] if row.ndim == 0 else row.copy() for row in rows[: len(paths)]]
        return assembled(space, dict(zip(paths, values, strict=True)))

    return read


# -- actions that a policy gives ---------------------------------------------------------------------------


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


def get_action(row: Array, shape: Shape) -> Any:
    """The action as the environment gets it."""
    return int(row) if shape.number else row.copy()


def checked(action: Any, space: Any, who: str) -> Any:
    """The same for an action that travels as a message: what fits into a row is what it would be there."""
    shape = shape_of(space)
    if shape is None:
        return action
    row = np.empty(shape.shape, shape.dtype)
    put_action(row[...], action, space, who)
    return get_action(row, shape)


def usual_action(space: Any) -> tuple[np.dtype[Any], tuple[int, ...]] | None:
    """Type and shape of the arrays that `checked` gives back as they are, but for a copy; None: there are none such."""
    shape = shape_of(space)
    if shape is None or not hasattr(space, "low") or np.dtype(shape.dtype).kind == "b":
        return None
    return np.dtype(shape.dtype), shape.shape


def bounds_of(space: Any) -> tuple[int, int] | None:
    """The least number of a Discrete, and the first beyond it; None for other spaces."""
    if getattr(space, "shape", None) == () and hasattr(space, "start"):
        return int(space.start), int(space.start + space.n)
    return None


def noop_of(space: Any) -> Any:
    """The action that does nothing, of a space that says which that is; None for others."""
    return getattr(space, "noop", None)


def _whole(action: Any, space: Any, who: str) -> int:
    """A number of a Discrete: an int, one of NumPy's, or an array without dimensions, as Stable-Baselines3 gives it.

    What Gymnasium's own Discrete takes, and no more: an array with a dimension does not say what it is a row of.
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


def _is_binary(space: Any) -> bool:
    return not hasattr(space, "low") and not hasattr(space, "nvec")


def _complaint(action: Any, space: Any, who: str, why: str) -> str:
    return f"{who} answered {brief(action, 80)}, which is no action of {space}: {why}"
