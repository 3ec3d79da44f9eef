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


def has_nan(value: Any) -> bool:
    """Whether a number of an observation, or of a part of it, is NaN. Hot: evaluations look at all that is shown."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind != "f":
            return False
        # The product is NaN if a number is, and takes half as long as to ask each number.
        product = np.vdot(value, value)
        return bool(product != product and np.isnan(value).any())
    if isinstance(value, Mapping):
        return any(map(has_nan, value.values()))
    if isinstance(value, tuple | list):
        return any(map(has_nan, value))
    return isinstance(value, float | np.floating) and bool(value != value)


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

    Shapes and types are always looked at. Parts that are no arrays (Text, Sequence …) have no rows and are looked at
    only if values are checked.

    Args:
        space: The space.
        who: The env, for the message.
        check: Whether values must lie in the space, and be finite.
    """

    def __init__(self, space: spaces.Space[Any], who: str, check: bool = False) -> None:
        self._space, self.who = space, who
        self._form = _form_of(space) if check else None
        parts = [(path, part, shape_of(part)) for path, part in _parts(space, ())]
        self._leaves = [
            _Row(path, part, shape.shape, np.dtype(shape.dtype), _within(part) if check else None)
            for path, part, shape in parts
            if shape is not None
        ]
        self._others = [(path, part) for path, part, shape in parts if shape is None and check]
        self._plain = len(parts) == 1 and not parts[0][0]
        # What is nearly always shown: an array of just this kind.
        only = self._leaves[0] if self._plain and self._leaves and not check else None
        self.usual = (None, None) if only is None else (only.dtype, only.shape)

    def write(self, rows: Sequence[Array], value: Any, when: Callable[[], str]) -> None:
        """Writes one observation.

        Args:
            rows: One for each part that is an array.
            value: The observation.
            when: Says for the message when that was.

        Raises:
            BadInput: a part is missing, has another shape than its space, or does not fit its type; names env, when
                that was, the part, what was expected and what came.
        """
        if type(value) is np.ndarray and (value.dtype, value.shape) == self.usual:
            rows[0][...] = value
            return
        for row, part in zip(rows, self._read(value, when), strict=True):
            row[...] = part

    def look(self, value: Any, when: Callable[[], str]) -> None:
        """Checks one observation as `write` does, and writes it nowhere."""
        if type(value) is not np.ndarray or (value.dtype, value.shape) != self.usual:
            self._read(value, when)

    def _read(self, value: Any, when: Callable[[], str]) -> list[Array]:
        """The parts of an observation, as they lie in rows."""
        found = []
        for leaf in self._leaves:
            part = self._part(leaf.path, value, when)
            if type(part) is np.ndarray and part.dtype == leaf.dtype and part.shape == leaf.shape:
                kept: Array | None = part
            else:
                kept = fitted(part, leaf.shape, leaf.dtype)  # never broadcast
            if kept is None:
                raise self._misfit(when, leaf.path, part, f"shape {leaf.shape} and type {leaf.dtype}")
            if leaf.within is not None and not leaf.within(kept):
                raise self._misfit(when, leaf.path, part, f"finite values within its bounds{_beyond(leaf.space, kept)}")
            found.append(kept)
        for path, space in self._others:
            part = self._part(path, value, when)
            if not space.contains(part) or has_nan(part):
                raise self._misfit(when, path, part, str(space))
        if self._form is not None and not _has_form(value, self._form):
            raise self._misfit(when, (), value, "no other parts")
        return found

    def _part(self, path: Path, value: Any, when: Callable[[], str]) -> Any:
        try:
            return part_at(value, path)
        except (LookupError, TypeError):
            raise self._misfit(when, path, value, "such a part") from None

    def _misfit(self, when: Callable[[], str], path: Path, value: Any, expected: str) -> BadInput:
        key = "".join(f"[{each!r}]" for each in path)
        words = (
            f"{self.who} showed at {when()} what is none of {brief(self._space, 400)}: {f'at {key}, ' if key else ''}"
            f"expected {expected}, got {_form(value)}, {brief(value)}"
        )
        return BadInput(" ".join(words.split()))  # arrays are printed in several lines


@dataclass(frozen=True)
class _Row:
    """A part of an observation that has a row."""

    path: Path
    space: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    within: Callable[[Array], bool] | None


_SMALL = 12  # numbers: so many are compared one by one as quickly as NumPy begins


def _within(space: Any) -> Callable[[Array], bool]:
    """Whether an array of a space's shape and type lies in its bounds, and is finite."""
    kind = np.dtype(space.dtype)
    if not hasattr(space, "low"):  # whole numbers
        return lambda array: bool(space.contains(array if array.shape else array[()]))
    low, high = np.asarray(space.low, kind), np.asarray(space.high, kind)
    if kind.kind in "iu" and (low == np.iinfo(kind).min).all() and (high == np.iinfo(kind).max).all():
        return lambda _: True  # pictures, say
    if kind.kind == "f":  # infinite bounds are none; an infinite value is beyond the largest number
        most = np.finfo(kind).max
        low, high = np.maximum(low, -most), np.minimum(high, most)
    if low.size <= _SMALL:
        bounds = tuple(zip(low.ravel().tolist(), high.ravel().tolist(), strict=True))

        def small(array: Array) -> bool:
            # A NaN is neither below nor above anything, so it does not lie between.
            for (least, most), value in zip(bounds, array.ravel().tolist(), strict=True):
                if not least <= value <= most:
                    return False
            return True

        return small
    if (low == low.flat[0]).all() and (high == high.flat[0]).all():
        least, most = low.flat[0], high.flat[0]
        return lambda array: bool(least <= array.min() and array.max() <= most)  # NaN is the least, and the most
    return lambda array: bool((low <= array).all() and (array <= high).all())


def _beyond(space: Any, array: Array) -> str:
    """Which number is not within the bounds of a space, for a message."""
    if not hasattr(space, "low") or not array.ndim:
        return ""
    wrong = np.argwhere(~((space.low <= array) & (array <= space.high) & np.isfinite(array)))
    if not len(wrong):
        return ""
    place = tuple(wrong[0].tolist())
    bounds = f"{space.low[place]} to {space.high[place]}"
    return f" ({array[place]} at {list(place)}, where they are {bounds})"


def _form_of(space: Any) -> Any:
    """The keys and the numbers of parts that values of a space have: dicts and tuples of None."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return {key: _form_of(part) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_form_of(part) for part in space.spaces)
    return None


def _has_form(value: Any, form: Any) -> bool:
    """Whether a value has those parts, and no others."""
    if isinstance(form, dict):
        alike = isinstance(value, Mapping) and value.keys() == form.keys()
        return alike and all(_has_form(value[key], part) for key, part in form.items())
    if isinstance(form, tuple):
        alike = isinstance(value, tuple | list) and len(value) == len(form)
        return alike and all(map(_has_form, value, form))
    return True


def _form(value: Any) -> str:
    array = _as_array(value)
    if array is None or array.dtype.kind == "O":
        return f"type {type(value).__name__}"
    return f"shape {array.shape} and type {array.dtype}"


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
