"""Leaves: a space as flat arrays, one row per env, and values in and out of them without a pickle.

    Dict(image=Box, pose=Tuple(Box, Discrete)) ──► "o.image", "o.pose.0", "o.pose.1" ──► arrays of a port

A space with a leaf that fits into no array (Text, Sequence, Graph …) has no leaves; its values travel as messages.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np
from gymnasium import spaces

from paceline.errors import BadInput

Array = np.ndarray[Any, Any]
Path = tuple[Any, ...]

_NUMBER, _COPY = itemgetter(()), methodcaller("copy")


@dataclass(frozen=True)
class Leaf:
    """One array of a space."""

    name: str
    path: Path
    shape: tuple[int, ...]
    dtype: str


def leaves(space: spaces.Space[Any], prefix: str) -> list[Leaf] | None:
    """Gives the leaves of a space, or None if it does not come down to arrays."""
    found: list[Leaf] = []
    for path, part in _parts(space, ()):
        if not isinstance(part, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
            return None
        name = ".".join([prefix, *(str(step) for step in path)])
        shape = () if isinstance(part, spaces.Discrete) else tuple(part.shape or ())
        found.append(Leaf(name, path, shape, np.dtype(part.dtype).str))
    return found if len({leaf.name for leaf in found}) == len(found) else None


def _parts(space: spaces.Space[Any], path: Path) -> Iterator[tuple[Path, spaces.Space[Any]]]:
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
    if isinstance(space, spaces.Dict):
        return {key: assembled(part, arrays, (*path, key)) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(assembled(part, arrays, (*path, number)) for number, part in enumerate(space.spaces))
    return arrays[path]


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


class Writer:
    """Writes what an env shows into its rows, and says what does not fit.

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
            BadInput: a part is missing, or has another shape or kind than its space; names env, step and value.
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
            part = value
            try:
                for key in path:
                    part = part[key]
            except (KeyError, IndexError, TypeError):
                raise BadInput(self._complaint(value, step)) from None
            self._put(row, part, dtype, value, step)

    def _put(self, row: Array, part: Any, dtype: Any, whole: Any, step: int) -> None:
        if type(part) is np.ndarray and part.dtype == dtype and part.shape == row.shape:
            row[...] = part
            return
        array = np.asarray(part)
        # As SyncVectorEnv casts: within a kind. But never broadcast.
        if array.shape != row.shape or not np.can_cast(array.dtype, dtype, "same_kind"):
            raise BadInput(self._complaint(whole, step))
        row[...] = array

    def _complaint(self, value: Any, step: int) -> str:
        kind = f"shape {value.shape} and type {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        return f"{self.who} showed at {moment(step)} what is none of {self._space}: {kind}, {brief(value)}"


def moment(step: int) -> str:
    """When in an episode, for a message."""
    return f"step {step}" if step else "reset"


def brief(value: Any) -> str:
    """A value, for a message."""
    shown = repr(value)
    return shown if len(shown) < 120 else shown[:117] + "..."


def _has_nan(value: Any) -> bool:
    if isinstance(value, Mapping | OrderedDict):
        return any(_has_nan(part) for part in value.values())
    if isinstance(value, tuple | list):
        return any(_has_nan(part) for part in value)
    array = np.asarray(value)
    return array.dtype.kind == "f" and bool(np.isnan(array).any())
