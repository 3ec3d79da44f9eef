"""Spaces as data, and back: what a vector is told of envs that it trusts with data only.

    space ── described ──► ("space", "Box", {"low": …, "dtype": ("dtype", "<f4"), …}) ── space_of ──► the same space

Gymnasium's own spaces, and what is made of them, come with all that they hold, the state of their generator too.
Nothing is called that a description could choose: a class is looked up in a table, and given its attributes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from paceline.errors import NotData
from paceline.vector.saving import twin

_KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete, spaces.Text),
        *(spaces.Dict, spaces.Tuple, spaces.Sequence, spaces.Graph, spaces.OneOf),
    )
}
_DTYPE = re.compile(r"[<>|=][biufU][0-9]{1,4}")


def described(space: Any) -> Any:
    """A space as data.

    Raises:
        NotData: it, or a part of it, is none of Gymnasium's own.
    """
    return _put(twin(space))


def space_of(description: Any) -> Any:
    """The space that a description says.

    Raises:
        NotData: it says none.
    """
    try:
        space = _taken(description)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise NotData(f"a worker described a space in a way that means nothing: {error}") from None
    if not isinstance(space, spaces.Space):
        raise NotData("a worker described what is no space")
    return space


def _put(value: Any) -> Any:
    kind = type(value)
    if _KINDS.get(kind.__name__) is kind:
        return "space", kind.__name__, {name: _put(part) for name, part in vars(value).items()}
    if isinstance(value, spaces.Space):
        raise NotData(
            f"a space is a {kind.__module__}.{kind.__qualname__}, and with trust='data' only Gymnasium's own come back "
            "from a worker: use one of these, or leave trust='data' away if you trust what runs there"
        )
    if isinstance(value, np.dtype):
        return "dtype", value.str
    if kind is np.random.Generator and type(value.bit_generator) is np.random.PCG64:  # Gymnasium's own kind
        return "generator", value.bit_generator.state
    if isinstance(value, dict):
        return "dict", [(key, _put(part)) for key, part in value.items()]
    if kind in (list, tuple):
        return kind.__name__, [_put(part) for part in value]
    return "data", value


def _taken(description: Any) -> Any:
    what, *content = description
    return _TAKERS[what](*content)


def _space(name: str, attributes: dict[str, Any]) -> Any:
    made: Any = object.__new__(_KINDS[name])
    vars(made).update({attribute: _taken(part) for attribute, part in attributes.items()})
    return made


def _dtype(name: str) -> np.dtype[Any]:
    if not _DTYPE.fullmatch(name):
        raise ValueError(f"{name[:20]!r} is no dtype of numbers or text")
    return np.dtype(name)


def _generator(state: dict[str, Any]) -> np.random.Generator:
    made = np.random.PCG64(0)
    made.state = state  # type: ignore[assignment]
    return np.random.Generator(made)


_TAKERS: dict[str, Callable[..., Any]] = {
    "space": _space,
    "dtype": _dtype,
    "generator": _generator,
    "dict": lambda items: {key: _taken(part) for key, part in items},
    "list": lambda parts: [_taken(part) for part in parts],
    "tuple": lambda parts: tuple(_taken(part) for part in parts),
    "data": lambda value: value,
}
